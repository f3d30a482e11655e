"""Preflight: a cluster's readiness for a run, with actions. Pure.

:mod:`.facts` holds the answers of the cluster, from :mod:`k8sbench.adapters.kubernetes.preflight`;
the table of :mod:`.checks` judges them.
"""
