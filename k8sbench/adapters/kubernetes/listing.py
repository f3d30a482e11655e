"""Finds k8sbench's jobs on the cluster, whoever submitted them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from k8sbench.adapters.kubernetes import kinds, ownership
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.ownership import User
from k8sbench.diagnose.job import state
from k8sbench.model.errors import UsageError
from k8sbench.model.identity import PLAN_ANNOTATION
from k8sbench.model.kinds import KINDS, kind_of
from k8sbench.model.kube import (
    MANAGED,
    RUN_LABEL,
    KubeObject,
    annotations_of,
    attempt_of,
    labels_of,
    moment,
    name_of,
)
from k8sbench.model.phase import Phase
from k8sbench.model.plan import SCHEMA, RunPlan
from k8sbench.ports import FoundJob

MOST_RUNS = 20
"""At most so many are named in a label selector; for more, all jobs are listed."""
# Made once, here: msgspec crashes where two threads are the first to use a type.
_PLANS = msgspec.json.Decoder(RunPlan)
_READ = ("name", "uid", "creationTimestamp", "labels", "annotations")
"""Of a job's metadata."""


def find(api: Api, run_id: str) -> tuple[str, KubeObject] | None:
    """Return the kind and the job of a run; None: there is none that bears the run's label."""
    return look_for(api, run_id)[0]


def look_for(api: Api, run_id: str) -> tuple[tuple[str, KubeObject] | None, str | None]:
    """Return the kind and the job of a run, or who has its name instead: a job without its label.

    Both are None where no job has the name.
    """
    unlabelled = None
    for kind in KINDS:
        try:
            job = api.find(kinds.path(kind, api.place.namespace, run_id))
        except ApiFault as fault:
            raise api.explained(fault, f"job {run_id} be read") from fault
        if job is not None and labels_of(job).get(RUN_LABEL) == run_id:
            return (kind, job), None
        if job is not None:
            unlabelled = _unlabelled(kind, run_id, api.place.namespace)
    return None, unlabelled


def _unlabelled(kind: str, run_id: str, namespace: str) -> str:
    label = f"{RUN_LABEL}={run_id}"
    command = f"kubectl -n {namespace} label {KINDS[kind].singular} {run_id} {label}"
    return (
        f"the {kind} {run_id} in namespace {namespace} does not have the label {label}; it may "
        f"be someone else's, and is not changed. If it is the run's, label it: '{command}'."
    )


def jobs(
    api: Api, run_ids: Collection[str] | None = None, *, user: User | None = None
) -> list[FoundJob]:
    """Return the jobs in the namespace, oldest first.

    With ``run_ids`` at least those of these runs; for none no request is sent. ``user`` is the
    store that asks.
    """
    if run_ids is not None and not run_ids:
        return []
    labels = MANAGED
    if run_ids is not None and len(run_ids) <= MOST_RUNS:
        labels = f"{RUN_LABEL} in ({','.join(sorted(run_ids))})"
    found: list[FoundJob] = []
    missing: list[ApiFault] = []
    for kind in KINDS:
        try:
            path = kinds.path(kind, api.place.namespace)
            items, _ = api.list(path, labels=labels, keep=_head)
        except ApiFault as fault:
            if fault.status != 404:
                raise api.explained(fault, f"the {kind}s be listed") from fault
            missing.append(fault)
            continue
        found += [_found_job(kind, job, api, user) for job in items]
    if len(missing) == len(KINDS):
        raise api.explained(missing[0], "the jobs be listed") from missing[0]
    return sorted(found, key=lambda job: job.created_at)


def _head(job: KubeObject) -> KubeObject:
    """Return of a job what its plan and its phase are read from."""
    metadata = {key: job["metadata"].get(key) for key in _READ}
    spec = {"runPolicy": (job.get("spec") or {}).get("runPolicy")}
    return {"metadata": metadata, "spec": spec, "status": job.get("status")}


def _found_job(kind: str, job: KubeObject, api: Api, user: User | None) -> FoundJob:
    plan, why = _plan(job)
    which = f"{kind} {name_of(job)} in namespace {api.place.namespace}"
    created_at = moment(job["metadata"].get("creationTimestamp")) or 0.0
    status, job_kind = job.get("status") or {}, KINDS[kind]
    phase = state.phase_alone(job, job_kind)
    return FoundJob(
        run_id=name_of(job),
        known_plan=plan,
        unreadable=f"The plan of {which} cannot be read: {why}." if why else "",
        # Never after the run's next state, which is by this clock.
        created_at=min(created_at, api.time()),
        attempt=attempt_of(job),
        uid=job["metadata"].get("uid"),
        phase=phase,
        ownership=ownership.of(job, user),
        began_at=_since(job_kind.condition(status, Phase.RUNNING, only_true=False)),
        ended_at=_since(job_kind.condition(status, phase)) if phase.final else None,
        seen_at=api.time(),
    )


def _since(condition: Mapping[str, Any] | None) -> float | None:
    return None if condition is None else moment(condition.get("lastTransitionTime"))


def _plan(job: KubeObject) -> tuple[RunPlan | None, str]:
    """Read the plan in a job's annotation; None, and why, where that is not possible."""
    text = annotations_of(job).get(PLAN_ANNOTATION)
    if text is None:
        return None, f"it has no annotation {PLAN_ANNOTATION}"
    try:
        plan = _PLANS.decode(text)
        kind_of(plan)
    except (msgspec.MsgspecError, UnicodeError) as wrong:
        return None, f"its annotation {PLAN_ANNOTATION} holds none ({str(wrong).rstrip('.')})"
    except UsageError as wrong:
        return None, wrong.message.rstrip(".")
    if plan.schema > SCHEMA:
        return None, f"a newer k8sbench wrote it (schema {plan.schema})"
    if not plan.run_id == name_of(job) == labels_of(job).get(RUN_LABEL):
        return None, f"its annotation {PLAN_ANNOTATION} is that of run {plan.run_id}"
    return plan, ""
