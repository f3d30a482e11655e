"""Fixtures of the node tier: those of the cluster tier, on a cluster that has real nodes."""

from __future__ import annotations

import pytest

from tests import tiers
from tests.harness import collection
from tests.harness.cluster import tools
from tests.harness.cluster.fixture import namespace, new_namespace, restricted
from tests.harness.cluster.reporting import pytest_runtest_call, pytest_runtest_makereport
from tests.harness.node.fixture import (
    cluster,
    collector_archive,
    collector_image_name,
    node_cluster,
    trained_in,
)

__all__ = [
    "cluster",
    "collector_archive",
    "collector_image_name",
    "namespace",
    "new_namespace",
    "node_cluster",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "restricted",
    "trained_in",
]
HERE = tiers.ROOT / "tests" / "node"
BUILD_SECONDS = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder their time; the first one with an image has to build it."""
    for item in items:
        if "collector_archive" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(BUILD_SECONDS))
    collection.set_timeouts(items, HERE)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the programs if a test of this folder will run, before its time begins."""
    modules = (tools.CLUSTER, tools.NODE, tools.OPERATORS)
    collection.build(session, HERE, "node", *modules)
