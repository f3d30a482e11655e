"""Runs from their plans to their recorded measurements.

The run id is drawn and recorded before anything is created. Whatever happens then (the job fails,
the time is up, the user interrupts, the disk is full), what is known is on record and the logs are
kept. A local job ends with this process, and its run with a final state that says why; a job on a
cluster goes on, and is resumed (:mod:`k8sbench.lifecycle.collecting`).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from k8sbench.lifecycle import adopting, collecting, records, requests
from k8sbench.lifecycle.context import (
    BENCHMARK,
    INTERRUPTED,
    MANIFEST,
    PlannedCase,
    Reporter,
    RunContext,
    Stop,
)
from k8sbench.lifecycle.executor import Executor, Rules, Until
from k8sbench.lifecycle.gathering import Gathering
from k8sbench.model import attempts, creation, times
from k8sbench.model.errors import (
    BenchError,
    Interrupted,
    NotFound,
    OwnedElsewhere,
    RepeatTaken,
    Unreachable,
    UsageError,
)
from k8sbench.model.identity import case_key, case_values, fields_for
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.request import SubmitRequest
from k8sbench.model.run import Run, Wish
from k8sbench.ports import Claims, JobEvent, Manifest, RunFilter

REPEAT_TRIES = 100
"""Other submits into the same set may take a repeat number first; more than this is a fault."""
OF_ALL = frozenset({"namespace-missing", "namespace-terminating"})
"""Cause ids of refusals that every job meets, beside those of a cluster that is not ready."""
LENGTHENED = frozenset({"training", "window", "command"})
"""Fields of the case in which a training may differ that is to go on for longer. What else its
command says, the trainer compares with what the checkpoints were written with."""
PLACES = 8
"""Submits that may add to a set at a time."""


class Submitted(msgspec.Struct, frozen=True):
    """One run, and what was done with it."""

    run: Run
    state: Literal["closed", "created", "joined", "over-before", "followed-elsewhere", "refused"]
    """Followed to its end; recorded, and its job created; found, and claimed by this process; found
    in its final state; found, and followed by another process; recorded, and its job not created,
    or not for certain."""
    error: BenchError | None = None
    """Why it was refused."""


def submit(
    cases: Sequence[PlannedCase],
    context: RunContext,
    reporter: Reporter,
    stop: Stop,
    request: SubmitRequest,
    gathering: Gathering | None = None,
) -> Iterator[Submitted]:
    """Run cases, each to its end; yields the runs as they are closed, measured if they succeeded.

    With ``request.detach`` jobs are created and not followed; runs are yielded as that is known.
    A run whose logs cannot be read is yielded, too, and is not final: it is to be collected later.
    A job that cannot be created does not keep the others from being followed, and later ones from
    being tried, unless they would meet the same. Asked to stop it raises :class:`Interrupted`, when
    local jobs are ended; jobs of a cluster go on.
    """
    until = Until.CREATED if request.detach else Until.OVER
    rules = Rules(keep=request.keep, wait=request.wait, parallel=request.parallel, until=until)
    executor = Executor(context, reporter, rules, gathering)
    waiting = deque(cases)
    others: list[Submitted] = []
    begun: dict[str, Submitted] = {}
    closed: Run | None = None

    def take_refused() -> None:
        while executor.refused:
            run, error = executor.refused.pop(0)
            others.append(_refused(run, error, reporter, several=len(cases) > 1))
            # Whether further jobs would be refused for the same cause.
            of_all = isinstance(error, Unreachable) or getattr(error, "cause_id", None) in OF_ALL
            if of_all and waiting:
                reporter.note(f"{len(waiting)} more are not started: {error}")
                waiting.clear()

    def start_next() -> bool:
        take_refused()
        if not waiting or not executor.has_room:
            return False
        submitted = _begin(waiting.popleft(), executor, context, reporter, request)
        if submitted.state not in {"created", "joined"}:
            others.append(submitted)
        elif request.detach:
            begun[submitted.run.run_id] = submitted
        return True

    def known(run: Run) -> Submitted:
        return Submitted(run, begun[run.run_id].state if run.run_id in begun else "closed")

    try:
        for closed in executor.to_the_end(stop, start_next):
            yield known(closed)
        for closed in executor.stop_creating():
            yield known(closed)
        # Their ends are not known here, as of a namespace that was deleted: no success.
        yield from map(known, () if request.detach else executor.left)
        take_refused()
        refused = [submitted.run for submitted in others if submitted.error is not None]
        is_cut = closed is not None and closed.history[-1].cause_id == INTERRUPTED
        if stop.cause is not None and (waiting or executor.unclosed() or refused or is_cut):
            created = [submitted.run for submitted in begun.values()]
            left = executor.unclosed() or refused or created or ([closed] if closed else [])
            raise _interrupted(stop, context, left, len(waiting), request)
        yield from others
    except BaseException as error:
        left = executor.unclosed()
        if not context.cluster.jobs_outlive_us:
            for run in left:
                _close_local(run, context, error, stop)
        elif left and isinstance(error, BenchError) and stop.cause is None:
            which = left[0].run_id if len(left) == 1 else "--all"
            reporter.note(
                "What was created stays on the cluster."
                f" Resume it with: k8sbench collect {which} --follow"
            )
        raise
    finally:
        with contextlib.suppress(Exception):  # the first error is the one to report
            executor.stop_creating()
        executor.close()


@contextlib.contextmanager
def held_set(claims: Claims, set_name: str, *, resumes: bool) -> Iterator[None]:
    """Hold a place of a set, or all of them where it is resumed.

    What a set lacks can be told only while nobody else adds to it: a resumption beside a submit, or
    beside another resumption, would make more runs than were asked for.

    Raises :class:`UsageError` where another process holds what is needed.
    """
    places = [f"set {set_name} {number}" for number in range(PLACES)]
    mine: list[str] = []
    try:
        for place in places:
            if claims.claim(place):
                mine.append(place)
                if not resumes:
                    break
            elif resumes:
                break
        if len(mine) < (PLACES if resumes else 1):
            raise UsageError(
                f"Set {set_name} is being submitted by another k8sbench process.",
                "Wait for its end; 'k8sbench list --set' shows its runs.",
            )
        yield
    finally:
        for place in mine:
            claims.release(place)


class Repeats(msgspec.Struct, kw_only=True):
    """What a set has of a case already, oldest first."""

    finished: list[Run] = []
    """Valid: they are not repeated."""
    open: list[Run] = []
    """Not over, or not measured yet: they are taken up."""
    broken_off: list[Run] = []
    """Trainings with checkpoints that ended too early: they are continued."""


def repeats(context: RunContext, set_name: str) -> dict[str, Repeats]:
    """What a set has already, by case key: what ``--resume`` need not start anew.

    A run that failed, was cancelled or was rejected is missing, unless it can be continued.
    """
    records.reconcile(context.store, alive=context.alive, now=context.clock())
    found: dict[str, Repeats] = {}
    for run in context.store.runs(RunFilter(set_name=set_name)):
        of_case = found.setdefault(case_key(run.plan), Repeats())
        if run.measurement is not None and run.measurement.verdict == "valid":
            of_case.finished.append(run)
        elif not run.is_closed:
            of_case.open.append(run)
        elif attempts.may_be_continued(run):
            of_case.broken_off.append(run)
    return found


def _interrupted(
    stop: Stop, context: RunContext, runs: Sequence[Run], not_started: int, request: SubmitRequest
) -> Interrupted:
    """Build the error that ends the command: what became of the runs, and how to continue."""
    if not runs:
        is_begun = bool(context.store.runs(RunFilter(set_name=request.joined_set)))
        return Interrupted(
            f"{stop.cause}: nothing was started.",
            f"Resume: {request.resuming()}" if is_begun else "Run the same command again.",
        )
    names = records.few([run.run_id for run in runs])
    left = f" {not_started} more were not started." if not_started else ""
    resuming = f"Resume: {request.resuming()}"
    if not context.cluster.jobs_outlive_us:
        state = f"; it is {runs[0].phase}" if len(runs) == 1 else ""
        message = f"{stop.cause}: the local processes of {names} were ended{state}.{left}"
        return Interrupted(message, resuming)
    latest = runs[0].history[-1] if len(runs) == 1 else None
    if latest is not None and attempts.is_restarting(runs[0]):
        run_id = runs[0].run_id
        return Interrupted(
            f"{stop.cause}: {latest.cause}",
            f"It goes on with: k8sbench watch {run_id}; end it with: k8sbench cancel {run_id}",
        )
    if latest is not None and latest.cause_id in {creation.NOT_CREATED, creation.CREATION_UNKNOWN}:
        return Interrupted(f"{stop.cause}: {latest.cause}{left}", latest.action or resuming)
    whose, follow, run_id = "their jobs go", "collect --all --follow", "RUN"
    if len(runs) == 1:
        run_id = runs[0].run_id
        whose, follow = "its job goes", f"watch {run_id}"
    return Interrupted(
        f"{stop.cause}: detached from {names}; {whose} on.{left}",
        f"Come back with: k8sbench {follow}; end it with: k8sbench cancel {run_id}."
        + (f" {resuming}" if not_started else ""),
    )


def _refused(run: Run, error: BaseException, reporter: Reporter, *, several: bool) -> Submitted:
    """Report, among several, that a job was not created; raises what is no refusal."""
    if not isinstance(error, BenchError):
        raise error
    if several:  # of a single one the command's error says it
        reporter.on_event(run, JobEvent(run_id=run.run_id, transition=run.history[-1]))
    reporter.ended(run)
    return Submitted(run, "refused", error)


def _close_local(run: Run, context: RunContext, error: BaseException, stop: Stop) -> None:
    """Close a local run, which ends with this process.

    A second Ctrl-C, which waits for no processes, is no failure.
    """
    now = context.clock()
    final = requests.refusal(run.run_id, error, now, survives=False)
    if isinstance(error, KeyboardInterrupt):
        final = Transition(
            phase=Phase.CANCELLED,
            at=now,
            cause=f"{stop.cause or 'Interrupted (Ctrl-C)'}; k8sbench did not wait for the end of"
            " the run.",
            cause_id=INTERRUPTED,
        )
    # The first error is the one to report.
    with contextlib.suppress(BenchError):
        context.store.move(run.run_id, final)
    context.store.claims.release(run.run_id)


def _existing(
    context: RunContext, case: PlannedCase, run_id: str, reporter: Reporter
) -> Run | None:
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
        # It was submitted elsewhere: on a machine of CI that is gone, or by somebody who follows
        # it, to whom it is left.
        wish = Wish(kind="adopt", at=context.clock(), cause="It is submitted again elsewhere.")
        with contextlib.suppress(OwnedElsewhere):
            adopting.is_left_to_us(run_id, context, wish, Stop(), reporter.note)
        run = collecting.recorded(job, context)
    _check_case(case, run.plan)
    if not run.phase.final:
        collecting.check_place(run, context.cluster, context.location)
    return run


def _check_case(case: PlannedCase, existing: RunPlan) -> None:
    wanted = case.plan(existing.run_id, existing.set_name, existing.repeat)
    there, asked = case_values(existing), case_values(wanted)
    differing = [name for name in fields_for("case") if there.get(name) != asked.get(name)]
    if LENGTHENED.issuperset(differing) and attempts.is_longer(wanted, existing):
        differing = []
    # No part of the case; but with another seed, or without them, no checkpoint is gone on from.
    others = ["seed"] if existing.seed not in {None, wanted.seed} else []
    others += ["checkpoints"] if existing.checkpoints and not wanted.checkpoints else []
    if differing or others:
        case_name = f"{existing.benchmark} {existing.framework} {existing.case}"
        what = "is another case" if differing else "cannot be taken up with another option"
        raise UsageError(
            f"Run {existing.run_id} exists and {what}: {case_name} {existing.precision}"
            f" (other: {', '.join(differing + others)}).",
            "Take another --run-id, or the options that it was submitted with.",
        )


def _begin(
    case: PlannedCase,
    executor: Executor,
    context: RunContext,
    reporter: Reporter,
    request: SubmitRequest,
) -> Submitted:
    """Have the job of a new run created, or take up the run that is to be joined."""
    run_id = case.joins or request.run_id
    existing = None if run_id is None else _existing(context, case, run_id, reporter)
    if existing is None:
        try:
            run, manifests = _record(case, context, request)
        except UsageError:
            # Another process may have recorded it meanwhile.
            existing = None if run_id is None else _existing(context, case, run_id, reporter)
            if existing is None:
                raise
        else:
            reporter.planned(run)
            _create(run, case, manifests, executor, context)
            return Submitted(run, "created")
    return _join(existing, case, executor, context, reporter)


def _create(
    run: Run,
    case: PlannedCase,
    manifests: Sequence[Manifest],
    executor: Executor,
    context: RunContext,
) -> None:
    """Keep what is asked of the cluster for a run, and have its job created."""
    try:
        context.store.keep(run.run_id, MANIFEST, case.text(manifests))
        if case.benchmark_file:
            context.store.keep(run.run_id, BENCHMARK, case.benchmark_file)
    except BenchError as error:
        # An intent that cannot be recorded is not carried out.
        final = requests.refusal(
            run.run_id, error, context.clock(), survives=context.cluster.jobs_outlive_us
        )
        with contextlib.suppress(BenchError):  # the first error is the one to report
            context.store.move(run.run_id, final)
        context.store.claims.release(run.run_id)
        raise
    executor.create(run, manifests)


def _join(
    existing: Run,
    case: PlannedCase,
    executor: Executor,
    context: RunContext,
    reporter: Reporter,
) -> Submitted:
    """Take up a run that exists, unless it is over or another process follows it."""
    store, run_id = context.store, existing.run_id
    plan = case.plan(run_id, existing.plan.set_name, existing.plan.repeat)
    if not existing.phase.final:
        limit = existing.plan.timeout_s
        reporter.note(
            f"run {run_id} exists and is joined as it is: set {existing.plan.set_name},"
            f" --timeout {'none' if limit is None else times.duration(limit)}"
        )
    elif existing.owes_measurement:
        is_ours = executor.take(existing)
        return Submitted(existing, "joined" if is_ours else "followed-elsewhere")
    elif not _may_go_on(existing, plan):
        return Submitted(existing, "over-before")
    goes_on = existing.phase.final or context.cluster.jobs_outlive_us
    if not (goes_on and store.claims.claim(run_id)):
        return Submitted(existing, "followed-elsewhere")
    # Another process may have gone on with it since it was read.
    existing = store.run(run_id)
    if _may_go_on(existing, plan):
        existing = _reopened(existing, plan, case, context, reporter)
    elif existing.phase.final:
        store.claims.release(run_id)
        return Submitted(existing, "over-before")
    elif creation.is_known_created(existing) or attempts.is_restarting(existing):
        executor.take(existing)
        return Submitted(existing, "joined")
    # A job that exists is found, and not created again.
    reporter.planned(existing)
    store.ensure_folder(run_id)
    _create(existing, case, case.manifests(existing.plan), executor, context)
    return Submitted(existing, "created")


def _may_go_on(run: Run, plan: RunPlan) -> bool:
    """Whether a run that is over is submitted again, or continued, as a plan asks."""
    return creation.may_be_submitted_again(run) or attempts.may_be_continued(run, plan)


def _reopened(
    run: Run, plan: RunPlan, case: PlannedCase, context: RunContext, reporter: Reporter
) -> Run:
    """Take a run up again that is over; a training goes on as its next attempt."""
    store, had_job = context.store, not creation.may_be_submitted_again(run)
    if had_job:
        # Restarts that it had do not count against those that are allowed from here on.
        plan = msgspec.structs.replace(plan, max_restarts=plan.max_restarts + run.attempt)
        # Of this the job is made, also by a process that takes the run up after this one.
        store.keep(run.run_id, MANIFEST, case.text(case.manifests(plan)))
    try:
        run = store.reopen(plan, at=context.clock(), owner=context.owner, location=context.location)
    except RepeatTaken as taken:
        message = f"Run {run.run_id} cannot become longer: {taken.message}"
        raise UsageError(message, "Take another --run-id.") from taken
    if had_job:
        store.begin_attempt(run.run_id)
        reporter.note(f"run {run.run_id} is continued, from its newest checkpoint if any")
    else:
        reporter.note(f"run {run.run_id} has never had a job, and is submitted again")
    return run


def _record(
    case: PlannedCase, context: RunContext, request: SubmitRequest
) -> tuple[Run, tuple[Manifest, ...]]:
    run_id = request.run_id or context.draw_run_id(case.draft.benchmark)
    key = case_key(case.draft)
    # Claimed before it is visible: no other process resumes it before its job exists.
    if not context.store.claims.claim(run_id):
        raise UsageError(
            f"Another k8sbench process is just submitting run {run_id}.",
            f"Follow it with: k8sbench watch {run_id}",
        )
    try:
        for _ in range(REPEAT_TRIES):
            repeat = context.store.next_repeat(request.joined_set, key)
            plan = case.plan(run_id, request.joined_set, repeat)
            # Rendered before it is recorded: what cannot be rendered leaves no trace.
            manifests = case.manifests(plan)
            with contextlib.suppress(RepeatTaken):
                run = context.store.record(
                    plan, at=context.clock(), owner=context.owner, location=context.location
                )
                return run, manifests
        raise RepeatTaken(
            f"Set {request.joined_set} gave no free repeat number in {REPEAT_TRIES} tries.",
            "Too many submits write into it at once; try again.",
        )
    except BaseException:
        context.store.claims.release(run_id)
        raise
