"""Pytest fixtures of the cluster with real nodes, to be imported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import tiers
from tests.harness.cluster import fixture
from tests.harness.cluster.namespace import Namespace
from tests.harness.node import bringup, frameworks, operator_image
from tests.harness.node.cluster import NodeCluster


@pytest.fixture(scope="package")
def node_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    """Provide a cluster with two real nodes, DNS and both operators.

    It ends with the tests of this folder: other tests of its worker use another one.
    """
    own = bringup.start(fixture.new_folder(tmp_path_factory), has_trainer=True)
    yield own
    own.end()


@pytest.fixture(scope="package")
def cluster(node_cluster: NodeCluster) -> NodeCluster:
    """Give it to the fixtures of the cluster tier."""
    return node_cluster


@pytest.fixture(scope="package")
@tiers.needs("images")
def operator_archive() -> Path:
    """Give the operator's image as an archive."""
    return operator_image.built()


@pytest.fixture(scope="package")
def operator_image_name(node_cluster: NodeCluster, operator_archive: Path) -> str:
    """Give the name of the operator's image, which the nodes have then."""
    node_cluster.load(operator_archive)
    return operator_image.NAME


@pytest.fixture
@tiers.needs("frameworks")
def trained_in(restricted: Namespace) -> Iterator[Namespace]:
    """Give a namespace that enforces *restricted* and has the frameworks' claim."""
    with frameworks.claimed(restricted):
        yield restricted
