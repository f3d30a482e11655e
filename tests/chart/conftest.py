"""Fixtures: Helm 3 and Helm 4."""

from __future__ import annotations

import pytest

from tests import tiers
from tests.harness import collection
from tests.harness import helm as programs
from tests.harness.helm import Helm

HERE = tiers.ROOT / "tests" / "chart"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder their time."""
    collection.set_timeouts(items, HERE)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build needed programs before the first test's time limit starts."""
    collection.build(session, HERE, "helm", *programs.MODULES.values())


@pytest.fixture(scope="session", params=programs.MODULES, ids=lambda major: f"helm{major}")
def helm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Give each major version of Helm."""
    return Helm(request.param, tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Give the newest Helm, for what is the same in both."""
    return Helm(max(programs.MODULES), tmp_path_factory.mktemp("helm"))
