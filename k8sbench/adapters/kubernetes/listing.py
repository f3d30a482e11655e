"""Finds k8sbench's jobs on the cluster, whoever submitted them."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from k8sbench.adapters.kubernetes import creating, kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.watching.scope import Scope
from k8sbench.diagnose.job import state
from k8sbench.model.errors import UsageError
from k8sbench.model.identity import PLAN_ANNOTATION
from k8sbench.model.kinds import KINDS, kind_of
from k8sbench.model.kube import RUN_LABEL, KubeObject, annotations_of, labels_of, moment
from k8sbench.ports import FoundJob

MOST_RUNS = 20
"""At most so many are named in a label selector; for more, all jobs are listed."""


def find(api: Api, run_id: str) -> tuple[str, KubeObject] | None:
    """Return the kind and the job of a run; None: there is none that bears the run's label."""
    for kind in KINDS:
        try:
            job = api.find(kinds.path(kind, api.place.namespace, run_id))
        except ApiFault as fault:
            raise api.explained(fault, f"job {run_id} be read") from fault
        if job is not None and labels_of(job).get(RUN_LABEL) == run_id:
            return kind, job
    return None


def jobs(api: Api, run_ids: Collection[str] | None = None) -> list[FoundJob]:
    """Return the jobs in the namespace, oldest first; one whose plan cannot be read is left out.

    With ``run_ids`` at least those of these runs; for none no request is sent.
    """
    if run_ids is not None and not run_ids:
        return []
    labels = Scope().labels
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
        found += filter(None, map(_found_job, items))
    if len(missing) == len(KINDS):
        raise api.explained(missing[0], "the jobs be listed") from missing[0]
    return sorted(found, key=lambda job: job.created_at)


def _head(job: KubeObject) -> KubeObject:
    """Return of a job what its plan and its phase are read from."""
    metadata = {key: job["metadata"].get(key) for key in ("creationTimestamp", "annotations")}
    spec = {"runPolicy": (job.get("spec") or {}).get("runPolicy")}
    return {"metadata": metadata, "spec": spec, "status": job.get("status")}


def _found_job(job: KubeObject) -> FoundJob | None:
    try:
        plan = creating.PLANS.decode(annotations_of(job).get(PLAN_ANNOTATION, ""))
        kind = kind_of(plan)
    except (msgspec.MsgspecError, UsageError):
        return None
    created_at = moment(job["metadata"].get("creationTimestamp")) or 0.0
    return FoundJob(plan=plan, created_at=created_at, phase=state.phase_alone(job, kind))
