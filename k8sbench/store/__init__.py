"""The store: a folder of plain files per run, and a database index.

:mod:`k8sbench.store.port` is its interface.
"""
