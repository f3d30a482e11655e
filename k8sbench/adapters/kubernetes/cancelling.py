"""Cancels jobs: annotates them with why they end, then deletes them, or suspends them instead."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from k8sbench.adapters.kubernetes import kinds, listing
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.watching import trimming
from k8sbench.adapters.kubernetes.watching.followed import Followed
from k8sbench.adapters.kubernetes.watching.reflector import Changed
from k8sbench.diagnose.job.state import CANCEL_ANNOTATION
from k8sbench.model.kube import KubeObject

REQUEST_SECONDS = 5.0
"""For one request of a cancellation; who asked tries again."""
Reason = Mapping[str, Any]
"""Why a job ends: the value of its annotation."""


class Cancelling:
    """How the jobs of one cluster are cancelled; with ``keep`` they are suspended.

    ``put`` is given the jobs as they are then.
    """

    def __init__(self, api: Api, put: Callable[[Changed], None], *, keep: bool) -> None:
        self._api, self._put, self._keep = api, put, keep

    def cancel(self, run_id: str, followed: Followed | None, reason: Reason) -> None:
        """Cancel a job; does nothing where it is gone, or another one has its name.

        Raises :class:`ApiFault`; a job that may not be deleted loses the annotation.
        """
        kind, uid = (None, None) if followed is None else (followed.kind, followed.uid)
        if kind is None or uid is None:
            if (found := listing.find(self._api, run_id)) is None:
                return
            kind, uid = found[0], found[1]["metadata"]["uid"]
        path = kinds.path(kind, self._api.place.namespace, run_id)

        def annotate(text: str | None, **more: KubeObject) -> None:
            # With the uid the API server rejects the change where another job has the name by now.
            metadata = {"uid": uid, "annotations": {CANCEL_ANNOTATION: text}}
            job = self._api.patch(path, {"metadata": metadata, **more}, retry_s=REQUEST_SECONDS)
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
