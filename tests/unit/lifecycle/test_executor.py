"""Limit of concurrent requests of an executor."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from k8sbench.lifecycle.context import Rules, Threads
from k8sbench.lifecycle.executor import Executor
from k8sbench.ports import Store
from tests.unit.lifecycle.played import JOB, FakeCluster, Silent, context, planned_case


class NeverAnswered(Threads):
    """Keeps what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []

    def start(self, call: Callable[[], Any], name: str) -> Future[Any]:
        self.sent.append(name)
        return Future()


def begin(store: Store, runs: int, parallel: float) -> tuple[Executor, NeverAnswered]:
    pool, cluster = NeverAnswered(), FakeCluster(outlives=True)
    here = context(store, cluster, pool=pool)
    executor = Executor(here, Silent(), Rules(parallel=parallel))
    for number in range(runs):
        plan = planned_case("kubernetes").plan(f"seg-{number}", "night", number + 1)
        executor.create(store.record(plan, at=10.0, owner=None), (JOB,))
    return executor, pool


def test_four_creations_are_pending_at_a_time(store: Store) -> None:
    executor, pool = begin(store, 6, parallel=9)
    assert pool.sent == ["create"] * 4
    assert len(executor.runs()) == 6
    assert not executor.has_room


@pytest.mark.parametrize(("parallel", "has_room"), [(1, False), (2, True)])
def test_a_further_run_begins_where_a_place_is_free(
    store: Store, parallel: int, has_room: bool
) -> None:
    executor, _ = begin(store, 1, parallel=parallel)
    assert executor.has_room is has_room
