"""Creates a run's objects exactly once, also if other processes try or connections break.

The ConfigMap of the trainers comes first, so that no pod waits for it; then the job, which from
then on owns the ConfigMap, so that they are deleted together. The job has the run's name, so the
API server guarantees that there is only one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.errors import BenchError, UsageError
from k8sbench.model.identity import PLAN_ANNOTATION
from k8sbench.model.kinds import KINDS
from k8sbench.model.kube import RUN_LABEL, KubeObject, annotations_of, labels_of
from k8sbench.model.plan import RunPlan

RETRY_SECONDS = 60.0
"""How long a creation is repeated while the API server does not answer."""
# Made once, here: msgspec crashes where two threads are the first to use a type.
PLANS = msgspec.json.Decoder(RunPlan)
_Object = tuple[KubeObject, bool]
"""An object that exists now, and whether it existed before."""


def create(api: Api, plan: RunPlan, manifests: Sequence[Mapping[str, Any]]) -> _Object:
    """Create the job and what it mounts, or find them; raises :class:`BenchError`."""
    until = time.monotonic() + RETRY_SECONDS
    *others, job = manifests
    found = [_create(api, plan, one, until) for one in others]
    try:
        created, existed = _create(api, plan, job, until)
    except BenchError as error:
        # Without an answer the job may have been created all the same.
        if not isinstance(error.__cause__, ApiFault) or error.__cause__.status is not None:
            for manifest, (other, other_existed) in zip(others, found, strict=True):
                if not other_existed:
                    _delete(api, manifest, other)
        raise
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": created["metadata"]["name"],
        "uid": created["metadata"]["uid"],
    }
    for manifest, (other, _) in zip(others, found, strict=True):
        _set_owner(api, plan, manifest, other, owner, until)
    return created, existed


def _set_owner(
    api: Api,
    plan: RunPlan,
    manifest: Mapping[str, Any],
    found: KubeObject,
    owner: Mapping[str, str],
    until: float,
) -> None:
    owners = found["metadata"].get("ownerReferences") or ()
    if any(one["uid"] == owner["uid"] for one in owners):
        return
    metadata = {"ownerReferences": [owner]}
    if owners:
        # It belongs to an earlier job of the name, and the cluster may delete it at any moment.
        _delete(api, manifest, found)
        _create(api, plan, {**manifest, "metadata": {**manifest["metadata"], **metadata}}, until)
        return
    path = _path(api, manifest)
    try:
        api.patch(path, {"metadata": metadata})
    except ApiFault as fault:
        raise api.explained(fault, f"{path} be changed") from fault


def _create(api: Api, plan: RunPlan, manifest: Mapping[str, Any], until: float) -> _Object:
    """Create one object, or find that it is ours already."""
    kind = manifest["kind"]
    doing = f"{kind} {manifest['metadata']['name']} be created"
    attempts = 0
    while True:
        attempts += 1
        try:
            return api.create(kinds.path(kind, api.place.namespace), manifest), False
        except ApiFault as fault:
            if fault.reason == "AlreadyExists":
                found = _existing(api, manifest, doing)
                if found is not None:
                    _check_ours(plan, kind, found)
                    # After a retry it may be ours, created by a request whose answer was lost.
                    return found, attempts == 1
            elif not fault.passes:
                raise api.explained(fault, doing) from fault
            if time.monotonic() > until:
                raise api.explained(fault, doing) from fault
        api.pause(min(0.2 * 2.0**attempts, 5.0))


def _existing(api: Api, manifest: Mapping[str, Any], doing: str) -> KubeObject | None:
    try:
        return api.find(_path(api, manifest))
    except ApiFault as fault:
        raise api.explained(fault, doing) from fault


def _check_ours(plan: RunPlan, kind: str, found: KubeObject) -> None:
    """Reject an object of someone else's, one that is being deleted, and a job of another plan."""
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
    if kind not in KINDS:
        return
    try:
        other = PLANS.decode(annotations_of(found).get(PLAN_ANNOTATION, ""))
    except msgspec.MsgspecError:
        raise UsageError(
            f"The job {name} exists already, and its plan cannot be read.",
            "Choose another --run-id.",
        ) from None
    differing = [
        field for field in plan.__struct_fields__ if getattr(plan, field) != getattr(other, field)
    ]
    if differing:
        raise UsageError(
            f"The job {name} exists already and runs another plan (other: {', '.join(differing)}).",
            "Choose another --run-id, or ask for what it runs.",
        )


def _path(api: Api, manifest: Mapping[str, Any]) -> str:
    return kinds.path(manifest["kind"], api.place.namespace, manifest["metadata"]["name"])


def _delete(api: Api, manifest: Mapping[str, Any], found: KubeObject) -> None:
    """Delete an object that no job uses; a refusal is ignored: the user must read the job's."""
    try:
        api.delete(_path(api, manifest), uid=found["metadata"]["uid"], retry_s=5.0)
    except ApiFault:
        return
