"""Cancels jobs: annotates them with why they end, then deletes them, or suspends them instead."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from k8sbench.adapters.kubernetes import listing, ownership
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.ownership import User
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

    def __init__(
        self, api: Api, put: Callable[[Changed], None], user: User | None, *, keep: bool
    ) -> None:
        self._api, self._put, self._user, self._keep = api, put, user, keep

    def cancel(self, run_id: str, followed: Followed | None, reason: Reason) -> None:
        """Cancel a job; does nothing where it is gone, or another one has its name.

        Raises :class:`ApiFault`, and :class:`OwnedElsewhere`; a job that may not be deleted loses
        the annotation.
        """
        found = None if followed is None else followed.found
        found = found or listing.find(self._api, run_id)
        if found is None:
            return
        kind, job = found

        def annotate(job: KubeObject, text: str | None, **more: KubeObject) -> KubeObject:
            change = {"metadata": {"annotations": {CANCEL_ANNOTATION: text}}, **more}

            def ours(now: KubeObject) -> ownership.Change:
                ownership.check_ours(now, self._user)
                return change

            job = ownership.change(self._api, kind, job, ours, retry_s=REQUEST_SECONDS)
            # The watch may see the deletion before the annotation.
            self._put(Changed(kind, trimming.job(job)))
            return job

        text = msgspec.json.encode(reason).decode()
        with contextlib.suppress(ownership.VanishedError):
            if self._keep:
                annotate(job, text, spec={"runPolicy": {"suspend": True}})
                return
            job = annotate(job, text)
            try:
                ownership.delete(self._api, kind, job, self._user)
            except ApiFault as fault:
                if not fault.passes:
                    with contextlib.suppress(ApiFault):
                        annotate(job, None)
                raise
