"""Jobs on Kubernetes: the port :class:`~k8sbench.ports.cluster.Cluster` on a cluster's API server.

Nothing here is imported before a command needs a cluster. ``client`` sends requests, ``watching``
follows jobs and their pods, ``logs`` reads what the pods print. ``job_changes`` changes jobs,
``ownership`` marks whose they are, ``listing`` reads them once, ``preflight`` asks whether a run
would work, and ``cluster`` implements the port with all of these.
What the objects mean is decided in :mod:`k8sbench.diagnose`.
"""
