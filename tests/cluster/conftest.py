"""Fixtures of the cluster tier.

The programs are built before the first test's time begins.
"""

import compileall
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from tests.harness import collection
from tests.harness.cluster import tools
from tests.harness.cluster.fixture import (
    cluster,
    monitoring,
    more_nodes,
    namespace,
    new_namespace,
    own_cluster,
    restricted,
    user,
)
from tests.harness.cluster.reporting import pytest_runtest_call, pytest_runtest_makereport
from tests.harness.cluster.shell import common, own_shell, proxy, shell
from tests.tiers import ROOT

__all__ = [
    "cluster",
    "common",
    "monitoring",
    "more_nodes",
    "namespace",
    "new_namespace",
    "own_cluster",
    "own_shell",
    "proxy",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "restricted",
    "shell",
    "user",
]


HERE, NODE = ROOT / "tests" / "cluster", ROOT / "tests" / "node"
FIRST = (
    NODE,
    HERE / "test_kueue.py",
    HERE / "test_trainer_alone.py",
    HERE / "test_train_jobs_observed.py",
    HERE / "test_restarts.py",
    HERE / "test_operator.py",
    HERE / "test_granted.py",
    HERE / "test_watching.py",
)
"""Slow files, started first so that both workers finish together."""


class NodesTogether(LoadFileScheduling):  # type: ignore[misc]
    """Assigns test files to workers; all files on real nodes to one.

    Those need another cluster.
    """

    def _split_scope(self, nodeid: str) -> str:
        nodes = f"{NODE.relative_to(ROOT)}/"
        return nodes if nodeid.startswith(nodes) else str(super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> NodesTogether | None:
    """Schedule the tests of several processes."""
    return NodesTogether(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_report_header() -> str:
    """Name the clusters' Kubernetes, which decides the tests that there are."""
    return f"Kubernetes {tools.kubernetes()}, without the tests of what came later"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the tests of this folder, and give them their time and their turn."""
    collection.leave_out_unserved(config, items)
    collection.set_timeouts(items, HERE)
    turns = {path: number for number, path in enumerate(FIRST)}
    last = len(FIRST)
    items.sort(key=lambda item: turns.get(item.path, turns.get(item.path.parent, last)))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the programs if a test of this folder will run, and compile ours."""
    modules = (tools.CLUSTER, tools.OPERATORS, tools.MONITORING)
    collection.build(session, HERE, "cluster", *modules)
    if collection.will_run(session, HERE):
        # The tests start it hundreds of times, also where Python is set to keep no bytecode.
        compileall.compile_dir(ROOT / "k8sbench", quiet=2)
