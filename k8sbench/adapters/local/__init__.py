"""Runs a job's rendered manifest on this machine: one process group per replica.

``launch`` reads the objects back, says which commands may run at all, and turns them into commands
of this machine; it is pure. ``subreaper`` is the program that runs a replica and ends everything
that it started, ``job`` starts that program for each replica, reads from it and watches it, and
``cluster`` is the port that the rest of k8sbench sees; it assigns the machine's GPUs.
"""
