"""Creates a run's objects exactly once, also if other processes try or connections break.

The ConfigMap of the trainers comes first, so that no pod waits for it; then the job, which from
then on owns the ConfigMap, so that they are deleted together. The job bears the run's name: the
API server itself sees to it that there is one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.errors import BenchError, UsageError
from k8sbench.model.identity import PLAN_ANNOTATION
from k8sbench.model.kinds import KINDS
from k8sbench.model.kube import RUN_LABEL, KubeObject, annotations_of, labels_of
from k8sbench.model.plan import RunPlan

PATIENCE_SECONDS = 60.0
"""For how long creation is tried while the API server does not answer."""
# Made here, once: msgspec crashes where two threads are the first to use a type.
PLANS = msgspec.json.Decoder(RunPlan)


class Created(NamedTuple):
    """A job that is there now."""

    job: KubeObject
    joined: bool
    """Whether it was there before."""


def create(
    api: Api,
    plan: RunPlan,
    manifests: Sequence[Mapping[str, Any]],
    *,
    patience: float = PATIENCE_SECONDS,
) -> Created:
    """Create the job and what it mounts, or find them; raises :class:`BenchError`."""
    until = time.monotonic() + patience
    (job,) = (one for one in manifests if one["kind"] in KINDS)
    others = [one for one in manifests if one is not job]
    made: list[tuple[str, KubeObject]] = []
    unowned: list[str] = []
    owned: list[tuple[str, Mapping[str, Any], KubeObject]] = []
    for manifest in others:
        found, joined = _created(api, plan, manifest, until)
        metadata = found["metadata"]
        path = kinds.path(manifest["kind"], api.place.namespace, metadata["name"])
        if not joined:
            made.append((path, found))
        if not metadata.get("ownerReferences"):
            unowned.append(path)
        else:
            owned.append((path, manifest, found))
    try:
        found, joined = _created(api, plan, job, until)
    except BenchError as wrong:
        # Without an answer it may be there all the same.
        if not isinstance(wrong.__cause__, ApiFault) or wrong.__cause__.answered:
            _take_back(api, made)
        raise
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": found["metadata"]["name"],
        "uid": found["metadata"]["uid"],
    }
    for path, manifest, other in owned:
        if all(one["uid"] != owner["uid"] for one in other["metadata"]["ownerReferences"]):
            # Of an earlier job of the name: the cluster deletes it after that, at any moment.
            _take_back(api, [(path, other)])
            metadata = {**manifest["metadata"], "ownerReferences": [owner]}
            _created(api, plan, {**manifest, "metadata": metadata}, until)
    for path in unowned:
        try:
            api.patch(path, {"metadata": {"ownerReferences": [owner]}})
        except ApiFault as fault:
            raise api.explained(fault, f"{path} be changed") from fault
    return Created(found, joined)


def _created(
    api: Api, plan: RunPlan, manifest: Mapping[str, Any], until: float
) -> tuple[KubeObject, bool]:
    """Create one object, or find that it is ours already."""
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    doing = f"{kind} {name} be created"
    path = kinds.path(kind, api.place.namespace)
    asked = 0
    while True:
        asked += 1
        try:
            return api.create(path, manifest), False
        except ApiFault as fault:
            if fault.reason == "AlreadyExists":
                found = _existing(api, f"{path}/{name}", doing)
                if found is not None:
                    _check_ours(plan, kind, found)
                    # Asked again, it may be what we made ourselves, and the answer was lost.
                    return found, asked == 1
            elif not fault.passes:
                raise api.explained(fault, doing) from fault
            if time.monotonic() > until:
                raise api.explained(fault, doing) from fault
        # It may have been created although the answer was lost: asking again tells.
        api.pause(min(0.2 * 2.0**asked, 5.0))


def _existing(api: Api, path: str, doing: str) -> KubeObject | None:
    try:
        return api.get(path)
    except ApiFault as fault:
        if fault.status == 404:  # deleted in between
            return None
        raise api.explained(fault, doing) from fault


def _check_ours(plan: RunPlan, kind: str, found: KubeObject) -> None:
    metadata = found["metadata"]
    name = metadata["name"]
    if labels_of(found).get(RUN_LABEL) != plan.run_id:
        raise UsageError(
            f"There is a {kind} named {name} in namespace {metadata['namespace']} already, and it"
            " is not k8sbench's.",
            "Choose another --run-id, or another namespace with -n.",
        )
    if "deletionTimestamp" in metadata:
        raise UsageError(
            f"The {kind} {name} of an earlier run of this name is being deleted.",
            "Wait for its end, or choose another --run-id.",
        )
    if kind in KINDS:
        _check_same(plan, found)


def _check_same(plan: RunPlan, found: KubeObject) -> None:
    """Join a job only if it runs what was asked for."""
    text = annotations_of(found).get(PLAN_ANNOTATION, "")
    try:
        other = PLANS.decode(text)
    except msgspec.MsgspecError:
        raise UsageError(
            f"The job {plan.job_name} exists already, and its plan cannot be read.",
            "Choose another --run-id.",
        ) from None
    if other == plan:
        return
    differing = [
        field for field in plan.__struct_fields__ if getattr(plan, field) != getattr(other, field)
    ]
    raise UsageError(
        f"The job {plan.job_name} exists already and runs another plan"
        f" (other: {', '.join(differing)}).",
        "Choose another --run-id, or ask for what it runs.",
    )


def _take_back(api: Api, made: Sequence[tuple[str, KubeObject]]) -> None:
    """Delete what was created for a job that is not to be."""
    for path, found in made:
        try:
            api.delete(path, uid=found["metadata"]["uid"], patience=5.0)
        except ApiFault:
            # The refusal of the job is what the user must read; this object bears its labels.
            continue
