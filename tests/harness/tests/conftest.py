"""Both folders' tests get their time, and the programs before the first one's time begins."""

from __future__ import annotations

import pytest

from tests import tiers
from tests.harness import collection
from tests.harness.cluster import fixture
from tests.harness.node import fixture as node_fixture

HERE = tiers.ROOT / "tests" / "harness" / "tests"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of these folders their time."""
    collection.set_timeouts(items, HERE)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the programs if a test of these folders will run."""
    say = collection.reporter(session)
    if collection.will_run(session, HERE / "cluster"):
        fixture.build_programs(say)
    if collection.will_run(session, HERE / "node") and tiers.missing("node") is None:
        node_fixture.build_programs(say)
