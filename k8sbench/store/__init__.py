"""The store: a folder of plain files per run, and a database index.

:mod:`k8sbench.store.interface` has the interfaces; :mod:`k8sbench.store.open_store` opens it.
"""
