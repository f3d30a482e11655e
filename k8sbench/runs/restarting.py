"""Another attempt of a run whose attempt has ended in a way that may be better next time.

That it is to come is recorded first. Then the job that ended is deleted, with its pods, and only
when nothing of it is left the next one is created: two attempts never write at once. A process may
be killed in between, or the API server may be away; whoever collects the run then does the same
again, and finds what was done already. Nothing is deleted before all logs of the attempt are
archived, and before it is known what is to be created.
"""

from __future__ import annotations

from k8sbench.diagnose.job.causes import may_be_better
from k8sbench.model import attempts, creation
from k8sbench.model.errors import (
    BenchError,
    CreationUnknown,
    EarlierAttempt,
    StoreError,
    Unreachable,
)
from k8sbench.model.phase import Transition
from k8sbench.model.run import Run
from k8sbench.runs import wishes
from k8sbench.runs.context import RunContext
from k8sbench.runs.open_run import OpenRun


def following_attempt(
    one: OpenRun, end: Transition, context: RunContext, *, keep: bool
) -> Transition:
    """Return what is to be recorded of an attempt that has ended: another one comes, or its end.

    With ``keep`` the job is to stay, so that none comes.
    """
    run = one.run
    if one.ends is not None:
        return end
    last = attempts.numbered(run, end)
    time_is_up_at = one.time_is_up_at()
    if keep or run.restarts >= run.plan.max_restarts or not may_be_better(end):
        return last
    # Another process of the store may have recorded that it is to be cancelled.
    is_unwanted = context.store.run(run.run_id).wish("cancel") is not None
    if is_unwanted or (time_is_up_at is not None and context.clock() >= time_is_up_at):
        return last
    try:
        context.manifests(run)
    except StoreError:
        raise
    except BenchError as wrong:
        return attempts.refused_now(run, last, wrong)
    return attempts.restarting(run.plan, run.attempt, end.cause, end.at)


def create(run: Run, context: RunContext) -> None:
    """Create the job of a run's next attempt when nothing of the one before is there any more.

    Raises as :meth:`~k8sbench.ports.Cluster.clear` and :meth:`~k8sbench.ports.Cluster.create` do.
    """
    from k8sbench.render.manifest import numbered

    context.cluster.clear(run.run_id, run.attempt)
    manifests = numbered(context.manifests(run), run.attempt)
    context.cluster.create(run.plan, manifests, context.store.folder(run.run_id))


def may_pass(wrong: BaseException) -> bool:
    """Whether to try again to create an attempt: it waits, or the cluster does not answer."""
    return isinstance(wrong, EarlierAttempt) or (
        isinstance(wrong, Unreachable) and not wishes.is_refused(wrong)
    )


def was_created(run: Run, wrong: BaseException) -> bool:
    """Whether the job was seen to run although the answer to its creation was lost."""
    return isinstance(wrong, CreationUnknown) and creation.is_known_created(run)


def found(run: Run, context: RunContext) -> bool:
    """Whether the job of the attempt that is to be created exists already."""
    jobs = context.cluster.jobs([run.run_id])
    return any(job.run_id == run.run_id and job.attempt >= run.attempt for job in jobs)
