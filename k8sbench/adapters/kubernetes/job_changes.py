"""Changes of a run's job: create, cancel, remove and clear.

The job is created once even if other processes try or connections break: it has the run's name,
which the API server keeps unique. The trainers are created first, so that no pod waits for them.

The job is cancelled by an annotation with the cause and by deletion, or suspension instead.

Before the next attempt the job is deleted in the foreground: two concurrent attempts would write
the same checkpoints, so the job, and its name, stay until its pods are gone. A job with a runtime
is deleted in the background, and its pods and their maker are waited for: the garbage collector
would delete the runtime first, and the operator's webhook would then reject every change of the
job, which would stay for ever.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import urllib3

from k8sbench import limits
from k8sbench.adapters import templates
from k8sbench.adapters.kubernetes import kinds, ownership
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.ownership import Change
from k8sbench.adapters.kubernetes.watch_events import ObjectChanged
from k8sbench.diagnose.job import refusals
from k8sbench.diagnose.job.state import CANCEL_ANNOTATION, kept_by
from k8sbench.model import creation, times
from k8sbench.model.errors import (
    ADMISSION_DENIED,
    JOB_DENIED,
    BenchError,
    EarlierAttempt,
    NoRoom,
    OwnedElsewhere,
    UsageError,
)
from k8sbench.model.job_kind import JobKind
from k8sbench.model.kinds import KINDS, kind_of
from k8sbench.model.kube import (
    RUN_LABEL,
    JobOwner,
    KubeObject,
    annotations_of,
    attempt_of,
    labels_of,
    name_of,
)
from k8sbench.model.names import NONCE_ANNOTATION
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.ports.cluster import Manifest
from k8sbench.render.trainer_sources import config_map, difference

NOTE_SECONDS = 5.0
"""Time after which a retried creation is noted."""
LOOK_SECONDS = 1.0
"""Interval between looks at an attempt's objects."""


PLAIN_IMAGE = "pause"
"""Image of the plainest job, which is never started."""
_RULED = frozenset({400, 403, 422})
"""HTTP statuses of changes that an admission rule or a webhook refuses."""


# -- creating ------------------------------------------------------------------------------------


def create(
    api: Api,
    plan: RunPlan,
    manifest: Mapping[str, Any],
    *,
    seconds: float,
    provide: Callable[[], None] = lambda: None,
    note: Callable[[str], None] = lambda _: None,
    is_over: Callable[[], bool] = lambda: False,
) -> tuple[KubeObject, bool]:
    """Create the job, or find it if it exists.

    The creation is retried for ``seconds`` while the API server does not answer. Returns the job,
    and True if it existed before. ``provide`` creates the objects that the job mounts, or raises.
    ``note`` receives a sentence when the creation is retried; ``is_over`` returns True once nobody
    waits for the job any more. Raises :class:`NoRoom`, :class:`CreationUnknown`, or another
    :class:`BenchError` if certainly no job of this run exists.
    """
    began = time.monotonic()
    attempts = 0
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
            made = api.create(path, manifest)
            _check_unchanged(api, manifest, made)
            return made, False
        except ApiFault as fault:
            error = fault
        exists = is_provided and error.reason == "AlreadyExists"
        is_unsure = is_unsure or (is_provided and may_have_acted(error))
        # 409: another creation has just changed a quota.
        passes = exists or error.passes or error.reason == "Conflict"
        passes = passes or misses_runtime(manifest, error)
        is_last = is_over() or time.monotonic() > until or not passes
        if exists or (is_unsure and is_last):
            # It may be ours, created by a request whose answer was lost. That one may also be why a
            # quota refuses the next.
            try:
                job = api.get(f"{path}/{name}", retry_s=limits.now.request_short)
                check_ours(manifest, job)
                return job, not is_unsure
            except ApiFault as fault:
                if fault.status != 404:
                    error = fault
                    is_unsure = is_unsure or fault.passes
                    is_last = is_last or not fault.passes
        if is_last and is_unsure:
            waited = times.duration(time.monotonic() - began)
            why = f"the API server gave no clear answer within {waited} ({error.message})."
            raise creation.creation_unknown_error(plan.run_id, why) from error
        if is_last:
            what = f"{kind} {name}" if is_provided else f"{kind} {name}, or what it needs,"
            explained = _explained(api, error, what)
            if explained.cause_id == ADMISSION_DENIED and _takes_plainest(api, manifest):
                explained.cause_id = JOB_DENIED
            raise explained
        if not is_noted and time.monotonic() - began > NOTE_SECONDS:
            is_noted = True
            tried = f"creation of the job is tried for up to {times.duration(seconds)}."
            note(f"The API server does not answer ({error.message}); {tried}")
        api.pause(min(0.2 * 2.0**attempts, 5.0))


def _takes_plainest(api: Api, manifest: Manifest) -> bool:
    """Return True if the API server takes a dry run of the plainest job of this kind.

    A rule that refuses the job then refuses this job, and not all of them.
    """
    with contextlib.suppress(ApiFault):
        path = kinds.path(manifest["kind"], api.place.namespace)
        api.create(path, plainest(manifest), dry_run=True, retry_s=limits.now.request_short)
        return True
    return False


def plainest(manifest: Manifest) -> Manifest:
    """Return a job of a manifest's kind and runtime with one replica and nothing else."""
    kind = KINDS[manifest["kind"]]
    # Rules may ask for a beginning of names.
    metadata = {"name": f"{name_of(manifest)[:40]}-{secrets.token_hex(4)}"}
    if kind.runtime is not None:
        spec: Mapping[str, Any] = {"runtimeRef": manifest["spec"]["runtimeRef"]}
    else:
        pod = {"containers": [{"name": kind.container, "image": PLAIN_IMAGE}]}
        replica = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": pod}}
        spec = {kind.replicas_key: {kind.types[0]: replica}}
    head = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"]}
    return {**head, "metadata": metadata, "spec": spec}


def _check_unchanged(api: Api, manifest: Mapping[str, Any], made: KubeObject) -> None:
    """Delete a new job to which admission has given another name or run label.

    Nobody would find it again. Raises :class:`UsageError` for one.
    """
    kind, name = made["kind"], name_of(manifest)
    label = labels_of(made).get(RUN_LABEL)
    if name_of(made) == name and label == labels_of(manifest).get(RUN_LABEL):
        return
    path = kinds.path(kind, api.place.namespace, name_of(made))
    with contextlib.suppress(ApiFault):
        api.delete(path, uid=made["metadata"]["uid"], retry_s=limits.now.request_short)
    error = UsageError(
        f"An admission webhook has changed {kind} {name} into {name_of(made)} of run {label}; it"
        " was deleted.",
        "Ask the cluster's administrator to leave names and labels of k8sbench's jobs as they are.",
    )
    error.cause_id = ADMISSION_DENIED
    raise error


def runtime_of(plan: RunPlan, manifests: Sequence[Manifest]) -> Manifest | None:
    """Return the runtime with the pods' template.

    None if the job itself holds the template.
    """
    return None if kind_of(plan).runtime is None else manifests[-2]


def discard(api: Api, run: Run) -> None:
    """Delete the runtime of a job that was never created.

    Does nothing if the kind has no runtime.
    """
    _discard(api, kind_of(run.plan), run.plan.job_name, run.nonce)


def _discard(api: Api, kind: JobKind, job: str, nonce: str | None) -> None:
    if kind.runtime is not None and nonce is not None:
        name = kind.runtime_name(job, nonce)
        with contextlib.suppress(ApiFault):  # it stays, a few KB
            api.delete(kinds.path(kind.runtime.name, api.place.namespace, name))


def bind(api: Api, runtime: Manifest, job: KubeObject) -> None:
    """Bind a runtime to its job, so that both are deleted together.

    The runtime holds the template of the job's pods and must not be deleted before the job.
    """
    metadata = job["metadata"]
    owner = {"name": metadata["name"], "uid": metadata["uid"]}
    owner |= {key: job[key] for key in ("apiVersion", "kind")}
    path = kinds.path(runtime["kind"], api.place.namespace, name_of(runtime))
    with contextlib.suppress(ApiFault):  # it stays, a few KB
        api.patch(
            path, {"metadata": {"ownerReferences": [owner]}}, retry_s=limits.now.request_short
        )


def _explained(api: Api, fault: ApiFault, name: str) -> BenchError:
    error = api.explained(fault, f"{name} be created")
    if error.cause_id != "quota-exceeded":
        return error
    where = {"namespace": api.place.namespace}
    quota = refusals.refusal(fault.message, f"{name} is not created", where)
    kind = UsageError if quota.severity == "fail" else NoRoom
    error = kind(quota.sentence, quota.action or "")
    error.cause_id, error.__cause__ = quota.id, fault
    return error


def misses_runtime(manifest: Mapping[str, Any], fault: ApiFault) -> bool:
    """Return True if a webhook does not know the job's runtime yet.

    Operators word this error differently; all name the runtime, and no other error does.
    """
    runtime = manifest.get("spec", {}).get("runtimeRef")
    return runtime is not None and runtime["name"] in fault.message


def may_have_acted(fault: ApiFault) -> bool:
    """Return True if the API server may have executed a failed request."""
    if fault.status is not None:
        # With Retry-After it says that it did not begin.
        return fault.status >= 500 and fault.passes and fault.retry_after is None
    unsent = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
    return fault.reason == "" and not isinstance(fault.__cause__, unsent)


def check_ours(manifest: Mapping[str, Any], found: KubeObject) -> None:
    """Reject an existing object that is not this attempt's job.

    That is an object of someone else, of another record, or one that is being deleted. Raises
    :class:`EarlierAttempt` for an object of the earlier attempt.
    """
    metadata = found["metadata"]
    kind = manifest["kind"]
    name = metadata["name"]
    ownership.check_label(manifest, found)
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
    """Return the mark of the run's record and attempt in its job."""
    return annotations_of(job).get(NONCE_ANNOTATION)


# -- ending --------------------------------------------------------------------------------------


def cancel(
    api: Api,
    found: tuple[str, KubeObject],
    user: JobOwner | None,
    reason: Mapping[str, Any],
    put: Callable[[ObjectChanged], None],
    *,
    keep: bool,
) -> None:
    """Cancel a job, or suspend it to ``keep`` it.

    Does nothing if the job is gone. ``reason`` is the value of the annotation, and ``put`` receives
    the annotated job. A job that a rule lets nobody change is deleted without the annotation.
    Raises :class:`ApiFault` and :class:`OwnedElsewhere`; if the deletion is forbidden, the
    annotation is removed again.
    """
    kind, job = found

    def annotate(job: KubeObject, text: str | None, **more: KubeObject) -> KubeObject:
        def ours(now: KubeObject) -> Change:
            ownership.check_ours(now, user)
            return {"metadata": {"annotations": {CANCEL_ANNOTATION: text}}, **more}

        job = ownership.change(api, kind, job, ours, retry_s=limits.now.request_short)
        # The watch may see the deletion before the annotation.
        put(ObjectChanged(kind, kinds.trimmed_job(job)))
        return job

    text = msgspec.json.encode(reason).decode()
    with contextlib.suppress(ownership.VanishedError):
        if keep:
            annotate(job, text, spec=KINDS[kind].policy(suspend=True))
            return
        try:
            job = annotate(job, text)
        except ApiFault as fault:
            # Kueue lets nobody change a TrainJob whose runtime is gone.
            if fault.denied or fault.status not in _RULED:
                raise
        try:
            ownership.delete(api, kind, job, user)
        except ApiFault as fault:
            if not fault.passes:
                with contextlib.suppress(ApiFault):
                    annotate(job, None)
            raise


def remove(
    api: Api,
    run: Run,
    *,
    user: JobOwner | None = None,
    uid: str | None = None,
    force: bool = False,
) -> str | None:
    """Delete a run's job and its pods, or what was made for a job that never came; idempotent.

    Returns why the job stays, or what its deletion waits for; else None. It stays if it is not that
    of ``uid``, if another store owns it, if it does not bear the run's label, and, unless
    ``force``, if its owner keeps it.
    """
    run_id = run.run_id
    try:
        found, unlabelled = ownership.look_for(api, run_id)
        if found is None:
            if unlabelled is None:
                discard(api, run)
            return unlabelled
        kind, job = found
        if uid is not None and uid != job["metadata"]["uid"]:
            return f"another job of that name was created since (uid {job['metadata']['uid']})."
        ownership.check_ours(job, user)
        owner = ownership.read_ownership(job, user).owner
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


def clear(api: Api, run: Run, user: JobOwner | None, is_over: Callable[[], bool]) -> None:
    """Delete an earlier attempt's job; returns when every object is gone.

    Also returns if the current attempt's job already exists. Raises :class:`EarlierAttempt` if an
    object remains, and another :class:`BenchError` if the run must not continue.
    """
    run_id = run.run_id
    until = time.monotonic() + limits.now.clear_job
    with api.explaining(f"the attempt before of {run_id} be deleted"):
        while True:
            found, unlabelled = ownership.look_for(api, run_id)
            if unlabelled is not None:
                raise BenchError(f"{unlabelled[0].upper()}{unlabelled[1:]}")
            if found is not None:
                kind, job = found
                if (attempt := attempt_of(job)) >= run.attempt:
                    return
                if run.job_uid_of(attempt) not in {None, job["metadata"]["uid"]}:
                    raise _other_job(kind, job)
                if CANCEL_ANNOTATION in annotations_of(job) and not creation.is_continued(run):
                    raise BenchError("someone has cancelled its job meanwhile.")
                if "deletionTimestamp" not in job["metadata"]:
                    with contextlib.suppress(ownership.VanishedError):
                        is_in_job = KINDS[kind].runtime is None
                        ownership.delete(api, kind, job, user, foreground=is_in_job)
            pods, _ = api.list(
                kinds.path("Pod", api.place.namespace), labels=f"{RUN_LABEL}={run_id}"
            )
            if found is None and not pods and not _is_made(api, run.plan):
                return
            if time.monotonic() >= until or is_over():
                raise _left(pods, api.place.namespace, run_id)
            api.pause(LOOK_SECONDS)


def _is_made(api: Api, plan: RunPlan) -> bool:
    """Return True if the maker of a job's pods still exists.

    The operator would take its end for the next attempt's. The garbage collector deletes it after
    its owner, perhaps after all pods.
    """
    if maker := kind_of(plan).maker:
        path = kinds.path("Job", api.place.namespace, maker.format(job=plan.job_name))
        with contextlib.suppress(ApiFault):  # who may not see it goes by the pods
            return api.find(path) is not None
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


# -- the ConfigMap of the trainers -----------------------------------------------------------------
#
# One per namespace and version has the sources for all runs. Whoever creates a job creates it first
# if it is absent. Nobody changes one, and no run deletes it.


def provide_trainers(api: Api, name: str) -> None:
    """Create a ConfigMap of trainers if it is absent; any thread may call it.

    Raises :class:`UsageError` where its content is not what its name says, and where it is absent
    and this k8sbench has other trainers; :class:`ApiFault` where a request fails.
    """
    path = kinds.path("ConfigMap", api.place.namespace)
    while (found := api.find(f"{path}/{name}")) is None:
        try:
            api.create(path, _trainers(api.place.namespace, name))
            return
        except ApiFault as fault:
            if fault.reason != "AlreadyExists":  # another process was faster
                raise
    check_trainers(found)


def _trainers(namespace: str, name: str) -> Manifest:
    here = templates.trainer_sources()
    if here.config_map_name != name:
        raise UsageError(
            f"The ConfigMap {name} in namespace {namespace} is gone, and this k8sbench has other "
            f"trainers ({here.digest[:12]}).",
            "Submit the run again, or continue it with the k8sbench that submitted it.",
        )
    return config_map(here)


def check_trainers(found: KubeObject) -> None:
    """Raise :class:`UsageError` if the content of a ConfigMap is wrong."""
    name = name_of(found)
    namespace = found["metadata"]["namespace"]
    if (why := difference(found)) is not None:
        raise UsageError(
            f"The ConfigMap {name} in namespace {namespace} is not k8sbench's: {why}.",
            f"If nobody needs it: 'kubectl -n {namespace} delete configmap {name}'; the next run "
            "creates the right one.",
        )
