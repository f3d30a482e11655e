"""The fixtures of the node tier, here of nodes that are tested themselves."""

from __future__ import annotations

from tests.harness.cluster.fixture import namespace, new_namespace, restricted
from tests.harness.cluster.reporting import pytest_runtest_call, pytest_runtest_makereport
from tests.harness.node.fixture import cluster, node_cluster, node_programs

__all__ = [
    "cluster",
    "namespace",
    "new_namespace",
    "node_cluster",
    "node_programs",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "restricted",
]
