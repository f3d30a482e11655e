"""Following the logs of pods with a bounded number of streams; lines that are lost are reported.

Logs are followed from their start: the operator deletes pods, and their logs with them, when
``backoffLimit`` or ``activeDeadlineSeconds`` strikes, and once the kubelet has rotated a log the
API serves its newest file alone. At most ``limit`` are followed at once, the most urgent first
(:mod:`~k8sbench.adapters.kubernetes.logs.order`); all others are fetched when they end, the one
that would be lost first before others. A stream that broke is resumed where it ended
(:mod:`~k8sbench.adapters.kubernetes.logs.resume`).

That a stream ends without an error says little: the API server ends it so when the container has
ended, but also when the node's kubelet goes away. So every log is requested once more when its
container is known to have ended, from where we are. Lines that the node no longer has are reported
as a :class:`~k8sbench.ports.LogGap`. A request that is rejected or breaks is repeated until it
succeeds, or until :meth:`LogStreams.give_up`: for how long is for the caller to decide, who knows
whether the pod will stay (:meth:`LogStreams.failing`).
"""

from __future__ import annotations

import contextlib
import enum
import heapq
import itertools
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.logs import order
from k8sbench.adapters.kubernetes.logs.resume import Mark, Resume
from k8sbench.adapters.kubernetes.logs.text import Line, LogText
from k8sbench.model.sample import LogGap
from k8sbench.ports import JobEvent, LogLine, LogMark

LIMIT = 56
"""Logs that are followed at the same time; with the fetchers, at most 64 are read."""
FETCHERS = 8
"""Threads that fetch the logs of containers that ended."""
SOONEST, LATEST = 0.25, 10.0
"""Seconds before a broken stream is resumed: the first time, and at most."""
ENDED_BY_ITSELF = 1.0
"""Seconds before a stream that ended without an error is requested again: mostly its container has
ended, and the API server needs about as long to report that."""
FETCHES_PER_SECOND = 50.0
"""Requests that are repeated, at most: of thousands of logs each is requested less often."""
NOTE_SECONDS = 5.0
"""A log that cannot be read for so long is reported to the user."""
LOOK_SECONDS = 0.5
STREAM_FETCHES = 5
"""Fetches without anything new until the stream of a container that ended is closed. The kubelet
detects that end within a second; until then the stream may hold what the node has rotated away."""
EMPTY_FETCHES = 3
"""Requests for a log that has neither our mark nor anything after it."""
SILENT_SECONDS, SLOW_SECONDS = 300.0, 30.0
"""Read timeouts of a stream and of a fetch: nothing is lost by another request."""


class Served(Protocol):
    """A log that is read while it arrives; any thread may close it."""

    def chunks(self) -> Iterator[bytes]:
        """Yield its bytes; raises :class:`ApiFault` where the connection breaks."""

    def close(self) -> None:
        """Close it."""


class Api(Protocol):
    """What this module needs of :class:`k8sbench.adapters.kubernetes.client.api.Api`."""

    def stream(self, path: str, *, silence_s: float | None = None, **query: str) -> Served:
        """Begin to read; raises :class:`ApiFault` for a refusal."""


class _End(enum.Enum):
    """How one request for a log ended."""

    COMPLETE = "read to its end, from the mark on"
    EMPTY = "read to its end, without the mark and anything after it"
    LOST = "lines after the mark, but not the mark's own: nothing was taken"
    BROKEN = "broken, or rejected: it may succeed later"
    UNAVAILABLE = "the node has no such log"
    WAITING = "its container has not started"
    GONE = "its pod does not exist"
    TAKEN = "another thread reads it now"


class Failing(NamedTuple):
    """That no log of a run that is left to read can be read now."""

    since: float
    """When the last of them began to fail, monotonic seconds."""
    why: dict[str, str]
    """The last fault of those that may still exist, by replica, rank 0's first."""


class _Log:
    """One replica's log."""

    def __init__(self, run_id: str, replica: str, mark: LogMark | None) -> None:
        self.run_id, self.replica = run_id, replica
        self.pod = self.uid = self.container = ""
        self.urgency, self.restarts = 0, 0
        self.lost_at = order.NEVER
        """When it will be deleted, by the cluster's clock."""
        self.is_over = False
        """Whether its container is known to have ended."""
        self.is_done = False
        """Whether everything that exists of it was handed over."""
        self.is_gone = False
        """Whether its pod was deleted."""
        self.exists = False
        """Whether its node must have it: its container has run, and is not known to be removed."""
        self.is_given_up = False
        """Whether to request it once more, and no more after a failure."""
        self.is_displaced = False
        """Whether a more urgent log needs its stream."""
        self.wake = threading.Event()
        """Set when something has changed, so that another request may help."""
        self.held = threading.Lock()
        """Held while lines are handed over; guards what follows. ``want`` never takes it."""
        self.mark = None if mark is None else Mark.of(mark)
        self.stream: Served | None = None
        self.turn = 0
        """Incremented when another thread reads it from now on."""
        self.last_uid = ""
        """The pod of the last line."""
        self.is_in_place = False
        """Whether its stream goes on from the mark."""
        self.is_intact = False
        """Whether the last stream went on from the mark and ended without a fault."""
        self.is_new = False
        """Whether what is served next begins after the mark."""
        self.looked_back = mark is not None
        """Whether the log of the previous container was requested."""
        self.gap: str | None = None
        """Why lines are missing before the next one."""
        self.why = ""
        """The last fault."""
        self.is_node_s_word = False
        """Whether the node itself said so, and not a server on the way to it."""
        self.failing_since: float | None = None
        """When the first request failed since which nothing new was read, monotonic seconds."""
        self.failures = 0
        """Requests that failed since then."""
        self.tries = 0
        """Answers since the last failure."""
        self.looked_at: Mark | None = None
        """The mark when a fetch last found less than the stream has read."""


class LogStreams:
    """Follows logs with at most ``limit`` streams; hands lines and gaps over to ``sink``.

    ``sink`` may block: nothing is read faster than it takes. It is called by many threads, for one
    replica by one at a time and in order. ``when_drained`` gets a run's id, at least once, when the
    last line of the last of its logs was handed over. ``is_away`` says whether it is known already
    that the API server does not answer: that its logs cannot be read need not be said then.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        sink: Callable[[JobEvent], None],
        *,
        limit: int = LIMIT,
        when_drained: Callable[[str], None] = lambda _: None,
        is_away: Callable[[], bool] = lambda: False,
    ) -> None:
        self._api, self._namespace, self._sink = api, namespace, sink
        self._limit, self._when_drained, self._is_away = limit, when_drained, is_away
        self._lock = threading.Condition()
        self._runs: dict[str, dict[str, _Log]] = {}
        self._following: set[_Log] = set()
        self._waiting: tuple[dict[_Log, None], ...] = ({}, {}, {}, {})
        """By urgency, in the order in which they came."""
        self._due: list[tuple[float, int, _Log]] = []
        """Logs that ended and are to be fetched, and when."""
        self._ready: list[tuple[float, int, _Log]] = []
        """Those whose time has come, and when they will be lost."""
        self._order = itertools.count()
        self._fetchers: list[threading.Thread] = []
        self._is_closed = False
        self._noted: set[tuple[str, int | None]] = set()
        """Runs, and the status codes by which their logs are known to be rejected."""

    def want(
        self,
        run_id: str,
        replica: str,
        *,
        pod: str,
        uid: str,
        container: str,
        rank: int,
        restarts: int = 0,
        failing: bool = False,
        exists: bool = False,
        lost_at: float = order.NEVER,
        mark: LogMark | None = None,
    ) -> None:
        """Follow a replica's log as soon as a stream is free; call it again when its pod changes.

        Only for a container that has started. ``mark``, what is archived of it, counts the first
        time only. A ``failing`` replica comes before others, and before all of them comes one whose
        log will be lost at a known time (``lost_at``, by the cluster's clock). Of a log that
        ``exists`` the node's word that there is none is not taken.
        """
        with self._lock:
            logs = self._runs.setdefault(run_id, {})
            log = logs.get(replica)
            fresh = log is None
            if log is None:
                log = logs[replica] = _Log(run_id, replica, mark)
            elif log.is_over and (uid, restarts) != (log.uid, log.restarts):
                log.is_over = log.is_done = False  # a new pod, or started again
                fresh = True
            log.is_gone, log.exists = log.is_gone and uid == log.uid, exists
            log.pod, log.uid, log.container, log.restarts = pod, uid, container, restarts
            urgency = order.urgency(rank, failing=failing, lost_at=lost_at)
            is_sooner, log.lost_at = lost_at < log.lost_at, lost_at
            if is_sooner and log.is_over and not log.is_done:
                self._fetch(log, 0.0)
            if not log.is_over and (fresh or log in self._waiting[log.urgency]):
                self._waiting[log.urgency].pop(log, None)
                if log not in self._following:
                    self._waiting[urgency][log] = None
            log.urgency = urgency
            log.wake.set()
            self._start_streams()

    def ended(self, run_id: str, replica: str, *, gone: bool = False) -> None:
        """Record that a replica's container has ended: the rest of its log is fetched.

        Not where its pod is ``gone``: another pod may have the name.
        """
        with self._lock:
            log = self._runs.get(run_id, {}).get(replica)
            if log is None:
                return
            log.is_gone = log.is_gone or gone
            if log.is_over:
                return
            log.is_over, log.tries, log.failures, log.failing_since = True, 0, 0, None
            self._waiting[log.urgency].pop(log, None)
            log.wake.set()
            self._fetch(log, 0.0)

    def drained(self, run_id: str) -> bool:
        """Whether every log of a run that was wanted has ended and was handed over."""
        with self._lock:
            return all(log.is_done for log in self._runs.get(run_id, {}).values())

    def failing(self, run_id: str) -> Failing | None:
        """What keeps a run from being drained; None while any of its logs may be read on."""
        with self._lock:
            left = [log for log in self._runs.get(run_id, {}).values() if not log.is_done]
            since = [log.failing_since for log in left if log.is_over]
            known = [at for at in since if at is not None]
            if not left or len(known) < len(left):
                return None
            may_exist = (log for log in left if log.exists or not log.is_node_s_word)
            return Failing(max(known), {log.replica: log.why for log in may_exist})

    def give_up(self, run_id: str) -> None:
        """Request what is left of a run's logs once more; what cannot be read then is a gap."""
        with self._lock:
            for log in self._runs.get(run_id, {}).values():
                if not (log.is_done or log.is_given_up):
                    log.is_given_up = True
                    self._fetch(log, 0.0)

    def forget(self, run_id: str) -> None:
        """Stop following a run's logs; idempotent."""
        with self._lock:
            self._noted = {one for one in self._noted if one[0] != run_id}
            logs = list(self._runs.pop(run_id, {}).values())
            for log in logs:
                log.is_over = log.is_done = True
                self._waiting[log.urgency].pop(log, None)
        self._end_streams(logs)

    def close(self) -> None:
        """Close all streams; does not wait for lines that are being handed over."""
        with self._lock:
            self._is_closed = True
            logs = [log for logs in self._runs.values() for log in logs.values()]
            self._lock.notify_all()
        self._end_streams(logs)

    @staticmethod
    def _end_streams(logs: list[_Log]) -> None:
        for log in logs:
            log.turn += 1
            log.wake.set()
            if (stream := log.stream) is not None:
                stream.close()

    # Streams

    def _start_streams(self) -> None:
        """Follow the most urgent logs with the streams that are free; with the lock held."""
        while not self._is_closed:
            dated, *others = self._waiting
            first = min(dated, key=lambda log: log.lost_at, default=None)
            log = first or next(itertools.chain.from_iterable(others), None)
            if log is None:
                return
            if len(self._following) >= self._limit:
                self._displace(log.urgency)
                return
            del self._waiting[log.urgency][log]
            self._following.add(log)
            name = f"log {log.replica}"
            threading.Thread(target=self._follow, args=(log,), name=name, daemon=True).start()

    def _displace(self, urgency: int) -> None:
        """Close the least urgent stream for a more urgent log; one at a time."""
        last = max(self._following, key=lambda log: log.urgency, default=None)
        if last is None or last.urgency <= urgency or any(x.is_displaced for x in self._following):
            return
        last.is_displaced = True
        last.wake.set()
        if last.stream is not None:
            last.stream.close()

    def _goes_on(self, log: _Log) -> bool:
        return not (self._is_closed or log.is_over or log.is_displaced)

    def _follow(self, log: _Log) -> None:
        delay = SOONEST
        while self._goes_on(log):
            log.wake.clear()
            before = log.mark
            end = self._read(log, follow=True)
            if end is _End.LOST:
                with log.held:
                    end = self._look_back(log)
                if end is _End.COMPLETE:
                    continue
            delay = SOONEST if log.mark != before else min(2 * delay, LATEST)
            if end in {_End.COMPLETE, _End.EMPTY}:
                delay = max(delay, ENDED_BY_ITSELF)
            if self._goes_on(log):
                log.wake.wait(_jittered(delay))
        with self._lock:
            self._following.discard(log)
            if log.is_over and not log.is_done:
                self._fetch(log, 0.0)
            elif not log.is_over:
                # It was displaced, or wanted again just now.
                self._waiting[log.urgency][log] = None
            log.is_displaced = False
            self._start_streams()

    # Containers that ended

    def _fetch(self, log: _Log, delay: float) -> None:
        """Have a log that ended fetched; with the lock held."""
        if self._is_closed:
            return
        heapq.heappush(self._due, (time.monotonic() + delay, next(self._order), log))
        waiting = len(self._due) + len(self._ready)
        if len(self._fetchers) < FETCHERS and len(self._fetchers) < waiting:
            self._fetchers.append(
                threading.Thread(target=self._work, name="log fetcher", daemon=True)
            )
            self._fetchers[-1].start()
        self._lock.notify()

    def _work(self) -> None:
        while True:
            with self._lock:
                while not self._is_closed and (wait := self._until_due()) is not None:
                    self._lock.wait(wait or None)
                if self._is_closed:
                    return
                _, _, log = heapq.heappop(self._ready)
            # An earlier fetch of the same log may have completed it.
            if log.is_done or not log.is_over:
                continue
            with log.held:
                again = None if log.is_done else self._finish(log)
                if again == 0.0:  # at once, before other logs
                    again = self._finish(log)
                log.is_done = log.is_done or again is None
            if again is not None:
                with self._lock:
                    self._fetch(log, again)
                continue
            self._end_streams([log])
            if log.run_id in self._runs and self.drained(log.run_id):
                self._when_drained(log.run_id)

    def _until_due(self) -> float | None:
        """Seconds until the next fetch; 0: there is none, None: one is ready."""
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            _, number, log = heapq.heappop(self._due)
            heapq.heappush(self._ready, (log.lost_at, number, log))
        if self._ready:
            return None
        return self._due[0][0] - now if self._due else 0.0

    def _finish(self, log: _Log) -> float | None:
        """Fetch the rest of a log whose container ended.

        Returns after how many seconds to try again, or None: everything that exists was read.
        """
        end = _End.COMPLETE
        if log.mark is None and log.restarts and not log.looked_back:
            end = self._look_back(log)
        before = log.mark
        if end is not _End.BROKEN:
            end = self._read(log)
        if log.is_done or self._is_closed:
            return None
        if end is _End.BROKEN:
            log.tries = 0
            if not log.is_given_up:
                return self._pause(log)
        log.tries += 1
        # A kubelet that stops cuts an answer short without an error: only an answer that comes
        # twice counts.
        unsure = log.tries == 1 and (log.mark is None or log.failing_since is not None)
        if end is _End.COMPLETE and (log.mark != before or unsure):
            return 0.0
        if end is _End.EMPTY and log.tries < EMPTY_FETCHES:
            return LOOK_SECONDS
        found = end is _End.COMPLETE and log.mark is not None
        if not found and log.stream is not None and end is not _End.BROKEN:
            # The node has rotated the log away, but the stream reads the old file to its end.
            log.tries = 1 if log.mark != log.looked_at else log.tries
            log.looked_at = log.mark
            if log.tries < STREAM_FETCHES:
                return LOOK_SECONDS
            log.turn += 1
            log.stream.close()
            # It was connected until after the end, and silent: nothing more was printed.
            log.is_intact = log.is_intact or log.is_in_place
        if end is _End.LOST or (end is _End.EMPTY and not log.is_intact):
            if self._look_back(log) is _End.BROKEN:
                if not log.is_given_up:
                    return self._pause(log)
                log.is_new, log.gap = True, _ROTATED
            if end is _End.LOST:
                return 0.0
        elif end in {_End.UNAVAILABLE, _End.BROKEN, _End.GONE}:
            why = _DELETED if end is _End.GONE else f"It could not be read: {log.why}."
            log.gap = None if log.is_intact else log.gap or why
        if log.gap is not None:
            self._gap(log, None, log.gap)
        return None

    def _pause(self, log: _Log) -> float:
        """Return after how many seconds to request a log again whose request failed."""
        pause = min(SOONEST * 2 ** min(log.failures, 10), LATEST)
        return _jittered(max(pause, len(self._due) / FETCHES_PER_SECOND))

    # One request

    def _look_back(self, log: _Log) -> _End:
        """Read what the previous container printed after our mark.

        Where there was none, the node has rotated a part of the log away. What is served from then
        on is new in either case. COMPLETE: go on with the current container.
        """
        first = log.mark is None
        if first and log.restarts > 1:
            log.gap = _RESTARTED
        end = self._read(log, previous=True)
        if end is _End.LOST:
            log.gap, log.is_new = _RESTARTED, True
            end = self._read(log, previous=True)
        if end is _End.BROKEN:
            return end
        log.looked_back = True
        if end is _End.EMPTY:
            log.gap = None if log.is_intact else _ROTATED
        elif end is not _End.COMPLETE and log.last_uid not in {"", log.uid}:
            log.gap = None if log.is_intact else _REPLACED
        elif end is not _End.COMPLETE:
            log.gap = log.gap or (_RESTARTED if first else _ROTATED)
        log.is_new = log.mark is not None
        return _End.COMPLETE

    def _read(self, log: _Log, *, follow: bool = False, previous: bool = False) -> _End:
        """Request a log once, and hand over what is new in it.

        Following, it takes ``log.held`` for each piece; otherwise the caller holds it.
        """
        with log.held if follow else contextlib.nullcontext():
            unread = log.mark is None and log.restarts and not log.looked_back
            if follow and unread and self._look_back(log) is _End.BROKEN:
                return _End.BROKEN
            began, turn, text = log.mark, log.turn, LogText()
            resume = Resume(log.mark, anew=log.is_new, now=int(time.time() * 1_000_000))
        try:
            served = self._ask(log, follow=follow, previous=previous)
        except ApiFault as fault:
            return self._refused(log, fault)
        if follow:
            log.stream, log.is_in_place, log.failing_since = served, resume.found, None
        try:
            for chunk in () if follow and self._is_released(log, turn) else served.chunks():
                new = resume.feed(text.feed(chunk))
                with log.held if follow else contextlib.nullcontext():
                    if follow and log.turn != turn:
                        return _End.TAKEN
                    log.is_in_place = resume.found if follow else log.is_in_place
                    self._hand_over(log, resume, new, alone=not follow)
                if resume.lost:
                    return _End.LOST
        except ApiFault as fault:
            log.is_intact = log.is_intact and not follow
            return self._refused(log, fault)
        finally:
            if follow:
                log.stream = None
            served.close()
        if follow and self._is_released(log, turn):
            return _End.TAKEN
        rest = text.end()
        if text.error is not None:
            log.is_intact = log.is_intact and not follow
            log.why = text.error.strip().rstrip(".")
            if "unable to retrieve" in text.error and (previous or not log.exists):
                return _End.UNAVAILABLE
            return self._failed(log, log.why, None, is_node_s_word=True)
        if follow:
            log.is_intact = log.is_intact or resume.found
        elif previous or log.mark == began:
            # The container has ended, and so has its last line; this, too, only after two answers.
            self._hand_over(log, resume, resume.feed(rest), alone=resume.found)
        return _End.COMPLETE if resume.found else _End.LOST if resume.lost else _End.EMPTY

    def _is_released(self, log: _Log, turn: int) -> bool:
        """Whether a stream was closed here, or another thread reads its log."""
        return log.turn != turn or log.is_displaced or self._is_closed

    def _ask(self, log: _Log, *, follow: bool, previous: bool) -> Served:
        if log.is_gone:
            raise ApiFault(404, "NotFound", "its pod is gone")
        query = {"container": log.container, "timestamps": "true"}
        if follow:
            query["follow"] = "true"
        if previous:
            query["previous"] = "true"
        if log.mark is not None and not log.is_new:
            since = datetime.fromtimestamp(log.mark.since, UTC)
            query["sinceTime"] = since.strftime("%Y-%m-%dT%H:%M:%SZ")
        path = kinds.path("Pod", self._namespace, log.pod, "log")
        silence = SILENT_SECONDS if follow else SLOW_SECONDS
        return self._api.stream(path, silence_s=silence, **query)

    def _refused(self, log: _Log, fault: ApiFault) -> _End:
        # A kubelet that has just started answers 404 and 400 until it knows its pods.
        if log.is_gone or (fault.status == 404 and 'pods "' in fault.message):
            return _End.GONE
        if fault.status == 400 and "previous terminated container" in fault.message:
            return _End.UNAVAILABLE
        if fault.status == 400 and not log.exists:
            # Not available: a node that rejected or evicted the pod never had the container.
            never = "is not available" in fault.message and log.mark is None
            log.why = fault.message.rstrip(".")
            waits = "waiting to start" in fault.message
            return _End.WAITING if waits or never else _End.UNAVAILABLE
        why = _REQUEST.sub(r"kubelet at \1", fault.message) or f"HTTP status {fault.status}"
        if fault.status == 403:
            why = f"{why.rstrip('.')} (it takes the permission get on pods/log)"
        return self._failed(log, why, fault.status, is_node_s_word=fault.status == 400)

    def _failed(self, log: _Log, why: str, status: int | None, *, is_node_s_word: bool) -> _End:
        """Record that a request failed, and report it once for each run and status."""
        now = time.monotonic()
        log.why, log.is_node_s_word = why.rstrip("."), is_node_s_word
        log.failures += 1
        since = log.failing_since = log.failing_since or now
        is_reported = status is None and not is_node_s_word and self._is_away()
        if (status == 403 or now - since >= NOTE_SECONDS) and not is_reported:
            with self._lock:
                is_new = (log.run_id, status) not in self._noted
                self._noted.add((log.run_id, status))
            if is_new:
                note = f"Logs cannot be read now ({log.replica}: {log.why}); retrying."
                self._sink(JobEvent(run_id=log.run_id, note=note))
        return _End.BROKEN

    def _hand_over(self, log: _Log, resume: Resume, new: list[Line], *, alone: bool) -> None:
        """Hand lines over; with ``alone`` no other thread reads this log from now on."""
        if alone and (new or resume.found):
            log.turn += 1
        if not new:
            return
        log.is_intact, log.failing_since, log.failures = False, None, 0
        if log.gap is not None:
            self._gap(log, new[0].at, log.gap)
        for at, line in new:
            assert at is not None
            handed = LogLine(replica=log.replica, at=at / 1_000_000, text=line)
            self._sink(JobEvent(run_id=log.run_id, line=handed))
        log.mark, log.is_new, log.last_uid = resume.mark, False, log.uid

    def _gap(self, log: _Log, before: int | None, why: str) -> None:
        log.gap = None
        gap = LogGap(
            replica=log.replica,
            after=None if log.mark is None else log.mark.at / 1_000_000,
            before=None if before is None else before / 1_000_000,
            why=why,
        )
        self._sink(JobEvent(run_id=log.run_id, gap=gap))


_ROTATED = "Its node had rotated this part of the log away before it was read (rotation)."
_RESTARTED = "Its container was restarted, and the node did not keep this part of the log."
_REPLACED = "Its pod was replaced before its log was read to the end."
_DELETED = "Its pod was deleted before its log was read to the end."
_REQUEST = re.compile(r'Get "https?://([^/"]+)[^"]*"')
"""How the API server begins a message about a kubelet that it cannot reach."""


def _jittered(seconds: float) -> float:
    """Vary a delay, so that streams which broke together do not return together."""
    return seconds * random.uniform(0.7, 1.3)  # noqa: S311 - no secret
