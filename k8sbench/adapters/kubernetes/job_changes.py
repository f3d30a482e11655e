"""Changes a run's job: creates it exactly once, cancels it, deletes it at its end, clears it away.

It is created once also if other processes try or connections break: it has the run's name, so the
API server guarantees that there is only one. The trainers come first, so that no pod waits for
them. It is cancelled by an annotation with why it ends, and its deletion, or suspension instead.
Before the next attempt it is deleted in the foreground: two attempts that run at once would write
the same checkpoints, so it stays until its pods are gone, and its name is free no earlier. One with
a runtime is deleted at once, and its pods and what made them are waited for: the garbage collector
would delete the runtime first, and the operator's webhook then lets nobody change the job, which
stays for ever.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import urllib3

from k8sbench.adapters.kubernetes import kinds, ownership
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.ownership import Change, User
from k8sbench.adapters.kubernetes.watching import trimming
from k8sbench.adapters.kubernetes.watching.reflector import Changed
from k8sbench.diagnose.job import admission
from k8sbench.diagnose.job.state import CANCEL_ANNOTATION, kept_by
from k8sbench.model import attempts, creation, times
from k8sbench.model.errors import BenchError, EarlierAttempt, NoRoom, OwnedElsewhere, UsageError
from k8sbench.model.identity import NONCE_ANNOTATION
from k8sbench.model.kinds import KINDS, JobKind, kind_of
from k8sbench.model.kube import (
    RUN_LABEL,
    KubeObject,
    annotations_of,
    attempt_of,
    labels_of,
    name_of,
)
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.ports import Manifest

CREATE_SECONDS = 60.0
"""How long a creation is repeated while the API server does not answer."""
NOTE_SECONDS = 5.0
"""After which a creation that is tried again is noted."""
CLEAR_SECONDS = 15.0
"""For the objects of an attempt to go until what is left of them is reported."""
LOOK_SECONDS = 1.0
"""Between two looks at them."""


# -- creating ------------------------------------------------------------------------------------


def create(
    api: Api,
    plan: RunPlan,
    manifest: Mapping[str, Any],
    *,
    provide: Callable[[], None] = lambda: None,
    seconds: float = CREATE_SECONDS,
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
    is_provided = is_unsure = is_noted = False
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
        passes = exists or error.passes or misses_runtime(manifest, error)
        is_last = is_over() or time.monotonic() > until or not passes
        if exists or (is_unsure and is_last):
            # It may be ours, created by a request whose answer was lost. That one may also be why a
            # quota refuses the next.
            try:
                job = api.get(f"{path}/{name}", retry_s=ownership.FIND_SECONDS)
                _check_ours(manifest, job)
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
        if not is_noted and time.monotonic() - began > NOTE_SECONDS:
            is_noted = True
            tried = f"creation of the job is tried for up to {times.duration(seconds)}."
            note(f"The API server does not answer ({error.message}); {tried}")
        api.pause(min(0.2 * 2.0**attempts, 5.0))


def runtime_of(plan: RunPlan, manifests: Sequence[Manifest]) -> Manifest | None:
    """Return the object beside a job that holds its pods' template; None: the job holds it."""
    return None if kind_of(plan).runtime is None else manifests[-2]


def discard(api: Api, plan: RunPlan, nonce: str | None) -> None:
    """Delete what was created for a job that never was: its runtime, where its kind has one."""
    _discard(api, kind_of(plan), plan.job_name, nonce)


def _discard(api: Api, kind: JobKind, job: str, nonce: str | None) -> None:
    if kind.runtime is not None and nonce is not None:
        name = kind.runtime_name(job, nonce)
        with contextlib.suppress(ApiFault):  # it stays, a few KB
            api.delete(kinds.path(kind.runtime.name, api.place.namespace, name))


def bind(api: Api, runtime: Manifest, job: KubeObject) -> None:
    """Have the object that holds the template of a job's pods deleted with the job, not before."""
    metadata = job["metadata"]
    owner = {"name": metadata["name"], "uid": metadata["uid"]}
    owner |= {key: job[key] for key in ("apiVersion", "kind")}
    path = kinds.path(runtime["kind"], api.place.namespace, name_of(runtime))
    with contextlib.suppress(ApiFault):  # it stays, a few KB
        api.patch(path, {"metadata": {"ownerReferences": [owner]}}, retry_s=ownership.FIND_SECONDS)


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


def misses_runtime(manifest: Mapping[str, Any], fault: ApiFault) -> bool:
    """True if a webhook of any operator has not seen the runtime that a job refers to.

    Each has words of its own for that; all name the runtime, as nothing else does.
    """
    runtime = manifest.get("spec", {}).get("runtimeRef")
    return runtime is not None and runtime["name"] in fault.message


def _may_have_acted(fault: ApiFault) -> bool:
    """Whether the API server may have done what it was asked without saying so."""
    if fault.status is not None:
        # With Retry-After it says that it did not begin.
        return fault.status >= 500 and fault.passes and fault.retry_after is None
    unsent = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
    return fault.reason == "" and not isinstance(fault.__cause__, unsent)


def _check_ours(manifest: Mapping[str, Any], found: KubeObject) -> None:
    """Reject an object of someone else's, one that is being deleted, and one of another record.

    Raises :class:`EarlierAttempt` for one of the attempt before.
    """
    metadata, kind = found["metadata"], manifest["kind"]
    name = metadata["name"]
    ownership.check_label(manifest, found, RUN_LABEL, ownership.OTHER_NAME)
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


# -- ending --------------------------------------------------------------------------------------


def cancel(
    api: Api,
    found: tuple[str, KubeObject],
    user: User | None,
    reason: Mapping[str, Any],
    put: Callable[[Changed], None],
) -> None:
    """Cancel a job of a kind, or suspend it where its user keeps it; nothing where it is gone.

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
        put(Changed(kind, trimming.job(job)))
        return job

    text = msgspec.json.encode(reason).decode()
    with contextlib.suppress(ownership.VanishedError):
        if user is not None and user.keep:
            annotate(job, text, spec=KINDS[kind].policy(suspend=True))
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
    last: tuple[str, KubeObject] | None = None,
    uid: str | None = None,
    force: bool = False,
) -> str | None:
    """Delete a run's job, and with it its pods; idempotent.

    Returns why the job stays, or what its deletion waits for; else None. It stays if it is not that
    of ``last`` or of ``uid``, if another store owns it, if it does not bear the run's label, and,
    unless ``force``, if its owner keeps it.
    """
    try:
        is_seen = last is not None and labels_of(last[1]).get(RUN_LABEL) == run_id
        found, unlabelled = (last, None) if is_seen else ownership.look_for(api, run_id)
        if found is None:
            return unlabelled
        kind, job = found
        if uid is not None and uid != job["metadata"]["uid"]:
            return f"another job of that name was created since (uid {job['metadata']['uid']})."
        ownership.check_ours(job, user)
        owner = ownership.of(job, user).owner
        if user is not None and not force and (user.keep or (owner is not None and owner.keep)):
            return f"it is kept (--keep). To delete it all the same: k8sbench delete {run_id}"
        left = ownership.delete(api, kind, job, user)
        # A submit that was killed has not bound it.
        _discard(api, KINDS[kind], name_of(job), annotations_of(job).get(NONCE_ANNOTATION))
    except OwnedElsewhere as error:
        return f"{error.message} {error.action}"
    except ownership.VanishedError:
        found, unlabelled = ownership.look_for(api, run_id)
        return unlabelled if found is None else "another job of that name was created since."
    except ApiFault as fault:
        raise api.explained(fault, f"job {run_id} be deleted") from fault
    return None if left is None else kept_by(left)


def clear(api: Api, run: Run, user: User | None, is_over: Callable[[], bool]) -> bool:
    """Delete the job of an attempt before the present one; return when nothing of it is there.

    Also where the job of this one exists already. Returns whether the earlier job was to wait even
    where its cause cannot recover. Raises :class:`EarlierAttempt` where something is still there,
    and another :class:`BenchError` where the run is not to go on.
    """
    run_id, until, waits = run.run_id, time.monotonic() + CLEAR_SECONDS, False
    try:
        while True:
            found, unlabelled = ownership.look_for(api, run_id)
            if unlabelled is not None:
                raise BenchError(f"{unlabelled[0].upper()}{unlabelled[1:]}")
            if found is not None:
                kind, job = found
                if (attempt := attempt_of(job)) >= run.attempt:
                    return waits
                if run.job_uid_of(attempt) not in {None, job["metadata"]["uid"]}:
                    raise _other_job(kind, job)
                waits = waits or ownership.waits(job)
                if CANCEL_ANNOTATION in annotations_of(job) and not attempts.is_continued(run):
                    raise BenchError("someone has cancelled its job meanwhile.")
                if "deletionTimestamp" not in job["metadata"]:
                    with contextlib.suppress(ownership.VanishedError):
                        is_in_job = KINDS[kind].runtime is None
                        ownership.delete(api, kind, job, user, foreground=is_in_job)
            pods, _ = api.list(
                kinds.path("Pod", api.place.namespace), labels=f"{RUN_LABEL}={run_id}"
            )
            if found is None and not pods and not _is_made(api, run.plan):
                return waits
            if time.monotonic() >= until or is_over():
                raise _left(pods, api.place.namespace, run_id)
            api.pause(LOOK_SECONDS)
    except ApiFault as fault:
        raise api.explained(fault, f"the attempt before of {run_id} be deleted") from fault


def _is_made(api: Api, plan: RunPlan) -> bool:
    """Whether what made a job's pods is there, whose end the operator would take for the next's.

    It goes after what it belongs to, by the garbage collector, and may outlive all pods.
    """
    if maker := kind_of(plan).maker:
        path = kinds.path("Job", api.place.namespace, maker.format(job=plan.job_name))
        with contextlib.suppress(ApiFault):  # who may not see it goes by the pods
            return api.find(path, brief=True) is not None
    return False


def _other_job(kind: str, job: KubeObject) -> BenchError:
    return BenchError(
        f"The {kind} {name_of(job)} on the cluster (uid {job['metadata']['uid']}) is not the job of"
        " the attempt before: somebody has created it anew. It is left alone, and keeps the next"
        " attempt from being created.",
        "Delete it if nobody needs it, and submit the run again.",
    )


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
