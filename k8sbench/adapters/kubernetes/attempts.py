"""Takes the attempt that ended off the cluster, before the next one of its run is created.

Two attempts that run at once would write the same checkpoints. So the job is deleted in the
foreground: it stays until its pods are gone, and its name is free no earlier.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import NoReturn

from k8sbench.adapters.kubernetes import kinds, listing, ownership
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.ownership import User
from k8sbench.diagnose.job.state import CANCEL_ANNOTATION
from k8sbench.model.errors import BenchError, EarlierAttempt
from k8sbench.model.kube import (
    RUN_LABEL,
    KubeObject,
    annotations_of,
    attempt_of,
    name_of,
)

CLEAR_SECONDS = 15.0
"""For the objects of an attempt to go until what is left of them is reported."""
FOREGROUND = "foregroundDeletion"
"""The finalizer of a job that stays until its pods are gone."""
LOOK_SECONDS = 1.0
"""Between two looks at them."""


def clear(
    api: Api,
    run_id: str,
    attempt: int,
    user: User | None,
    is_over: Callable[[], bool],
    *,
    uid: str | None = None,
) -> bool:
    """Delete the job of an attempt before this one; return when nothing of it is there any more.

    Also where the job of this one exists already. ``uid`` is that of the job before, where it is
    known. Returns whether the earlier job was to wait even where its cause cannot recover. Raises
    :class:`EarlierAttempt` where something is still there, and another :class:`BenchError` where
    the run is not to go on.
    """
    until, waits = time.monotonic() + CLEAR_SECONDS, False
    try:
        while True:
            found, unlabelled = listing.look_for(api, run_id)
            if unlabelled is not None:
                raise BenchError(f"{unlabelled[0].upper()}{unlabelled[1:]}")
            if found is not None:
                kind, job = found
                if attempt_of(job) >= attempt:
                    return waits
                if uid not in {None, job["metadata"]["uid"]}:
                    raise _other_job(kind, job)
                waits = waits or ownership.waits(job)
                _delete(api, kind, job, user)
            pods = _pods(api, run_id)
            if found is None and not pods:
                return waits
            if time.monotonic() >= until or is_over():
                _raise_left(found and found[1], pods, api.place.namespace, run_id)
            api.pause(LOOK_SECONDS)
    except ApiFault as fault:
        raise api.explained(fault, f"the attempt before of {run_id} be deleted") from fault


def _other_job(kind: str, job: KubeObject) -> BenchError:
    return BenchError(
        f"The {kind} {name_of(job)} on the cluster (uid {job['metadata']['uid']}) is not the job of"
        " the attempt before: somebody has created it anew. It is left alone, and keeps the next"
        " attempt from being created.",
        "Delete it if nobody needs it, and submit the run again.",
    )


def _delete(api: Api, kind: str, job: KubeObject, user: User | None) -> None:
    if "deletionTimestamp" in job["metadata"]:
        return
    if CANCEL_ANNOTATION in annotations_of(job):
        raise BenchError("someone has cancelled its job meanwhile.")
    with contextlib.suppress(ownership.VanishedError):
        ownership.delete(api, kind, job, user, foreground=True)


def _pods(api: Api, run_id: str) -> list[KubeObject]:
    path = kinds.path("Pod", api.place.namespace)
    return api.list(path, labels=f"{RUN_LABEL}={run_id}")[0]


def _raise_left(
    job: KubeObject | None, pods: list[KubeObject], namespace: str, run_id: str
) -> NoReturn:
    if not pods:
        finalizers = [] if job is None else job["metadata"].get("finalizers") or []
        others = [one for one in finalizers if one != FOREGROUND]
        why = f": it has the finalizer {', '.join(others)}" if others else ""
        raise EarlierAttempt(
            f"the job of the attempt before is not gone{why}.", "The run continues when it is gone."
        )
    first, *more = sorted(pods, key=name_of)
    node = (first.get("spec") or {}).get("nodeName")
    what = f"pod {name_of(first)}" + (f" on node {node}" if node else "")
    what += f" and {len(more)} more" if more else ""
    ways = f"'kubectl -n {namespace} delete pods -l {RUN_LABEL}={run_id} --force'"
    if node:
        ways = f"'kubectl delete node {node}', if it is lost for good, or {ways}"
    raise EarlierAttempt(
        f"{what} of the attempt before is not gone.",
        f"The run continues when it is gone. {ways} removes it from the cluster; do that only "
        f"if it certainly does not run any more: two attempts would write the same checkpoints.",
    )
