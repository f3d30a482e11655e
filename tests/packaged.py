"""Files of the package that tests read, each named once."""

from pathlib import Path

import k8sbench
from k8sbench.adapters.kubernetes.client import faults

PACKAGE = Path(k8sbench.__file__).parent
ROLE, OBSERVER = faults.ROLE, faults.OBSERVER
"""Permissions of who submits, and of who observes."""
POOLS = PACKAGE / "catalog" / "pools.yaml"
BENCHMARKS = PACKAGE / "catalog" / "benchmarks"
