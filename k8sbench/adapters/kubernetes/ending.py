"""Takes jobs off the cluster: cancels them, with the cause for whoever watches, and deletes them.

Only what is ours: what bears the run's label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import PATIENCE_SECONDS, Api, ApiFault, Object
from k8sbench.adapters.kubernetes.watching.trimming import RUN_LABEL
from k8sbench.diagnose.job.state import CANCEL_ANNOTATION, kept_by
from k8sbench.model.kinds import KINDS


def mark(
    api: Api,
    kind: str,
    name: str,
    uid: str,
    wish: Mapping[str, Any],
    *,
    suspend: bool,
    patience: float = PATIENCE_SECONDS,
) -> Object | None:
    """Annotate a job with why it ends, and hold it with ``suspend``; None: it is gone."""
    text = msgspec.json.encode(wish).decode()
    # The uid makes the API server refuse where another job has the name by now.
    change: Object = {"metadata": {"uid": uid, "annotations": {CANCEL_ANNOTATION: text}}}
    if suspend:
        change["spec"] = {"runPolicy": {"suspend": True}}
    return _changed(api, kind, name, change, patience)


def unmark(api: Api, kind: str, name: str, uid: str, *, patience: float) -> Object | None:
    """Take back what :func:`mark` has said of a job that may not be deleted; None: it is gone."""
    change: Object = {"metadata": {"uid": uid, "annotations": {CANCEL_ANNOTATION: None}}}
    return _changed(api, kind, name, change, patience)


def _changed(api: Api, kind: str, name: str, change: Object, patience: float) -> Object | None:
    try:
        return api.patch(kinds.path(kind, api.place.namespace, name), change, patience=patience)
    except ApiFault as fault:
        if fault.status in {404, 409}:
            return None
        raise


def find(api: Api, run_id: str) -> Iterator[tuple[str, Object]]:
    """Find the job of a run, whatever its kind, if it is ours."""
    for kind in KINDS:
        try:
            job = api.get(kinds.path(kind, api.place.namespace, run_id))
        except ApiFault as fault:
            if fault.status == 404:
                continue
            raise api.explained(fault, f"job {run_id} be read") from fault
        if (job["metadata"].get("labels") or {}).get(RUN_LABEL) == run_id:
            yield kind, job


def remove(
    api: Api,
    run_id: str,
    *,
    unless: Callable[[str, Object], str | None] = lambda _kind, _job: None,
    owns: bool = False,
) -> str | None:
    """Delete a run's job, and with it its pods and its ConfigMap; idempotent.

    ``unless`` may say of the job, by its kind, why it must stay. Returns that, or what its
    deletion waits for; else None. Unless the job ``owns`` its ConfigMap that is looked for: whoever
    created them may have been killed between.
    """
    try:
        for kind, job in find(api, run_id):
            if (why := unless(kind, job)) is not None:
                return why
            path = kinds.path(kind, api.place.namespace, run_id)
            left = api.delete(path, uid=job["metadata"]["uid"])
            if left is not None and ((kept := kept_by(left)) is not None or owns):
                return kept
            break
        _remove_orphan(api, kinds.path("ConfigMap", api.place.namespace, run_id), run_id)
    except ApiFault as fault:
        raise api.explained(fault, f"job {run_id} be deleted") from fault
    return None


def _remove_orphan(api: Api, path: str, run_id: str) -> None:
    """Delete a ConfigMap that no job owns; one that has an owner goes with that."""
    try:
        found = api.get(path)["metadata"]
    except ApiFault as fault:
        if fault.status == 404:
            return
        raise
    is_ours = (found.get("labels") or {}).get(RUN_LABEL) == run_id
    if is_ours and not found.get("ownerReferences"):
        api.delete(path, uid=found["uid"])
