"""Jobs on Kubernetes: the port :class:`~k8sbench.ports.Cluster` on a cluster's API server.

Nothing here is imported before a command needs a cluster. ``connection`` finds the cluster,
``credentials`` signs in, ``api`` asks, ``faults`` says what a refusal means to the user;
``watches`` follow the objects, ``state`` reads a job's state from what was seen, ``log_streams``
follows its logs, ``looking`` only looks once, and ``cluster`` puts it all behind the port.
"""
