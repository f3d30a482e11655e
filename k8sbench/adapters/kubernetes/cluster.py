"""The port :class:`~k8sbench.ports.cluster.Cluster` on Kubernetes.

One list and watch per kind of object covers any number of jobs (:mod:`.watching.reflector`), a
bounded number of streams reads their logs (:mod:`.logs.streams`), and nodes and queues are queried
only while a job waits for them (:mod:`.watching.end_detector`). All results go through one queue
to the one thread that calls :meth:`KubernetesCluster.wait`, which keeps the objects of each job
(:mod:`.watching.followed`) and returns the new events. Only nodes and queues are polled.
"""

from __future__ import annotations

import contextlib
import math
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from k8sbench import limits
from k8sbench.adapters.kubernetes import job_changes, kinds, listing, ownership
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault
from k8sbench.adapters.kubernetes.logs.streams import LogStreams
from k8sbench.adapters.kubernetes.watch_events import (
    ObjectChanged,
    ObjectDeleted,
    ObjectsListed,
    WatchEvent,
    WatchFailed,
    WatchWorks,
)
from k8sbench.adapters.kubernetes.watching import unwatched
from k8sbench.adapters.kubernetes.watching.end_detector import EndDetector
from k8sbench.adapters.kubernetes.watching.followed import Followed
from k8sbench.adapters.kubernetes.watching.reflector import Watches
from k8sbench.model.errors import BenchError, UsageError
from k8sbench.model.kube import JobOwner, KubeObject, Ownership
from k8sbench.model.phase import WAIT_TIMEOUT, Phase, Transition
from k8sbench.model.replica_logs import LogLine, LogMark
from k8sbench.model.run import Run
from k8sbench.ports.cluster import FoundJob, JobEvent, KnownPods, Manifest
from k8sbench.render.trainer_sources import mounted_by
from k8sbench.threads import Threads, internal

LINES_WAITING = 5000
"""Maximum unprocessed log lines; beyond it reading waits."""
CLOSE_SECONDS = 10.0
"""Time limit for pending requests, such as cancellations, at close."""
READ_SECONDS, MOST_READ_SECONDS = 0.1, 1.0
"""Interval between reads of changed jobs: per ten jobs, and maximum.

The pods of a job start, and end, one after the other: read once, they are one change.
"""
_BATCH = 5000
REQUESTS = 4
"""Most concurrent requests that nobody waits for."""


class StateReads:
    """The runs whose state must be read again: of many jobs not at each change."""

    def __init__(self) -> None:
        self._changed: set[str] = set()
        self._next_at = 0.0
        """Time of the next read of jobs, monotonic seconds."""

    def add(self, run_ids: Iterable[str]) -> None:
        """Add runs that have changed."""
        self._changed.update(run_ids)

    def at(self, due: float) -> float:
        """Return the time of the next read; ``due``: when a job is to be read anyway."""
        return self._next_at if self._changed else max(due, self._next_at)

    def take(self, now: float, followed: Mapping[str, Followed]) -> set[str]:
        """Return the runs to read now: they have changed, or are due."""
        if now < self._next_at:
            return set()
        self._next_at = now + min(len(followed) // 10 * READ_SECONDS, MOST_READ_SECONDS)
        for run_id, one in list(followed.items()):
            if one.look_at is not None and one.look_at <= now:
                self._changed.add(run_id)
        changed = self._changed
        self._changed = set()
        return changed


class KubernetesCluster:
    """Jobs in one namespace of one cluster."""

    name = "kubernetes"
    jobs_outlive_us = True

    def __init__(
        self,
        api: Api,
        *,
        owner: JobOwner | None = None,
        selection: kinds.Selection = kinds.OURS,
    ) -> None:
        self.api = api
        self._selection = selection
        self._namespace = api.place.namespace
        self.owner = owner
        """The store for which this process acts; None: an administrator."""
        self.create_s = limits.now.create_job
        """Time limit for retrying a creation while the API server is silent."""
        self.note: Callable[[str], None] = lambda _: None
        """Receives a sentence on an unanswered creation, on any thread."""
        self.always: Collection[str] = ()
        """Kinds of jobs that are watched even if none is followed."""
        self.found: Callable[[ObjectChanged | ObjectDeleted], None] = lambda _: None
        """Receives every change of a job of these kinds."""
        self.followed: dict[str, Followed] = {}
        """Jobs by run id."""
        self._runs: set[str] = set()
        """Runs whose objects are kept: followed or being created."""
        self._reads = StateReads()
        self._queue: queue.SimpleQueue[JobEvent | WatchEvent | Callable[[], None]] = (
            queue.SimpleQueue()
        )
        """Items from other threads for the thread that calls ``wait``.

        That thread calls the callables.
        """
        self._free_lines = threading.Semaphore(LINES_WAITING)
        self._is_closed = False
        self._watches = Watches(api, self._runs, self._queue.put, selection)
        self.logs = LogStreams(
            api,
            self._namespace,
            self._put_log,
            when_drained=lambda run_id: self._queue.put(partial(self._reread, {run_id})),
            is_away=lambda: bool(self._watches.failing),
        )
        """Logs of the followed jobs."""
        self._requests = Threads(REQUESTS)
        self._sent = set[Future[None]]()
        self._end_detector = EndDetector(
            api,
            self._watches,
            self.logs,
            self.start_request,
            self._queue.put,
            self._reread,
            user=owner,
            selection=selection,
        )

    # -- the port -------------------------------------------------------------------------------

    def create(
        self,
        run: Run,
        manifests: Sequence[Manifest],
        folder: Path,  # noqa: ARG002
    ) -> str | None:
        """Create the job and follow it, or find an earlier creation's job."""
        if run.run_id in self.followed:
            return self.followed[run.run_id].uid
        plan = run.plan
        # Before the job exists: what is seen of it from then on is kept. Another thread may call
        # ``wait`` in the meantime.
        reported = Transition(phase=Phase.CREATED, at=self.api.time(), cause="")
        followed = Followed(run, reported=reported, since=math.inf)
        self._runs.add(plan.run_id)
        self.followed[plan.run_id] = followed
        try:
            job = manifests[-1]
            runtime = job_changes.runtime_of(plan, manifests)
            name = mounted_by(job)

            def provide() -> None:
                if name:
                    job_changes.provide_trainers(self.api, name)
                if runtime is not None:
                    ownership.make(self.api, runtime)

            made, existed = job_changes.create(
                self.api,
                plan,
                job,
                provide=provide,
                seconds=self.create_s,
                note=self.note,
                is_over=lambda: self._is_closed,
            )
        except BaseException as error:
            self.release(plan.run_id)
            if isinstance(error, UsageError):
                self.start_request(partial(job_changes.discard, self.api, run))
            raise
        followed.since = time.monotonic()
        if runtime is not None:
            self.start_request(partial(job_changes.bind, self.api, runtime, made))
        if existed:
            self._watches.list_again()
        self._queue.put(partial(self._take_created, plan.run_id, kinds.trimmed_job(made)))
        return str(made["metadata"]["uid"])

    def clear(self, run: Run) -> None:
        """Delete an earlier attempt's job; returns when every object is gone."""
        job_changes.clear(self.api, run, self.owner, lambda: self._is_closed)

    def resume(self, run: Run, marks: Mapping[str, LogMark], pods: KnownPods | None = None) -> None:
        """Follow an existing job; the end of a missing job is reported.

        ``pods`` are on record of an observed job.
        """
        reported = run.history[-1]
        followed = Followed(run, reported=reported, marks=marks, pods=pods, since=time.monotonic())
        self._runs.add(run.run_id)
        self.followed[run.run_id] = followed
        self._reads.add([run.run_id])
        self._watches.list_again()

    def follow_found(
        self, run: Run, marks: Mapping[str, LogMark], pods: KnownPods, job: KubeObject
    ) -> None:
        """Follow a job that its watch has found: only its own pods are listed."""
        reported = run.history[-1]
        followed = Followed(run, reported=reported, marks=marks, pods=pods, since=time.monotonic())
        self._runs.add(run.run_id)
        self.followed[run.run_id] = followed
        followed.take_created(job)
        self.start_request(partial(self._list_pods, followed))
        self._reads.add([run.run_id])

    def has_listed(self, job_kinds: Collection[str]) -> bool:
        """Return True if all jobs of some kinds are known; False for no kinds."""
        return bool(job_kinds) and all(map(self._watches.has_all, job_kinds))

    def _list_pods(self, followed: Followed) -> None:
        """List the pods of a job, on a worker thread; list everything where that fails."""
        run_id = followed.plan.run_id
        try:
            pods = listing.objects(self.api, "Pod", run_id, self._selection)
        except ApiFault:
            self._queue.put(self._watches.list_again)
            return
        self._queue.put(partial(followed.take_pods, pods))
        self._queue.put(partial(self._reread, {run_id}))

    def jobs(self, run_ids: Collection[str] | None = None) -> Sequence[FoundJob]:
        """Return k8sbench's jobs in the namespace, oldest first."""
        return listing.jobs(self.api, run_ids, user=self.owner)

    def look(self, run: Run) -> Sequence[JobEvent]:
        """Return the states of a job and its replicas; empty without job."""
        return unwatched.look(self.api, run)

    def printed(self, run: Run) -> Iterator[LogLine]:
        """Return the lines printed so far, rank 0's first."""
        return unwatched.printed(self.api, run)

    def wait(self, seconds: float | None) -> Sequence[JobEvent]:
        """Return the events of the followed jobs, in order."""
        until = None if seconds is None else time.monotonic() + seconds
        if jobs := {*self.always, *(one.kind for one in list(self.followed.values()))}:
            self._watches.watch(jobs)
        while True:
            events = self._take(self._timeout(until))
            events += self._read_all()
            if (text := self._watches.report(time.monotonic())) is not None:
                events.append(JobEvent(run_id="", note=text))
            if events or not self._runs:
                return events
            if until is not None and time.monotonic() >= until:
                return ()

    def cancel(self, run_id: str, cause: str, cause_id: str, *, keep: bool = False) -> None:
        """Delete or suspend (``keep``) the job, annotated with the cause."""
        reason = {"cause": cause, "cause_id": cause_id, "at": self.api.time()}
        followed = self.followed.get(run_id)
        if followed is not None and followed.ended_at is None:
            reported = followed.reported
            cannot_start = reported.unrecoverable and reported.cause_id == cause_id
            is_failure = cannot_start or cause_id == WAIT_TIMEOUT
            reason["phase"] = str(Phase.FAILED if is_failure else Phase.CANCELLED)
        if followed is None or followed.ended_at is None:
            found = (followed and followed.found) or ownership.look_for(self.api, run_id)[0]
            known = followed and followed.uid
            if found is not None and known not in {None, found[1]["metadata"]["uid"]}:
                found = None  # somebody has created it in the place of ours
            with self.api.explaining(f"job {run_id} be cancelled"):
                if found is not None:
                    put = self._queue.put
                    job_changes.cancel(self.api, found, self.owner, reason, put, keep=keep)
        if followed is not None:
            followed.is_unwanted = True
            self._queue.put(partial(self._reread, {run_id}))

    def release(self, run_id: str) -> None:
        """Stop following a job, which goes on or has ended."""
        if self.followed.pop(run_id, None) is not None:
            self._runs.discard(run_id)
            self.logs.forget(run_id)

    def remove(
        self,
        run: Run,
        *,
        uid: str | None = None,
        force: bool = False,
    ) -> str | None:
        """Delete the job and its pods; idempotent."""
        return job_changes.remove(self.api, run, user=self.owner, uid=uid, force=force)

    def take_over(self, run_id: str, known: Ownership) -> bool:
        """Make this store the owner; False unless ``known`` is current."""
        assert self.owner is not None
        return ownership.take_over(self.api, run_id, self.owner, known)

    def close(self) -> None:
        """Release all jobs, and wait for pending requests such as cancellations."""
        self._requests.join([*self._sent], CLOSE_SECONDS)
        self._is_closed = True
        self._watches.close()
        # Threads that wait to hand over a line go on.
        self._free_lines.release(LINES_WAITING)
        self.logs.close()
        self.followed.clear()

    # -- watching -------------------------------------------------------------------------------

    def _put_log(self, event: JobEvent) -> None:
        """Queue an event of the log streams.

        Waits while too many lines are unprocessed.
        """
        if event.line is not None and not self._is_closed:
            self._free_lines.acquire()
        self._queue.put(event)

    def _timeout(self, until: float | None) -> float | None:
        """Return the seconds until a job must be read; None: no limit."""
        due = [one.look_at for one in list(self.followed.values()) if one.look_at is not None]
        times = [self._reads.at(min(due, default=math.inf)), until, self._watches.report_at()]
        soonest = min(one for one in times if one is not None)
        return max(0.0, soonest - time.monotonic()) if soonest < math.inf else None

    def _take(self, timeout: float | None) -> list[JobEvent]:
        """Take the items in the queue, waiting for the first one."""
        events: list[JobEvent] = []
        with contextlib.suppress(queue.Empty):
            self._take_one(self._queue.get(timeout=timeout if self._runs else 0.0), events)
            for _ in range(_BATCH):
                self._take_one(self._queue.get_nowait(), events)
        return events

    def _take_one(
        self, item: JobEvent | WatchEvent | Callable[[], None], events: list[JobEvent]
    ) -> None:
        match item:
            case JobEvent():
                followed = self.followed.get(item.run_id)
                if item.line is not None:
                    self._free_lines.release()
                    if followed is not None:
                        followed.take_line(item.line)
                if followed is not None or not item.run_id:
                    events.append(item)
            case ObjectChanged():
                self._take_change(item, self._selection.runs_of(item.kind, item.object))
            case ObjectDeleted():
                self._take_change(item, self._selection.runs_named(item.kind, item.name))
            case ObjectsListed():
                self._take_listed(item)
            case WatchFailed() | WatchWorks():
                self._watches.take(item, time.monotonic())
            case _:
                item()

    def _reread(self, run_ids: Collection[str] | None = None) -> None:
        """Mark runs whose state must be read again; None: all."""
        self._reads.add(list(self.followed) if run_ids is None else run_ids)

    def _take_created(self, run_id: str, job: KubeObject) -> None:
        if (followed := self.followed.get(run_id)) is not None:
            followed.take_created(job)
            self._reads.add([run_id])

    def _take_change(
        self, change: ObjectChanged | ObjectDeleted, run_ids: Iterable[str | None]
    ) -> None:
        for run_id in run_ids:
            if (followed := self.followed.get(run_id or "")) is not None:
                followed.take(change)
                self._reads.add([followed.plan.run_id])
        if change.kind in self.always:
            self.found(change)

    def _take_listed(self, listed: ObjectsListed) -> None:
        is_complete = self._watches.take(listed)
        for followed in list(self.followed.values()):
            is_absent = (
                listed.kind == followed.kind
                and followed.plan.job_name not in listed.names
                and followed.since < listed.started_at
            )
            if is_absent:
                followed.take_absence()
            if is_absent or is_complete:
                self._reads.add([followed.plan.run_id])

    # -- reading --------------------------------------------------------------------------------

    def _read_all(self) -> list[JobEvent]:
        """Read the jobs that have changed, or are due."""
        events: list[JobEvent] = []
        for run_id in self._reads.take(time.monotonic(), self.followed):
            if (followed := self.followed.get(run_id)) is not None:
                events += self._end_detector.read(followed)
                if followed.is_over:
                    self.release(run_id)
        return events

    # -- requests on other threads --------------------------------------------------------------

    def start_request(self, request: Callable[[], None]) -> None:
        """Send a request on a daemon thread; an internal error becomes a note.

        Whoever looks again sees what the cluster has not done.
        """
        sent = self._requests.start(lambda: None if self._is_closed else request(), "request")
        self._sent.add(sent)
        sent.add_done_callback(self._take_answer)

    def _take_answer(self, sent: Future[None]) -> None:
        self._sent.discard(sent)
        error = sent.exception()
        if error is not None and not isinstance(error, ApiFault | BenchError):
            text = f"warning: a request to the cluster failed: {internal(error)}"
            self._queue.put(JobEvent(run_id="", note=text))
