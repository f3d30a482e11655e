"""Following pods' logs with a bounded number of streams.

Lost lines are reported.

Logs are followed from their start: the operator deletes pods, and their logs with them, when
``backoffLimit`` or ``activeDeadlineSeconds`` strikes, and once the kubelet has rotated a log the
API serves its newest file alone. At most ``limit`` are followed at once, and some of these only of
rank 0, which the measurement needs. All others are fetched when they end. A stream
that broke is resumed where it ended (:mod:`~k8sbench.adapters.kubernetes.logs.text`).

That a stream ends without an error says little: the API server ends it so when the container has
ended, but also when the node's kubelet goes away. Nothing else says how many lines there are, so
every log is requested once more when its container is known to have ended, from where we are
(:class:`LogReader` has one request). One that is rejected or breaks
is repeated until it succeeds, or until :meth:`LogStreams.give_up`: for how long is for the caller
to decide, who knows whether the pod will stay (:meth:`LogStreams.failing`).
"""

from __future__ import annotations

import contextlib
import enum
import heapq
import itertools
import math
import random
import re
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from k8sbench import limits
from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api, LineStream
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.logs.text import LogText, Resume, StampedLine
from k8sbench.model.sample import LogGap
from k8sbench.ports import JobEvent, LogLine, LogMark

LIMIT = 56
"""Maximum followed logs; with the fetchers at most 64 connections."""
LEADERS = 16
"""Of these only for rank 0."""
FETCHERS = 8
"""Threads that fetch the logs of containers that ended."""
SOONEST, LATEST = 0.25, 10.0
"""First and longest pause before a broken stream is resumed, seconds."""
ENDED_BY_ITSELF = 1.0
"""Pause after a stream that ended without an error, seconds.

Mostly its container ended, which the API server reports about as late.
"""
FETCHES_PER_SECOND = 50.0
"""Maximum rate of retries; each of thousands of logs gets fewer."""
STREAM_FETCHES = 5
"""Fetches without new lines until an ended container's stream is closed.

The kubelet detects the end within a second; until then the stream may hold lines that the node has
rotated away.
"""
MOST_ANSWERS = 20
"""Maximum answers for an ended container's log, until one has nothing new."""
EMPTY_FETCHES = 3
"""Requests for a log that has neither our mark nor anything after it."""


class Failing(NamedTuple):
    """None of the run's remaining logs is readable."""

    since: float
    """Start of the last log's failures, monotonic seconds."""
    why: dict[str, str]
    """Last faults of logs that may still exist, by replica, rank 0 first."""


class LogStreams:
    """Follows logs with at most ``limit`` streams, and calls ``sink``.

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
        self._reader = LogReader(api, namespace, sink, is_away)
        self._limit, self._when_drained = limit, when_drained
        self._lock = threading.Condition()
        self._runs: dict[str, dict[str, Log]] = {}
        self._following: set[Log] = set()
        self._waiting: tuple[dict[Log, None], ...] = ({}, {})
        """Waiting logs, those of rank 0 and others, in order of arrival."""
        self._due: list[tuple[float, int, Log]] = []
        """Logs that ended and are to be fetched, and when."""
        self._order = itertools.count()
        self._fetchers: list[threading.Thread] = []
        self._is_closed = False

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
        exists: bool = False,
        mark: LogMark | None = None,
    ) -> None:
        """Follow a replica's log once a stream is free; repeat when its pod changes.

        Only for a started container. ``mark`` is the archived end, used the first time only. If the
        log ``exists``, a node's denial is not believed.
        """
        with self._lock:
            logs = self._runs.setdefault(run_id, {})
            log = logs.get(replica)
            fresh = log is None
            if log is None:
                log = Log(run_id, replica, mark, looked_back=mark is not None)
                logs[replica], log.leads = log, rank == 0
            elif log.is_over and (uid, restarts) != (log.uid, log.restarts):
                log.is_over = log.is_done = False  # a new pod, or started again
                fresh = True
                if uid != log.uid:  # what is still served of the pod before hides this one's log
                    self._end_streams([log])
            # Of what the container before this one has printed its stream says nothing.
            log.is_intact = log.is_intact and (uid != log.uid or restarts == log.restarts)
            log.is_gone, log.exists = log.is_gone and uid == log.uid, exists
            log.pod, log.uid, log.container, log.restarts = pod, uid, container, restarts
            if fresh and log not in self._following:
                self._waiting[not log.leads][log] = None
            _wake(log)
            self._start_streams()

    def ended(self, run_id: str, replica: str, *, gone: bool = False) -> None:
        """Fetch the rest of a log whose container ended.

        Not where its pod is ``gone``: another pod may have the name.
        """
        with self._lock:
            log = self._runs.get(run_id, {}).get(replica)
            if log is None:
                return
            log.is_gone = log.is_gone or gone
            if log.is_over:
                return
            log.is_over, log.tries, log.failures = True, 0, 0
            log.failing_since = None
            self._waiting[not log.leads].pop(log, None)
            _wake(log)
            self._fetch(log, 0.0)

    def drained(self, run_id: str) -> bool:
        """Return True if all requested logs of a run ended and were delivered."""
        with self._lock:
            return all(log.is_done for log in self._runs.get(run_id, {}).values())

    def failing(self, run_id: str) -> Failing | None:
        """Return the faults that keep a run from draining; None if readable."""
        with self._lock:
            left = [log for log in self._runs.get(run_id, {}).values() if not log.is_done]
            since = [log.failing_since for log in left if log.is_over]
            known = [at for at in since if at is not None]
            if not left or len(known) < len(left):
                return None
            may_exist = (log for log in left if log.exists or not log.is_node_s_word)
            return Failing(max(known), {log.replica: log.why for log in may_exist})

    def give_up(self, run_id: str) -> None:
        """Request a run's remaining logs once more; failures become gaps."""
        with self._lock:
            for log in self._runs.get(run_id, {}).values():
                if not (log.is_done or log.is_given_up):
                    log.is_given_up = True
                    self._fetch(log, 0.0)

    def forget(self, run_id: str) -> None:
        """Stop following a run's logs; idempotent."""
        with self._lock:
            logs = list(self._runs.pop(run_id, {}).values())
            for log in logs:
                log.is_over = log.is_done = True
                self._waiting[not log.leads].pop(log, None)
        self._end_streams(logs)

    def close(self) -> None:
        """Close all streams, without waiting for deliveries."""
        with self._lock:
            self._is_closed = self._reader.is_closed = True
            logs = [log for logs in self._runs.values() for log in logs.values()]
            self._lock.notify_all()
        self._end_streams(logs)

    @staticmethod
    def _end_streams(logs: list[Log]) -> None:
        for log in logs:
            log.turn += 1
            _wake(log)
            if (stream := log.stream) is not None:
                stream.close()

    # Streams

    def _start_streams(self) -> None:
        """Start streams, of rank 0 first; the lock is held."""
        while not self._is_closed:
            log = next(itertools.chain.from_iterable(self._waiting), None)
            if log is None:
                return
            if len(self._following) >= self._limit - (0 if log.leads else LEADERS):
                return
            del self._waiting[not log.leads][log]
            self._following.add(log)
            log.wake = threading.Event()
            threading.Thread(
                target=self._follow, args=(log, log.wake), name=f"log {log.replica}", daemon=True
            ).start()

    def _goes_on(self, log: Log) -> bool:
        return not (self._is_closed or log.is_over)

    def _follow(self, log: Log, wake: threading.Event) -> None:
        delay = SOONEST
        while self._goes_on(log):
            wake.clear()
            before = log.mark
            end = self._reader.follow(log)
            delay = SOONEST if log.mark != before else min(2 * delay, LATEST)
            if end in {End.COMPLETE, End.EMPTY}:
                delay = max(delay, ENDED_BY_ITSELF)
            if self._goes_on(log):
                wake.wait(_jittered(delay))
        with self._lock:
            self._following.discard(log)
            log.wake = None
            if log.is_over and not log.is_done:
                self._fetch(log, 0.0)
            elif not log.is_over:  # requested again
                self._waiting[not log.leads][log] = None
            self._start_streams()

    # Containers that ended

    def _fetch(self, log: Log, delay: float) -> None:
        """Have a log that ended fetched; with the lock held."""
        if self._is_closed:
            return
        heapq.heappush(self._due, (time.monotonic() + delay, next(self._order), log))
        if len(self._fetchers) < min(FETCHERS, len(self._due)):
            self._fetchers.append(
                threading.Thread(target=self._work, name="log fetcher", daemon=True)
            )
            self._fetchers[-1].start()
        self._lock.notify()

    def _work(self) -> None:
        while True:
            with self._lock:
                while not (self._is_closed or self._is_due()):
                    self._lock.wait(self._due[0][0] - time.monotonic() if self._due else None)
                if self._is_closed:
                    return
                _, _, log = heapq.heappop(self._due)
            # An earlier fetch of the same log may have completed it.
            if log.is_done or not log.is_over:
                continue
            with log.held:
                again = None if log.is_done else self._finish(log)
                log.is_done = log.is_done or again is None
            if again is not None:
                with self._lock:
                    self._fetch(log, again)
                continue
            self._end_streams([log])
            if log.run_id in self._runs and self.drained(log.run_id):
                self._when_drained(log.run_id)

    def _is_due(self) -> bool:
        return bool(self._due) and self._due[0][0] <= time.monotonic()

    def _finish(self, log: Log) -> float | None:
        """Fetch the rest of a log whose container ended.

        Returns after how many seconds to try again, or None: everything that exists was read.
        """
        end = End.COMPLETE
        if log.mark is None and log.restarts and not log.looked_back:
            end = self._reader.look_back(log)
        before = log.mark
        if end is not End.BROKEN:
            end = self._reader.read(log)
        if log.is_done or self._is_closed:
            return None
        if end is End.BROKEN:
            log.tries = 0
            if not log.is_given_up:
                return self._pause(log)
        log.tries += 1
        # A kubelet that stops cuts an answer short without an error: the last answer has no news.
        is_first = log.tries == 1 and (log.mark is None or log.failing_since is not None)
        has_news = is_first or log.mark != before or log.rest
        if end is End.COMPLETE and has_news and log.tries < MOST_ANSWERS:
            return 0.0
        if end is End.EMPTY and log.tries < EMPTY_FETCHES:
            return limits.now.log_look
        found = end is End.COMPLETE and log.mark is not None
        if not found and log.stream is not None and end is not End.BROKEN:
            # The node has rotated the log away, but the stream reads the old file to its end.
            log.tries = 1 if log.mark != log.looked_at else log.tries
            log.looked_at = log.mark
            if log.tries < STREAM_FETCHES:
                return limits.now.log_look
            log.turn += 1
            log.stream.close()
            # It was connected until after the end, and silent: nothing more was printed.
            log.is_intact = log.is_intact or log.is_in_place
        if end is End.LOST or (end is End.EMPTY and not log.is_intact):
            if self._reader.look_back(log) is End.BROKEN:
                if not log.is_given_up:
                    return self._pause(log)
                log.is_new, log.gap = True, ROTATED
            if end is End.LOST and log.tries < MOST_ANSWERS:
                return 0.0
        elif end in {End.UNAVAILABLE, End.BROKEN, End.GONE}:
            why = _DELETED if end is End.GONE else f"It could not be read: {log.why}."
            log.gap = None if log.is_intact else log.gap or why
        if log.gap is not None:
            self._reader.gap(log, None, log.gap)
        return None

    def _pause(self, log: Log) -> float:
        """Return the pause before a failed log is requested again, seconds."""
        pause = min(SOONEST * 2 ** min(log.failures, 10), LATEST)
        return _jittered(max(pause, len(self._due) / FETCHES_PER_SECOND))


_DELETED = "Its pod was deleted before its log was read to the end."


def _wake(log: Log) -> None:
    if (wake := log.wake) is not None:
        wake.set()


def _jittered(seconds: float) -> float:
    """Vary a delay, so that broken streams do not return together."""
    return seconds * random.uniform(0.7, 1.3)  # noqa: S311 - no secret


# -- one request -----------------------------------------------------------------------------------
#
# It delivers new lines and returns how it ended. Lines that the node has dropped are reported as a
# LogGap before the next line.

SILENT_SECONDS, SLOW_SECONDS = 300.0, 30.0
"""Read timeouts of a stream and of a fetch; retries lose nothing."""
NEAR_LINES = 1000
"""Lines at a log's end that are searched for the mark first."""
ROTATED = "Its node had rotated this part of the log away before it was read (rotation)."
_RESTARTED = "Its container was restarted, and the node did not keep this part of the log."
_REPLACED = "Its pod was replaced before its log was read to the end."
_REQUEST = re.compile(r'Get "https?://([^/"]+)[^"]*"')
"""Beginning of the API server's message about an unreachable kubelet."""
_NOT_FOUND = re.compile(r'pods "([^"]+)" not found')
"""The API server's answer for a missing pod.

For a pod whose node has no object it names the node as if it were a pod.
"""


class Log(msgspec.Struct, eq=False):
    """One replica's log; compact, because thousands are kept."""

    run_id: str
    replica: str
    mark: LogMark | None
    pod: str = ""
    uid: str = ""
    container: str = ""
    leads: bool = False
    """True for rank 0."""
    restarts: int = 0
    is_over: bool = False
    """True if its container is known to have ended."""
    is_done: bool = False
    """True if everything that exists of it was delivered."""
    is_gone: bool = False
    """True if its pod was deleted."""
    exists: bool = False
    """True if its node must have it.

    Its container has run, and is not known to be removed.
    """
    is_given_up: bool = False
    """True for one last request, without retry."""
    wake: threading.Event | None = None
    """Set when something has changed, so that another request may help.

    None unless it is followed: an event takes 1 kB.
    """
    held: threading.Lock = msgspec.field(default_factory=threading.Lock)
    """Held while lines are delivered; guards the fields below.

    ``want`` never takes it.
    """
    stream: LineStream | None = None
    turn: int = 0
    """Incremented when another thread reads it from now on."""
    last: tuple[str, int] = "", 0
    """Pod uid and restarts of the container of the last line read here."""
    is_in_place: bool = False
    """True if its stream continues from the mark."""
    is_intact: bool = False
    """True if the last stream began at the mark and ended without fault."""
    is_new: bool = False
    """True if the next answer begins after the mark."""
    looked_back: bool = False
    """True if the previous container's log was requested or lacks nothing."""
    gap: str | None = None
    """Reason for missing lines before the next one; None without a gap."""
    rest: list[StampedLine] = []
    """Unterminated end of the last answer."""
    why: str = ""
    """The last fault."""
    is_node_s_word: bool = False
    """True if the node named the fault, not a server on the way."""
    failing_since: float | None = None
    """First failed request since the last new line, monotonic seconds."""
    failures: int = 0
    """Requests that failed since then."""
    tries: int = 0
    """Answers since the last failure."""
    looked_at: LogMark | None = None
    """Mark of the last fetch that found less than the stream."""


class End(enum.Enum):
    """Outcome of one request for a log."""

    COMPLETE = "read to its end, from the mark on"
    EMPTY = "it has no lines, or a previous container's that do not come after the mark"
    LOST = "it has lines, but not the mark's: nothing was taken"
    BROKEN = "broken, or rejected: it may succeed later"
    UNAVAILABLE = "the node has no such log"
    WAITING = "its container has not started"
    GONE = "its pod does not exist"
    TAKEN = "another thread reads it now"


class LogReader:
    """Reads logs; any thread may call it.

    ``sink`` gets lines, gaps and notes, and may block. ``is_away`` says whether it is known already
    that the API server does not answer: that its logs cannot be read need not be said then.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        sink: Callable[[JobEvent], None],
        is_away: Callable[[], bool],
    ) -> None:
        self._api, self._namespace, self._sink, self._is_away = api, namespace, sink, is_away
        self.is_closed = False
        """True if lines of streams are no longer accepted."""
        self._lock = threading.Lock()
        self._noted: set[tuple[str, int | None]] = set()
        """Runs and status codes of rejections that were reported."""

    def look_back(self, log: Log) -> End:
        """Read what the previous container printed after our mark.

        Where there was none, the node has rotated a part of the log away. What is served from then
        on is new in either case. COMPLETE: go on with the current container.
        """
        first = log.mark is None
        if first and log.restarts > 1:
            log.gap = _RESTARTED
        end = self._read_previous(log)
        if end is End.LOST:
            log.gap, log.is_new = _RESTARTED, True
            end = self._read_previous(log)
        if end is End.BROKEN:
            return end
        log.looked_back = True
        if end is End.EMPTY:
            log.gap = None if log.is_intact else ROTATED
        elif end is not End.COMPLETE and log.last[0] not in {"", log.uid}:
            log.gap = None if log.is_intact else _REPLACED
        elif end is not End.COMPLETE:
            log.gap = log.gap or (_RESTARTED if first else ROTATED)
        log.is_new = log.mark is not None
        return End.COMPLETE

    def _read_previous(self, log: Log) -> End:
        """Read what the previous container printed, until an answer has nothing new."""
        before = log.mark
        while (end := self.read(log, previous=True)) is End.COMPLETE:
            if log.mark == before and not log.rest:
                break
            before = log.mark
        return end

    def read(self, log: Log, *, previous: bool = False) -> End:
        """Fetch a log and deliver its new lines; the caller holds its lock.

        LOST counts only if two whole answers lack the mark, because a stopping kubelet truncates an
        answer without an error.
        """
        if not (previous or log.mark is None or log.is_new):
            end = self._request(log, self._resume(log, near=True), near=True)
            if end is not End.LOST:
                return end
        end = self._request(log, self._resume(log), previous=previous)
        return self._request(log, self._resume(log), previous=previous) if end is End.LOST else end

    def follow(self, log: Log) -> End:
        """Read a log to its end, then follow it.

        Takes ``log.held`` for each piece.
        """
        with log.held:
            end = End.COMPLETE
            if log.mark is None:
                if log.restarts and not log.looked_back:
                    end = self.look_back(log)
            elif not log.is_new:
                end = self.read(log)
                if end is End.LOST:
                    end = self.look_back(log)
            if end is not End.COMPLETE:
                log.is_intact = log.is_intact and end is not End.BROKEN
                return end
            resume, turn = self._resume(log, near=True), log.turn
        return self._request(log, resume, near=not resume.found, followed_in=turn)

    def _resume(self, log: Log, *, near: bool = False) -> Resume:
        return Resume(log.mark, anew=log.is_new, now=int(time.time() * 1_000_000), near=near)

    def _request(
        self,
        log: Log,
        resume: Resume,
        *,
        near: bool = False,
        previous: bool = False,
        followed_in: int | None = None,
    ) -> End:
        """Request a log once: its last lines if ``near``, endlessly if followed."""
        turn, text = followed_in, LogText()
        container = log.uid, log.restarts - previous
        follow = turn is not None
        try:
            served = self._ask(log, near=near, follow=follow, previous=previous)
        except ApiFault as fault:
            return self._refused(log, fault)
        if follow:
            log.stream, log.is_in_place, log.failing_since = served, resume.found, None
        placed_by = time.monotonic() + limits.now.log_place
        try:
            for chunk in () if self._is_released(log, turn) else served.chunks():
                if follow and not resume.found and time.monotonic() > placed_by:
                    return End.LOST
                with log.held if follow else contextlib.nullcontext():
                    if follow and log.turn != turn:
                        return End.TAKEN
                    self._take(log, resume, text.feed(chunk), container, alone=not follow)
                    log.is_in_place = resume.found if follow else log.is_in_place
        except ApiFault as fault:
            log.is_intact = log.is_intact and not follow
            return self._refused(log, fault)
        finally:
            if follow:
                log.stream = None
            served.close()
        if self._is_released(log, turn):
            return End.TAKEN
        rest = text.end()
        if text.error is not None:
            log.is_intact = log.is_intact and not follow
            end = self._failed(log, text.error.strip(), None, is_node_s_word=True)
            since = log.failing_since or math.inf
            is_final = previous and time.monotonic() - since >= limits.now.log_previous
            return End.UNAVAILABLE if is_final else end
        if follow:
            log.is_intact = log.is_intact or (resume.found and container == (log.uid, log.restarts))
        elif previous or log.is_over:
            # The container has ended, and so has its last line; this, too, only after two answers.
            is_new = resume.found
            if not is_new or rest == log.rest:
                self._take(log, resume, rest, container, alone=True)
            log.rest = rest if is_new else []
        if resume.found:
            return End.COMPLETE
        # What the previous container has printed may be archived: before the last line's container.
        is_after = log.last != (log.uid, log.restarts) and resume.is_later
        return End.LOST if resume.served and (is_after or not previous) else End.EMPTY

    def _is_released(self, log: Log, turn: int | None) -> bool:
        """Return True if a stream was closed here or replaced by another thread."""
        return turn is not None and (log.turn != turn or self.is_closed)

    def _ask(self, log: Log, *, near: bool, follow: bool, previous: bool) -> LineStream:
        if log.is_gone:
            raise ApiFault(404, "NotFound", "its pod is gone")
        query = {"container": log.container, "timestamps": "true"}
        if follow:
            query["follow"] = "true"
        if previous:
            query["previous"] = "true"
        if near:
            query["tailLines"] = str(NEAR_LINES)
        path = kinds.path("Pod", self._namespace, log.pod, "log")
        silence = SILENT_SECONDS if follow else SLOW_SECONDS
        return self._api.stream(path, query, silence_s=silence)

    def _refused(self, log: Log, fault: ApiFault) -> End:
        # A kubelet that has just started answers 404 and 400 until it knows its pods.
        missing = _NOT_FOUND.search(fault.message) if fault.status == 404 else None
        if log.is_gone or (missing is not None and missing[1] == log.pod):
            return End.GONE
        if fault.status == 400 and "previous terminated container" in fault.message:
            return End.UNAVAILABLE
        if fault.status == 400 and not log.exists:
            # A node that rejected or evicted the pod never had the container.
            never = "is not available" in fault.message and log.mark is None
            log.why = fault.message.rstrip(".")
            waits = "waiting to start" in fault.message
            return End.WAITING if waits or never else End.UNAVAILABLE
        why = _REQUEST.sub(r"kubelet at \1", fault.message) or f"HTTP status {fault.status}"
        if missing is not None:
            why = f"its node {missing[1]} is not part of the cluster"
        if fault.status == 403:
            why = f"{why.rstrip('.')} (it takes the permission get on pods/log)"
        return self._failed(log, why, fault.status, is_node_s_word=fault.status == 400)

    def _failed(self, log: Log, why: str, status: int | None, *, is_node_s_word: bool) -> End:
        """Record a failed request; report it once per run and status."""
        now = time.monotonic()
        log.why, log.is_node_s_word = why.rstrip("."), is_node_s_word
        log.failures += 1
        since = log.failing_since = log.failing_since or now
        is_reported = status is None and not is_node_s_word and self._is_away()
        if (status == 403 or now - since >= limits.now.log_note) and not is_reported:
            with self._lock:
                is_new = (log.run_id, status) not in self._noted
                self._noted.add((log.run_id, status))
            if is_new:
                note = f"Logs cannot be read now ({log.replica}: {log.why}); retrying."
                self._sink(JobEvent(run_id=log.run_id, note=note))
        return End.BROKEN

    def _take(
        self,
        log: Log,
        resume: Resume,
        lines: list[StampedLine],
        container: tuple[str, int],
        *,
        alone: bool,
    ) -> None:
        """Deliver new lines; with ``alone`` this thread takes the log over."""
        new = resume.feed(lines)
        if alone and (new or resume.found):
            log.turn += 1
        if not new:
            return
        log.is_intact, log.failing_since, log.failures = False, None, 0
        if log.gap is not None:
            self.gap(log, new[0].at, log.gap)
        for at, line in new:
            assert at is not None
            handed = LogLine(replica=log.replica, at=at / 1_000_000, text=line)
            self._sink(JobEvent(run_id=log.run_id, line=handed))
        log.mark, log.is_new, log.last = resume.mark, False, container

    def gap(self, log: Log, before: int | None, why: str) -> None:
        """Report missing lines until a time, Unix µs; None: to the end."""
        log.gap = None
        gap = LogGap(
            replica=log.replica,
            after=None if log.mark is None else log.mark.at,
            before=None if before is None else before / 1_000_000,
            why=why,
        )
        self._sink(JobEvent(run_id=log.run_id, gap=gap))
