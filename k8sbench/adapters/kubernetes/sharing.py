"""Annotations of a job that name the stores which use it: the last of them deletes the job.

A store that submits a job sets a mark of its own on it, any other store while it follows the job.
So several people may collect one job, and none of them deletes it while another one still needs its
logs; a job with ``--keep`` is not deleted either. Who follows a job renews its mark: that of a
k8sbench that was killed expires. Times are the cluster's: the machines' clocks may differ.

Who has collected a job that others have marked writes onto it what it has: a store that comes when
the logs are gone can say where they are.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterator, Sequence

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import RETRY_SECONDS, Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.identity import LABEL_DOMAIN
from k8sbench.model.kube import KubeObject, annotations_of, conditions, moment
from k8sbench.ports import Collected, Manifest

USED_BY = f"{LABEL_DOMAIN}/used-by-"
"""Prefix of a mark's name; the store's id follows."""
COLLECTED_BY = f"{LABEL_DOMAIN}/collected-by-"
"""Prefix of the annotation of a store that has collected the job; its id follows."""
WAITS = f"{LABEL_DOMAIN}/waits"
"""Annotation of a job that waits even where its cause cannot recover (``--wait``): no process that
follows it cancels it for that."""
REQUEST_SECONDS = 5.0
"""For one request that sets, renews or removes a mark."""
RENEW_SECONDS = 600.0
"""How often a process that follows a job renews its mark: one request per job, which must not count
beside the others."""
FOLLOWED_SECONDS = 1800.0
"""How long the mark of a store that follows a job counts: two renewals may fail."""
SUBMITTED_SECONDS = 7 * 86400.0
"""The same for the store that has submitted it: its user detached, or the process was killed, or
the laptop sleeps, and somebody comes back after the weekend. A job that has ended holds no GPU."""


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A store whose k8sbench follows jobs."""

    store: str
    """Id of the store: lower-case letters and digits."""
    host: str
    """Name of the machine, for people."""
    keep: bool = False
    """Whether it leaves the job on the cluster."""
    detached: bool = False
    """Whether it submits jobs and does not follow them."""
    for_all: bool = False
    """Whether it collects for everybody in the namespace: a job does not stay for a store that has
    submitted it and does not follow it."""

    @property
    def key(self) -> str:
        """The mark's name."""
        return USED_BY + self.store


class _Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a mark. What earlier versions wrote has a host and ``keep`` alone."""

    host: str = "another machine"
    keep: bool = False
    submitted: bool = True
    """Whether the store has submitted the job."""
    detached: bool = True
    """Whether no process of the store follows the job."""
    at: float | None = None
    """When it was set or renewed, Unix seconds; None: when the job was created, and as long as it
    went on."""

    def expires_at(self, job: KubeObject) -> float | None:
        """When it ceases to count; None: never."""
        since = self._since(job)
        if self.keep or since is None:
            return None
        return since + (SUBMITTED_SECONDS if self.submitted else FOLLOWED_SECONDS)

    def is_left(self, job: KubeObject, now: float) -> bool:
        """Whether the store has submitted the job, and no process of it follows it any more."""
        since = self._since(job) or now
        is_alone = self.detached or since + FOLLOWED_SECONDS <= now
        return self.submitted and is_alone and not self.keep

    def text(self, job: KubeObject, now: float) -> str:
        """Say what the store does with the job."""
        if self.keep:
            return f"k8sbench on {self.host} keeps it (--keep)."
        if self.is_left(job, now):
            return f"k8sbench on {self.host} submitted it and has not collected it yet."
        return f"k8sbench on {self.host} follows it, too, and deletes it at its end."

    def _since(self, job: KubeObject) -> float | None:
        if self.at is not None:
            return self.at
        # A job may wait and run for longer than a mark counts.
        times = [job["metadata"].get("creationTimestamp")]
        times += [one.get("lastTransitionTime") for one in conditions(job).values()]
        return max(filter(None, map(moment, times)), default=None)


class _Receipt(Collected, frozen=True, kw_only=True):
    """The value of the annotation of a store that has collected the job."""

    store: str
    host: str
    at: float


# Made once, here: msgspec crashes where two threads are the first to use a type.
_MARKS = msgspec.json.Decoder(_Mark)
_RECEIPTS = msgspec.json.Decoder(_Receipt)


def marked(
    manifests: Sequence[Manifest], user: User | None, *, waits: bool = False
) -> Sequence[Manifest]:
    """Return the manifests of a job that is submitted, the job with the user's mark.

    With ``waits`` the job has that annotation, too.
    """
    *others, job = manifests
    annotations = dict(annotations_of(job))
    if user is not None:
        annotations[user.key] = _encoded(
            _Mark(host=user.host, keep=user.keep, submitted=True, detached=user.detached)
        )
    if waits:
        annotations[WAITS] = "true"
    return [*others, {**job, "metadata": {**job["metadata"], "annotations": annotations}}]


def marks(job: KubeObject) -> frozenset[str]:
    """Return the names of the marks on a job, whether they count or not."""
    return frozenset(name for name in annotations_of(job) if name.startswith(USED_BY))


def waits(job: KubeObject) -> bool:
    """Whether a job waits even where its cause cannot recover."""
    return WAITS in annotations_of(job)


def renew(api: Api, kind: str, job: KubeObject, user: User) -> None:
    """Set the user's mark on a job that exists, or renew it."""
    mark = _Mark(
        host=user.host,
        keep=user.keep,
        submitted=user.detached or _has_submitted(job, user),
        detached=user.detached,
        at=api.time(),
    )
    _annotate(api, kind, job, {user.key: _encoded(mark)}, retry_s=REQUEST_SECONDS)


def leave(api: Api, kind: str, job: KubeObject, user: User) -> None:
    """Remove the user's mark from a job that goes on; the store that submitted it keeps one."""
    value = None
    if _has_submitted(job, user):
        value = _encoded(_Mark(host=user.host, submitted=True, detached=True, at=api.time()))
    _annotate(api, kind, job, {user.key: value}, retry_s=REQUEST_SECONDS)


def keeper(
    api: Api,
    kind: str,
    job: KubeObject,
    user: User,
    collected: Callable[[], Collected] | None = None,
) -> str | None:
    """Remove the user's mark from a job that others have marked, and write what it has collected.

    Returns who needs the job still, else None. Of several concurrent callers, one gets None.
    """
    annotations = annotations_of(job)
    if not marks(job) - {user.key}:
        return None  # no other store needs to know
    changes: dict[str, str | None] = {user.key: None} if user.key in annotations else {}
    if collected is not None and COLLECTED_BY + user.store not in annotations:
        changes[COLLECTED_BY + user.store] = _encoded(_receipt(api, user, collected()))
    if changes:
        try:
            job = _annotate(api, kind, job, changes)
        except ApiFault as fault:
            if fault.status not in {404, 409}:
                raise
            return None  # it is deleted
    now = api.time()
    others = [one for name, one in _needed(job, user, now) if name != user.key]
    others.sort(key=lambda one: not one.keep)
    return others[0].text(job, now) if others else None


def is_abandoned(job: KubeObject, user: User, now: float) -> bool:
    """Whether the user's store left a job to others, and none of them needs it any more."""
    return COLLECTED_BY + user.store in annotations_of(job) and not any(_needed(job, user, now))


def collector(job: KubeObject) -> tuple[str, str] | None:
    """Say who has collected a job, and where its logs are to be found; None: nobody."""
    for name, value in sorted(annotations_of(job).items()):
        if name.startswith(COLLECTED_BY):
            # Anybody may write annotations.
            with contextlib.suppress(msgspec.MsgspecError, ValueError, OverflowError):
                one = _RECEIPTS.decode(value)
                return _sentence(one), (
                    f"See k8sbench results on {one.host}: the store {one.store} there has its logs."
                )
    return None


def _sentence(one: _Receipt) -> str:
    at = datetime.datetime.fromtimestamp(one.at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    parts = [f"k8sbench on {one.host} collected it at {at}"]
    if one.throughput is not None:
        parts.append(f"{one.throughput:.1f} {one.unit}")
    if one.verdict is not None:
        parts.append(one.verdict)
    if one.digest is not None:
        parts.append(f"SHA-256 of its logs {one.digest}")
    return ", ".join(parts) + "."


def _receipt(api: Api, user: User, collected: Collected) -> _Receipt:
    return _Receipt(
        store=user.store, host=user.host, at=api.time(), **msgspec.structs.asdict(collected)
    )


def _has_submitted(job: KubeObject, user: User) -> bool:
    value = annotations_of(job).get(user.key)
    return value is not None and _read(value).submitted


def _marks(job: KubeObject, now: float) -> Iterator[tuple[str, _Mark]]:
    """Yield the marks that count, by their names."""
    for name, value in annotations_of(job).items():
        if name.startswith(USED_BY):
            mark = _read(value)
            expires_at = mark.expires_at(job)
            if expires_at is None or now < expires_at:
                yield name, mark


def _needed(job: KubeObject, user: User, now: float) -> Iterator[tuple[str, _Mark]]:
    """Yield the marks for which the user's store leaves a job that it has collected."""
    for name, one in _marks(job, now):
        if not (user.for_all and name != user.key and one.is_left(job, now)):
            yield name, one


def _annotate(
    api: Api,
    kind: str,
    job: KubeObject,
    annotations: dict[str, str | None],
    *,
    retry_s: float = RETRY_SECONDS,
) -> KubeObject:
    metadata = job["metadata"]
    # With the uid the API server rejects the change where another job has the name by now.
    change = {"uid": metadata["uid"], "annotations": annotations}
    path = kinds.path(kind, api.place.namespace, metadata["name"])
    return api.patch(path, {"metadata": change}, retry_s=retry_s)


def _encoded(value: _Mark | _Receipt) -> str:
    return msgspec.json.encode(value).decode()


def _read(value: str) -> _Mark:
    try:
        return _MARKS.decode(value)
    except (msgspec.MsgspecError, UnicodeError):
        return _Mark()
