"""Following pods' logs with a bounded number of streams.

Lost lines are reported.

Logs are followed from their start: the operator deletes pods, and their logs with them, when
``backoffLimit`` or ``activeDeadlineSeconds`` strikes, and once the kubelet has rotated a log the
API serves its newest file alone. At most ``limit`` are followed at once, and some of these only of
rank 0, which the measurement needs. All others are fetched when they end. A stream
that broke is resumed where it ended (:mod:`~k8sbench.store.stamped_lines`).

That a stream ends without an error says little: the API server ends it so when the container has
ended, but also when the node's kubelet goes away. Nothing else says how many lines there are, so
every log is requested once more when its container is known to have ended, from where we are
(:class:`LogReader` has one request). One that is rejected or breaks
is repeated until it succeeds, or until :meth:`LogStreams.give_up`: for how long is for the caller
to decide, who knows whether the pod will stay (:meth:`LogStreams.failing`).
"""

from __future__ import annotations

import heapq
import itertools
import random
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from k8sbench import limits
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.logs.reading import ROTATED, End, Log, LogReader
from k8sbench.model.replica_logs import LogMark
from k8sbench.ports.cluster import JobEvent

LIMIT = 56
"""Maximum followed logs; with the fetchers at most 64 connections."""
LEADERS = 16
"""Logs among them that only rank 0 may have."""
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
    last line of the last of its logs was handed over; with ``is_split`` that of each. ``is_away``
    says whether it is known already that the API server does not answer: that its logs cannot be
    read need not be said then.
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
        is_split: bool = False,
    ) -> None:
        """Follow a replica's log once a stream is free; repeat when its pod changes.

        Only for a started container. ``mark`` is the archived end, used the first time only. If the
        log ``exists``, a node's denial is not believed. With ``is_split`` the lines of a restarted
        container have another name.
        """
        with self._lock:
            logs = self._runs.setdefault(run_id, {})
            log = logs.get(replica)
            fresh = log is None
            if log is None:
                log = Log(run_id, replica, mark, previous_read=mark is not None)
                logs[replica], log.leads = log, rank == 0
            elif log.is_over and (uid, restarts) != (log.uid, log.restarts):
                log.is_over = log.is_done = False  # a new pod, or started again
                fresh = True
                if uid != log.uid:  # what is still served of the pod before hides this one's log
                    self._end_streams([log])
            if uid == log.uid and restarts != log.restarts:
                log.was_intact = log.is_intact and restarts == log.restarts + 1
                log.is_intact = False  # of what this container prints that stream says nothing
            log.is_gone = log.is_gone and uid == log.uid
            log.exists = exists
            log.is_split = is_split
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

    def is_read(self, run_id: str, replica: str) -> bool:
        """Return True if a requested log ended and was delivered."""
        with self._lock:
            log = self._runs.get(run_id, {}).get(replica)
            return log is not None and log.is_done

    def failing(self, run_id: str) -> Failing | None:
        """Return the faults that keep a run from draining; None if readable."""
        with self._lock:
            left = [log for log in self._runs.get(run_id, {}).values() if not log.is_done]
            since = [log.failing_since for log in left if log.is_over]
            known = [at for at in since if at is not None]
            if not left or len(known) < len(left):
                return None
            may_exist = (log for log in left if log.exists or not log.fault_from_kubelet)
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
            if log.run_id in self._runs and (log.is_split or self.drained(log.run_id)):
                self._when_drained(log.run_id)

    def _is_due(self) -> bool:
        return bool(self._due) and self._due[0][0] <= time.monotonic()

    def _finish(self, log: Log) -> float | None:
        """Fetch the rest of a log whose container ended.

        Returns after how many seconds to try again, or None: everything that exists was read.
        """
        end = End.COMPLETE
        if log.mark is None and log.restarts and not log.previous_read:
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
            log.tries = 1 if log.mark != log.mark_at_last_fetch else log.tries
            log.mark_at_last_fetch = log.mark
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
