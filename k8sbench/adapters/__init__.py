"""Everything with a client, a file or a process in it: the outside, behind :mod:`k8sbench.ports`."""
