"""Jobs that only the cluster knows: found by name, listed, and looked at without a record."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from k8sbench.lifecycle import adopting, collecting, foreign_jobs
from k8sbench.lifecycle.context import RunContext
from k8sbench.model.errors import NotFound, UsageError
from k8sbench.model.ownership import JobOwner, Ownership
from k8sbench.model.phase import Phase
from k8sbench.ports import FoundJob, RunFilter, Store
from tests.unit.lifecycle.played import LOCATION, FakeCluster, at, context
from tests.unit.store.examples import NOW, TRAINING, plan, step


def job(run_id: str, *, at: float = NOW, phase: Phase = Phase.RUNNING, **changes: Any) -> FoundJob:
    return FoundJob(run_id=run_id, known_plan=plan(run_id, **changes), created_at=at, phase=phase)


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
    assert [one.plan.run_id for one in foreign_jobs.matching(jobs, wanted)] == [*found]


def test_one_is_found_by_its_id_or_a_beginning_that_no_other_has() -> None:
    jobs = [job("night"), job("night-2"), job("other")]
    for text, found in (("night", "night"), ("night-", "night-2"), ("o", "other")):
        assert foreign_jobs.named(jobs, text, [], LOCATION).plan.run_id == found
    with pytest.raises(UsageError, match="3 runs begin with 'n'"):
        foreign_jobs.named([*jobs, job("nine")], "n", [], LOCATION)


def test_a_name_that_is_nowhere_says_where_it_was_looked_for_and_what_is_near() -> None:
    jobs = [job("segnet")]
    with pytest.raises(NotFound) as caught:
        foreign_jobs.named(jobs, "sgenet", ["segment"], LOCATION)
    assert caught.value.message == (
        "There is no run 'sgenet' in the store or in namespace bench of"
        " https://cluster.example:6443."
    )
    assert caught.value.action == "Nearest: segnet, segment."
    with pytest.raises(NotFound) as caught:
        foreign_jobs.named([], "x", [], LOCATION)
    assert caught.value.action == "There are no runs; see: k8sbench submit -h"


def adopt(cluster: FakeCluster, here: RunContext, notes: list[str]) -> None:
    adopting.take_what_is_left(cluster.jobs(), here, notes.append, adopts=True)


@pytest.mark.parametrize(("attempt", "goes_on"), [(1, False), (3, True)])
def test_a_training_that_was_over_here_and_is_continued_elsewhere_is_not_deleted(
    store: Store, attempt: int, goes_on: bool
) -> None:
    where = {"backend": "kubernetes", "checkpoints": "pvc:kept"}
    trains = plan("left", mode="train", training=TRAINING, **where)
    store.record(trains, at=NOW, owner=None)
    store.move("left", step(Phase.FAILED))
    cluster = FakeCluster(outlives=True)
    owner = JobOwner(store="laptop", host="lab-7", at=NOW, is_handed_over=True)
    found = msgspec.structs.replace(
        job("left"),
        known_plan=trains,
        attempt=attempt,
        uid="uid-3",
        ownership=Ownership(owner=owner, is_ours=False),
    )
    cluster.found = [found]
    adopt(cluster, context(store, cluster), [])
    run = store.run("left")
    assert collecting.needs_collection(msgspec.structs.replace(run, wishes=())) is goes_on
    assert (run.wish("delete") is None) is goes_on
    assert (run.attempt, run.job_uid) == ((3, "uid-3") if goes_on else (1, None))


def test_all_are_recorded_and_keep_their_repeat_numbers(store: Store) -> None:
    store.record(plan("mine"), at=NOW, owner=None)
    cluster = FakeCluster(outlives=True)
    cluster.found = [job("mine"), job("theirs"), job("free", repeat=2)]
    reported: list[str] = []
    adopt(cluster, context(store, cluster), reported)
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
    adopt(cluster, context(store, cluster), reported)
    assert store.ids() == ["theirs"]
    foreign_jobs.note_unreadable(cluster.found, reported.append)
    action = "Use the k8sbench that submitted it, or delete the job with: k8sbench delete bad"
    warnings = [text for text in reported if text.startswith("warning")]
    assert warnings == [f"warning: left out: Its plan is cut. {action}"] * 2
    assert foreign_jobs.matching([bad], RunFilter()) == []
    assert foreign_jobs.among([bad, job("ours"), job("other")], {"bad", "ours"}) == [job("other")]


def test_looked_at_it_is_a_run_in_the_state_that_its_job_is_in() -> None:
    run = foreign_jobs.as_run(job("theirs"), LOCATION)
    assert (run.run_id, run.location, run.created_at) == ("theirs", LOCATION, NOW)
    pending = at(Phase.PENDING, "No node.", "no-node", unrecoverable=True)
    reported = foreign_jobs.as_reported(run, [pending])
    assert reported.phase is Phase.PENDING
    assert [step.phase for step in reported.history] == [Phase.CREATED, Phase.PENDING]
    assert reported.history[-1].unrecoverable
    assert foreign_jobs.as_reported(run, []) == run


def test_listed_it_says_that_it_is_not_recorded() -> None:
    row = foreign_jobs.listed(job("theirs", phase=Phase.SUCCEEDED), LOCATION)
    assert (row.run_id, row.phase, row.on_cluster) == ("theirs", "Succeeded", "Succeeded")
    assert (row.recorded, row.artifacts, row.verdict, row.ended_at) == (False, None, None, None)
