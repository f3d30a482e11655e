"""Ends a run's job: cancels it, deletes it at its end, clears it away before the next attempt.

A job is cancelled by an annotation with why it ends, and its deletion, or suspension instead.
Before the next attempt it is deleted in the foreground: two attempts that run at once would write
the same checkpoints, so it stays until its pods are gone, and its name is free no earlier.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from k8sbench.adapters.kubernetes import kinds, ownership
from k8sbench.adapters.kubernetes.client.api import RETRY_SECONDS, Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.ownership import Change, User
from k8sbench.diagnose.job.state import CANCEL_ANNOTATION, kept_by
from k8sbench.model import times
from k8sbench.model.errors import BenchError, EarlierAttempt, OwnedElsewhere
from k8sbench.model.kube import (
    RUN_LABEL,
    KubeObject,
    annotations_of,
    attempt_of,
    name_of,
)
from k8sbench.model.ownership import RECEIPT_SECONDS, Collected, Receipt

CLEAR_SECONDS = 15.0
"""For the objects of an attempt to go until what is left of them is reported."""
LOOK_SECONDS = 1.0
"""Between two looks at them."""


def cancel(
    api: Api,
    found: tuple[str, KubeObject],
    user: User | None,
    reason: Mapping[str, Any],
    put: Callable[[str, KubeObject], None],
    *,
    keep: bool,
) -> None:
    """Cancel a job of a kind, or suspend it (``keep``); does nothing where it is gone.

    ``reason`` is the value of its annotation, and ``put`` is given the job as it is then. Raises
    :class:`ApiFault`, and :class:`OwnedElsewhere`; a job that may not be deleted loses the
    annotation.
    """
    kind, job = found

    def annotate(job: KubeObject, text: str | None, **more: KubeObject) -> KubeObject:
        def ours(now: KubeObject) -> Change:
            ownership.check_ours(now, user)
            return {"metadata": {"annotations": {CANCEL_ANNOTATION: text}}, **more}

        job = ownership.change(api, kind, job, ours, retry_s=ownership.REQUEST_SECONDS)
        # The watch may see the deletion before the annotation.
        put(kind, job)
        return job

    text = msgspec.json.encode(reason).decode()
    with contextlib.suppress(ownership.VanishedError):
        if keep:
            annotate(job, text, spec={"runPolicy": {"suspend": True}})
            return
        job = annotate(job, text)
        try:
            ownership.delete(api, kind, job, user)
        except ApiFault as fault:
            if not fault.passes:
                with contextlib.suppress(ApiFault):
                    annotate(job, None)
            raise


def remove(
    api: Api,
    run_id: str,
    *,
    user: User | None = None,
    uid: str | None = None,
    collected: Callable[[], Collected] | None = None,
    force: bool = False,
) -> str | None:
    """Delete a run's job, and with it its pods; idempotent.

    Returns why the job stays, or what its deletion waits for; else None. It stays where it is not
    that of ``uid``, where another store owns it, and where it does not bear the
    run's label; unless ``force``, also where its owner keeps it, and for its submitter, who is to
    find a receipt of what another store has ``collected``.
    """
    try:
        found, unlabelled = ownership.look_for(api, run_id)
        if found is None:
            return unlabelled
        kind, job = found
        if uid is not None and uid != job["metadata"]["uid"]:
            return f"another job of that name was created since (uid {job['metadata']['uid']})."
        ownership.check_ours(job, user)
        if user is not None and not force:
            job, why = _collected(api, kind, job, user, collected)
            if why is not None:
                return f"{why} To delete it all the same: k8sbench delete {run_id}"
        left = ownership.delete(api, kind, job, user)
    except OwnedElsewhere as error:
        return f"{error.message} {error.action}"
    except ownership.VanishedError:
        return ownership.look_for(api, run_id)[1]
    except ApiFault as fault:
        raise api.explained(fault, f"job {run_id} be deleted") from fault
    return None if left is None else kept_by(left)


def _collected(
    api: Api, kind: str, job: KubeObject, user: User, collected: Callable[[], Collected] | None
) -> tuple[KubeObject, str | None]:
    """Write a receipt onto a job of which others may want to know, and say why it stays."""
    owner = ownership.of(job, user).owner
    keeps = user.keep or (owner is not None and owner.keep)
    has_adopted = owner is not None and owner.has_adopted
    if collected is not None and (keeps or has_adopted):
        known = msgspec.structs.asdict(collected())
        receipt = Receipt(store=user.store, host=user.host, at=api.time(), **known)

        def signed(now: KubeObject) -> Change | None:
            ownership.check_ours(now, user)
            is_signed = ownership.of(now, user).receipt is not None
            return None if is_signed else ownership.annotated(receipt=ownership.encoded(receipt))

        job = ownership.change(api, kind, job, signed, retry_s=RETRY_SECONDS)
    if keeps:
        return job, f"k8sbench on {user.host} keeps it (--keep)."
    if has_adopted and not user.is_collector:
        days = times.duration(RECEIPT_SECONDS)
        return job, f"it stays for {days}, for the k8sbench that submitted it to see the result."
    return job, None


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
            found, unlabelled = ownership.look_for(api, run_id)
            if unlabelled is not None:
                raise BenchError(f"{unlabelled[0].upper()}{unlabelled[1:]}")
            if found is not None:
                kind, job = found
                if attempt_of(job) >= attempt:
                    return waits
                if uid not in {None, job["metadata"]["uid"]}:
                    raise _other_job(kind, job)
                waits = waits or ownership.waits(job)
                _delete_earlier(api, kind, job, user)
            pods, _ = api.list(
                kinds.path("Pod", api.place.namespace), labels=f"{RUN_LABEL}={run_id}"
            )
            if found is None and not pods:
                return waits
            if time.monotonic() >= until or is_over():
                raise _left(pods, api.place.namespace, run_id)
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


def _delete_earlier(api: Api, kind: str, job: KubeObject, user: User | None) -> None:
    if "deletionTimestamp" in job["metadata"]:
        return
    if CANCEL_ANNOTATION in annotations_of(job):
        raise BenchError("someone has cancelled its job meanwhile.")
    with contextlib.suppress(ownership.VanishedError):
        ownership.delete(api, kind, job, user, foreground=True)


def _left(pods: list[KubeObject], namespace: str, run_id: str) -> EarlierAttempt:
    if not pods:
        message = "the job of the attempt before is not gone."
        return EarlierAttempt(message, "The run continues when it is gone.")
    first, *more = sorted(pods, key=name_of)
    node = (first.get("spec") or {}).get("nodeName")
    what = f"pod {name_of(first)}" + (f" on node {node}" if node else "")
    what += f" and {len(more)} more" if more else ""
    ways = f"'kubectl -n {namespace} delete pods -l {RUN_LABEL}={run_id} --force'"
    if node:
        ways = f"'kubectl delete node {node}', if it is lost for good, or {ways}"
    return EarlierAttempt(
        f"{what} of the attempt before is not gone.",
        f"The run continues when it is gone. {ways} removes it from the cluster; do that only "
        f"if it certainly does not run any more: two attempts would write the same checkpoints.",
    )
