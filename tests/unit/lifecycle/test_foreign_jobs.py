"""Unrecorded jobs on the cluster: found, listed and inspected."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from k8sbench.app import connections, find, run_list, stores
from k8sbench.lifecycle import collecting
from k8sbench.lifecycle.context import RunContext
from k8sbench.model.errors import NotFound, PlanUnreadable, Unreachable, UsageError
from k8sbench.model.kube import OPERATOR, JobOwner, Ownership
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.request import ClusterAccess
from k8sbench.ports.cluster import FoundJob, JobEvent
from k8sbench.store.interface import RunFilter, Store
from k8sbench.store.sql_store import SqlStore
from tests.unit.command_line import Cli
from tests.unit.lifecycle.played import LOCATION, FakeCluster, context
from tests.unit.store.examples import NOW, plan

OURS = Ownership(owner=JobOwner(store="this", host="lab-7"))


def job(run_id: str, *, at: float = NOW, phase: Phase = Phase.RUNNING, **changes: Any) -> FoundJob:
    return FoundJob(
        run_id=run_id,
        known_plan=plan(run_id, **changes),
        created_at=at,
        phase=phase,
        ownership=OURS,
    )


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (RunFilter(), "abc"),
        (RunFilter(benchmark="arcface"), "b"),
        (RunFilter(framework="paddle"), ""),
        (RunFilter(set_name="weekly"), "c"),
        (RunFilter(since=NOW + 1), "bc"),
        (RunFilter(until=NOW + 1), "ab"),
    ],
)
def test_they_are_filtered_as_runs_are(wanted: RunFilter, found: str) -> None:
    jobs = [
        job("a"),
        job("b", at=NOW + 1, benchmark="arcface"),
        job("c", at=NOW + 2, set_name="weekly", phase=Phase.SUCCEEDED),
    ]
    known = ["known"]
    matching = run_list.foreign_jobs([job("known"), *jobs], known, wanted, lambda _: None)
    assert [one.plan.run_id for one in matching] == [*found]


def record(cluster: FakeCluster, here: RunContext, notes: list[str]) -> None:
    collecting.record_ours(cluster.jobs(), here, notes.append)


def test_all_are_recorded_and_keep_their_repeat_numbers(store: Store) -> None:
    store.record(plan("mine"), at=NOW, process=None)
    cluster = FakeCluster(outlives=True)
    cluster.found = [job("mine"), job("theirs"), job("free", repeat=2)]
    reported: list[str] = []
    record(cluster, context(store, cluster), reported)
    runs = store.runs(RunFilter())
    assert {run.run_id: run.plan.repeat for run in runs} == {"mine": 1, "theirs": 1, "free": 2}
    assert store.next_repeat("nightly", runs[0].case_key) == 3
    assert not any(text.startswith("warning") for text in reported)


def test_one_whose_plan_cannot_be_read_is_named_and_the_others_are_recorded(store: Store) -> None:
    cluster = FakeCluster(outlives=True)
    cut = {"known_plan": None, "unreadable": "Its plan is cut.", "removal": "k8sbench delete bad"}
    bad = msgspec.structs.replace(job("bad"), **cut)
    cluster.found = [bad, job("theirs")]
    reported: list[str] = []
    record(cluster, context(store, cluster), reported)
    assert store.ids() == ["theirs"]
    foreign = run_list.foreign_jobs(cluster.found, [], RunFilter(), reported.append)
    assert foreign == [job("theirs")]
    action = "Use the k8sbench that submitted it, or delete the job with: k8sbench delete bad"
    warnings = [text for text in reported if text.startswith("warning")]
    assert warnings == [f"warning: left out: Its plan is cut. {action}"] * 2


@pytest.mark.parametrize(
    "ownership",
    [Ownership(), Ownership(owner=JobOwner(store="other", host="lab-8"), is_ours=False)],
)
def test_a_job_of_nobody_or_of_another_store_is_not_recorded(
    store: Store, ownership: Ownership
) -> None:
    cluster = FakeCluster(outlives=True)
    cluster.found = [msgspec.structs.replace(job("theirs"), ownership=ownership), job("mine")]
    record(cluster, context(store, cluster), [])
    assert store.ids() == ["mine"]


# -- finding runs ---------------------------------------------------------------------------------


Answering = Callable[..., None]
NOWHERE = ClusterAccess()


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Answering:
    """Configure a cluster with these jobs; ``before`` happens when it is asked for them."""

    def away(*_: object) -> None:
        raise Unreachable("The operator is away.")

    def configure(
        *jobs: FoundJob,
        before: Callable[[], object] = lambda: None,
        reported: Sequence[JobEvent] = (),
    ) -> None:
        def listed(*_: Any) -> Sequence[FoundJob]:
            before()
            return jobs

        cluster: Any = FakeCluster(outlives=True)
        cluster.api = SimpleNamespace(place=LOCATION, time=lambda: 0.0)
        cluster.jobs = listed
        cluster.look = lambda _: reported
        monkeypatch.setattr(connections, "configured", lambda _: True)
        monkeypatch.setattr(connections, "connect", lambda *_: None)
        monkeypatch.setattr(stores, "opened_operator", away)
        glance = lambda *_, **__: contextlib.nullcontext(cluster)  # noqa: E731
        monkeypatch.setattr(connections, "glance", glance)

    return configure


def on_cluster(run_id: str, **about: Any) -> FoundJob:
    readable = {"known_plan": plan(run_id)} | about
    return FoundJob(run_id=run_id, created_at=NOW, phase=Phase.RUNNING, **readable)


def test_a_name_that_is_nowhere_says_where_it_was_looked_for_and_what_is_near(
    store: SqlStore, answering: Answering
) -> None:
    store.record(plan("other"), at=NOW, process=None)
    answering(on_cluster("night-2"), on_cluster("night-1"))
    with pytest.raises(NotFound) as caught:
        find.look_up(store, "nihgt", NOWHERE, records=True)
    assert caught.value.message == (
        "There is no run 'nihgt' in the store or in namespace bench of"
        " https://cluster.example:6443."
    )
    assert caught.value.action == "Nearest: night-2, night-1."
    with pytest.raises(UsageError, match="2 runs begin with 'n'"):
        find.look_up(store, "n", NOWHERE)


def test_looked_at_it_is_a_run_that_is_not_recorded(store: SqlStore, answering: Answering) -> None:
    answering(on_cluster("theirs"))
    run = find.look_up(store, "th", NOWHERE)
    assert (run.run_id, run.location, run.created_at) == ("theirs", LOCATION, NOW)
    assert store.ids() == []


@pytest.mark.parametrize(
    ("owner", "offered"),
    [
        (None, "k8sbench watch theirs"),
        (JobOwner(store="other", host="lab-8"), "k8sbench logs theirs"),
        (JobOwner(store=OPERATOR, host="pod"), "k8sbench logs theirs"),
    ],
)
def test_its_status_offers_only_what_its_owner_leaves_to_others(
    tmp_path: Path, cli: Cli, answering: Answering, owner: JobOwner | None, offered: str
) -> None:
    job = on_cluster("theirs", ownership=Ownership(owner=owner))
    over = JobEvent(
        run_id="theirs", transition=Transition(phase=Phase.SUCCEEDED, at=NOW, cause="It is over.")
    )
    for reported in ([], [over]):
        answering(job, reported=reported)
        said = " ".join(cli("status", "theirs", f"--store={tmp_path / 'store'}").out.split())
        commands = re.findall("k8sbench (?:watch|collect|logs) theirs", said)
        assert commands == [offered]


def test_a_job_without_a_plan_can_be_deleted(store: SqlStore, answering: Answering) -> None:
    answering(
        on_cluster("night", known_plan=None, unreadable="It is cut.", removal="k8sbench delete it"),
        on_cluster("day"),
    )
    for records in (True, False):
        with pytest.raises(PlanUnreadable) as caught:
            find.look_up(store, "nig", NOWHERE, records=records)
        assert caught.value.message == "It is cut."
        assert caught.value.action.endswith("delete the job with: k8sbench delete it")
