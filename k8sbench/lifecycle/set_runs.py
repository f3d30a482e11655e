"""Runs of a set: recorded, reopened, and those that it has already."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from k8sbench.lifecycle.context import RunContext
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.lifecycle.run_artifacts import BENCHMARK
from k8sbench.model import creation
from k8sbench.model.errors import RepeatTaken
from k8sbench.model.identity import case_key
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run, out_of_memory_ids
from k8sbench.store.interface import Store

REPEAT_TRIES = 100
"""Most tries to find a free repeat number.

Other submits into the set may take a number first; more collisions are a fault.
"""


def record_new(case: PlannedCase, run_id: str, set_name: str, context: RunContext) -> Run:
    """Record a new run of a case; what cannot be rendered leaves no trace.

    Raises :class:`UsageError` if there is a run of the name.
    """
    store = context.store
    for _ in range(REPEAT_TRIES):
        plan = case.plan(run_id, set_name, store.next_repeat(set_name, case_key(case.draft)))
        case.manifests(plan)
        with contextlib.suppress(RepeatTaken):
            return store.record(
                plan, at=context.clock(), process=context.process, location=context.location
            )
    raise RepeatTaken(
        f"Set {set_name} gave no free repeat number in {REPEAT_TRIES} tries.",
        "Too many submits write into it at once; try again.",
    )


def reopened(run: Run, plan: RunPlan, context: RunContext) -> Run:
    """Record that a finished run goes on by a plan.

    Raises :class:`RepeatTaken` if a longer plan is another case that the set has already.
    """
    store = context.store
    had_job = not creation.may_be_submitted_again(run)
    if had_job:
        # Restarts that it had do not count against those that are allowed from here on.
        plan = msgspec.structs.replace(plan, max_restarts=plan.max_restarts + run.attempt)
    run = store.reopen(plan, at=context.clock(), process=context.process, location=context.location)
    if had_job:
        store.begin_attempt(run.run_id)
    return run


def keep_benchmark(store: Store, run_id: str, case: PlannedCase) -> None:
    """Keep the user's benchmark file, if there is one, with a run's record."""
    if case.benchmark_file:
        store.write_artifact(run_id, BENCHMARK, case.benchmark_file)


def may_go_on(run: Run, plan: RunPlan) -> bool:
    """Return True if a plan resubmits or continues a finished run."""
    return creation.may_be_submitted_again(run) or creation.may_be_continued(run, plan)


class Repeats(msgspec.Struct, kw_only=True):
    """Runs of one case that a set has already, oldest first."""

    finished: list[Run] = []
    """Valid or, in a sweep, out of GPU memory: not repeated."""
    open: list[Run] = []
    """Not over, or not measured yet: they are taken up."""
    broken_off: list[Run] = []
    """Trainings with checkpoints that ended too early: they are continued."""


def repeats(runs: Sequence[Run]) -> defaultdict[str, Repeats]:
    """Return the runs that a resumption or retry keeps, by case key.

    Failed, cancelled and rejected runs are left out, unless they can be continued.
    """
    found: defaultdict[str, Repeats] = defaultdict(Repeats)
    without_memory = out_of_memory_ids(runs)
    for run in runs:
        of_case = found[run.case_key]
        if run.measurement is not None and run.measurement.verdict == "valid":
            of_case.finished.append(run)
        elif not run.is_closed:
            of_case.open.append(run)
        elif creation.may_be_continued(run):
            of_case.broken_off.append(run)
        elif run.run_id in without_memory:
            of_case.finished.append(run)
    return found
