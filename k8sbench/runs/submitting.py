"""Runs from their plans to their recorded measurements.

The run id is drawn and recorded before anything is created. Whatever happens then (the job fails,
the time is up, the user interrupts, the disk is full), what is known is on record and the logs are
kept. A local job ends with this process, and its run with a final state that says why; a job on a
cluster goes on, and is resumed (:mod:`k8sbench.runs.collecting`).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from k8sbench.model.errors import BenchError, Interrupted, NotFound, RepeatTaken, UsageError
from k8sbench.model.identity import case_key
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.ports import Manifest, RunFilter, Store
from k8sbench.runs import collecting, records
from k8sbench.runs.context import PlannedCase, Reporter, RunContext, Stop
from k8sbench.runs.following import Following, FollowOptions, kept_gaps

REPEAT_TRIES = 100
"""Other submits into the same set may take a repeat number first; more than this is a fault."""


class SubmitOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a number of cases is to be run."""

    set_name: str
    run_id: str | None = None
    """Identity of the one run; of one that exists: join it."""
    parallel: int = 1
    """Jobs at a time."""
    follow: FollowOptions = FollowOptions()


class Submitted(msgspec.Struct, frozen=True):
    """What became of one run that was to be submitted."""

    run: Run
    state: Literal["closed", "created", "over-before", "followed-elsewhere"]
    """Followed to its end; created and left alone; joined: it was over before; joined: another
    process follows it, and this one does not."""


def submit(
    cases: Sequence[PlannedCase],
    context: RunContext,
    reporter: Reporter,
    stop: Stop,
    options: SubmitOptions,
) -> Iterator[Submitted]:
    """Run cases, each to its end; yields the runs as they are closed, measured if they succeeded.

    Asked to stop it raises :class:`Interrupted`, when local jobs are ended; jobs of a cluster go
    on.
    """
    following = Following(context, reporter, options.follow, several=options.parallel > 1)
    waiting = deque(cases)
    joined: list[Submitted] = []
    closed: Run | None = None

    def more() -> bool:
        _raise_refused(following, context)
        if not waiting or len(following) >= options.parallel or following.is_busy:
            return False
        case = waiting.popleft()
        run, manifests = _recorded(case, context, options)
        if manifests is not None:
            reporter.planned(run)
            _start(run, manifests, case, context, following)
            return True
        state = _joined(run, context, reporter)
        if state is not None:
            joined.append(Submitted(run, state))
        else:
            reporter.planned(run)
            following.resume(run)
        return True

    try:
        for closed in following.to_the_end(stop, more):
            yield Submitted(closed, "closed")
        _raise_refused(following, context, wait=True)
        if stop.cause is not None:
            left = following.runs() or ([closed] if closed else [])
            raise _interrupted(stop, context, left, len(waiting), options.set_name)
        yield from joined
    except BaseException as wrong:
        if not context.cluster.jobs_outlive_us:
            _close_all(following, context, wrong)
        elif following.runs() and isinstance(wrong, BenchError) and stop.cause is None:
            left = following.runs()
            way = left[0].run_id if len(left) == 1 else "--all"
            reporter.note(
                f"What was created goes on. Resume it with: k8sbench collect {way} --follow"
            )
        raise
    finally:
        with contextlib.suppress(Exception):  # the first error is the one to report
            _raise_refused(following, context, wait=True)
        following.close()


def create_all(
    cases: Sequence[PlannedCase],
    context: RunContext,
    reporter: Reporter,
    stop: Stop,
    options: SubmitOptions,
) -> Iterator[Submitted]:
    """Create the jobs of all cases and follow none of them: ``--detach``.

    Asked to stop before the last one it raises :class:`Interrupted`; what was created goes on.
    """
    for number, case in enumerate(cases):
        if stop.cause is not None:
            raise Interrupted(
                f"{stop.cause}: {number} of {len(cases)} jobs were created.",
                _resuming(context, options.set_name),
            )
        run, manifests = _recorded(case, context, options)
        if manifests is None:
            state = _joined(run, context, reporter)
            context.store.claims.release(run.run_id)
            yield Submitted(run, state or "created")
            continue
        reporter.planned(run)
        try:
            context.store.keep(run.run_id, "manifest.yaml", case.text(manifests))
            context.cluster.create(run.plan, manifests, context.store.folder(run.run_id))
        except BenchError as wrong:
            _fail(run, context, wrong)
            raise
        finally:
            context.cluster.release(run.run_id)
            context.store.claims.release(run.run_id)
        yield Submitted(run, "created")


def _joined(
    run: Run, context: RunContext, reporter: Reporter
) -> Literal["over-before", "followed-elsewhere"] | None:
    """Say how a run that exists is joined; None: this process has claimed it, to follow it."""
    if run.phase.final:
        return "over-before"
    limit = "none" if run.plan.timeout_s is None else f"{run.plan.timeout_s:g} s"
    reporter.note(
        f"run {run.run_id} is there already, and is joined as it is: set {run.plan.set_name},"
        f" --timeout {limit}"
    )
    outlives = context.cluster.jobs_outlive_us
    if outlives and context.store.claims.claim(run.run_id):
        return None
    return "followed-elsewhere"


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
    """Build the error that ends the command: what became of the runs, and the way on."""
    names = ", ".join(run.run_id for run in runs[: records.FEW]) or "no run"
    if len(runs) > records.FEW:
        names += f" and {len(runs) - records.FEW} more"
    left = f" {not_started} more were not started." if not_started else ""
    resume = _resuming(context, set_name)
    if not context.cluster.jobs_outlive_us:
        state = f"; it is {runs[0].phase}" if len(runs) == 1 else ""
        message = f"{stop.cause}: the local processes of {names} were ended{state}.{left}"
        return Interrupted(message, resume)
    whose = "its job goes" if len(runs) == 1 else "their jobs go"
    one = runs[0].run_id if len(runs) == 1 else None
    way = "collect --all --follow" if one is None else f"watch {one}"
    return Interrupted(
        f"{stop.cause}: detached from {names}; {whose} on.{left}",
        f"Come back with: k8sbench {way}; end it with: k8sbench cancel {one or 'RUN'}."
        + (f" {resume}" if not_started else ""),
    )


def _resuming(context: RunContext, set_name: str) -> str:
    # What goes on is missing, too, as long as nobody has measured it.
    first = "When what goes on is collected, run" if context.cluster.jobs_outlive_us else "Run"
    return f"{first} what is missing of the set with: k8sbench submit … --resume {set_name}"


def _start(
    run: Run,
    manifests: Sequence[Manifest],
    case: PlannedCase,
    context: RunContext,
    following: Following,
) -> None:
    try:
        context.store.keep(run.run_id, "manifest.yaml", case.text(manifests))
        following.start(run, manifests)
    except BaseException as wrong:
        _fail(run, context, wrong)
        context.store.claims.release(run.run_id)
        raise


def _raise_refused(following: Following, context: RunContext, *, wait: bool = False) -> None:
    """Close the runs whose jobs could not be created; raises the first such error."""
    refused = following.refused(wait=wait)
    for run, wrong in refused:
        _fail(run, context, wrong)
        context.store.claims.release(run.run_id)
    for _, wrong in refused[:1]:
        raise wrong


def _fail(run: Run, context: RunContext, wrong: BaseException) -> None:
    """Close a run that never became a job, or whose job ends with us: it must not stay open."""
    cause = wrong.message if isinstance(wrong, BenchError) else type(wrong).__name__
    # The first error is the one to report.
    with contextlib.suppress(BenchError):
        context.store.move(
            run.run_id,
            Transition(
                phase=Phase.FAILED,
                at=context.clock(),
                cause=f"k8sbench could not go on: {cause}",
                cause_id="k8sbench-failed",
                action=wrong.action or None if isinstance(wrong, BenchError) else None,
            ),
        )


def _close_all(following: Following, context: RunContext, wrong: BaseException) -> None:
    for run in following.runs():
        _fail(run, context, wrong)


def _existing(context: RunContext, case: PlannedCase, run_id: str) -> Run | None:
    """Find the run of a name, in the store or on the cluster."""
    outlives = context.cluster.jobs_outlive_us
    try:
        records.reconcile(context.store, alive=context.alive, now=context.clock())
        run = context.store.run(run_id)
    except NotFound:
        jobs = context.cluster.jobs([run_id]) if outlives else ()
        job = next((job for job in jobs if job.plan.run_id == run_id), None)
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


_SHOWN_AS = {"trainers_digest": "version of the trainers"}
"""What a field of the plan is called where its name says too little."""


def _deciding(there: RunPlan, wanted: RunPlan) -> Iterator[str]:
    """Yield the fields that make one plan another case than the other."""
    for name in there.__struct_fields__:
        changed = msgspec.structs.replace(there, **{name: getattr(wanted, name)})
        if case_key(changed) != case_key(there):
            yield name


def _check_case(case: PlannedCase, there: RunPlan) -> None:
    wanted = case.plan(there.run_id, there.set_name, there.repeat)
    if case_key(wanted) == case_key(there):
        return
    other_case = f"{there.benchmark} {there.framework} {there.case} {there.precision}"
    other = ", ".join(_SHOWN_AS.get(name, name) for name in _deciding(there, wanted))
    raise UsageError(
        f"Run {there.run_id} exists and is another case: {other_case} (other: {other}).",
        "Take another --run-id, or the options that it was submitted with.",
    )


def _recorded(
    case: PlannedCase, context: RunContext, options: SubmitOptions
) -> tuple[Run, tuple[Manifest, ...]] | tuple[Run, None]:
    """Find the run that is to be joined, or record a new one; with what is to be created."""
    if options.run_id is None:
        return _record(case, context, options)
    known = _existing(context, case, options.run_id)
    if known is not None:
        return known, None
    taken = UsageError(
        f"Another k8sbench process is just submitting run {options.run_id}.",
        f"Follow it with: k8sbench watch {options.run_id}",
    )
    try:
        if context.store.claims.claim(options.run_id):
            return _record(case, context, options)
    except UsageError as wrong:
        taken = wrong
    # Somebody else has recorded it meanwhile, unless something else is wrong.
    known = _existing(context, case, options.run_id)
    if known is None:
        raise taken
    return known, None


def _record(
    case: PlannedCase, context: RunContext, options: SubmitOptions
) -> tuple[Run, tuple[Manifest, ...]]:
    run_id = options.run_id or context.draw_run_id(case.draft.benchmark)
    key = case_key(case.draft)
    # Before there is anything to see: nobody else resumes it before its job is there.
    context.store.claims.claim(run_id)
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
