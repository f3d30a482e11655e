"""Collecting jobs of a cluster.

Used after a detach, an interrupt or a crash, or on another machine. Idempotent: closed runs do not
change, runs that another process follows are skipped, and logs continue where their archive ends. A
run whose files cannot be read or written is reported and skipped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence

import msgspec

from k8sbench import limits
from k8sbench.lifecycle import job_requests
from k8sbench.lifecycle.context import Agree, Note, Reporter, Rules, RunContext, Until
from k8sbench.lifecycle.executor import LOOK_SECONDS, Executor
from k8sbench.lifecycle.gpu_metrics_fetcher import GpuMetricsFetcher
from k8sbench.lifecycle.outcome import Outcome, OutcomeKind
from k8sbench.lifecycle.stop import Stop
from k8sbench.model import creation, times
from k8sbench.model.errors import BenchError, NotFound, OwnedElsewhere, Unreachable, UsageError
from k8sbench.model.phase import Phase
from k8sbench.model.request import NO_OPTIONS, FollowOptions
from k8sbench.model.run import Location, Run
from k8sbench.ports.cluster import Cluster, FoundJob
from k8sbench.store.interface import RunFilter

END_SECONDS = 240.0
"""Longest wait for a cancelled job to end.

It begins after the archiving of the job's present logs.
"""

OWED_SECONDS = 3 * 86_400.0
"""Age limit of runs whose GPU metrics are still fetched.

Sources keep the metrics for some days.
"""


NONE_KNOWN: Mapping[str, Run] = {}


class CollectResult(msgspec.Struct, kw_only=True):
    """Result of :func:`collect`: the runs by what was done with them."""

    closed: list[Run] = []
    going_on: list[Run] = []
    """Not over yet, and left alone."""
    followed: list[Run] = []
    """Left to the other process that follows them."""
    failed: dict[str, BenchError] = {}
    """Passed over, by run id."""

    def take(self, outcome: Outcome, reporter: Reporter) -> None:
        """Add the outcome of a run; a non-final run counts as failed."""
        run = outcome.run
        if isinstance(outcome.error, BenchError):
            reporter.note(f"warning: run {run.run_id} is passed over: {outcome.error}")
            self.failed[run.run_id] = outcome.error
        elif outcome.how is OutcomeKind.LEFT:
            self.going_on.append(run)
        elif run.phase.final:
            self.closed.append(run)
        else:
            latest = run.history[-1]
            self.failed[run.run_id] = Unreachable(latest.cause, latest.action or "")

    def add(self, other: CollectResult) -> None:
        """Take in what was done with other runs."""
        self.closed += other.closed
        self.going_on += other.going_on
        self.followed += other.followed
        self.failed |= other.failed


def recorded(job: FoundJob, context: RunContext) -> Run:
    """Record a job of the cluster as a run of this store."""
    claims = context.store.claims
    # Another process of this store follows the run only when its attempt is on record.
    is_claimed = claims.claim(job.run_id)
    try:
        return _recorded(job, context, is_claimed=is_claimed)
    finally:
        if is_claimed:
            claims.release(job.run_id)


def _recorded(job: FoundJob, context: RunContext, *, is_claimed: bool) -> Run:
    plan = job.plan
    try:
        run = context.store.record(
            plan, at=job.created_at, process=None, location=context.location, has_job=True
        )
    except UsageError:
        if plan.run_id not in context.store.ids():
            raise
        run = context.store.run(plan.run_id)
        is_final = creation.may_be_submitted_again(run)
        if not (is_claimed and (is_final or creation.waits_for_turn(run))):
            return run  # another process of this store records it
        if is_final:  # it appeared after it was no longer expected
            run = context.store.reopen(
                plan, at=job.created_at, process=None, location=context.location
            )
    while run.attempt < job.attempt:
        again = creation.restarted_elsewhere(run.plan, run.attempt, job.created_at, job.uid)
        run = context.store.move(run.run_id, again)
    return context.store.move(run.run_id, creation.job_created(job.created_at, job.uid))


def open_runs(
    context: RunContext, here: Collection[str] = (), known: Mapping[str, Run] = NONE_KNOWN
) -> list[Run]:
    """Return the open runs at this place of a cluster, oldest first.

    ``here`` are runs whose jobs were found there: they may be recorded under another URL of it.
    Runs that wait for their turns have no job to collect. Those in ``known`` are not read.
    """
    return [
        run
        for run in context.store.runs(RunFilter(unfinished=True), known)
        if run.needs_collection
        and not creation.waits_for_turn(run)
        and (run.is_at(context.location) or run.run_id in here)
    ]


def pending_runs(
    context: RunContext, note: Note, known: Mapping[str, Run] = NONE_KNOWN
) -> list[Run]:
    """Return all runs of the namespace that need collection; records its jobs.

    ``known`` are runs whose records are at hand. One that waits for its turn is read if it has a
    job, and one that is closed if it is open on record: somebody else has gone on with it.
    """
    jobs = context.cluster.jobs()
    here = {job.run_id for job in jobs}
    known = {
        run_id: run
        for run_id, run in known.items()
        if not (run.is_closed or (run_id in here and creation.waits_for_turn(run)))
    }
    record_ours([job for job in jobs if job.run_id not in known], context, note)
    return open_runs(context, here, known)


def owed_runs(context: RunContext) -> list[Run]:
    """Return the closed runs here whose GPU metrics are not fetched."""
    since = context.clock() - OWED_SECONDS
    return [
        run
        for run in context.store.runs(RunFilter(since=since, phase=Phase.SUCCEEDED))
        if run.owes_gpu_metrics and not run.needs_collection and run.is_at(context.location)
    ]


def left_jobs(context: RunContext, set_name: str) -> list[Run]:
    """Return the closed runs of a set here whose jobs are still to be deleted.

    Their process was killed before, or the cluster did not answer.
    """
    return [
        run
        for run in context.store.runs(RunFilter(set_name=set_name, unfinished=True))
        if run.is_closed and run.is_at(context.location)
    ]


def check_place(run: Run, cluster: Cluster, here: Location | None) -> None:
    """Check that a run is where it is about to be resumed.

    A job that is looked for in the wrong place is not lost. One place may have several URLs, so
    that at another one than the recorded the job itself is asked for. Raises :class:`UsageError`.
    """
    there = run.location
    if there is None or here is None or there.is_same(here) or cluster.look(run):
        return
    raise UsageError(
        f"Run {run.run_id} was submitted to namespace {there.namespace} of {there.server}; there is"
        f" no such job in namespace {here.namespace} of {here.server}.",
        "Name its own place with -n, --context or --kubeconfig.",
    )


def collect(
    runs: Sequence[Run],
    context: RunContext,
    reporter: Reporter,
    stop: Stop,
    options: FollowOptions = NO_OPTIONS,
    *,
    follow: bool,
    gathering: GpuMetricsFetcher | None = None,
) -> CollectResult:
    """Close the runs whose jobs are over; with ``follow`` also wait for the others.

    Those that are to be cancelled are cancelled, and what is left of others is deleted. At the end
    it waits for GPU metrics. Asked to stop it returns early, with the runs that go on.
    """
    going_on = set[str]() if follow else _going_on(runs, context)
    gathering = gathering or GpuMetricsFetcher(context, reporter)
    result = CollectResult()
    until = Until.OVER if follow else Until.LOOKED_AT
    rules = Rules(keep=options.keep, wait=options.wait, until=until, passes_over=True)
    executor = Executor(context, reporter, rules, gathering)
    with contextlib.closing(executor):
        for run in runs:
            if not run.needs_collection:
                gathering.add(run)
                result.closed.append(run)
            elif run.run_id in going_on:
                result.going_on.append(run)
            elif not executor.take(run):
                result.followed.append(run)
        for outcome in executor.to_the_end(stop):
            result.take(outcome, reporter)
        result.going_on += executor.runs()
    result.closed = gathering.finish(result.closed, stop)
    return result


def _going_on(runs: Sequence[Run], context: RunContext) -> set[str]:
    """Return the ids of the runs whose jobs have not ended.

    A run whose job is gone is over, too.
    """
    asked = {run.run_id: run for run in runs if not (run.phase.final or run.wish("cancel"))}
    return {
        job.run_id
        for job in context.cluster.jobs(sorted(asked))
        if (run := asked.get(job.run_id)) is not None
        and job.ownership.is_ours
        and not job.phase.final
        and job.attempt >= run.attempt
        and job_requests.may_be_job_of(job, run)
    }


def cancel(run: Run, context: RunContext, reporter: Reporter, stop: Stop) -> Run | None:
    """Cancel a run that no other process follows, and close it.

    The wish is already recorded. Present logs are archived first: the pods are deleted with the
    job. Returns None if a stop request comes before that. Raises :class:`BenchError` if the cluster
    rejects the cancellation, or does not answer for long.
    """
    closed: list[Run] = []
    with contextlib.closing(Executor(context, reporter, Rules(only_cancels=True))) as executor:
        executor.take(run)
        give_up_at = context.monotonic() + limits.now.read_before_cancel + END_SECONDS
        with stop:
            while not closed and stop.cause is None:
                if context.monotonic() >= give_up_at:
                    waited = times.duration(limits.now.read_before_cancel + END_SECONDS)
                    raise Unreachable(f"The job of run {run.run_id} has not ended in {waited}.")
                outcomes = executor.step(LOOK_SECONDS)
                closed += [one.run for one in outcomes if one.how is OutcomeKind.CLOSED]
    return closed[0] if closed else None


# -- ownership of jobs: only the owner of a job changes it ---------------------------------------


def job_of(run_id: str, context: RunContext) -> FoundJob | None:
    """Return the job of a run; None if there is none.

    A job with another uid than the recorded one does not count.
    """
    job = job_requests.job_named(run_id, context)
    if job is None or run_id not in context.store.ids():
        return job
    return job if job_requests.may_be_job_of(job, context.store.run(run_id)) else None


def own_job(run_id: str, context: RunContext) -> FoundJob | None:
    """Return a job that this store may change, or None.

    Raises :class:`OwnedElsewhere` for one of another store.
    """
    job = job_of(run_id, context)
    if job is not None and not job.ownership.is_ours:
        raise OwnedElsewhere(run_id, job.ownership.holder)
    return job


def take_over(run_id: str, context: RunContext, agree: Agree, note: Note) -> None:
    """Make this store the owner of a job, if the user agrees.

    Raises :class:`UsageError` if the user does not, the operator owns the job, or the run is over
    for this store, and :class:`OwnedElsewhere` if another store was faster.
    """
    if run_id in context.store.ids() and (run := context.store.run(run_id)).phase.final:
        raise UsageError(
            f"Run {run_id} is {run.phase} for this store: {run.history[-1].cause}",
            "To collect its job all the same, take it over with another --store.",
        )
    job = job_of(run_id, context)
    if job is None or (job.ownership.is_ours and job.ownership.owner is not None):
        return
    holder = job.ownership.holder
    if job.ownership.is_operators:
        raise UsageError(
            f"The job of {run_id} is {holder}'s, which alone changes it.",
            f"End it with: k8sbench cancel {run_id}",
        )
    if job.ownership.owner is not None and not agree(
        f"{run_id} belongs to {holder}, which collects it. If this store takes it over, {holder}"
        " stops: it shows the run as taken over."
    ):
        raise UsageError(f"{run_id} was not taken over.")
    if not context.cluster.take_over(run_id, job.ownership):
        raise OwnedElsewhere(run_id, "another k8sbench")
    note(f"{run_id} belongs to this store now.")


def adopted(run_id: str, context: RunContext) -> Run:
    """Record a job of this store, claiming one without an owner.

    Raises :class:`BenchError`.
    """
    job = own_job(run_id, context)
    if job is None:
        raise NotFound(f"The cluster has no job of run {run_id} any more.")
    if job.ownership.owner is None and not context.cluster.take_over(run_id, job.ownership):
        raise OwnedElsewhere(run_id, "another k8sbench")
    return recorded(job, context)


def is_late(job: FoundJob, context: RunContext) -> bool:
    """Return True if the record says that the job was not created.

    It came late, or the record is an older backup.
    """
    run = context.store.run(job.run_id)
    is_without = creation.may_be_submitted_again(run) or creation.waits_for_turn(run)
    return is_without and job.attempt >= run.attempt and job_requests.may_be_job_of(job, run)


def record_ours(jobs: Sequence[FoundJob], context: RunContext, note: Note) -> None:
    """Record this store's unrecorded jobs.

    Also those of runs that are on record without one. A failure is noted, and other jobs are
    collected all the same.
    """
    known = set(context.store.ids())
    for job in jobs:
        if job.ownership.owner is None or not job.ownership.is_ours:
            continue
        try:
            if job.run_id not in known or is_late(job, context):
                _ = job.plan  # one that cannot be read is noted
                recorded(job, context)
        except UsageError as error:
            note(f"warning: left out: {error}")
        except BenchError as error:
            note(f"warning: {job.run_id} is left for now: {error}")
