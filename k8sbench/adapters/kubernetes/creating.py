"""Creates a run's job exactly once, also if other processes try or connections break.

The trainers come first, so that no pod waits for them. The job has the run's name, so the API
server guarantees that there is only one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
import urllib3

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.diagnose.job import admission
from k8sbench.model import creation, times
from k8sbench.model.errors import BenchError, EarlierAttempt, NoRoom, UsageError
from k8sbench.model.identity import NONCE_ANNOTATION, PLAN_ANNOTATION
from k8sbench.model.kube import RUN_LABEL, KubeObject, annotations_of, attempt_of, labels_of
from k8sbench.model.plan import RunPlan

RETRY_SECONDS = 60.0
"""How long a creation is repeated while the API server does not answer."""
FIND_SECONDS = 5.0
"""For the request that looks for an object."""
NOTE_SECONDS = 5.0
"""After which a creation without an answer is noted."""
# Made once, here: msgspec crashes where two threads are the first to use a type.
PLANS = msgspec.json.Decoder(RunPlan)
NOT_THE_JOB = frozenset(
    {
        *("schema", "spec_source", "spec_digest", "image_reason", "timeout_s", "max_restarts"),
        *("notes", "fingerprint"),
    }
)
"""Fields of a plan that do not reach the job but for its annotation: where the benchmark's file
lies and how it is written, explanations, for how long and how often a store follows it, and what is
known of the model, of which later versions know more."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How a creation goes on while the API server does not answer."""

    seconds: float = RETRY_SECONDS
    """How long it is repeated."""
    note: Callable[[str], None] = lambda _: None
    """Is called, on another thread, with a sentence on a creation that takes long."""
    is_over: Callable[[], bool] = lambda: False
    """Whether nobody waits for it any more."""


class Created(NamedTuple):
    """A job that exists now."""

    job: KubeObject
    existed: bool
    """Whether it existed before."""


def create(
    api: Api,
    plan: RunPlan,
    manifest: Mapping[str, Any],
    patience: Patience,
    provide: Callable[[], None] | None = None,
) -> Created:
    """Create the job, or find it; ``provide`` has what it mounts exist, or raises.

    Raises :class:`NoRoom`, :class:`CreationUnknown`, or another :class:`BenchError` where there is
    certainly no job of ours.
    """
    return _Creation(api, plan, patience).create(manifest, provide)


class _Creation:
    """The creation of one run's job."""

    def __init__(self, api: Api, plan: RunPlan, patience: Patience) -> None:
        self._api, self._plan, self._patience = api, plan, patience
        self._began = time.monotonic()
        self._trouble = "no answer yet"
        """Why it is not created yet."""

    def create(self, manifest: Mapping[str, Any], provide: Callable[[], None] | None) -> Created:
        """Create the job when what it mounts exists."""
        alarm = threading.Timer(NOTE_SECONDS, self._tell)
        alarm.daemon = True
        alarm.start()
        try:
            if provide is not None:
                self._provide(provide)
            return self._create(manifest)
        finally:
            alarm.cancel()

    def _tell(self) -> None:
        self._patience.note(
            f"The API server does not answer ({self._trouble}); creation of the job is tried for up"
            f" to {times.duration(self._patience.seconds)}."
        )

    def _provide(self, provide: Callable[[], None]) -> None:
        """Have what the job mounts exist; what is there already stays as it is."""
        attempts = 0
        while True:
            attempts += 1
            try:
                provide()
            except ApiFault as fault:
                if self._is_over() or not fault.passes:
                    raise self._explained(fault, "ConfigMap with the trainers") from fault
                self._trouble = fault.message
            else:
                return
            self._pause(attempts)

    def _create(self, manifest: Mapping[str, Any]) -> Created:
        """Create the job, or find that it is ours already."""
        api, path = self._api, kinds.path(manifest["kind"], self._api.place.namespace)
        attempts, is_unsure = 0, False
        while True:
            attempts += 1
            try:
                return Created(api.create(path, manifest), existed=False)
            except ApiFault as fault:
                wrong = fault
            exists = wrong.reason == "AlreadyExists"
            is_unsure = is_unsure or _may_have_acted(wrong)
            is_last = self._is_over() or not (exists or wrong.passes)
            if exists or (is_unsure and is_last):
                # It may be ours, created by a request whose answer was lost. That one may also be
                # why a quota refuses the next.
                found, unread = self._find(manifest)
                if found is not None:
                    return Created(found, existed=exists and attempts == 1)
                if unread is not None:
                    wrong, is_unsure = unread, is_unsure or unread.passes
                    is_last = is_last or not unread.passes
            if is_last and is_unsure:
                seconds = times.duration(time.monotonic() - self._began)
                why = f"the API server gave no clear answer within {seconds} ({wrong.message})."
                raise creation.unknown_error(self._plan.run_id, why) from wrong
            if is_last:
                raise self._explained(wrong, f"{manifest['kind']} {manifest['metadata']['name']}")
            self._trouble = wrong.message
            self._pause(attempts)

    def _pause(self, attempts: int) -> None:
        self._api.pause(min(0.2 * 2.0**attempts, 5.0))

    def _is_over(self) -> bool:
        waited_s = time.monotonic() - self._began
        return waited_s > self._patience.seconds or self._patience.is_over()

    def _find(self, manifest: Mapping[str, Any]) -> tuple[KubeObject | None, ApiFault | None]:
        """Look for an object; raises :class:`UsageError` where it is not as wanted."""
        try:
            found = self._api.get(_path(self._api, manifest), retry_s=FIND_SECONDS)
        except ApiFault as fault:
            return None, None if fault.status == 404 else fault
        _check_ours(self._plan, manifest, found)
        return found, None

    def _explained(self, fault: ApiFault, name: str) -> BenchError:
        error = self._api.explained(fault, f"{name} be created")
        if error.cause_id != "quota-exceeded":
            return error
        where = {"namespace": self._api.place.namespace}
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
    """Reject an object of someone else's, one that is being deleted, and a job of another plan.

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
    nonces = [annotations_of(one).get(NONCE_ANNOTATION) for one in (manifest, found)]
    if None not in nonces and nonces[0] != nonces[1]:
        raise UsageError(
            f"The job {name} exists already, and another k8sbench has asked for it.",
            f"Follow it with: k8sbench watch {name}; or choose another --run-id.",
        )
    try:
        other = PLANS.decode(annotations_of(found).get(PLAN_ANNOTATION, ""))
    except msgspec.MsgspecError:
        raise UsageError(
            f"The job {name} exists already, and its plan cannot be read.",
            "Choose another --run-id.",
        ) from None
    differing = [
        field
        for field in plan.__struct_fields__
        if field not in NOT_THE_JOB and getattr(plan, field) != getattr(other, field)
    ]
    if differing:
        raise UsageError(
            f"The job {name} exists already and runs another plan (other: {', '.join(differing)}).",
            "Choose another --run-id, or ask for what it runs.",
        )


def _path(api: Api, manifest: Mapping[str, Any]) -> str:
    return kinds.path(manifest["kind"], api.place.namespace, manifest["metadata"]["name"])
