"""The fixtures of the cluster tier, here of a cluster that is tested itself."""

from __future__ import annotations

from tests.harness.cluster.fixture import (
    cluster,
    namespace,
    new_namespace,
    own_cluster,
    programs,
    restricted,
)
from tests.harness.cluster.reporting import pytest_runtest_call, pytest_runtest_makereport

__all__ = [
    "cluster",
    "namespace",
    "new_namespace",
    "own_cluster",
    "programs",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "restricted",
]
