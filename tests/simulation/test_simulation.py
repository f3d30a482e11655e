"""Life of runs under faults, in thousands of seeded schedules.

``python -m tests.simulation SEED`` plays one schedule and prints its events.
"""

from __future__ import annotations

import contextlib
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import msgspec
import pytest

from k8sbench.adapters.kubernetes.watching import end_detector
from k8sbench.diagnose.job.exits import REPLICA_FAILED
from k8sbench.lifecycle import (
    active_run,
    benchmark_status,
    decide,
    executor,
    job_requests,
    known_object,
    object_runs,
    set_runs,
    set_turns,
    status_writer,
    submitting,
)
from k8sbench.lifecycle.active_run import ActiveRun
from k8sbench.lifecycle.benchmark_reconciler import Benchmarks
from k8sbench.lifecycle.context import RunContext
from k8sbench.lifecycle.decide import JobView, Now, RecordedRun, RunState, View
from k8sbench.lifecycle.job_requests import JobRequests
from k8sbench.lifecycle.known_object import KnownObject
from k8sbench.lifecycle.object_runs import Recording
from k8sbench.lifecycle.outcome import Outcome, OutcomeKind
from k8sbench.lifecycle.set_turns import SetTurns
from k8sbench.lifecycle.submitting import SubmittedBenchmark
from k8sbench.model import benchmark_object, creation
from k8sbench.model.benchmark_object import OVER, Benchmark
from k8sbench.model.phase import LOGS_BEING_READ, LOGS_INCOMPLETE, Phase, Transition
from k8sbench.model.run import Run
from k8sbench.store.interface import RunFilter
from tests.simulation.invariants import Invariant, Violation
from tests.simulation.play import play
from tests.simulation.schedule import Schedule
from tests.simulation.store import Disk, SimulatedClaims, SimulatedStore
from tests.simulation.with_operator import ACTS
from tests.simulation.world import Faults, Process

pytestmark = pytest.mark.timeout(900)

SCHEDULES = 1_000
"""Schedules of ``make unit``."""
MORE = 4_000
"""Further schedules of ``make test``; ``make soak`` plays many more."""
PIECES = 11
"""Tests that share them, for the time limit of a test."""
STEPS = 150
"""The median of the schedules has at least so many."""
TIMES = 10
"""Every fault happens at least so often, and users do each thing."""
MOST = 3_000
"""Schedules within which a fault of the program must be found.

Without one none of them fails.
"""


def test_whatever_goes_wrong_the_invariants_hold() -> None:
    met, steps, cells = Counter[str](), list[int](), set[tuple[str, str]]()
    states = set[str]()
    for seed in range(SCHEDULES):
        schedule = play(seed)
        met += schedule.world.met
        steps.append(schedule.world.steps)
        states |= {state for state, _, _ in schedule.reached}
        cells |= {(job, wanted) for _, job, wanted in schedule.reached}
    assert states == {state.value for state in RunState}
    jobs = {job.value for job in JobView}
    assert cells == {(job, wanted) for job in jobs for wanted in ("run", "end")}
    assert statistics.median(steps) >= STEPS
    others = ("a job is taken over", "what a kill left is resumed")
    all_kinds = (*Faults.__struct_fields__, *ACTS, *others)
    assert {kind: met[kind] for kind in all_kinds if met[kind] < TIMES} == {}


@pytest.mark.slow
@pytest.mark.parametrize("piece", range(PIECES))
def test_the_invariants_hold_in_more_schedules(piece: int) -> None:
    for seed in range(SCHEDULES + piece, SCHEDULES + MORE, PIECES):
        play(seed)


def test_a_seed_replays() -> None:
    first, second = play(7), play(7)
    assert first.world.trace == second.world.trace
    assert first.world.trace != play(8).world.trace


# -- faults of the program are found --------------------------------------------------------------

_take_end, _delete, _record = ActiveRun._take_end, job_requests.delete, SimulatedStore.record
_advance, _runs, _end_orphans = decide.advance, SimulatedStore.runs, Benchmarks._end_orphans
_see_time = decide.see_time
_count, _recorded = Benchmarks._count, Benchmarks._recorded
_claim, _context = SimulatedClaims.claim, Schedule.context


def end_with_unread_logs(self: ActiveRun, end: Transition) -> Outcome | None:
    if end.cause_id == LOGS_INCOMPLETE:
        end = msgspec.structs.replace(end, phase=Phase.FAILED, cause_id=None)
    return _take_end(self, end)


def end_before_the_last_line(self: ActiveRun, end: Transition) -> Outcome | None:
    if end.cause_id == LOGS_BEING_READ:
        end = Transition(phase=Phase.SUCCEEDED, at=end.at, cause="It is done.")
    return _take_end(self, end)


def is_final(transition: Transition) -> bool:
    return transition.phase.final or transition.cause_id in {LOGS_INCOMPLETE, LOGS_BEING_READ}


def record_later(self: SimulatedStore, plan: Any, **more: Any) -> Any:
    run = _record(self, plan, **more)
    self.disk.world.spawn(lambda: self.disk.rows.setdefault(plan.run_id, run), 2.0)
    return self.disk.rows.pop(plan.run_id)


def claim_without_asking(self: SimulatedClaims, run_id: str) -> bool:
    _claim(self, run_id)
    return True


def repeat_all(runs: Sequence[Run]) -> dict[str, set_runs.Repeats]:
    found = set_runs.repeats(runs)
    for of_case in found.values():
        of_case.finished.clear()
    return found


def forget_what_is_left(_: JobRequests, active: ActiveRun, __: Future[Any]) -> Outcome:
    active.view.deletes = False
    return active.outcome(OutcomeKind.CLOSED)


def delete_by_name_alone(context: RunContext, run_id: str) -> Any:
    run, why = _delete(context, run_id)
    context.cluster.remove(run)
    return run, why


def overlook_the_owner(record: RecordedRun, view: View, now: Now) -> Transition | None:
    return _advance(record, msgspec.structs.replace(view, taken_by=""), now)


def overlook_restarting_runs(
    self: SimulatedStore, wanted: RunFilter, known: Mapping[str, Run] | None = None
) -> list[Run]:
    """Leave them out where the active runs of a set are counted."""
    found = _runs(self, wanted, known)
    return [run for run in found if known is None or not creation.is_restarting(run)]


def take_unreadable_for_deleted(self: Benchmarks, current: Mapping[str, Any]) -> bool:
    return _end_orphans(self, {uid: one for uid, one in current.items() if one})


def limits_of_own(self: SetTurns) -> list[Benchmark]:
    return [known.benchmark for known in self._known.values() if not known.is_over]


def runs_since_the_kill(self: Benchmarks, benchmark: Benchmark) -> dict[str, Run]:
    return _recorded(self, benchmark) if self._serves else {}


def count_what_is_taken_up_twice(self: Benchmarks, known: KnownObject, some: Recording) -> None:
    _count(self, known, some)
    if known.later:
        known.planned = len(known.runs) + len(known.later)


def with_one_clock(self: Schedule, process: Process, disk: Disk, **changes: Any) -> RunContext:
    return _context(self, process, disk, **changes, monotonic=process.clock)


def count_time_by_stamps(record: RecordedRun, now: Now) -> None:
    record.time_left_s, record.time_up_at = None, math.inf
    _see_time(record, now)


def differs(_: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Believe a status that says an end."""
    return known.get("phase") not in OVER


class Mutation(NamedTuple):
    """A fault of the program, and the invariant that it violates."""

    violates: Invariant
    patches: list[tuple[Any, str, Any]]
    """Object, attribute and wrong value."""
    begin: int = 0
    """Seed at which the search begins, of a fault that few schedules show: one that did.

    It saves time alone: all others follow if that one shows it no more.
    """


MUTATIONS = {
    "a job with unread logs is deleted": Mutation(
        Invariant.LOGS_FIRST, [(ActiveRun, "_take_end", end_with_unread_logs)], begin=91
    ),
    "a lost answer is called failed": Mutation(
        Invariant.WAITS_FOR_PLACE,
        [(creation, "creation_unknown", lambda error, at: creation.job_refused("", error, at))],
    ),
    "logs are read from the beginning": Mutation(
        Invariant.LINES_ONCE, [(SimulatedStore, "log_marks", lambda *_: {})]
    ),
    "what another process follows is followed": Mutation(
        Invariant.ONE_PROCESS, [(SimulatedClaims, "claim", claim_without_asking)]
    ),
    "a wish is forgotten in an outage": Mutation(
        Invariant.CANCEL_KEPT, [(job_requests, "is_refused", lambda _: True)], begin=483
    ),
    "a run is closed before its last line": Mutation(
        Invariant.MEASURED_WHOLE,
        [
            (active_run, "is_final", is_final),
            (ActiveRun, "_take_end", end_before_the_last_line),
        ],
    ),
    "a run ends before its pods are listed": Mutation(
        Invariant.MEASURED_WHOLE,
        [(end_detector, "must_list_pods", lambda *_: False)],
        begin=113,
    ),
    "a job is created before its run is recorded": Mutation(
        Invariant.RECORDED_FIRST, [(SimulatedStore, "record", record_later)]
    ),
    "what is left of a job is forgotten": Mutation(
        Invariant.NO_JOB_LEFT,
        [
            (JobRequests, "_take_deleted", forget_what_is_left),
            (
                job_requests,
                "delete",
                lambda context, run_id: context.store.remove_wish(run_id, "delete"),
            ),
        ],
    ),
    "what is being submitted is resumed": Mutation(
        Invariant.NO_EXTRA_RUN,
        [(submitting, "held_set", lambda *_, **__: contextlib.nullcontext())],
        begin=610,
    ),
    "runs of other submits are overlooked": Mutation(
        Invariant.LIMIT, [(SimulatedClaims, "is_taken", lambda *_: False)]
    ),
    "two submits count at once": Mutation(
        Invariant.LIMIT, [(SetTurns, "hold", lambda *_: True)], begin=1643
    ),
    "limits of other submits are overlooked": Mutation(
        Invariant.LIMIT, [(SetTurns, "_limiting", limits_of_own)], begin=107
    ),
    "a submit ends before its last status": Mutation(
        Invariant.OBJECTS_COMPLETE, [(SubmittedBenchmark, "end", lambda *_: None)]
    ),
    "a run that a resumption takes up counts twice": Mutation(
        Invariant.STATUS, [(Benchmarks, "_count", count_what_is_taken_up_twice)]
    ),
    "a resumption forgets the runs before it": Mutation(
        Invariant.STATUS, [(Benchmarks, "_recorded", runs_since_the_kill)]
    ),
    "a copy is taken over": Mutation(
        Invariant.NO_COPY, [(job_requests, "delete", delete_by_name_alone)], begin=150
    ),
    "what another store owns is acted on": Mutation(
        Invariant.OWN_JOBS, [(decide, "advance", overlook_the_owner)], begin=120
    ),
    "a measured run is measured once more": Mutation(
        Invariant.MEASURED_ONCE,
        [(executor, "_may_have_finished", lambda run: run.history[-1].cause_id == REPLICA_FAILED)],
    ),
    "a cancelled object goes on": Mutation(
        Invariant.RUNS_CLOSED, [(Benchmarks, "_cancel", lambda _, run, __: run)]
    ),
    "the limit of the last object counts": Mutation(
        Invariant.LIMIT, [(set_turns, "min", lambda _, limit: limit)]
    ),
    "restarting runs do not count": Mutation(
        Invariant.LIMIT, [(SimulatedStore, "runs", overlook_restarting_runs)]
    ),
    "an unreadable object counts as deleted": Mutation(
        Invariant.CANCEL_REQUESTED, [(Benchmarks, "_end_orphans", take_unreadable_for_deleted)]
    ),
    "a missing job ends its run": Mutation(
        Invariant.WAITS_FOR_PLACE, [(ActiveRun, "is_wanted_still", False)]
    ),
    "an error of the place ends a run": Mutation(
        Invariant.WAITS_FOR_PLACE, [(job_requests, "may_pass", lambda _: False)]
    ),
    "runs of a deleted object go on": Mutation(
        Invariant.RUNS_CLOSED, [(Benchmarks, "_end_orphans", lambda *_: True)]
    ),
    "a run that waits is never begun": Mutation(
        Invariant.RUNS_CLOSED, [(Benchmarks, "_admit", lambda *_: None)]
    ),
    "a status is not written again": Mutation(
        Invariant.OBJECTS_COMPLETE, [(status_writer, "AGAIN_SECONDS", math.inf)]
    ),
    "an object is complete before its runs are": Mutation(
        Invariant.COMPLETE_LAST, [(benchmark_status, "_has_ended", lambda run, _: run.phase.final)]
    ),
    "a retry repeats what is valid": Mutation(
        Invariant.NO_EXTRA_RUN, [(object_runs, "repeats", repeat_all)]
    ),
    "a retry counts while runs are ending": Mutation(
        Invariant.RETRY_LAST, [(known_object.KnownObject, "is_open", False)]
    ),
    "a replaced status is believed": Mutation(
        Invariant.OBJECTS_COMPLETE,
        [(Benchmarks, "_goes_on", lambda *_: False), (benchmark_status, "differs", differs)],
    ),
    "readiness goes by a clock that is set": Mutation(
        Invariant.READY, [(Schedule, "context", with_one_clock)]
    ),
    "a run's time goes by a clock that is set": Mutation(
        Invariant.TIME_LIMIT, [(decide, "see_time", count_time_by_stamps)], begin=130
    ),
    "an object that is held goes on": Mutation(
        Invariant.NO_JOB_AFTER_CANCEL, [(benchmark_object, "cancelled_spec", lambda spec: spec)]
    ),
    "a status from while nobody looked is believed": Mutation(
        Invariant.STATUS, [(Benchmarks, "_check_end", lambda *_: None)], begin=2315
    ),
    "kept jobs are forgotten": Mutation(
        Invariant.NO_JOB_LEFT, [(Benchmarks, "_delete_kept", lambda *_: None)], begin=87
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_a_fault_of_the_program_violates_its_invariant(
    mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for target, name, wrong in mutation.patches:
        monkeypatch.setattr(target, name, wrong, raising=name != "min")
    seeds = (*range(mutation.begin, MOST), *range(mutation.begin))
    assert any(_violated(seed) is mutation.violates for seed in seeds)


def _violated(seed: int) -> Invariant | None:
    """Play a schedule; return the violated invariant.

    Other errors are raised: a crash of the simulation proves nothing.
    """
    try:
        play(seed)
    except Violation as violation:
        return violation.invariant
    return None
