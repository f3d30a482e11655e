"""Preflight: whether a cluster is ready for a run, and if not, what to do. Pure.

:mod:`.facts` is what was asked of the cluster, by :mod:`k8sbench.adapters.kubernetes.preflight`;
:mod:`.checks` judges it. :mod:`.operator` reads the training operator's Deployment, and
:mod:`.rules` lists the permissions that k8sbench needs.
"""
