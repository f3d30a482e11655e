"""A real Kubernetes for the tests, that they start and end themselves.

``python -m tests.harness.cluster`` starts one to look at, until Ctrl-C; tests take the fixtures of
``fixture``. From below: ``tools`` builds the programs that
``tests/harness/tools/cluster/go.mod`` pins, ``pki`` makes the certificates, ``network`` finds a
network of its own or free ports, ``subreaper`` is the program that starts every process and ends
them all, ``processes`` talks to it, ``components`` knows each program's arguments, ``objects`` what
is installed into the empty API server, ``nodes`` the fake nodes and what their pods do, ``own`` is
a cluster made of all that, ``bringup`` starts one. ``cluster`` is what all clusters have, ours or
not, ``namespace`` a test's place in one.
"""
