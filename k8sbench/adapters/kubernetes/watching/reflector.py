"""Reflector: lists the objects of one kind, then watches their changes.

No change is lost: a watch that ends or breaks is resumed from the last resourceVersion; where the
server no longer has that (410 Expired) everything is listed again, and objects that are missing
from the list are reported as deleted, by uid. The server ends every watch after a while; a
connection that stays silent for longer is closed. Faults are reported, and retried without limit
with pauses that grow to a bound; the caller decides when to stop.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Collection, Container, Sequence

from k8sbench import limits
from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api, LineStream
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.watch_events import (
    ObjectChanged,
    ObjectDeleted,
    ObjectsListed,
    WatchEvent,
    WatchFailed,
    WatchWorks,
)
from k8sbench.model.kube import KubeObject

SILENCE_SECONDS = 10.0
"""Time after the end of a watch was due until its connection is closed."""
FIRST_PAUSE = 0.5
"""Before a watch that failed is opened again; twice as long each time, seconds."""
_PLURALS = {"Pod": "pods", "Event": "events"}
_REFUSALS = frozenset({401, 403, 404})
EXPIRED = frozenset({"Expired", "Gone", "ResourceExpired"})


class Reflector:
    """Thread that watches the objects of one kind."""

    def __init__(
        self,
        api: Api,
        kind: str,
        keep: Callable[[KubeObject], KubeObject | None],
        on_event: Callable[[WatchEvent], None],
        selection: kinds.Selection = kinds.OURS,
    ) -> None:
        self._kind = kind
        self._labels, self._fields = selection.selectors(kind)
        self._path = kinds.path(kind, api.place.namespace)
        self._api = api
        self._keep = keep
        self._on_event = on_event
        self._known: dict[str, tuple[str, str]] = {}
        """Name → uid and resourceVersion of the kept objects, events left out."""
        self._from: str | None = None
        """The resourceVersion to watch from; None: list first."""
        self._round = 0
        """Incremented by every :meth:`refresh`."""
        self._reported = 0
        """The round in which everything was reported last."""
        self._lock = threading.Lock()
        self._watch: LineStream | None = None
        self._wake = threading.Event()
        self._is_closed = False
        self._fails = False
        name = f"watch {kind}"
        self.thread = threading.Thread(target=self._follow, name=name, daemon=True)
        self.thread.start()

    def refresh(self) -> None:
        """List and report everything again: for a job followed anew."""
        with self._lock:
            self._round += 1
            self._from = None
            self._interrupt()

    def try_now(self) -> None:
        """End the pause after a fault: the server answers other watches."""
        self._wake.set()

    def close(self) -> None:
        """Stop; nothing is reported once the thread has ended."""
        with self._lock:
            self._is_closed = True
            self._interrupt()

    def _interrupt(self) -> None:
        self._wake.set()
        if self._watch is not None:
            self._watch.close()

    def _follow(self) -> None:
        failures = 0
        while not self._is_closed:
            self._wake.clear()
            begun = time.monotonic()
            try:
                self._list_and_watch()
            except ApiFault as fault:
                if self._is_closed:
                    return
                if fault.status == 410 or fault.reason in EXPIRED:
                    with self._lock:
                        self._from = None
                # A break of a long-lived connection counts as the first failure.
                failures = 1 if time.monotonic() - begun > limits.now.watch_pause else failures + 1
                self._fails = True
                self._on_event(WatchFailed(self._kind, fault))
                self._wake.wait(pause(failures, fault.retry_after))
            else:
                failures = 0

    def _list_and_watch(self) -> None:
        """List unless there is a resourceVersion, then watch to the end."""
        with self._lock:
            start, listing = self._from, self._round
        if start is None:
            start = self._list(listing)
        seconds = max(1, round(limits.now.watch * random.uniform(0.9, 1.0)))  # noqa: S311
        watch = self._api.watch(
            self._path,
            labels=self._labels,
            fields=self._fields,
            resource_version=start,
            timeout_s=seconds,
            silence_s=min(SILENCE_SECONDS, limits.now.watch),
        )
        with self._lock:
            if self._is_closed or self._round != listing:
                watch.close()
                return
            self._watch = watch
        if self._fails:
            self._fails = False
            self._on_event(WatchWorks(self._kind))
        try:
            for event in watch.changes():
                self._take(event["type"], event["object"])
                self._reached(event["object"]["metadata"]["resourceVersion"], listing)
        finally:
            with self._lock:
                self._watch = None

    def _list(self, listing: int) -> str:
        started_at = time.monotonic()
        items, version = self._api.list(
            self._path, labels=self._labels, fields=self._fields, keep=self._keep, retry_s=0.0
        )
        if self._reported != listing:
            # Report unchanged objects, too: a job may be followed again.
            self._reported = listing
            self._known = {name: (uid, "") for name, (uid, _) in self._known.items()}
        self._take_all(items, started_at)
        self._reached(version, listing)
        return version

    def _take_all(self, items: Sequence[KubeObject], started_at: float) -> None:
        """Report changes against a full list, and missing objects."""
        kind = self._kind
        uids = {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}
        for name, (uid, _) in list(self._known.items()):
            if uids.get(name) != uid:
                del self._known[name]
                self._on_event(ObjectDeleted(kind, name, uid, None))
        for item in items:
            self._take("MODIFIED", item)
        self._on_event(ObjectsListed(kind, frozenset(uids), started_at))

    def _take(self, type_: str, found: KubeObject) -> None:
        metadata = found["metadata"]
        version = metadata["resourceVersion"]
        if type_ != "BOOKMARK":
            name, uid = metadata["name"], metadata["uid"]
            kept = self._keep(found)
            if type_ == "DELETED":
                # A pod of a job that is followed since the pod was created was not kept.
                is_new = self._kind == "Pod" and kept is not None
                if self._known.pop(name, None) is not None or is_new:
                    self._on_event(ObjectDeleted(self._kind, name, uid, kept))
            elif kept is None:
                self._known.pop(name, None)
            elif self._kind == "Event":
                # Not remembered: of thousands of jobs they stay long after the jobs are gone.
                self._on_event(ObjectChanged(self._kind, kept))
            elif self._known.get(name) != (uid, version):
                before = self._known.get(name)
                if before is not None and before[0] != uid:
                    self._on_event(ObjectDeleted(self._kind, name, before[0], None))
                self._known[name] = (uid, version)
                self._on_event(ObjectChanged(self._kind, kept))

    def _reached(self, version: str, listing: int) -> None:
        """Store the resourceVersion to go on from, unless everything is to be listed again."""
        with self._lock:
            if self._round == listing:
                self._from = version


class Watches:
    """Starts the reflectors; knows which are complete and which fail."""

    def __init__(
        self,
        api: Api,
        runs: Container[str | None],
        on_event: Callable[[WatchEvent], None],
        selection: kinds.Selection = kinds.OURS,
    ) -> None:
        """Keep objects of the ``runs``, which are read whenever an object arrives."""
        self._selection = selection
        self.failing: dict[str, tuple[float, ApiFault]] = {}
        """Kind → since when it cannot be watched, monotonic seconds, and the last fault."""
        self._reported: float | None = None
        """Start of the failure that was reported to the user."""
        self._api, self._runs, self._on_event = api, runs, on_event
        self.reflectors: dict[str, Reflector] = {}
        """Running reflectors, by kind."""
        self._is_stale = False
        """True if changes of a newly followed job may have been dropped."""
        self._refreshed_at = 0.0
        """Time of the last relisting, monotonic seconds."""
        self._listed: set[str] = set()
        """Kinds whose list was received completely since then."""

    def list_again(self) -> None:
        """Have everything listed again: a job existed before it was followed."""
        self._is_stale = True

    def watch(self, jobs: Collection[str]) -> None:
        """Watch the jobs of these kinds, pods and events."""
        if self._is_stale and self.reflectors:
            self._refreshed_at = time.monotonic()
            self._listed.clear()
            for watch in self.reflectors.values():
                watch.refresh()
        self._is_stale = False
        for kind in (*sorted(jobs), "Pod", "Event"):
            if kind not in self.reflectors:
                self.reflectors[kind] = Reflector(
                    self._api,
                    kind,
                    kinds.keeper(kind, self._runs, self._selection),
                    self._on_event,
                    self._selection,
                )

    def take(self, event: ObjectsListed | WatchFailed | WatchWorks, now: float = 0.0) -> bool:
        """Process a watch's state; return True if more is now complete."""
        match event:
            case ObjectsListed():
                if event.started_at >= self._refreshed_at:
                    self._listed.add(event.kind)
                    return True
            case WatchFailed():
                since, _ = self.failing.get(event.kind, (now, None))
                self.failing[event.kind] = (since, event.fault)
            case WatchWorks():
                self.failing.pop(event.kind, None)
                for kind in self.failing:
                    self.reflectors[kind].try_now()
        return False

    def has_all(self, kind: str) -> bool:
        """Return True if a kind was listed completely since the last relisting."""
        return kind in self._listed

    def report_at(self) -> float:
        """Return the time at which to report a failure, monotonic seconds."""
        if not self.failing or self._reported is not None:
            return math.inf
        return min(since for since, _ in self.failing.values()) + limits.now.fault_note

    def report(self, now: float) -> str | None:
        """Return a sentence once for a lasting failure, once for recovery."""
        if self._reported is not None and not self.failing:
            text = f"The API server answers again, after {now - self._reported:.0f} s."
            self._reported = None
            return text
        if now < self.report_at():
            return None
        since, fault = min(self.failing.values(), key=lambda one: one[0])
        self._reported = since
        what = " and ".join(sorted({_PLURALS.get(kind, "jobs") for kind in self.failing}))
        if fault.status in _REFUSALS:
            error = self._api.explained(fault, f"the {what} be watched")
            return f"The {what} cannot be watched: {error} Retrying."
        silent = f"report {what}" if len(self.failing) < len(self.reflectors) else "answer"
        return (
            f"The API server does not {silent} since {now - since:.0f} s ({fault.message});"
            " retrying. Running jobs continue."
        )

    def close(self) -> None:
        """Stop all reflectors."""
        for watch in self.reflectors.values():
            watch.close()


def pause(failures: int, wanted: float | None) -> float:
    """Return the pause after consecutive failures; ``wanted`` is Retry-After.

    Random, so that all clients of a server do not return at the same time.
    """
    longest = limits.now.watch_pause
    grown = min(FIRST_PAUSE * 2.0 ** min(failures - 1, 10), longest)
    return max(grown * random.uniform(0.5, 1.0), min(wanted or 0.0, longest))  # noqa: S311
