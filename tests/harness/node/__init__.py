"""Real nodes for the test cluster, on this machine.

They consist of kubelet, containerd, pod network and DNS.

Each node is a machine of its own as far as the kernel can make one: network, mounts and processes
are in namespaces of their own (``machine.py``, ``inside.py``), so that nothing of it can outlive
it, and nothing that a kubelet changes is the host's. Its cgroups are below one root of its own.
The nodes hang on the cluster's network namespace, which routes between them; the cluster's DNS
listens there. ``bringup.start`` gives a cluster with nodes, ``fixture.py`` the same as fixtures.

- ``image.py``: an image with this Python, made without a registry.
- ``frameworks.py``: the site-packages of this Python as a claim, and node pools that use it.
- ``faults.py``: what can happen to a pod: out of memory, evicted, restarted, its node lost, ...
"""
