"""Runs a job's rendered manifest on this machine: one process group per replica.

``manifest`` reads the objects back, ``programs`` says which commands may run at all,
``environment`` holds what the training operator injects, ``launch`` turns all that into commands
of this machine; these four are pure. ``loopback`` holds ports, ``gpus`` knows the machine's GPUs,
``subreaper`` is the program that runs a replica and ends everything that it started, ``replica``
starts that program and reads from it, ``job`` watches a job's replicas, ``lines`` splits their
output, and ``cluster`` is the port that the rest of k8sbench sees.
"""
