"""Finding runs while other processes record them: the fault is placed between two readings."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from k8sbench.app import connections, lookup
from k8sbench.model.errors import NotFound, PlanUnreadable
from k8sbench.model.phase import Phase
from k8sbench.model.request import ClusterAccess
from k8sbench.ports import FoundJob, Store
from tests.unit.lifecycle.played import LOCATION, FakeCluster
from tests.unit.store.examples import NOW, plan

Answering = Callable[..., None]
NOWHERE = ClusterAccess()


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Answering:
    """Configure a cluster with these jobs; ``before`` happens when it is asked for them."""

    def configure(*jobs: FoundJob, before: Callable[[], object] = lambda: None) -> None:
        def listed(*_: Any) -> Sequence[FoundJob]:
            before()
            return jobs

        cluster: Any = FakeCluster(outlives=True)
        cluster.api = SimpleNamespace(place=LOCATION, time=lambda: 0.0)
        cluster.jobs = listed
        monkeypatch.setattr(connections, "configured", lambda _: True)
        monkeypatch.setattr(connections, "connect", lambda _: None)
        monkeypatch.setattr(connections, "glimpsed", lambda _: contextlib.nullcontext(cluster))

    return configure


def job(run_id: str, **about: Any) -> FoundJob:
    readable = {"known_plan": plan(run_id)} | about
    return FoundJob(run_id=run_id, created_at=NOW, phase=Phase.RUNNING, **readable)


@pytest.mark.parametrize("text", ["night", "nig"])
@pytest.mark.parametrize("has_job", [True, False], ids=["its job exists", "no job yet"])
def test_a_run_that_is_recorded_while_it_is_looked_for_is_found(
    store: Store, answering: Answering, text: str, has_job: bool
) -> None:
    jobs = [job("night")] if has_job else []
    answering(*jobs, before=lambda: store.record(plan("night"), at=NOW, owner=None))
    run, recorded = lookup.look_up(store, text, NOWHERE)
    assert (run.run_id, recorded) == ("night", True)
    assert lookup.run_of(store, text, NOWHERE).run_id == "night"


def test_another_job_that_begins_alike_is_not_taken_for_it(
    store: Store, answering: Answering
) -> None:
    """Who cancels ``night`` must not end ``night-2``."""
    answering(
        job("night"),
        job("night-2", known_plan=plan("night-2", repeat=2)),
        before=lambda: store.record(plan("night"), at=NOW, owner=None),
    )
    assert lookup.run_of(store, "night", NOWHERE).run_id == "night"


def test_no_name_is_its_own_nearest(store: Store, answering: Answering) -> None:
    store.record(plan("other"), at=NOW, owner=None)
    answering(job("night-2"))
    with pytest.raises(NotFound) as caught:
        lookup.run_of(store, "nihgt", NOWHERE)
    assert caught.value.action == "Nearest: night-2."


def test_a_job_whose_plan_cannot_be_read_is_named_and_can_be_deleted(
    store: Store, answering: Answering
) -> None:
    answering(
        job("night", known_plan=None, unreadable="It is cut.", removal="k8sbench delete night"),
        job("day"),
    )
    for find in (lookup.look_up, lookup.run_of):
        with pytest.raises(PlanUnreadable) as caught:
            find(store, "nig", NOWHERE)
        assert caught.value.message == "It is cut."
        assert caught.value.action.endswith("delete the job with: k8sbench delete night")
