"""The status of a Benchmark object: phase, summary, conditions, rows and runs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from k8sbench.lifecycle import benchmark_status
from k8sbench.model import creation
from k8sbench.model.benchmark_object import Benchmark, ObjectSpec
from k8sbench.model.errors import UsageError
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import GPU_METRICS_OWED, Run
from k8sbench.results.groups import grouping
from tests.unit.model.measurements import measurement
from tests.unit.store.examples import NOW, plan

BENCHMARK = Benchmark(
    name="a", uid="u", generation=2, created_at=NOW, spec=ObjectSpec(benchmark="seg")
)


def a_run(number: int, *phases: Phase, **found: Any) -> Run:
    created = Transition(phase=Phase.CREATED, at=NOW, cause="Created.", cause_id="job-created")
    steps = [Transition(phase=phase, at=NOW + 1, cause="It said so.") for phase in phases]
    return Run(
        planned=plan(f"a-{number}", set_name="a", repeat=number),
        created_at=NOW + number,
        process=None,
        history=(created, *steps),
        artifacts=None,
        measurement=measurement(**found) if Phase.SUCCEEDED in phases else None,
    )


def waiting(number: int) -> Run:
    run = a_run(number)
    return msgspec.structs.replace(run, history=(creation.wait_for_turn(1, "a", NOW),))


def status(*runs: Run, benchmark: Benchmark = BENCHMARK, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"planned": len(runs), "now": NOW + 10, **more}
    return benchmark_status.status_of(benchmark, runs, groups=grouping.groups(runs), **given)


def conditions(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["type"], one["status"], one["reason"]) for one in found["conditions"]]


DONE, FAILED, CANCELLED = Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED


@pytest.mark.parametrize(
    ("runs", "phase", "ended", "reason"),
    [
        ([waiting(1), waiting(2)], "Pending", "0/2", "RunsActive"),
        ([a_run(1, Phase.RUNNING), waiting(2)], "Running", "0/2", "RunsActive"),
        ([a_run(1, DONE), waiting(2)], "Running", "1/2", "RunsActive"),
        ([a_run(1, DONE), a_run(2, DONE)], "Succeeded", "2/2", "RunsSucceeded"),
        ([a_run(1, DONE), a_run(2, FAILED)], "Failed", "2/2", "RunsFailed"),
        ([a_run(1, DONE), a_run(2, CANCELLED)], "Cancelled", "2/2", "Cancelled"),
        ([a_run(1, FAILED), a_run(2, CANCELLED)], "Failed", "2/2", "RunsFailed"),
    ],
)
def test_its_phase_follows_from_those_of_the_runs(
    runs: list[Run], phase: str, ended: str, reason: str
) -> None:
    found = status(*runs)
    assert (found["phase"], found["summary"]["runs"]) == (phase, ended)
    is_over = phase in {"Succeeded", "Failed", "Cancelled"}
    assert conditions(found)[0] == ("Complete", str(is_over), reason)


@pytest.mark.parametrize(
    ("runs", "spec", "phase", "reason"),
    [
        ([a_run(1, Phase.RUNNING)], {}, "Running", "RunsActive"),
        ([a_run(1, DONE)], {}, "Failed", "NotStarted"),
        ([a_run(1, CANCELLED)], {}, "Cancelled", "Cancelled"),
        ([a_run(1, DONE)], {"cancel": True}, "Cancelled", "Cancelled"),
        ([a_run(1, DONE), a_run(2, DONE), a_run(3, DONE)], {}, "Succeeded", "RunsSucceeded"),
    ],
)
def test_a_left_object_is_over_when_its_recorded_runs_have_ended(
    runs: list[Run], spec: dict[str, Any], phase: str, reason: str
) -> None:
    wanted = msgspec.structs.replace(BENCHMARK.spec, **spec)
    benchmark = msgspec.structs.replace(BENCHMARK, spec=wanted)
    found = status(*runs, benchmark=benchmark, planned=3, is_left=True)
    assert (found["phase"], conditions(found)[0][2]) == (phase, reason)
    assert benchmark_status.planned_runs(found) == 3


@pytest.mark.parametrize(("later", "phase"), [(10, "Running"), (1000, "Succeeded")])
def test_gpu_metrics_which_may_reject_a_run_are_waited_for_but_not_for_ever(
    later: float, phase: str
) -> None:
    run = a_run(1, DONE, missing={"gpu_metrics": GPU_METRICS_OWED})
    assert status(run, now=NOW + later)["phase"] == phase


def test_what_cannot_be_planned_has_failed_with_sentence_and_action() -> None:
    found = status(planned=None, problem=UsageError("No pool a.", "Name another."))
    assert found["phase"] == "Failed"
    assert conditions(found)[0] == ("Complete", "True", "NotPlanned")
    assert found["conditions"][0]["message"] == "No pool a. Name another."


def test_valid_is_false_if_a_row_is_not() -> None:
    rejected = a_run(1, DONE, verdict="rejected", throughput=None)
    assert conditions(status(rejected))[1] == ("Valid", "False", "RowsNotValid")
    assert conditions(status(a_run(1, DONE)))[1] == ("Valid", "True", "RowsValid")


def test_the_time_of_a_condition_is_that_of_its_last_change() -> None:
    first = status(a_run(1, Phase.RUNNING))
    seen = msgspec.structs.replace(BENCHMARK, status=first)
    later = status(a_run(1, Phase.RUNNING), benchmark=seen, now=NOW + 100)
    over = status(a_run(1, DONE), benchmark=seen, now=NOW + 100)
    times = [found["conditions"][0]["lastTransitionTime"] for found in (first, later, over)]
    assert times[0] == times[1] < times[2]
    assert not benchmark_status.differs(later, first)
    assert benchmark_status.differs(over, first)


def told(known: dict[str, Any], found: dict[str, Any]) -> list[tuple[str, bool]]:
    events = benchmark_status.events(known, found)
    return [(event.reason, event.is_warning) for event in events]


def test_runs_that_begin_or_end_and_the_end_of_all_are_events() -> None:
    waits, runs = status(waiting(1), waiting(2)), status(a_run(1, Phase.RUNNING), waiting(2))
    done = status(a_run(1, DONE), a_run(2, FAILED))
    assert told({}, waits) == []
    assert told(waits, runs) == [("RunRunning", False)]
    assert told(runs, runs) == []
    assert told(runs, done) == [
        ("RunSucceeded", False),
        ("RunFailed", True),
        ("RunsFailed", True),
    ]
    assert len({event.key for event in benchmark_status.events(runs, done)}) == 3
    problem = status(planned=None, problem=UsageError("There is no pool p."))
    assert told({}, problem) == [("NotPlanned", True)]


@pytest.mark.parametrize(
    ("runs", "spec", "counted"),
    [
        ([], {}, None),
        ([a_run(1, DONE), waiting(2)], {}, "1/2"),
        ([], {"cancel": True}, None),
        ([a_run(1, CANCELLED)], {"cancel": True}, "1/1"),
    ],
)
def test_until_it_is_planned_the_runs_on_record_are_counted(
    runs: list[Run], spec: dict[str, Any], counted: str | None
) -> None:
    changed = ObjectSpec(benchmark="seg", **spec)
    benchmark = msgspec.structs.replace(BENCHMARK, spec=changed)
    found = status(*runs, planned=None, benchmark=benchmark)
    assert found["summary"]["runs"] == counted
    assert "?" not in str(found)
