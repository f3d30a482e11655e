"""Preflight: whether a cluster is ready for a run, and if not, what to do. Pure.

:mod:`.facts` is what was asked of the cluster, by :mod:`k8sbench.adapters.kubernetes.preflight`;
the table of checks in :mod:`.checks` judges it.
"""
