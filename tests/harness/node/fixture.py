"""The cluster with real nodes as pytest fixtures; a folder takes them by importing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import tiers
from tests.harness.cluster import fixture, tools
from tests.harness.cluster.namespace import Namespace
from tests.harness.node import bringup, collector_image, frameworks
from tests.harness.node.cluster import NodeCluster


def build_programs(say: Callable[[str], None]) -> str | None:
    """Build what is not built yet; say why that failed, None if all is there."""
    try:
        for module in (tools.CLUSTER, tools.NODE):
            tools.built(module, say=say)
    except tools.BuildFailed as wrong:
        return str(wrong)
    return None


@pytest.fixture(scope="session")
def node_programs() -> None:
    """Have the programs; skip, or fail where the tier is required, without them."""
    if (reason := build_programs(print)) is not None:
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


@pytest.fixture(scope="session")
def collector_archive() -> Path:
    """Give the collector's image as an archive."""
    tiers.demand("images")
    return collector_image.built()


@pytest.fixture(scope="session")
def collector_image_name(node_cluster: NodeCluster, collector_archive: Path) -> str:
    """Give the name of the collector's image, which the nodes have then."""
    node_cluster.load(collector_archive)
    return collector_image.NAME


@pytest.fixture
def trained_in(restricted: Namespace) -> Iterator[Namespace]:
    """Give a namespace that enforces *restricted* and has the frameworks' claim."""
    tiers.demand("frameworks")
    with frameworks.claimed(restricted):
        yield restricted
