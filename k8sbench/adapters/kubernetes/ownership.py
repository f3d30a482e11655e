"""Owner annotations of a job, and changes by compare-and-swap.

Each change carries the uid and the resourceVersion of the job that it was decided on. If another
change came first, the API server answers 409, and the job is read and decided on again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from k8sbench import limits
from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault, Tolerated
from k8sbench.json_decoders import decoder
from k8sbench.model import times
from k8sbench.model.errors import OwnedElsewhere, Unreachable, UsageError
from k8sbench.model.kinds import KINDS
from k8sbench.model.kube import (
    RUN_LABEL,
    JobOwner,
    KubeObject,
    Ownership,
    annotations_of,
    attempt_of,
    labels_of,
    name_of,
)
from k8sbench.model.names import NONCE_ANNOTATION, OWNER_ANNOTATION, WAITS_ANNOTATION
from k8sbench.model.run import Run
from k8sbench.ports.cluster import Manifest

_CHANGED = frozenset({404, 409})
"""HTTP statuses of a job that has changed or is gone."""

OTHER_NAME = "Choose another --run-id, or another namespace with -n."
"""Advice if a run's name is taken."""
Change = Mapping[str, Any]
"""Merge patch for a job, without its identity."""


# -- reading --------------------------------------------------------------------------------------


def read_ownership(job: KubeObject, user: JobOwner | None) -> Ownership:
    """Return the owner of a job as a store (``user``) sees it.

    Without a store every job counts as owned.
    """
    annotations = annotations_of(job)
    owner = _read(annotations.get(OWNER_ANNOTATION))
    is_ours = user is None or owner is None or owner.store == user.store
    return Ownership(owner=owner, is_ours=is_ours)


def waits(job: KubeObject) -> bool:
    """Return True if a job waits despite an unrecoverable cause."""
    return WAITS_ANNOTATION in annotations_of(job)


def is_of(job: KubeObject, run: Run) -> bool:
    """Return True if a job belongs to the run's current attempt.

    The uid decides, or else the nonce. A later attempt counts too: another process of the store has
    begun it, or another owner.
    """
    attempt = attempt_of(job)
    nonce = annotations_of(job).get(NONCE_ANNOTATION)
    if attempt > run.attempt:
        return True
    if run.job_uid is not None:
        return bool(job["metadata"]["uid"] == run.job_uid)
    return nonce in {None, run.nonce}


def _read(value: str | None) -> JobOwner | None:
    # Anybody may write annotations.
    with contextlib.suppress(msgspec.MsgspecError, UnicodeError):
        return None if value is None else decoder(JobOwner).decode(value)
    return None


# -- finding -------------------------------------------------------------------------------------


def look_for(api: Api, run_id: str) -> tuple[tuple[str, KubeObject] | None, str | None]:
    """Return a run's kind and job, or who has its name.

    The second value describes a job of that name without the run's label. Both are None if no job
    has the name.
    """
    unlabelled = None
    for kind in KINDS:
        with api.explaining(f"job {run_id} be read"):
            job = api.find(kinds.path(kind, api.place.namespace, run_id))
        if job is not None and labels_of(job).get(RUN_LABEL) == run_id:
            return (kind, job), None
        if job is not None:
            unlabelled = _unlabelled(kind, job, api.place.namespace)
    return None, unlabelled


def removal(kind: str, job: KubeObject, namespace: str) -> str:
    """Return the command that deletes a job."""
    return f"kubectl -n {namespace} delete {KINDS[kind].singular} {name_of(job)}"


def _unlabelled(kind: str, job: KubeObject, namespace: str) -> str:
    name = name_of(job)
    label = f"{RUN_LABEL}={name}"
    of_run = labels_of(job).get(RUN_LABEL)
    lacks = f"the {kind} {name} in namespace {namespace} does not have the label {label}"
    if of_run is not None:
        command = removal(kind, job, namespace)
        return f"{lacks}: it is a copy of run {of_run}'s job. To delete it: '{command}'."
    command = f"kubectl -n {namespace} label {KINDS[kind].singular} {name} {label}"
    return (
        f"{lacks}; it may be someone else's, and is not changed. If it is the run's, label it:"
        f" '{command}'."
    )


# -- writing --------------------------------------------------------------------------------------


def check_ours(job: KubeObject, user: JobOwner | None) -> None:
    """Raise :class:`OwnedElsewhere` for a job of another store."""
    ownership = read_ownership(job, user)
    run_id = name_of(job)
    if not ownership.is_ours:
        raise OwnedElsewhere(run_id, ownership.holder)


def make(api: Api, manifest: Manifest) -> None:
    """Create an object of a run, unless it exists.

    Raises :class:`ApiFault`, and :class:`UsageError` where another object has the name.
    """
    path = kinds.path(manifest["kind"], api.place.namespace)
    try:
        api.create(path, manifest)
    except ApiFault as fault:
        if fault.reason != "AlreadyExists":
            raise
        found = api.get(f"{path}/{name_of(manifest)}", retry_s=limits.now.request_short)
        check_label(manifest, found)


def check_label(manifest: Manifest, found: KubeObject) -> None:
    """Reject an existing object that is not the manifest's run's."""
    if labels_of(found).get(RUN_LABEL) != labels_of(manifest).get(RUN_LABEL):
        raise UsageError(
            f"There is a {manifest['kind']} named {name_of(manifest)} in namespace"
            f" {found['metadata']['namespace']} already, and it is not k8sbench's.",
            OTHER_NAME,
        )


class VanishedError(Exception):
    """The job is gone, was replaced, or lost the run's label."""


def change(
    api: Api,
    kind: str,
    job: KubeObject,
    decide: Callable[[KubeObject], Change | None],
    *,
    retry_s: float,
) -> KubeObject:
    """Change a job as ``decide`` says for its latest state.

    If ``decide`` returns None, the job is not changed. Returns the resulting job; raises
    :class:`VanishedError`, :class:`ApiFault`, and errors of ``decide``.
    """
    for current in _latest(api, kind, job):
        wanted = decide(current)
        if wanted is None:
            return current
        known = current["metadata"]
        identity = {"uid": known["uid"], "resourceVersion": known["resourceVersion"]}
        body = {**wanted, "metadata": {**wanted.get("metadata", {}), **identity}}
        with Tolerated(*_CHANGED):
            return api.patch(_path(api, kind, job), body, retry_s=retry_s)
    raise AssertionError


def delete(
    api: Api, kind: str, job: KubeObject, user: JobOwner | None, *, foreground: bool = False
) -> KubeObject | None:
    """Delete a job of this store.

    Returns the job while a finalizer keeps it. Raises :class:`VanishedError`,
    :class:`OwnedElsewhere` and :class:`ApiFault`.
    """
    for current in _latest(api, kind, job):
        check_ours(current, user)
        known = current["metadata"]
        identity = {"uid": known["uid"], "version": known["resourceVersion"]}
        with Tolerated(*_CHANGED):
            return api.delete(_path(api, kind, job), **identity, foreground=foreground)
    raise AssertionError


def _latest(api: Api, kind: str, job: KubeObject) -> Iterator[KubeObject]:
    """Yield the known job, then repeatedly its latest state.

    Raises :class:`VanishedError`, and :class:`Unreachable` after 30 s.
    """
    uid = job["metadata"]["uid"]
    until = time.monotonic() + limits.now.change_job
    yield job
    while time.monotonic() < until:
        latest = api.find(_path(api, kind, job))
        is_there = latest is not None and latest["metadata"]["uid"] == uid
        if latest is None or not is_there or labels_of(latest).get(RUN_LABEL) != name_of(job):
            raise VanishedError
        yield latest
    seconds = times.duration(limits.now.change_job)
    raise Unreachable(
        f"The job {name_of(job)} changes again and again: it could not be changed in {seconds}.",
        "Try again.",
    )


def _path(api: Api, kind: str, job: KubeObject) -> str:
    return kinds.path(kind, api.place.namespace, name_of(job))


def take_over(api: Api, run_id: str, user: JobOwner, known: Ownership) -> bool:
    """Make a store the owner of a job.

    Returns False unless ``known`` is its owner. Raises :class:`BenchError`.
    """

    found, _ = look_for(api, run_id)
    if found is None:
        return False
    kind, job = found
    try:
        with api.explaining(f"{run_id} be taken over"):
            decide = partial(taken_over, user=user, known=known)
            change(api, kind, job, decide, retry_s=limits.now.request_short)
    except VanishedError:
        return False
    return True


def taken_over(job: KubeObject, user: JobOwner, known: Ownership) -> Change | None:
    """Return the change that makes a store the owner; None if it is already.

    Raises :class:`VanishedError` if the owner is not the ``known`` one.
    """
    owner = read_ownership(job, user).owner
    if owner is not None and owner.store == user.store:
        return None
    if owner != known.owner:
        raise VanishedError
    keep = user.keep or (owner is not None and owner.keep)
    text = msgspec.json.encode(msgspec.structs.replace(user, keep=keep)).decode()
    return {"metadata": {"annotations": {OWNER_ANNOTATION: text}}}
