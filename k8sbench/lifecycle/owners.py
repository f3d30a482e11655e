"""Ownership of jobs: requests to owners, take-overs and own jobs.

Only the owner of a job changes it. Others put a request on the job; an owner that follows the job
handles the request within :data:`~k8sbench.model.ownership.ANSWER_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from k8sbench.lifecycle import collecting, requests
from k8sbench.lifecycle.context import Agree, RunContext, Stop
from k8sbench.model import times
from k8sbench.model.errors import BenchError, Interrupted, NotFound, OwnedElsewhere, UsageError
from k8sbench.model.ownership import ANSWER_SECONDS
from k8sbench.model.run import Run, Wish, left_over
from k8sbench.ports import FoundJob

LOOK_SECONDS = 1.0
"""Interval between checks for an owner's answer."""
Note = Callable[[str], None]


def job_of(run_id: str, context: RunContext) -> FoundJob | None:
    """Return the job of a run; None if there is none.

    A job with another uid than the recorded one does not count.
    """
    job = requests.job_named(run_id, context)
    if job is None or run_id not in context.store.ids():
        return job
    return job if requests.is_of(job, context.store.run(run_id)) else None


def ask(run_id: str, context: RunContext, wish: Wish, stop: Stop, note: Note) -> bool:
    """Request an action from a job's owner; True if this store acts.

    False: the owner has handled the request. Raises :class:`OwnedElsewhere` if the owner does not
    answer, and :class:`Interrupted`; in both cases the request stays on the job. Raises
    :class:`Unreachable` if the collector may be about to create the job again.
    """
    job = job_of(run_id, context)
    if job is None and wish.kind == "cancel" and run_id in context.store.ids():
        # Unreachable if the collector may be about to create another attempt.
        context.collectors_record(context.store.run(run_id))
    if job is None or job.ownership.is_ours:
        return True
    holder, limit = job.ownership.holder, times.duration(ANSWER_SECONDS)
    note(f"{run_id} belongs to {holder}, which is asked; it has {limit} to answer.")
    context.cluster.ask(run_id, wish)
    until = context.clock() + ANSWER_SECONDS
    while context.clock() < until:
        if stop.cause is not None:
            raise Interrupted(f"{stop.cause}: {holder} is asked, and may still act.")
        context.pool.wait(LOOK_SECONDS)
        job = job_of(run_id, context)
        if job is None or job.ownership.is_ours:
            return job is not None
        if job.ownership.wish != wish or (wish.kind == "cancel" and job.phase.final):
            return False
    raise OwnedElsewhere(run_id, holder, f"has not answered in {limit}; the request stays on it")


def take_over(run_id: str, context: RunContext, agree: Agree, note: Note) -> None:
    """Make this store the owner of a job, if the user agrees.

    Raises :class:`UsageError` if the user does not, or the run is over for this store, and
    :class:`OwnedElsewhere` if another store was faster.
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
    if job.ownership.owner is not None and not agree(
        f"{run_id} belongs to {holder}, which collects it. If this store takes it over, {holder}"
        " stops: it shows the run as collected elsewhere."
    ):
        raise UsageError(f"{run_id} was not taken over.")
    if not context.cluster.take_over(run_id, job.ownership):
        raise OwnedElsewhere(run_id, "another k8sbench", "has just taken it over")
    note(f"{run_id} belongs to this store now.")
    if run_id in context.store.ids() and context.store.run(run_id).phase.final:
        # Another process of this store has recorded what the former owner had.
        context.store.wish(run_id, left_over(context.clock()))


def recorded(run_id: str, context: RunContext) -> Run:
    """Record a job of this store, claiming one without an owner.

    Raises :class:`BenchError`.
    """
    job = job_of(run_id, context)
    if job is None:
        raise NotFound(f"The cluster has no job of run {run_id} any more.")
    if not _is_claimed(job, context):
        raise OwnedElsewhere(run_id, job.ownership.holder)
    return collecting.recorded(job, context)


def record_ours(
    jobs: Sequence[FoundJob], context: RunContext, note: Note, *, claims: bool = False
) -> None:
    """Record this store's unrecorded jobs, and the requests on its jobs.

    With ``claims``, jobs without an owner become this store's. A failure is noted and does not stop
    the collection of other jobs.
    """
    known = set(context.store.ids())
    for job in jobs:
        run_id, owner = job.run_id, job.ownership.owner
        if not job.ownership.is_ours or (owner is None and not claims):
            continue
        try:
            if run_id in known:
                _record_request(job, context)
            else:
                _ = job.plan  # one that cannot be read is noted
                if _is_claimed(job, context):
                    collecting.recorded(job, context)
        except UsageError as error:
            note(f"warning: left out: {error}")
        except BenchError as error:
            note(f"warning: {run_id} is left for now: {error}")


def _record_request(job: FoundJob, context: RunContext) -> None:
    """Record a job's continuation, or a request on a finished run's job."""
    run, wish = context.store.run(job.run_id), job.ownership.wish
    if not requests.is_of(job, run):
        return
    if collecting.is_continued(run, job):
        collecting.recorded(job, context)
    elif wish is not None and run.phase.final:  # of one that goes on its watch tells
        context.store.wish(job.run_id, wish)
        context.cluster.answer(job.run_id)


def _is_claimed(job: FoundJob, context: RunContext) -> bool:
    """Claim a job if it has no owner; False if it is another store's."""
    if job.ownership.owner is not None:
        return job.ownership.is_ours
    return context.cluster.take_over(job.run_id, job.ownership)


def admit(jobs: Sequence[FoundJob], context: RunContext, note: Note) -> None:
    """Start this store's suspended jobs when their turn comes.

    Each set has a limit of concurrent jobs.
    """
    ours = [job for job in jobs if job.ownership.is_ours and not job.phase.final]
    ours = [job for job in ours if job.known_plan is not None]
    for name in sorted({job.plan.set_name for job in ours if job.turn is not None}):
        members = [job for job in ours if job.plan.set_name == name]
        active = sum(job.turn is None for job in members)
        waiting = [(job.created_at, job.turn.number, job) for job in members if job.turn]
        for _, _, job in sorted(waiting, key=lambda one: one[:2]):
            assert job.turn is not None
            if active < job.turn.parallel:
                active += 1
                try:
                    context.cluster.admit(job.run_id)
                except BenchError as error:
                    note(f"warning: {job.run_id} is not started for now: {error}")
