"""Fixtures of the node tier: those of the cluster tier, on a cluster that has real nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests import tiers
from tests.harness.cluster import fixture, tools
from tests.harness.cluster.fixture import namespace, new_namespace, restricted
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.reporting import pytest_runtest_call, pytest_runtest_makereport
from tests.harness.node import bringup, frameworks
from tests.harness.node.cluster import NodeCluster

__all__ = [
    "namespace",
    "new_namespace",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "restricted",
]


@pytest.fixture(scope="session")
def node_programs() -> None:
    """Have the programs; skip, or fail where the tier is required, without them."""
    if (reason := _build(print)) is not None:
        tiers.absent("node", reason)


@pytest.fixture(scope="session")
def node_cluster(
    node_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeCluster]:
    """Give a cluster with two real nodes and DNS, for this run."""
    own = bringup.start(fixture.new_folder(tmp_path_factory))
    yield own
    own.end()


@pytest.fixture(scope="session")
def cluster(node_cluster: NodeCluster) -> NodeCluster:
    """Give it to the fixtures of the cluster tier."""
    return node_cluster


@pytest.fixture
def trained_in(restricted: Namespace) -> Iterator[Namespace]:
    """Give a namespace that enforces *restricted* and has the frameworks' claim."""
    tiers.demand("frameworks")
    with frameworks.claimed(restricted):
        yield restricted


SECONDS = 400
"""What a test may take: more than all that one waits for, on a machine that is busy."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder their time."""
    here = tiers.ROOT / "tests" / "node"
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.timeout(SECONDS))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the programs if a test of this folder will run, before its time begins."""
    here = tiers.ROOT / "tests" / "node"
    if session.config.option.collectonly or tiers.missing("node") is not None:
        return
    if any(item.path.is_relative_to(here) for item in session.items):
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        _build(reporter.write_line if reporter else print)


def _build(say: Callable[[str], None]) -> str | None:
    try:
        for module in (tools.CLUSTER, tools.NODE):
            tools.built(module, say=say)
    except tools.BuildFailed as wrong:
        return str(wrong)
    return None
