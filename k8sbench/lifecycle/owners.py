"""Ownership of jobs: own jobs and take-overs.

Only the owner of a job changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from k8sbench.lifecycle import collecting, requests
from k8sbench.lifecycle.context import Agree, RunContext
from k8sbench.model import creation
from k8sbench.model.errors import BenchError, NotFound, OwnedElsewhere, UsageError
from k8sbench.model.run import Run
from k8sbench.ports import FoundJob

Note = Callable[[str], None]


def job_of(run_id: str, context: RunContext) -> FoundJob | None:
    """Return the job of a run; None if there is none.

    A job with another uid than the recorded one does not count.
    """
    job = requests.job_named(run_id, context)
    if job is None or run_id not in context.store.ids():
        return job
    return job if requests.is_of(job, context.store.run(run_id)) else None


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


def recorded(run_id: str, context: RunContext) -> Run:
    """Record a job of this store, claiming one without an owner.

    Raises :class:`BenchError`.
    """
    job = own_job(run_id, context)
    if job is None:
        raise NotFound(f"The cluster has no job of run {run_id} any more.")
    if job.ownership.owner is None and not context.cluster.take_over(run_id, job.ownership):
        raise OwnedElsewhere(run_id, "another k8sbench")
    return collecting.recorded(job, context)


def is_late(job: FoundJob, context: RunContext) -> bool:
    """Return True if the record says that the job was not created.

    It came late, or the record is an older backup.
    """
    run = context.store.run(job.run_id)
    is_without = creation.may_be_submitted_again(run) or creation.waits_for_turn(run)
    return is_without and job.attempt >= run.attempt and requests.is_of(job, run)


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
                collecting.recorded(job, context)
        except UsageError as error:
            note(f"warning: left out: {error}")
        except BenchError as error:
            note(f"warning: {job.run_id} is left for now: {error}")
