"""Which stores have a use for a job: the last of them takes it off the cluster.

A store says so on the job, in an annotation of its own: the job's creator from the start, whoever
takes it up while it does. So two people may follow one job, and neither deletes it while the other
still reads its logs; nor is a job deleted that somebody keeps (``--keep``). A k8sbench that was
killed leaves its word behind, and then the job stays until that store collects it, or somebody
deletes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from k8sbench.adapters.kubernetes import ending, kinds
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault, Object
from k8sbench.model.errors import BenchError
from k8sbench.model.identity import LABEL_DOMAIN
from k8sbench.model.kinds import KINDS
from k8sbench.ports import Manifest

USED_BY = f"{LABEL_DOMAIN}/used-by-"
"""Begins the annotation; the store's id follows."""
WAITS = f"{LABEL_DOMAIN}/waits"
"""The annotation of a job that is to wait even for what cannot come by itself (``--wait``): nobody
who follows it gives it up."""


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


class _Word(msgspec.Struct):
    """What the annotation says."""

    host: str = "another machine"
    keep: bool = False


# Made here, once: msgspec crashes where two threads are the first to use a type.
_WORDS = msgspec.json.Decoder(_Word)


def marked(
    manifests: Sequence[Manifest], user: User | None, *, waits: bool = False
) -> Sequence[Manifest]:
    """Return the manifests with the word of the user on the job, and whether it is to wait."""
    words = {} if user is None else {user.key: _text(user)}
    words |= {WAITS: "true"} if waits else {}
    if not words:
        return manifests
    return [_with(one, words) if one["kind"] in KINDS else one for one in manifests]


def waits(job: Object) -> bool:
    """Whether a job is to wait even for what cannot come by itself."""
    return WAITS in _annotations(job)


def join(api: Api, run_id: str, user: User) -> None:
    """Put the user's word on a job that is there; what cannot be said is left unsaid."""
    _say(api, run_id, user, _text(user))


def leave(api: Api, run_id: str, user: User) -> None:
    """Take the user's word off a job; what cannot be said is left unsaid."""
    _say(api, run_id, user, None)


def keeper(api: Api, kind: str, job: Object, user: User) -> str | None:
    """Take the user's word off a job if others use it; says who, None if nobody does.

    Of several that ask at the same time, one is told that it is the last.
    """
    if not _others(job, user):
        return None
    if user.key in _annotations(job):
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
            if _annotations(job).get(user.key) != text:
                path = kinds.path(kind, api.place.namespace, run_id)
                api.patch(path, _change(job, user, text))
            return
    except (ApiFault, BenchError):
        return


def _others(job: Object, user: User) -> list[str]:
    """Say who else uses a job, a sentence each; those who keep it first."""
    words = [
        _read(text)
        for name, text in _annotations(job).items()
        if name.startswith(USED_BY) and name != user.key
    ]
    return [
        f"k8sbench on {one.host} keeps it (--keep)."
        if one.keep
        else f"k8sbench on {one.host} follows it, too, and takes it away at its end."
        for one in sorted(words, key=lambda one: not one.keep)
    ]


def _annotations(job: Object) -> dict[str, str]:
    return job["metadata"].get("annotations") or {}


def _change(job: Object, user: User, text: str | None) -> Object:
    # The uid makes the API server refuse where another job has the name by now.
    return {"metadata": {"uid": job["metadata"]["uid"], "annotations": {user.key: text}}}


def _with(manifest: Manifest, words: Mapping[str, str]) -> Manifest:
    metadata: dict[str, Any] = dict(manifest["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **words}
    return {**manifest, "metadata": metadata}


def _text(user: User) -> str:
    return msgspec.json.encode(_Word(host=user.host, keep=user.keep)).decode()


def _read(text: str) -> _Word:
    try:
        return _WORDS.decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return _Word()
