"""Single requests to a cluster for a run.

A wish is recorded before its request is sent: the answer may be lost, or the process killed.
Whoever resumes the run then sends the request again, and finds what was done already.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from k8sbench.lifecycle.context import RunContext
from k8sbench.model import attempts, creation
from k8sbench.model.errors import BenchError, CreationUnknown, StoreError
from k8sbench.model.identity import NONCE_ANNOTATION, OWNER_ANNOTATION, TURN_ANNOTATION
from k8sbench.model.kinds import kind_of, with_metadata
from k8sbench.model.ownership import COLLECTOR, JobOwner, Turn
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run, Wish
from k8sbench.ports import FoundJob, Manifest

BY_NAME = "deleted-by-name"
"""Cause id of a user's deletion, which also deletes a kept job."""
NO_ANSWER = frozenset({"api-unreachable", "api-not-trusted", "unauthorized"})
"""Cause ids of errors of a cluster that answers no request at all."""
READ_SECONDS = 60.0
"""Longest wait for a job's present logs before its cancellation.

Later lines are read until the job ends.
"""


# -- creating -------------------------------------------------------------------------------------


def create(run: Run, manifests: Sequence[Manifest], context: RunContext) -> str | None:
    """Create the job of a run's current attempt; returns its uid.

    ``manifests`` are used for the first attempt; later ones are rendered again. A later attempt is
    created only after every object of the earlier one is gone: two attempts never write at once.
    Nothing is deleted before the new manifests are rendered. Raises as
    :meth:`~k8sbench.ports.Cluster.clear` and :meth:`~k8sbench.ports.Cluster.create` do.
    """
    if run.restarts:
        from k8sbench.render.manifest import numbered

        manifests = numbered(context.manifests(run), run.attempt)
        context.cluster.clear(run)
    if context.for_collector and (not run.restarts or attempts.is_continued(run)):
        *others, job = manifests  # an owner itself makes the attempts that follow
        owner = msgspec.json.encode(JobOwner(store=COLLECTOR, host="")).decode()
        manifests = [*others, with_metadata(job, {"annotations": {OWNER_ANNOTATION: owner}})]
    if context.cluster.jobs_outlive_us:
        manifests = _identified(run, manifests, context.deadline_s)
    return context.cluster.create(run.plan, manifests, context.store.folder(run.run_id))


def _identified(
    run: Run, manifests: Sequence[Manifest], deadline_s: float | None
) -> Sequence[Manifest]:
    """Add the run's nonce and the cluster's own deadline to the job."""
    *others, job = manifests
    spec = job["spec"]
    mark, kind = {"annotations": {NONCE_ANNOTATION: run.nonce}}, kind_of(run.plan)
    if kind.runtime is not None:
        spec = kind.marked(spec, mark)  # its pods name no owner that is known
        runtime = kind.runtime_name(run.plan.job_name, run.nonce)
        others[-1] = {**others[-1], "metadata": {**others[-1]["metadata"], "name": runtime}}
        spec["runtimeRef"] = {**spec["runtimeRef"], "name": runtime}
    if deadline_s is not None and run.plan.timeout_s is not None:
        seconds = math.ceil(run.plan.timeout_s + deadline_s)
        spec = _with_policy(run.plan, spec, activeDeadlineSeconds=seconds)
    return [*others, {**with_metadata(job, mark), "spec": spec}]


def held(plan: RunPlan, manifests: Sequence[Manifest], turn: Turn) -> Sequence[Manifest]:
    """Suspend a job until its owner starts it in its turn."""
    *others, job = manifests
    mark = {"annotations": {TURN_ANNOTATION: msgspec.json.encode(turn).decode()}}
    spec = _with_policy(plan, job["spec"], suspend=True)
    return [*others, {**with_metadata(job, mark), "spec": spec}]


def _with_policy(plan: RunPlan, spec: Mapping[str, Any], **settings: object) -> dict[str, Any]:
    """Return a job's spec with more settings of its run policy."""
    made = dict(spec)
    for name, value in kind_of(plan).policy(**settings).items():
        made[name] = {**made.get(name, {}), **value} if isinstance(value, dict) else value
    return made


def job_named(run_id: str, context: RunContext) -> FoundJob | None:
    """Return the job that has a run's name; None: the cluster has none."""
    # The list may hold jobs of other runs, too.
    jobs = context.cluster.jobs([run_id])
    return next((job for job in jobs if job.run_id == run_id), None)


def is_of(job: FoundJob, run: Run) -> bool:
    """Return True if the job's uid matches the recorded one."""
    return run.job_uid_of(job.attempt) in {None, job.uid} or job.attempt > run.attempt


def collected(run: Run, context: RunContext) -> tuple[Run | None, FoundJob | None]:
    """Return the collector's record of a run, and the existing job."""
    job = job_named(run.run_id, context)
    ask = context.collected_elsewhere
    return ask and ask(run, context.store.folder(run.run_id)), job


def unless_on_its_way(run: Run, error: BaseException, now: float) -> BaseException:
    """Return ``error``, or CreationUnknown while an earlier request may still succeed.

    The earlier request's answer was lost: that another one is rejected says nothing about it.
    """
    is_unsure = run.history[-1].cause_id == creation.CREATION_UNKNOWN
    if isinstance(error, CreationUnknown) or not (is_unsure and creation.settles_in(run, now)):
        return error
    return creation.unknown_error(
        run.run_id, f"an earlier request may still be on its way, and another one fails: {error}"
    )


def refusal(run_id: str, error: BaseException, at: float, *, survives: bool) -> Transition:
    """Build the transition of a run whose first creation failed.

    The job may exist all the same if the answer was lost.
    """
    if survives:
        return creation.failed(run_id, error, at)
    error = error if isinstance(error, BenchError) else BenchError(type(error).__name__)
    return Transition(
        phase=Phase.FAILED,
        at=at,
        cause=f"k8sbench could not go on: {error.message}",
        cause_id="k8sbench-failed",
        action=error.action or None,
    )


# -- deleting -------------------------------------------------------------------------------------


def left_over(at: float) -> Wish:
    """Return the wish to delete the job of a run that has ended."""
    return Wish(kind="delete", at=at, cause="The run has ended.")


def by_name(at: float) -> Wish:
    """Return the wish of a user to delete a job."""
    return Wish(kind="delete", at=at, cause="Deleted by k8sbench delete.", cause_id=BY_NAME)


def is_by_name(run: Run) -> bool:
    """Return True if a user has requested the deletion of the job."""
    wish = run.wish("delete")
    return wish is not None and wish.cause_id == BY_NAME


def delete(context: RunContext, run_id: str) -> tuple[Run, str | None]:
    """Delete the rest of a run's job, and remove the wish.

    Returns the run, and why its job stays or what its deletion waits for, else None.
    """
    run = context.store.run(run_id)
    uid, is_there, why = run.job_uid, True, None
    if uid is None and run.restarts:
        # The job of an earlier attempt, or one that somebody has created in its place, or may now.
        job = job_named(run_id, context)
        uid, is_there = (None, False) if job is None else (job.uid, is_of(job, run))
    if is_there:
        why = context.cluster.remove(run_id, uid=uid, force=is_by_name(run))
    if run.wish("delete") is not None:
        # What is deleted and still counts as owed is deleted again, which does no harm.
        with contextlib.suppress(StoreError):
            run = context.store.fulfilled(run_id, "delete")
    return run, why
