"""Fixtures of the node tier: the cluster tier's, with real nodes."""

import pytest

from tests import tiers
from tests.harness import collection
from tests.harness.cluster import tools
from tests.harness.cluster.fixture import namespace, new_namespace, restricted
from tests.harness.cluster.reporting import pytest_runtest_call, pytest_runtest_makereport
from tests.harness.node.fixture import (
    cluster,
    node_cluster,
    operator_archive,
    operator_image_name,
    trained_in,
)

__all__ = [
    "cluster",
    "namespace",
    "new_namespace",
    "node_cluster",
    "operator_archive",
    "operator_image_name",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "restricted",
    "trained_in",
]
HERE = tiers.ROOT / "tests" / "node"
BUILD_SECONDS = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set the timeouts of this folder; the first test may build an image."""
    for item in items:
        if "operator_archive" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(BUILD_SECONDS))
    collection.set_timeouts(items, HERE)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the programs before the first test of this folder starts."""
    modules = (tools.CLUSTER, tools.NODE, tools.OPERATORS, tools.RELEASE)
    collection.build(session, HERE, "node", *modules)
