"""Fixtures of the cluster tier; the programs are built before the first test's time begins."""

from __future__ import annotations

import compileall

import pytest

from tests.harness import collection
from tests.harness.cluster import fixture
from tests.harness.cluster.fixture import (
    cluster,
    monitoring,
    namespace,
    new_namespace,
    own_cluster,
    programs,
    restricted,
    user,
)
from tests.harness.cluster.reporting import pytest_runtest_call, pytest_runtest_makereport
from tests.harness.cluster.shell import common, own_shell, shell
from tests.tiers import ROOT

__all__ = [
    "cluster",
    "common",
    "monitoring",
    "namespace",
    "new_namespace",
    "own_cluster",
    "own_shell",
    "programs",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "restricted",
    "shell",
    "user",
]


HERE, NODE = ROOT / "tests" / "cluster", ROOT / "tests" / "node"
FIRST = (
    HERE / "test_restarts.py",
    NODE / "test_causes.py",
    NODE,
    HERE / "test_watching.py",
    HERE / "test_cluster_port.py",
    HERE / "test_commands_later.py",
)
"""What begins first where two processes take a file at a time: what takes long, so that both end at
about the same time. The first two are begun at once, and before it has done with the restarts one
process has left all that needs real nodes, and so a second cluster, to the other."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder their time and their turn."""
    collection.set_timeouts(items, HERE)
    turns = {path: number for number, path in enumerate(FIRST)}
    last = len(FIRST)
    items.sort(key=lambda item: turns.get(item.path, turns.get(item.path.parent, last)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the programs if a test of this folder will run, and compile ours."""
    if collection.will_run(session, HERE):
        fixture.build_programs(collection.reporter(session))
        # The tests start it hundreds of times, also where Python is set to keep no bytecode.
        compileall.compile_dir(ROOT / "k8sbench", quiet=2)
