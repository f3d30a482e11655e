"""How a store comes to act on a job: it owns it, its owner does what it is asked, or it adopts it.

Asking needs no ownership. An owner that follows the job does what it is asked within
:data:`~k8sbench.model.ownership.ANSWER_SECONDS`; after that the one who asks adopts the job. Of
several that try, one succeeds: the change is a compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from k8sbench.lifecycle import collecting, requests
from k8sbench.lifecycle.context import RunContext, Stop
from k8sbench.model import ownership, times
from k8sbench.model.errors import BenchError, Interrupted, NotFound, OwnedElsewhere, UsageError
from k8sbench.model.run import Run, Wish
from k8sbench.ports import FoundJob

LOOK_SECONDS = 1.0
"""Between two looks at whether the owner of a job has done what it was asked."""
Note = Callable[[str], None]


def is_left_to_us(run_id: str, context: RunContext, wish: Wish, stop: Stop, note: Note) -> bool:
    """Whether this store is to do what it wishes for a job; False: the job's owner has done it.

    Raises :class:`OwnedElsewhere` where the owner keeps a job that is to be adopted, and
    :class:`Interrupted` where it was asked to stop; what was asked stays on the job.
    """
    job = job_of(run_id, context)
    if job is None or job.ownership.is_ours:
        return True
    seconds, holder = ownership.ANSWER_SECONDS, job.ownership.holder
    if why_left(job) is None:
        note(f"{run_id} is {holder}'s, which is asked; for {times.duration(seconds)} at most.")
        context.cluster.ask(run_id, wish)
        until = context.clock() + seconds
        while context.clock() < until:
            if stop.cause is not None:
                raise Interrupted(f"{stop.cause}: {run_id} is still {holder}'s.", "Try it again.")
            context.pool.wait(LOOK_SECONDS)
            job = job_of(run_id, context)
            if job is None or job.ownership.is_ours:
                return job is not None or wish.kind == "adopt"
            if wish.kind == "adopt" and job.ownership.wish != wish:
                raise OwnedElsewhere(run_id, holder, "follows it")
            if wish.kind == "cancel" and job.phase.final:
                return False
    if not context.cluster.adopt(run_id, job.ownership):
        raise OwnedElsewhere(run_id, "another k8sbench", "has just adopted it")
    note(f"{run_id} was {holder}'s, and is adopted.")
    return True


def recorded(run_id: str, context: RunContext) -> Run:
    """Record a job of the cluster that this store owns; raises :class:`BenchError`."""
    job = job_of(run_id, context)
    if job is None:
        raise NotFound(f"The cluster has no job of run {run_id} any more.")
    if not job.ownership.is_ours:
        raise OwnedElsewhere(run_id, job.ownership.holder)
    if job.ownership.owner is None:
        context.cluster.adopt(run_id, job.ownership)
    return collecting.recorded(job, context)


def job_of(run_id: str, context: RunContext) -> FoundJob | None:
    """Return the job of a run; None where there is none, or not the one that is on record."""
    job = requests.job_named(run_id, context)
    if job is None or run_id not in context.store.ids():
        return job
    return job if requests.is_of(job, context.store.run(run_id)) else None


def why_left(job: FoundJob) -> str | None:
    """Say why a job of another store is nobody's any more; None: its owner has it."""
    return ownership.why_left(
        job.ownership,
        job.seen_at,
        ended_at=job.ended_at,
        began_at=job.began_at,
        timeout_s=None if job.known_plan is None else job.known_plan.timeout_s,
    )


def take_what_is_left(
    jobs: Sequence[FoundJob], context: RunContext, note: Note, *, adopts: bool
) -> None:
    """Record the jobs of this store that it has no record of; with ``adopts`` also those left.

    Those whose receipts have been there for long are deleted. What cannot be done is noted, and
    does not keep the others from collection.
    """
    known = set(context.store.ids())
    for job in jobs:
        run_id, whose = job.run_id, job.ownership
        is_own = whose.is_ours and whose.owner is not None
        try:
            if is_own and ownership.has_expired(whose.receipt, job.seen_at):
                context.cluster.remove(run_id, uid=job.uid, force=True)
                note(f"{run_id} is deleted from the cluster: its receipt was there for long.")
            elif run_id not in known:
                _ = job.plan  # one that cannot be read is named
                is_ours = is_own or (adopts and _is_adopted(job, context, note))
                if is_ours and whose.receipt is None:
                    collecting.recorded(job, context)
            elif adopts and not is_own:
                run = context.store.run(run_id)
                if not requests.is_of(job, run):
                    why = f"not the run's job (uid {job.uid})"
                    note(f"{run_id} on the cluster is {why}: it is left alone.")
                elif not _is_adopted(job, context, note):
                    continue
                elif collecting.is_continued(run, job):
                    collecting.recorded(job, context)
                elif not collecting.needs_collection(run):
                    context.store.wish(run_id, requests.left_over(context.clock()))
        except UsageError as error:
            note(f"warning: left out: {error}")
        except BenchError as error:
            note(f"warning: {run_id} is left for now: {error}")


def _is_adopted(job: FoundJob, context: RunContext, note: Note) -> bool:
    """Adopt a job that its owner has left; False: it has not, or another store was faster."""
    why = why_left(job)
    if why is None or not context.cluster.adopt(job.run_id, job.ownership):
        return False
    note(f"{job.run_id} is adopted: {why}.")
    return True
