"""Marks on a job that say which stores use it: the last of them deletes the job.

A store that follows a job sets an annotation of its own on it: the creator from the start, any
other one while it follows the job. So two people may follow one job, and neither deletes it while
the other still reads its logs; nor is a job deleted that somebody keeps (``--keep``). The mark of a
k8sbench that was killed stays, and with it the job, until that store collects the job or somebody
deletes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from k8sbench.adapters.kubernetes import ending, kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.errors import BenchError
from k8sbench.model.identity import LABEL_DOMAIN
from k8sbench.model.kinds import KINDS
from k8sbench.model.kube import KubeObject, annotations_of
from k8sbench.ports import Manifest

USED_BY = f"{LABEL_DOMAIN}/used-by-"
"""Begins the annotation; the store's id follows."""
WAITS = f"{LABEL_DOMAIN}/waits"
"""Annotation of a job that waits even for what cannot come by itself (``--wait``): no process that
follows it cancels it for that."""


class User(msgspec.Struct, frozen=True, kw_only=True):
    """One store's k8sbench."""

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


# Made here, once: msgspec crashes where two threads are the first to use a type.
_MARKS = msgspec.json.Decoder(_Mark)


def marked(
    manifests: Sequence[Manifest], user: User | None, *, waits: bool = False
) -> Sequence[Manifest]:
    """Return the manifests with the user's mark on the job, and the mark that it is to wait."""
    words = {} if user is None else {user.key: _text(user)}
    words |= {WAITS: "true"} if waits else {}
    if not words:
        return manifests
    return [_with(one, words) if one["kind"] in KINDS else one for one in manifests]


def waits(job: KubeObject) -> bool:
    """Whether a job is to wait even for what cannot come by itself."""
    return WAITS in annotations_of(job)


def join(api: Api, run_id: str, user: User) -> None:
    """Set the user's mark on a job that exists; a refusal is ignored."""
    _say(api, run_id, user, _text(user))


def leave(api: Api, run_id: str, user: User) -> None:
    """Remove the user's mark from a job; a refusal is ignored."""
    _say(api, run_id, user, None)


def keeper(api: Api, kind: str, job: KubeObject, user: User) -> str | None:
    """Remove the user's mark from a job if others use it; return a sentence on who, else None.

    Of several that ask at the same time, one is told that it is the last.
    """
    if not _others(job, user):
        return None
    if user.key in annotations_of(job):
        path = kinds.path(kind, api.place.namespace, job["metadata"]["name"])
        try:
            job = api.patch(path, _change(job, user, None))
        except ApiFault as fault:
            if fault.status not in {404, 409}:
                raise
            return None  # it is gone
    return next(iter(_others(job, user)), None)


def _say(api: Api, run_id: str, user: User, text: str | None) -> None:
    try:
        for kind, job in ending.find(api, run_id):
            if annotations_of(job).get(user.key) != text:
                path = kinds.path(kind, api.place.namespace, run_id)
                api.patch(path, _change(job, user, text))
            return
    except (ApiFault, BenchError):
        return


def _others(job: KubeObject, user: User) -> list[str]:
    """Say who else uses a job, a sentence each; those who keep it first."""
    words = [
        _read(text)
        for name, text in annotations_of(job).items()
        if name.startswith(USED_BY) and name != user.key
    ]
    return [
        f"k8sbench on {one.host} keeps it (--keep)."
        if one.keep
        else f"k8sbench on {one.host} follows it, too, and takes it away at its end."
        for one in sorted(words, key=lambda one: not one.keep)
    ]


def _change(job: KubeObject, user: User, text: str | None) -> KubeObject:
    # The uid makes the API server refuse where another job has the name by now.
    return {"metadata": {"uid": job["metadata"]["uid"], "annotations": {user.key: text}}}


def _with(manifest: Manifest, words: Mapping[str, str]) -> Manifest:
    annotations = {**annotations_of(manifest), **words}
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}


def _text(user: User) -> str:
    return msgspec.json.encode(_Mark(host=user.host, keep=user.keep)).decode()


def _read(text: str) -> _Mark:
    try:
        return _MARKS.decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return _Mark()
