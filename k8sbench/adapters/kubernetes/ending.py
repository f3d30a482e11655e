"""Ends jobs: cancels them, with the cause in an annotation, and deletes them.

Only what is ours: what bears the run's label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import PATIENCE_SECONDS, Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.diagnose.job.state import CANCEL_ANNOTATION, kept_by
from k8sbench.model.kinds import KINDS
from k8sbench.model.kube import RUN_LABEL, KubeObject, labels_of


def cancel(
    api: Api,
    kind: str,
    name: str,
    uid: str,
    wish: Mapping[str, Any],
    *,
    suspend: bool,
    on_change: Callable[[KubeObject], None],
    patience: float = PATIENCE_SECONDS,
) -> None:
    """Annotate a job with why it ends, then delete it, or suspend it instead.

    ``on_change`` gets the annotated job: the deletion may be seen before the annotation is. Raises
    :class:`ApiFault` for a refusal; a job that may not be deleted loses the annotation again.
    """
    path = kinds.path(kind, api.place.namespace, name)

    def annotate(text: str | None, **more: KubeObject) -> bool:
        # The uid makes the API server refuse where another job has the name by now.
        metadata = {"uid": uid, "annotations": {CANCEL_ANNOTATION: text}}
        try:
            on_change(api.patch(path, {"metadata": metadata, **more}, patience=patience))
        except ApiFault as fault:
            if fault.status in {404, 409}:
                return False
            raise
        return True

    spec = {"spec": {"runPolicy": {"suspend": True}}} if suspend else {}
    if not annotate(msgspec.json.encode(wish).decode(), **spec) or suspend:
        return
    try:
        api.delete(path, uid=uid)
    except ApiFault as refused:
        if not refused.passes:  # it goes on, and nobody should read otherwise
            annotate(None)
        raise


def find(api: Api, run_id: str) -> Iterator[tuple[str, KubeObject]]:
    """Find the job of a run, whatever its kind, if it is ours."""
    for kind in KINDS:
        try:
            job = api.get(kinds.path(kind, api.place.namespace, run_id))
        except ApiFault as fault:
            if fault.status == 404:
                continue
            raise api.explained(fault, f"job {run_id} be read") from fault
        if labels_of(job).get(RUN_LABEL) == run_id:
            yield kind, job


def remove(
    api: Api,
    run_id: str,
    *,
    unless: Callable[[str, KubeObject], str | None] = lambda _kind, _job: None,
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
        found = api.get(path)
    except ApiFault as fault:
        if fault.status == 404:
            return
        raise
    is_ours = labels_of(found).get(RUN_LABEL) == run_id
    if is_ours and not found["metadata"].get("ownerReferences"):
        api.delete(path, uid=found["metadata"]["uid"])
