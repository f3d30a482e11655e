"""Following the logs of pods with a bounded number of streams; lines that are lost are reported.

Logs are followed from their start: the operator deletes pods, and their logs with them, when
``backoffLimit`` or ``activeDeadlineSeconds`` strikes, and once the kubelet has rotated a log the
API serves its newest file alone. At most ``limit`` are followed at once, the most urgent first;
all others are fetched when they end. A stream that broke is resumed where it ended
(:mod:`~k8sbench.adapters.kubernetes.logs.resume`).

That a stream ends without an error says little: the API server ends it so when the container has
ended, but also when the node's kubelet goes away. So every log is asked for once more when its
container is known to have ended, from where we are; what could not be read is reported as a
:class:`~k8sbench.ports.LogGap`.
"""

from __future__ import annotations

import contextlib
import enum
import heapq
import itertools
import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Protocol

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.logs.resume import Mark, Resume
from k8sbench.adapters.kubernetes.logs.text import Line, LogText
from k8sbench.model.sample import LogGap
from k8sbench.ports import JobEvent, LogLine, LogMark

LIMIT = 56
"""Logs that are followed at once; with those that are fetched, 64 are read."""
FETCHERS = 8
"""Threads that fetch the logs that ended."""
SOONEST, LATEST = 0.25, 10.0
"""Seconds before a broken stream is taken up again: the first time, and at most."""
ENDED_BY_ITSELF = 1.0
"""Seconds before a stream that ended without an error is asked for again: as a rule its container
has ended, and the API server needs about as long to know."""
TRIES = 6
"""Requests for a log that ended while its node refuses them: 15 s in all."""
BUSY_TRIES = 36
"""The same while the API server refuses them, as it then refuses everything: 5 minutes."""
_BUSY = frozenset({401, 429, 502, 503, 504})
"""Its status codes; a node's are 400, 404 and 500. Of 401, credentials may be renewed."""
LOOK_SECONDS = 0.5
PATIENCE = 5
"""Looks without anything new until the stream of a container that ended is given up. The kubelet
sees that end within a second; until then the stream may hold what the node has put away."""
SURE = 3
"""Times that a log without anything from our place on is asked for."""
SILENT_SECONDS, SLOW_SECONDS = 300.0, 30.0
"""Without a byte, a stream and a fetch are taken for dead: nothing is lost by asking again."""


class Served(Protocol):
    """What is served of a log, as it comes; any thread may close it."""

    def chunks(self) -> Iterator[bytes]:
        """Yield it; raises :class:`ApiFault` where the connection breaks."""

    def close(self) -> None:
        """End it."""


class Api(Protocol):
    """What this module needs of :class:`k8sbench.adapters.kubernetes.client.api.Api`."""

    def stream(self, path: str, *, silence_s: float | None = None, **query: str) -> Served:
        """Begin to read; raises :class:`ApiFault` where that is refused."""


class _End(enum.Enum):
    """How one request for a log ended."""

    COMPLETE = "by itself, from the mark on"
    EMPTY = "by itself, with nothing behind the mark and not the mark either"
    LOST = "with lines behind the mark, but without the mark's: nothing was taken"
    BROKEN = "broken, or refused for now"
    UNAVAILABLE = "the node has no such log"
    WAITING = "its container has not started"
    GONE = "its pod is not there"
    REFUSED = "not permitted"
    TAKEN = "another thread goes on with it"


class _Log:
    """One replica's log."""

    def __init__(self, run_id: str, replica: str, mark: LogMark | None) -> None:
        self.run_id, self.replica = run_id, replica
        self.pod = self.uid = self.container = ""
        self.urgency, self.restarts = 0, 0
        self.is_over = False
        """Whether its container is known to have ended."""
        self.is_done = False
        """Whether all that there is of it was told."""
        self.is_gone = False
        """Whether its pod is no more."""
        self.gives_way = False
        """Whether a more urgent one needs its place."""
        self.wake = threading.Event()
        """Something has changed that may be worth another try."""
        self.held = threading.Lock()
        """Held while lines are told; guards what follows. Never taken by who reports changes."""
        self.mark = None if mark is None else Mark.of(mark)
        self.stream: Served | None = None
        self.turn = 0
        """Grows when another thread goes on with it."""
        self.told_uid = ""
        """The pod that the last line is from."""
        self.is_in_place = False
        """Whether its stream goes on where we are."""
        self.is_intact = False
        """Whether the last stream went on from where we were, and ended by itself."""
        self.is_new = False
        """Whether what is served next begins behind the mark."""
        self.looked_back = mark is not None
        """Whether the container before the present one was asked for."""
        self.gap: str | None = None
        """Why lines are missing before the next one."""
        self.why = ""
        """What was last wrong."""
        self.most_tries: float = TRIES
        """How often to ask, as what was last wrong is."""
        self.tries = 0
        self.looked_at: Mark | None = None
        """Where its stream was when the fetch last found less than that has."""


class LogStreams:
    """Follows logs with at most ``limit`` streams; hands lines and gaps over to ``sink``.

    ``sink`` may block: nothing is read faster than it takes. It is called by many threads, for one
    replica by one at a time and in order. ``when_drained`` is told a run's id, at least once, when
    the last line of the last of its logs was handed over.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        sink: Callable[[JobEvent], None],
        *,
        limit: int = LIMIT,
        when_drained: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._api, self._namespace, self._sink = api, namespace, sink
        self._limit, self._when_drained = limit, when_drained
        self._lock = threading.Condition()
        self._runs: dict[str, dict[str, _Log]] = {}
        self._following: set[_Log] = set()
        self._waiting: tuple[dict[_Log, None], ...] = ({}, {}, {})
        """By urgency, in the order in which they came."""
        self._due: list[tuple[float, int, _Log]] = []
        """Logs that ended and are to be fetched, and when."""
        self._order = itertools.count()
        self._fetchers: list[threading.Thread] = []
        self._is_closed = False
        self._refusals_told: set[str] = set()

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
        mark: LogMark | None = None,
    ) -> None:
        """Follow a replica's log as soon as there is room; call it again when its pod changes.

        For a container that has started, or started once. ``mark`` counts the first time only:
        what is archived of it. ``failing`` is for a replica about which the user will ask first.
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
            log.is_gone = log.is_gone and uid == log.uid
            log.pod, log.uid, log.container, log.restarts = pod, uid, container, restarts
            urgency = 0 if rank == 0 else 1 if failing else 2
            if not log.is_over and (fresh or log in self._waiting[log.urgency]):
                self._waiting[log.urgency].pop(log, None)
                if log not in self._following:
                    self._waiting[urgency][log] = None
            log.urgency = urgency
            log.wake.set()
            self._give_room()

    def ended(self, run_id: str, replica: str, *, gone: bool = False) -> None:
        """Say that a replica's container has ended for good: what is missing is fetched.

        Not where its pod is ``gone``: by its name another one's might be served.
        """
        with self._lock:
            log = self._runs.get(run_id, {}).get(replica)
            if log is None:
                return
            log.is_gone = log.is_gone or gone
            if log.is_over:
                return
            log.is_over, log.tries = True, 0
            self._waiting[log.urgency].pop(log, None)
            log.wake.set()
            self._fetch(log, 0.0)

    def drained(self, run_id: str) -> bool:
        """Whether every log of a run that was wanted has ended and was handed over."""
        with self._lock:
            return all(log.is_done for log in self._runs.get(run_id, {}).values())

    def forget(self, run_id: str) -> None:
        """Follow a run's logs no longer; idempotent."""
        with self._lock:
            logs = list(self._runs.pop(run_id, {}).values())
            for log in logs:
                log.is_over = log.is_done = True
                self._waiting[log.urgency].pop(log, None)
        self._end_streams(logs)

    def close(self) -> None:
        """Let go of everything; what is being handed over is not waited for."""
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

    # Who is followed

    def _give_room(self) -> None:
        """Start following what is most urgent, as far as there is room; with the lock held."""
        while not self._is_closed:
            log = next(itertools.chain.from_iterable(self._waiting), None)
            if log is None:
                return
            if len(self._following) >= self._limit:
                self._make_way(log.urgency)
                return
            del self._waiting[log.urgency][log]
            self._following.add(log)
            name = f"log {log.replica}"
            threading.Thread(target=self._follow, args=(log,), name=name, daemon=True).start()

    def _make_way(self, urgency: int) -> None:
        """Have the least urgent stream end for a more urgent one; one at a time."""
        last = max(self._following, key=lambda log: log.urgency, default=None)
        if last is None or last.urgency <= urgency or any(x.gives_way for x in self._following):
            return
        last.gives_way = True
        last.wake.set()
        if last.stream is not None:
            last.stream.close()

    def _goes_on(self, log: _Log) -> bool:
        return not (self._is_closed or log.is_over or log.gives_way)

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
                log.wake.wait(_spread(delay))
        with self._lock:
            self._following.discard(log)
            if log.is_over and not log.is_done:
                self._fetch(log, 0.0)
            elif not log.is_over:
                # It gave way, or was wanted again just now.
                self._waiting[log.urgency][log] = None
            log.gives_way = False
            self._give_room()

    # What has ended

    def _fetch(self, log: _Log, delay: float) -> None:
        """Have a log that ended fetched; with the lock held."""
        if self._is_closed:
            return
        heapq.heappush(self._due, (time.monotonic() + delay, next(self._order), log))
        if len(self._fetchers) < FETCHERS and len(self._fetchers) < len(self._due):
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
                _, _, log = heapq.heappop(self._due)
            # Two fetches of one log: the one before made this one needless.
            if log.is_done or not log.is_over:
                continue
            with log.held:
                again = None if log.is_done else self._finish(log)
                if again == 0.0:  # before others have their turn: their logs end no sooner so
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
        """Seconds until the next fetch; 0: none is known, None: it is due."""
        if not self._due:
            return 0.0
        wait = self._due[0][0] - time.monotonic()
        return wait if wait > 0 else None

    def _finish(self, log: _Log) -> float | None:
        """Fetch what is missing of a log that ended.

        Returns after how many seconds to try again, or None: that is all that there is.
        """
        log.tries += 1
        again = _spread(min(SOONEST * 2**log.tries, LATEST))
        end = _End.COMPLETE
        if log.mark is None and log.restarts and not log.looked_back:
            end = self._look_back(log)
        before = log.mark
        if end is not _End.BROKEN:
            end = self._read(log)
        if log.is_done or self._is_closed:
            return None
        # A kubelet that goes away cuts an answer short without a word: only what is answered
        # again is believed.
        if end is _End.COMPLETE and log.mark != before:
            return 0.0
        if end is _End.EMPTY and log.tries < SURE:
            return LOOK_SECONDS
        if end is _End.BROKEN and log.tries < log.most_tries:
            return again
        found = end is _End.COMPLETE and log.mark is not None
        if not found and log.stream is not None and end is not _End.BROKEN:
            # The node has put the log away, but the stream reads the old file to its end.
            log.tries = 1 if log.mark != log.looked_at else log.tries
            log.looked_at = log.mark
            if log.tries < PATIENCE:
                return LOOK_SECONDS
            log.turn += 1
            log.stream.close()
            # It was there until after the end, and silent: it had no more to tell.
            log.is_intact = log.is_intact or log.is_in_place
        if end is _End.LOST or (end is _End.EMPTY and not log.is_intact):
            if self._look_back(log) is _End.BROKEN:
                if log.tries < log.most_tries:
                    return again
                log.is_new, log.gap = True, _ROTATED
            if end is _End.LOST:
                return 0.0
        elif end in {_End.UNAVAILABLE, _End.BROKEN}:
            log.gap = None if log.is_intact else log.gap or f"It could not be read: {log.why}."
        elif end in _WHY:
            log.gap = None if log.is_intact else log.gap or _WHY[end]
        if log.gap is not None:
            self._gap(log, None, log.gap)
        return None

    # One request

    def _look_back(self, log: _Log) -> _End:
        """Read what the container before the present one printed behind our mark.

        Where there was none, the node has put a part of the log away. What is served from then on
        is new in either case. COMPLETE: go on with the present one.
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
        elif end is not _End.COMPLETE and log.told_uid not in {"", log.uid}:
            log.gap = None if log.is_intact else _REPLACED
        elif end is not _End.COMPLETE:
            log.gap = log.gap or (_RESTARTED if first else _ROTATED)
        log.is_new = log.mark is not None
        return _End.COMPLETE

    def _read(self, log: _Log, *, follow: bool = False, previous: bool = False) -> _End:
        """Ask for a log once, and tell what is new in it.

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
            log.stream, log.is_in_place = served, resume.found
        try:
            for chunk in () if follow and self._is_not_ours(log, turn) else served.chunks():
                new = resume.feed(text.feed(chunk))
                with log.held if follow else contextlib.nullcontext():
                    if follow and log.turn != turn:
                        return _End.TAKEN
                    log.is_in_place = resume.found if follow else log.is_in_place
                    self._tell(log, resume, new, alone=not follow)
                if resume.lost:
                    return _End.LOST
        except ApiFault as fault:
            log.is_intact = log.is_intact and not follow
            return self._refused(log, fault)
        finally:
            if follow:
                log.stream = None
            served.close()
        if follow and self._is_not_ours(log, turn):
            return _End.TAKEN
        rest = text.end()
        if text.error is not None:
            log.why, log.most_tries = text.error.strip().rstrip("."), TRIES
            log.is_intact = log.is_intact and not follow
            return _End.UNAVAILABLE if "unable to retrieve" in text.error else _End.BROKEN
        if follow:
            log.is_intact = log.is_intact or resume.found
        elif previous or log.mark == began:
            # The container has ended, and so has its last line; here, too, twice the same.
            self._tell(log, resume, resume.feed(rest), alone=resume.found)
        return _End.COMPLETE if resume.found else _End.LOST if resume.lost else _End.EMPTY

    def _is_not_ours(self, log: _Log, turn: int) -> bool:
        """Whether a stream was ended from here, or another thread goes on with its log."""
        return log.turn != turn or log.gives_way or self._is_closed

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
        log.why = fault.message.rstrip(".")
        log.most_tries = TRIES
        if fault.status is None:  # without any answer, for as long as it takes
            log.most_tries = math.inf
        elif fault.status in _BUSY:
            log.most_tries = BUSY_TRIES
        if fault.status == 403:
            if log.run_id not in self._refusals_told:
                self._refusals_told.add(log.run_id)
                self._sink(JobEvent(run_id=log.run_id, note=f"Logs cannot be read: {log.why}."))
            return _End.REFUSED
        if fault.status == 404:
            return _End.GONE
        if fault.status == 400:
            # Not available: a node that refused the pod, or gave it up, never had the container.
            never = "is not available" in fault.message and log.mark is None
            waits = "waiting to start" in fault.message
            return _End.WAITING if waits or never else _End.UNAVAILABLE
        return _End.BROKEN

    def _tell(self, log: _Log, resume: Resume, new: list[Line], *, alone: bool) -> None:
        """Hand lines over; ``alone``: whoever else reads this log is behind from now on."""
        if alone and (new or resume.found):
            log.turn += 1
        if not new:
            return
        log.is_intact = False
        if log.gap is not None:
            self._gap(log, new[0].at, log.gap)
        for at, line in new:
            assert at is not None
            told = LogLine(replica=log.replica, at=at / 1_000_000, text=line)
            self._sink(JobEvent(run_id=log.run_id, line=told))
        log.mark, log.is_new, log.told_uid = resume.mark, False, log.uid

    def _gap(self, log: _Log, before: int | None, why: str) -> None:
        log.gap = None
        gap = LogGap(
            replica=log.replica,
            after=None if log.mark is None else log.mark.at / 1_000_000,
            before=None if before is None else before / 1_000_000,
            why=why,
        )
        self._sink(JobEvent(run_id=log.run_id, gap=gap))


_ROTATED = "Its node had put this part of the log away (rotation) before it was read."
_RESTARTED = "Its container was restarted, and the node did not keep this part of the log."
_REPLACED = "Its pod was replaced before its log was read to the end."
_WHY = {
    _End.GONE: "Its pod was deleted before its log was read to the end.",
    _End.REFUSED: "Logs may not be read here: the permission get on pods/log is missing.",
}


def _spread(seconds: float) -> float:
    """Vary a delay, so that all that broke at once does not come back at once."""
    return seconds * random.uniform(0.7, 1.3)  # noqa: S311 - no secret
