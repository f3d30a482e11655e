"""Fixtures of the cluster tier; the programs are built before the first test's time begins."""

from __future__ import annotations

import pytest

from tests.cluster import fixture
from tests.cluster.fixture import (
    cluster,
    namespace,
    new_namespace,
    own_cluster,
    programs,
    restricted,
    user,
)
from tests.cluster.reporting import pytest_runtest_call, pytest_runtest_makereport
from tests.cluster.shell import common, own_shell, shell
from tests.tiers import ROOT

__all__ = [
    "cluster",
    "common",
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


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the programs if a test of this folder will run."""
    here = ROOT / "tests" / "cluster"
    if session.config.option.collectonly:
        return
    if any(item.path.is_relative_to(here) for item in session.items):
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        fixture.build_programs(reporter.write_line if reporter else print)
