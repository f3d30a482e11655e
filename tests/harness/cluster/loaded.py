"""Imports all of k8sbench with other time limits, for ``forks.py``."""

import gc
import importlib
import pkgutil

import k8sbench
from tests.harness.cluster import limits

exec(limits.shortening(limits.LOOKS))
for _name in (each.name for each in pkgutil.walk_packages(k8sbench.__path__, "k8sbench.")):
    if not _name.startswith(("k8sbench.trainers", "k8sbench.__main__")):
        importlib.import_module(_name)
for _name in ("sqlalchemy.dialects.sqlite", "yaml", "rich.table", "http.client", "asyncio"):
    importlib.import_module(_name)  # what k8sbench loads when it is used first
gc.freeze()
