"""Preflight: is this cluster ready, and if not, what to do.

:mod:`asking` asks the cluster and gets :mod:`facts`; :mod:`checks` makes lines of facts and asks
nobody. :mod:`operator` reads the training operator's Deployment, :mod:`rules` the permissions that
k8sbench needs. ``submit --gang`` asks :func:`asking.refuse_gang` first.
"""
