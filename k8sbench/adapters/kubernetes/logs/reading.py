"""One request for a container's log.

It delivers new lines and returns how it ended. Lines that the node has dropped are reported as a
LogGap before the next line.
"""

from __future__ import annotations

import contextlib
import enum
import math
import re
import threading
import time
from collections.abc import Callable

import msgspec

from k8sbench import limits
from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api, LineStream
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.replica_logs import LogLine, LogMark, log_name
from k8sbench.model.sample import LogGap
from k8sbench.ports.cluster import JobEvent
from k8sbench.store.stamped_lines import NewLineFilter, PodLogSplitter, StampedLine

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
    is_split: bool = False
    """True if each container's lines have a name of their own."""
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
    was_intact: bool = False
    """The same of the stream of the container before this one."""
    is_new: bool = False
    """True if the next answer begins after the mark."""
    previous_read: bool = False
    """True if the previous container's log was read or need not be read."""
    gap: str | None = None
    """Reason for missing lines before the next one; None without a gap."""
    rest: list[StampedLine] = []
    """Unterminated end of the last answer."""
    why: str = ""
    """The last fault."""
    fault_from_kubelet: bool = False
    """True if the kubelet returned the fault, not a proxy."""
    failing_since: float | None = None
    """First failed request since the last new line, monotonic seconds."""
    failures: int = 0
    """Requests that failed since then."""
    tries: int = 0
    """Answers since the last failure."""
    mark_at_last_fetch: LogMark | None = None
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
        log.previous_read = True
        if end is End.EMPTY:
            log.gap = None if log.is_intact else ROTATED
        elif end is not End.COMPLETE and log.last[0] not in {"", log.uid}:
            log.gap = None if log.is_intact else _REPLACED
        elif end is not End.COMPLETE:
            why = _RESTARTED if first else ROTATED
            # A node may remove a container as soon as the next one has ended.
            log.gap = None if log.was_intact else log.gap or why
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
                if log.restarts and not log.previous_read:
                    end = self.look_back(log)
            elif not log.is_new:
                end = self.read(log)
                if end is End.LOST:
                    end = self.look_back(log)
            if end is not End.COMPLETE:
                log.is_intact = log.is_intact and end is not End.BROKEN
                return end
            resume = self._resume(log, near=True)
            turn = log.turn
        return self._request(log, resume, near=not resume.found, followed_in=turn)

    def _resume(self, log: Log, *, near: bool = False) -> NewLineFilter:
        return NewLineFilter(log.mark, anew=log.is_new, now=int(time.time() * 1_000_000), near=near)

    def _request(
        self,
        log: Log,
        resume: NewLineFilter,
        *,
        near: bool = False,
        previous: bool = False,
        followed_in: int | None = None,
    ) -> End:
        """Request a log once: its last lines if ``near``, endlessly if followed."""
        turn = followed_in
        text = PodLogSplitter()
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
            end = self._failed(log, text.error.strip(), None, fault_from_kubelet=True)
            since = log.failing_since or math.inf
            is_final = previous and time.monotonic() - since >= limits.now.log_previous
            return End.UNAVAILABLE if is_final else end
        if follow:
            log.is_intact = log.is_intact or (resume.found and container == (log.uid, log.restarts))
            is_of_last = resume.found and container == (log.uid, log.restarts - 1)
            log.was_intact = log.was_intact or is_of_last
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
        return self._failed(log, why, fault.status, fault_from_kubelet=fault.status == 400)

    def _failed(self, log: Log, why: str, status: int | None, *, fault_from_kubelet: bool) -> End:
        """Record a failed request; report it once per run and status."""
        now = time.monotonic()
        log.why = why.rstrip(".")
        log.fault_from_kubelet = fault_from_kubelet
        log.failures += 1
        since = log.failing_since = log.failing_since or now
        is_reported = status is None and not fault_from_kubelet and self._is_away()
        is_due = (status == 403 or now - since >= limits.now.fault_note) and not is_reported
        if is_due and (log.run_id, status) not in self._noted:
            self._noted.add((log.run_id, status))
            note = f"Logs cannot be read now ({log.replica}: {log.why}); retrying."
            self._sink(JobEvent(run_id=log.run_id, note=note))
        return End.BROKEN

    def _take(
        self,
        log: Log,
        resume: NewLineFilter,
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
        name = log_name(log.replica, restarts=container[1]) if log.is_split else log.replica
        for at, line in new:
            assert at is not None
            handed = LogLine(replica=name, at=at / 1_000_000, text=line)
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
