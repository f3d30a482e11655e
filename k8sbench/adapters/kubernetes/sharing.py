"""Annotations of a job that name the stores which use it: the last of them deletes the job.

A store that follows a job sets an annotation of its own on it: the creator from the start, any
other one while it follows the job. So two people may follow one job, and neither deletes it while
the other still reads its logs; a job with ``--keep`` is not deleted either. The annotation of a
k8sbench that was killed stays, and with it the job, until that store collects the job or a user
deletes it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from k8sbench.adapters.kubernetes import kinds, listing
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.errors import BenchError
from k8sbench.model.identity import LABEL_DOMAIN
from k8sbench.model.kube import KubeObject, annotations_of
from k8sbench.ports import Manifest

USED_BY = f"{LABEL_DOMAIN}/used-by-"
"""Prefix of the annotation's name; the store's id follows."""
WAITS = f"{LABEL_DOMAIN}/waits"
"""Annotation of a job that waits even where its cause cannot recover (``--wait``): no process that
follows it cancels it for that."""


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A store whose k8sbench follows jobs."""

    store: str
    """Id of the store: lower-case letters and digits."""
    host: str
    """Name of the machine, for people."""
    keep: bool = False
    """Whether it leaves the job on the cluster."""

    @property
    def key(self) -> str:
        """The annotation's name."""
        return USED_BY + self.store


class _Mark(msgspec.Struct):
    """The value of the annotation."""

    host: str = "another machine"
    keep: bool = False


# Made once, here: msgspec crashes where two threads are the first to use a type.
_MARKS = msgspec.json.Decoder(_Mark)


def marked(
    manifests: Sequence[Manifest], user: User | None, *, waits: bool = False
) -> Sequence[Manifest]:
    """Return the manifests, the job with the user's annotation and, if it ``waits``, with that."""
    *others, job = manifests
    annotations = dict(annotations_of(job))
    if user is not None:
        annotations[user.key] = _value(user)
    if waits:
        annotations[WAITS] = "true"
    return [*others, {**job, "metadata": {**job["metadata"], "annotations": annotations}}]


def waits(job: KubeObject) -> bool:
    """Whether a job waits even where its cause cannot recover."""
    return WAITS in annotations_of(job)


def mark(api: Api, run_id: str, user: User, *, used: bool) -> None:
    """Set the user's annotation on a job that exists, or remove it; a refusal is ignored."""
    value = _value(user) if used else None
    try:
        found = listing.find(api, run_id)
        if found is not None and annotations_of(found[1]).get(user.key) != value:
            _annotate(api, *found, user, value)
    except (ApiFault, BenchError):
        return


def keeper(api: Api, kind: str, job: KubeObject, user: User) -> str | None:
    """Remove the user's annotation from a job if others use it; return who they are, else None.

    Of several concurrent callers, one gets None.
    """
    if not _others(job, user):
        return None
    if user.key in annotations_of(job):
        try:
            job = _annotate(api, kind, job, user, None)
        except ApiFault as fault:
            if fault.status not in {404, 409}:
                raise
            return None  # it is deleted
    return next(iter(_others(job, user)), None)


def _others(job: KubeObject, user: User) -> list[str]:
    """Return a sentence on each other user of a job; those who keep it first."""
    others = [
        _read(value)
        for name, value in annotations_of(job).items()
        if name.startswith(USED_BY) and name != user.key
    ]
    return [
        f"k8sbench on {one.host} keeps it (--keep)."
        if one.keep
        else f"k8sbench on {one.host} follows it, too, and deletes it at its end."
        for one in sorted(others, key=lambda one: not one.keep)
    ]


def _annotate(api: Api, kind: str, job: KubeObject, user: User, value: str | None) -> KubeObject:
    metadata = job["metadata"]
    # With the uid the API server rejects the change where another job has the name by now.
    change = {"uid": metadata["uid"], "annotations": {user.key: value}}
    path = kinds.path(kind, api.place.namespace, metadata["name"])
    return api.patch(path, {"metadata": change})


def _value(user: User) -> str:
    return msgspec.json.encode(_Mark(host=user.host, keep=user.keep)).decode()


def _read(value: str) -> _Mark:
    try:
        return _MARKS.decode(value)
    except (msgspec.MsgspecError, UnicodeError):
        return _Mark()
