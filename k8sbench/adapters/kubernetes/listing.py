"""Which jobs of k8sbench's are there, whoever submitted them: as their own annotations say."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from k8sbench.adapters.kubernetes import creating, kinds
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault, Object
from k8sbench.adapters.kubernetes.watching.scope import Scope
from k8sbench.adapters.kubernetes.watching.trimming import RUN_LABEL
from k8sbench.diagnose.job import facts
from k8sbench.diagnose.job.state import CANCEL_ANNOTATION
from k8sbench.model.errors import UsageError
from k8sbench.model.identity import PLAN_ANNOTATION
from k8sbench.model.kinds import KINDS, kind_of
from k8sbench.model.phase import Phase
from k8sbench.ports import FoundJob

MOST_RUNS = 20
"""That are asked for by name; of more, all jobs are."""


def jobs(api: Api, run_ids: Collection[str] | None = None) -> list[FoundJob]:
    """Return the jobs in the namespace, oldest first; one whose plan cannot be read is left out.

    With ``run_ids`` at least those of these runs; of none nothing is asked.
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


def _head(job: Object) -> Object:
    """Keep of a job what a list of jobs shows."""
    metadata = job["metadata"]
    return {
        "created": metadata.get("creationTimestamp"),
        "annotations": metadata.get("annotations") or {},
        "suspended": bool(((job.get("spec") or {}).get("runPolicy") or {}).get("suspend")),
        "conditions": {
            one["type"]
            for one in (job.get("status") or {}).get("conditions") or ()
            if one.get("status") == "True"
        },
    }


def _found_job(head: Object) -> FoundJob | None:
    text = head["annotations"].get(PLAN_ANNOTATION, "")
    try:
        plan = creating.PLANS.decode(text)
        kind = kind_of(plan)
    except (msgspec.MsgspecError, UsageError):
        return None
    phase = kind.phase(head["conditions"])
    if phase is None or not phase.final:
        if CANCEL_ANNOTATION in head["annotations"]:
            phase = Phase.CANCELLED
        elif head["suspended"]:
            phase = Phase.QUEUED
    waiting = {None, Phase.CREATED}
    return FoundJob(
        plan=plan,
        created_at=facts.moment(head["created"]) or 0.0,
        # The operator has taken note of the job where it has any condition.
        phase=Phase.PENDING if head["conditions"] and phase in waiting else phase or Phase.CREATED,
    )
