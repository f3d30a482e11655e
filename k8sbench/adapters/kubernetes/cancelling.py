"""Cancels jobs: annotates them with why they end, then deletes them, or suspends them instead."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import RETRY_SECONDS, Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.watching import trimming
from k8sbench.adapters.kubernetes.watching.followed import Followed
from k8sbench.adapters.kubernetes.watching.reflector import Changed
from k8sbench.diagnose.job.state import CANCEL_ANNOTATION
from k8sbench.model.kube import RUN_LABEL, KubeObject, labels_of
from k8sbench.ports import JobEvent

REQUEST_SECONDS = 5.0
"""For one request of a cancellation that is retried."""
Reason = Mapping[str, Any]
"""Why a job ends: the value of its annotation."""


class Cancelling:
    """How the jobs of one cluster are cancelled; with ``keep`` they are suspended.

    ``put`` is given the jobs as they are then, and what is to be reported.
    """

    def __init__(self, api: Api, put: Callable[[Changed | JobEvent], None], *, keep: bool) -> None:
        self._api, self._put, self._keep = api, put, keep

    def insist(self, followed: Followed, reason: Reason, is_followed: Callable[[], bool]) -> None:
        """Cancel a job as long as it is followed, with retries; reports why if it is refused."""
        run_id, attempt = followed.plan.run_id, 0
        while is_followed():
            fault = self.attempt(followed, reason)
            if fault is None:
                return
            if not fault.passes or not attempt:
                error = self._api.explained(fault, f"job {run_id} be cancelled")
                note = f"The job could not be cancelled: {error}"
                note += " Retrying." if fault.passes else ""
                self._put(JobEvent(run_id=run_id, note=note))
            if not fault.passes:
                return
            attempt += 1
            self._api.pause(min(2.0**attempt, 15.0))

    def attempt(self, followed: Followed, reason: Reason) -> ApiFault | None:
        """Cancel a job that is followed, without retries; None: it is cancelled, or gone."""
        run_id = followed.plan.run_id
        try:
            if (uid := followed.uid) is None:
                path = kinds.path(followed.kind, self._api.place.namespace, run_id)
                job = self._api.get(path, retry_s=REQUEST_SECONDS)
                if labels_of(job).get(RUN_LABEL) != run_id:
                    return None  # it is someone else's
                uid = job["metadata"]["uid"]
            self.cancel(followed.kind, run_id, uid, reason, retry_s=REQUEST_SECONDS)
        except ApiFault as fault:
            return None if fault.status == 404 else fault
        return None

    def cancel(
        self, kind: str, run_id: str, uid: str, reason: Reason, *, retry_s: float = RETRY_SECONDS
    ) -> None:
        """Cancel a job; does nothing where it is gone, or another one has its name.

        Raises :class:`ApiFault` for a refusal; a job that may not be deleted loses the annotation.
        """
        path = kinds.path(kind, self._api.place.namespace, run_id)

        def annotate(text: str | None, **more: KubeObject) -> None:
            # With the uid the API server rejects the change where another job has the name by now.
            metadata = {"uid": uid, "annotations": {CANCEL_ANNOTATION: text}}
            job = self._api.patch(path, {"metadata": metadata, **more}, retry_s=retry_s)
            # The watch may see the deletion before the annotation.
            self._put(Changed(kind, trimming.job(job)))

        try:
            text = msgspec.json.encode(reason).decode()
            if self._keep:
                annotate(text, spec={"runPolicy": {"suspend": True}})
                return
            annotate(text)
            self._api.delete(path, uid=uid)
        except ApiFault as fault:
            if fault.status in {404, 409}:
                return
            if not self._keep and not fault.passes:
                with contextlib.suppress(ApiFault):
                    annotate(None)
            raise
