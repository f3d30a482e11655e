"""Runs from their plans to their recorded measurements.

The run id is drawn and recorded before anything is created. Whatever happens then (the job fails,
the time is up, the user interrupts, the disk is full), what is known is on record and the logs are
kept. A local job ends with this process, and its run with a final state that says why; a job on a
cluster goes on, and is resumed (:mod:`k8sbench.runs.collecting`).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from k8sbench.model import times
from k8sbench.model.errors import BenchError, Interrupted, NotFound, RepeatTaken, UsageError
from k8sbench.model.identity import case_key, case_values, fields_for
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.ports import Manifest, RunFilter, Store
from k8sbench.runs import collecting, records
from k8sbench.runs.context import PlannedCase, Reporter, RunContext, Stop
from k8sbench.runs.following import Following, FollowOptions, kept_gaps

REPEAT_TRIES = 100
"""Other submits into the same set may take a repeat number first; more than this is a fault."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a number of cases is to be run."""

    set_name: str
    run_id: str | None = None
    """Identity of the one run; one that exists is joined."""
    parallel: int = 1
    """Jobs at a time."""
    follow: FollowOptions = FollowOptions()


class Submitted(msgspec.Struct, frozen=True):
    """One run, and what was done with it."""

    run: Run
    state: Literal["closed", "created", "joined", "over-before", "followed-elsewhere"]
    """Followed to its end; recorded, and its job created; found, and claimed by this process; found
    in its final state; found, and followed by another process."""


def submit(
    cases: Sequence[PlannedCase],
    context: RunContext,
    reporter: Reporter,
    stop: Stop,
    options: RunOptions,
) -> Iterator[Submitted]:
    """Run cases, each to its end; yields the runs as they are closed, measured if they succeeded.

    Asked to stop it raises :class:`Interrupted`, when local jobs are ended; jobs of a cluster go
    on.
    """
    following = Following(context, reporter, options.follow, several=options.parallel > 1)
    waiting = deque(cases)
    not_followed: list[Submitted] = []
    closed: Run | None = None

    def start_next() -> bool:
        _raise_rejected(following, context)
        if not waiting or len(following) >= options.parallel or following.is_busy:
            return False
        case = waiting.popleft()
        one, manifests = _recorded(case, context, reporter, options)
        if one.state == "created":
            _create(one.run, manifests, case, context, following.start)
        elif one.state == "joined":
            following.resume(one.run)
        else:
            not_followed.append(one)
        return True

    try:
        for closed in following.to_the_end(stop, start_next):
            yield Submitted(closed, "closed")
        _raise_rejected(following, context, wait=True)
        if stop.cause is not None:
            left = following.runs() or ([closed] if closed else [])
            raise _interrupted(stop, context, left, len(waiting), options.set_name)
        yield from not_followed
    except BaseException as wrong:
        left = following.runs()
        if not context.cluster.jobs_outlive_us:
            for run in left:
                _fail(run, context, wrong)
        elif left and isinstance(wrong, BenchError) and stop.cause is None:
            which = left[0].run_id if len(left) == 1 else "--all"
            reporter.note(
                f"What was created goes on. Resume it with: k8sbench collect {which} --follow"
            )
        raise
    finally:
        with contextlib.suppress(Exception):  # the first error is the one to report
            _raise_rejected(following, context, wait=True)
        following.close()


def create_all(
    cases: Sequence[PlannedCase],
    context: RunContext,
    reporter: Reporter,
    stop: Stop,
    options: RunOptions,
) -> Iterator[Submitted]:
    """Create the jobs of all cases and follow none of them: ``--detach``.

    Asked to stop before the last one it raises :class:`Interrupted`; what was created goes on.
    """

    def create(run: Run, manifests: Sequence[Manifest]) -> None:
        context.cluster.create(run.plan, manifests, context.store.folder(run.run_id))

    for number, case in enumerate(cases):
        if stop.cause is not None:
            raise Interrupted(
                f"{stop.cause}: {number} of {len(cases)} jobs were created.",
                _resuming(context, options.set_name),
            )
        one, manifests = _recorded(case, context, reporter, options)
        try:
            if one.state == "created":
                _create(one.run, manifests, case, context, create)
        finally:
            if one.state == "created":
                context.cluster.release(one.run.run_id)
            context.store.claims.release(one.run.run_id)
        yield one


def finished_repeats(store: Store, set_name: str, key: str) -> list[Run]:
    """The valid runs that a set already has of a case: what ``--resume`` need not repeat."""
    return [
        run
        for run in store.runs(RunFilter(set_name=set_name))
        if case_key(run.plan) == key
        and run.measurement is not None
        and run.measurement.verdict == "valid"
    ]


def _interrupted(
    stop: Stop, context: RunContext, runs: Sequence[Run], not_started: int, set_name: str
) -> Interrupted:
    """Build the error that ends the command: what became of the runs, and how to continue."""
    names = ", ".join(run.run_id for run in runs[: records.FEW]) or "no run"
    if len(runs) > records.FEW:
        names += f" and {len(runs) - records.FEW} more"
    left = f" {not_started} more were not started." if not_started else ""
    resuming = _resuming(context, set_name)
    if not context.cluster.jobs_outlive_us:
        state = f"; it is {runs[0].phase}" if len(runs) == 1 else ""
        message = f"{stop.cause}: the local processes of {names} were ended{state}.{left}"
        return Interrupted(message, resuming)
    whose, follow, run_id = "their jobs go", "collect --all --follow", "RUN"
    if len(runs) == 1:
        run_id = runs[0].run_id
        whose, follow = "its job goes", f"watch {run_id}"
    return Interrupted(
        f"{stop.cause}: detached from {names}; {whose} on.{left}",
        f"Come back with: k8sbench {follow}; end it with: k8sbench cancel {run_id}."
        + (f" {resuming}" if not_started else ""),
    )


def _resuming(context: RunContext, set_name: str) -> str:
    # Runs that go on are missing, too, until they are measured.
    first = "When what goes on is collected, run" if context.cluster.jobs_outlive_us else "Run"
    return f"{first} what is missing of the set with: k8sbench submit … --resume {set_name}"


def _create(
    run: Run,
    manifests: Sequence[Manifest],
    case: PlannedCase,
    context: RunContext,
    create: Callable[[Run, Sequence[Manifest]], None],
) -> None:
    try:
        context.store.keep(run.run_id, "manifest.yaml", case.text(manifests))
        create(run, manifests)
    except BaseException as wrong:
        _fail(run, context, wrong)
        raise


def _raise_rejected(following: Following, context: RunContext, *, wait: bool = False) -> None:
    """Close the runs whose jobs could not be created; raises the first such error."""
    rejected = following.rejected(wait=wait)
    for run, wrong in rejected:
        _fail(run, context, wrong)
    for _, wrong in rejected[:1]:
        raise wrong


def _fail(run: Run, context: RunContext, wrong: BaseException) -> None:
    """Close a run that never became a job, or whose job ends with this process."""
    error = wrong if isinstance(wrong, BenchError) else BenchError(type(wrong).__name__)
    final = Transition(
        phase=Phase.FAILED,
        at=context.clock(),
        cause=f"k8sbench could not go on: {error.message}",
        cause_id="k8sbench-failed",
        action=error.action or None,
    )
    # The first error is the one to report.
    with contextlib.suppress(BenchError):
        context.store.move(run.run_id, final)
    context.store.claims.release(run.run_id)


def _existing(context: RunContext, case: PlannedCase, run_id: str) -> Run | None:
    """Find the run of a name, in the store or on the cluster."""
    outlives = context.cluster.jobs_outlive_us
    try:
        records.reconcile(context.store, alive=context.alive, now=context.clock())
        run = context.store.run(run_id)
    except NotFound:
        jobs = context.cluster.jobs([run_id]) if outlives else ()
        job = next((job for job in jobs if job.run_id == run_id), None)
        if job is None:
            return None
        _check_case(case, job.plan)
        run = collecting.recorded(job, context)
    _check_case(case, run.plan)
    if not run.phase.final:
        collecting.check_place(run, context.cluster, context.location)
    if run.phase is Phase.SUCCEEDED and run.measurement is None:
        return context.store.measured(
            run_id, context.measure(run, kept_gaps(context.store, run_id))
        )
    return run


def _check_case(case: PlannedCase, existing: RunPlan) -> None:
    wanted = case.plan(existing.run_id, existing.set_name, existing.repeat)
    there, asked = case_values(existing), case_values(wanted)
    differing = [name for name in fields_for("case") if there.get(name) != asked.get(name)]
    if differing:
        case_name = f"{existing.benchmark} {existing.framework} {existing.case}"
        raise UsageError(
            f"Run {existing.run_id} exists and is another case: {case_name} {existing.precision}"
            f" (other: {', '.join(differing)}).",
            "Take another --run-id, or the options that it was submitted with.",
        )


def _recorded(
    case: PlannedCase, context: RunContext, reporter: Reporter, options: RunOptions
) -> tuple[Submitted, Sequence[Manifest]]:
    """Find the run that is to be joined, or record a new one and return what is to be created."""
    run_id = options.run_id
    existing = None if run_id is None else _existing(context, case, run_id)
    if existing is None:
        try:
            run, manifests = _record(case, context, options)
        except UsageError:
            # Another process may have recorded it meanwhile.
            existing = None if run_id is None else _existing(context, case, run_id)
            if existing is None:
                raise
        else:
            reporter.planned(run)
            return Submitted(run, "created"), manifests
    if existing.phase.final:
        return Submitted(existing, "over-before"), ()
    limit = existing.plan.timeout_s
    reporter.note(
        f"run {existing.run_id} exists and is joined as it is: set {existing.plan.set_name},"
        f" --timeout {'none' if limit is None else times.duration(limit)}"
    )
    outlives = context.cluster.jobs_outlive_us
    if not (outlives and context.store.claims.claim(existing.run_id)):
        return Submitted(existing, "followed-elsewhere"), ()
    reporter.planned(existing)
    return Submitted(existing, "joined"), ()


def _record(
    case: PlannedCase, context: RunContext, options: RunOptions
) -> tuple[Run, tuple[Manifest, ...]]:
    run_id = options.run_id or context.draw_run_id(case.draft.benchmark)
    key = case_key(case.draft)
    # Claimed before it is visible: no other process resumes it before its job exists.
    if not context.store.claims.claim(run_id):
        raise UsageError(
            f"Another k8sbench process is just submitting run {run_id}.",
            f"Follow it with: k8sbench watch {run_id}",
        )
    try:
        for _ in range(REPEAT_TRIES):
            repeat = context.store.next_repeat(options.set_name, key)
            plan = case.plan(run_id, options.set_name, repeat)
            # Rendered before it is recorded: what cannot be rendered leaves no trace.
            manifests = case.manifests(plan)
            with contextlib.suppress(RepeatTaken):
                run = context.store.record(
                    plan, at=context.clock(), owner=context.owner, location=context.location
                )
                return run, manifests
        raise RepeatTaken(
            f"Set {options.set_name} gave no free repeat number in {REPEAT_TRIES} tries.",
            "Too many submits write into it at once; try again.",
        )
    except BaseException:
        context.store.claims.release(run_id)
        raise
