"""Creates a run's job exactly once, also if other processes try or connections break.

The trainers come first, so that no pod waits for them. The job has the run's name, so the API
server guarantees that there is only one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import urllib3

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.diagnose.job import admission
from k8sbench.model import creation, times
from k8sbench.model.errors import BenchError, EarlierAttempt, NoRoom, UsageError
from k8sbench.model.identity import NONCE_ANNOTATION
from k8sbench.model.kube import RUN_LABEL, KubeObject, annotations_of, attempt_of, labels_of
from k8sbench.model.plan import RunPlan

RETRY_SECONDS = 60.0
"""How long a creation is repeated while the API server does not answer."""
NOTE_SECONDS = 5.0
"""After which a creation that is tried again is noted."""
FIND_SECONDS = 5.0
"""For the request that looks for an object."""


def create(
    api: Api,
    plan: RunPlan,
    manifest: Mapping[str, Any],
    *,
    provide: Callable[[], None] = lambda: None,
    seconds: float = RETRY_SECONDS,
    note: Callable[[str], None] = lambda _: None,
    is_over: Callable[[], bool] = lambda: False,
) -> tuple[KubeObject, bool]:
    """Create the job, or find it; it is tried for ``seconds`` while the API server does not answer.

    Returns the job, and whether it existed before. ``provide`` has what it mounts exist, or raises.
    ``note`` is called with a sentence where it is tried again, ``is_over`` says that nobody waits
    for it any more.
    Raises :class:`NoRoom`, :class:`CreationUnknown`, or another :class:`BenchError` where there is
    certainly no job of ours.
    """
    began, attempts = time.monotonic(), 0
    until = began + seconds
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    path = kinds.path(kind, api.place.namespace)
    is_provided = is_unsure = False
    while True:
        attempts += 1
        try:
            if not is_provided:
                provide()
                is_provided = True
            return api.create(path, manifest), False
        except ApiFault as fault:
            error = fault
        exists = is_provided and error.reason == "AlreadyExists"
        is_unsure = is_unsure or (is_provided and _may_have_acted(error))
        is_last = is_over() or time.monotonic() > until or not (exists or error.passes)
        if exists or (is_unsure and is_last):
            # It may be ours, created by a request whose answer was lost. That one may also be why a
            # quota refuses the next.
            try:
                job = api.get(f"{path}/{name}", retry_s=FIND_SECONDS)
                _check_ours(plan, manifest, job)
                return job, not is_unsure
            except ApiFault as fault:
                if fault.status != 404:
                    error, is_unsure = fault, is_unsure or fault.passes
                    is_last = is_last or not fault.passes
        if is_last and is_unsure:
            waited = times.duration(time.monotonic() - began)
            why = f"the API server gave no clear answer within {waited} ({error.message})."
            raise creation.unknown_error(plan.run_id, why) from error
        if is_last:
            what = f"{kind} {name}" if is_provided else "ConfigMap with the trainers"
            raise _explained(api, error, what)
        if time.monotonic() - began > NOTE_SECONDS:
            tried = f"creation of the job is tried for up to {times.duration(seconds)}."
            note(f"The API server does not answer ({error.message}); {tried}")
        api.pause(min(0.2 * 2.0**attempts, 5.0))


def _explained(api: Api, fault: ApiFault, name: str) -> BenchError:
    error = api.explained(fault, f"{name} be created")
    if error.cause_id != "quota-exceeded":
        return error
    where = {"namespace": api.place.namespace}
    quota = admission.cause(fault.message, f"{name} is not created", where)
    kind = UsageError if quota.severity == "fail" else NoRoom
    error = kind(quota.sentence, quota.action or "")
    error.cause_id, error.__cause__ = quota.id, fault
    return error


def _may_have_acted(fault: ApiFault) -> bool:
    """Whether the API server may have done what it was asked without saying so."""
    if fault.status is not None:
        # With Retry-After it says that it did not begin.
        return fault.status >= 500 and fault.passes and fault.retry_after is None
    unsent = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
    return fault.reason == "" and not isinstance(fault.__cause__, unsent)


def _check_ours(plan: RunPlan, manifest: Mapping[str, Any], found: KubeObject) -> None:
    """Reject an object of someone else's, one that is being deleted, and one of another record.

    Raises :class:`EarlierAttempt` for one of the attempt before.
    """
    metadata, kind = found["metadata"], manifest["kind"]
    name = metadata["name"]
    if labels_of(found).get(RUN_LABEL) != plan.run_id:
        raise UsageError(
            f"There is a {kind} named {name} in namespace {metadata['namespace']} already, and it"
            " is not k8sbench's.",
            "Choose another --run-id, or another namespace with -n.",
        )
    if attempt_of(manifest) > 1 and (
        "deletionTimestamp" in metadata or attempt_of(found) < attempt_of(manifest)
    ):
        raise EarlierAttempt(f"the {kind} of the attempt before is not gone.")
    if "deletionTimestamp" in metadata:
        raise UsageError(
            f"The {kind} {name} of an earlier run of this name is being deleted.",
            "Wait for its end, or choose another --run-id.",
        )
    if _nonce(manifest) != _nonce(found):
        raise UsageError(
            f"The job {name} exists already, and another k8sbench has asked for it.",
            f"Follow it with: k8sbench watch {name}; or choose another --run-id.",
        )


def _nonce(job: Mapping[str, Any]) -> str | None:
    """Return what the record of a run and its attempt has in common with the job alone."""
    return annotations_of(job).get(NONCE_ANNOTATION)
