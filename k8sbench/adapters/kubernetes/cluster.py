"""The port :class:`~k8sbench.ports.Cluster` on Kubernetes.

One list and watch per kind of object covers any number of jobs (:mod:`.watching.watches`), a
bounded number of streams reads their logs (:mod:`.logs.streams`), and nodes and queues are asked
for only while a job waits for them (:mod:`.watching.extra_queries`). All comes through one queue
to the one thread that calls :meth:`KubernetesCluster.wait`, which keeps what was seen of each job
(:mod:`.watching.followed`) and returns what is new. Nothing is polled.
"""

from __future__ import annotations

import contextlib
import functools
import math
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from k8sbench.adapters.kubernetes import creating, ending, kinds, listing, looking, sharing
from k8sbench.adapters.kubernetes.client.api import PATIENCE_SECONDS, Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.logs.streams import LIMIT, LogStreams
from k8sbench.adapters.kubernetes.watching import trimming
from k8sbench.adapters.kubernetes.watching.extra_queries import ExtraQueries, Nodes, Workload
from k8sbench.adapters.kubernetes.watching.followed import Followed
from k8sbench.adapters.kubernetes.watching.reflector import (
    LONGEST_PAUSE,
    WATCH_SECONDS,
    Changed,
    Deleted,
    Listed,
    News,
)
from k8sbench.adapters.kubernetes.watching.watches import Watches
from k8sbench.diagnose.job import facts
from k8sbench.model.kube import KubeObject
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.ports import Clock, FoundJob, JobEvent, LogLine, LogMark, Manifest

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

END_SECONDS = 60.0
"""For replicas that run on when their job has ended: they have taken the same steps, and only
tidy up, or are being ended."""
FAILED_SECONDS = 10.0
"""The same where one has failed: the others say what they saw of it, and wait for it in vain."""
SETTLE_SECONDS = 1.0
"""For pods that were not seen of a job that has ended; some never were."""
REPORT_SECONDS = 0.3
"""The end of a job is reported before its logs are complete where these take longer than this."""
REQUEST_SECONDS = 5.0
"""For one request of a cancelling that is tried on."""
LINES_WAITING = 5000
"""Lines that were read and not yet taken; those who read them wait."""
CLOSE_SECONDS = 10.0
"""For requests under way, such as to cancel a job, when the cluster is let go."""
_AT_ONCE = 5000
_WORKERS = 4


class _Created(NamedTuple):
    """The API server's answer to the creation of a run's job."""

    run_id: str
    job: KubeObject


class _Drained(NamedTuple):
    """Every log of a run that was wanted has ended and was handed over."""

    run_id: str


class KubernetesCluster:
    """Jobs in one namespace of one cluster."""

    name = "kubernetes"
    jobs_outlive_us = True

    def __init__(
        self,
        api: Api,
        *,
        clock: Clock = time.time,
        keep: bool = False,
        watch_s: float = WATCH_SECONDS,
        longest_pause: float = LONGEST_PAUSE,
        end_s: float = END_SECONDS,
        streams: int = LIMIT,
        user: sharing.User | None = None,
        waits: bool = False,
    ) -> None:
        self.api = api
        self._namespace = api.place.namespace
        self._clock = clock
        self._keep = keep
        """Whether jobs that are cancelled are held rather than deleted."""
        self._waits = waits
        """Whether jobs that are created wait even for what cannot come by itself."""
        self._user = user
        """On whose behalf jobs are followed: they stay as long as others need them, too."""
        self._end_s = end_s
        self._jobs: dict[str, Followed] = {}
        self._runs: set[str] = set()
        """Those that are followed, and those that are being created: their objects are kept."""
        self._uids: dict[str, str] = {}
        """Of the jobs that were followed, by run: another may bear the name by now."""
        self._owners: set[str] = set()
        """Runs whose job is known to own its ConfigMap."""
        self._changed: set[str] = set()
        """Runs that are to be read."""
        self._news: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._room = threading.Semaphore(LINES_WAITING)
        self._is_closed = False
        self._watches = Watches(
            api, self._runs, self._news.put, watch_s=watch_s, longest_pause=longest_pause
        )
        self._logs = LogStreams(
            api,
            self._namespace,
            self._take_log,
            limit=streams,
            when_drained=lambda run_id: self._news.put(_Drained(run_id)),
        )
        self._extra = ExtraQueries(api, self._ask, self._news.put)
        self._workers: ThreadPoolExecutor | None = None
        self._requests: set[Future[None]] = set()

    # -- the port -------------------------------------------------------------------------------

    def create(self, plan: RunPlan, manifests: Sequence[Manifest], folder: Path) -> None:  # noqa: ARG002
        """Create the job and follow it, or join it if it is there; raises :class:`BenchError`."""
        if plan.run_id in self._jobs:
            return
        # Before the job is there: what is seen of it from then on is kept. Another thread may wait
        # for what happens meanwhile.
        reported = Transition(phase=Phase.CREATED, at=self._clock(), cause="")
        followed = Followed(plan, reported=reported, since=math.inf)
        self._runs.add(plan.run_id)
        self._jobs[plan.run_id] = followed
        try:
            created = creating.create(
                self.api, plan, sharing.marked(manifests, self._user, waits=self._waits)
            )
        except BaseException:
            self._drop(plan.run_id)
            raise
        self._owners.add(plan.run_id)
        followed.since = time.monotonic()
        if created.joined:
            self._watches.missed()
            self._say_used(plan.run_id)
        self._news.put(_Created(plan.run_id, trimming.job(created.job)))

    def resume(self, run: Run, marks: Mapping[str, LogMark]) -> None:
        """Follow a job that was created before; of one that is gone the end is reported."""
        reported, since = run.history[-1], time.monotonic()
        self._follow(Followed(run.plan, reported=reported, marks=marks, since=since))
        self._watches.missed()
        self._say_used(run.run_id)

    def jobs(self, run_ids: Collection[str] | None = None) -> Sequence[FoundJob]:
        """Return k8sbench's jobs in the namespace; one whose plan cannot be read is left out."""
        return listing.jobs(self.api, run_ids)

    def look(self, run: Run) -> Sequence[JobEvent]:
        """Say how a job is now: its state, then its replicas'; empty where there is no such job."""
        return looking.look(self.api, run, self._clock)

    def printed(self, run: Run) -> Iterator[LogLine]:
        """Return what a job's replicas have printed so far, rank 0's first."""
        return looking.printed(self.api, run, self._clock)

    def wait(self, seconds: float | None) -> Sequence[JobEvent]:
        """Return what has happened to the jobs that are followed, in order."""
        until = None if seconds is None else time.monotonic() + seconds
        if jobs := self._followed():
            self._watches.watch(jobs)
        while True:
            events = self._take(self._patience(until))
            events += self._read_all()
            events += self._notes()
            if events or not self._runs:
                return events
            if until is not None and time.monotonic() >= until:
                return ()

    def cancel(self, run_id: str, cause: str, cause_id: str, *, wait: bool = False) -> None:
        """Ask the job to end: delete it, or hold it (``keep``); whoever watches it sees why.

        Of a job that is not followed here, or with ``wait``, a refusal raises :class:`BenchError`.
        """
        wish = {"cause": cause, "cause_id": cause_id, "at": self._clock()}
        followed = self._jobs.get(run_id)
        if followed is not None:
            reported = followed.reported
            is_failure = reported.hopeless and reported.cause_id == cause_id
            wish["phase"] = str(Phase.FAILED if is_failure else Phase.CANCELLED)
            if followed.ended_at is not None:
                return
            fault = self._try_to_cancel(followed, wish) if wait else None
            if fault is not None and not fault.passes:
                raise self.api.explained(fault, f"job {run_id} be cancelled") from fault
            if not wait or fault is not None:
                self._ask(lambda: self._cancel_followed(followed, wish))
            return
        for kind, job in ending.find(self.api, run_id):
            try:
                self._cancel(kind, run_id, job["metadata"]["uid"], wish)
            except ApiFault as fault:
                raise self.api.explained(fault, f"job {run_id} be cancelled") from fault

    def release(self, run_id: str) -> None:
        """Follow a job no longer; it goes on."""
        self._say_unused([run_id])
        self._drop(run_id)

    def remove(self, run_id: str) -> str | None:
        """Delete the job, and with it its pods and its ConfigMap; idempotent."""
        user, uid = self._user, self._uids.get(run_id)

        def stays(kind: str, job: KubeObject) -> str | None:
            if uid not in {None, job["metadata"]["uid"]}:
                why: str | None = "somebody has created another job of that name."
            else:
                why = None if user is None else sharing.keeper(self.api, kind, job, user)
            return why and f"{why} To delete it all the same: k8sbench delete {run_id}"

        return ending.remove(self.api, run_id, unless=stays, owns=run_id in self._owners)

    def close(self) -> None:
        """Let go of everything held; requests under way, such as to cancel, are waited for."""
        self._say_unused(list(self._jobs))
        if self._requests:
            from concurrent.futures import wait

            wait(self._requests, CLOSE_SECONDS)
        self._is_closed = True
        self._watches.close()
        # Whoever waits for room to hand over a line need not.
        self._room.release(LINES_WAITING)
        self._logs.close()
        if self._workers is not None:
            self._workers.shutdown(wait=False, cancel_futures=True)
        self._jobs.clear()

    # -- watching -------------------------------------------------------------------------------

    def _followed(self) -> list[Followed]:
        """Return the jobs that are followed; another thread may add one meanwhile."""
        return list(self._jobs.values())

    def _follow(self, followed: Followed) -> None:
        self._runs.add(followed.plan.run_id)
        self._jobs[followed.plan.run_id] = followed
        self._changed.add(followed.plan.run_id)

    def _take_log(self, event: JobEvent) -> None:
        """Take what the log streams hand over, as fast as it is taken from here."""
        if event.line is not None and not self._is_closed:
            self._room.acquire()
        self._news.put(event)

    def _patience(self, until: float | None) -> float | None:
        """Seconds until something must be done though nothing happens; None: for ever."""
        if self._changed:
            return 0.0
        times = [one.look_at for one in self._followed() if one.look_at is not None]
        if until is not None:
            times.append(until)
        if (at := self._watches.trouble.look_at()) is not None:
            times.append(at)
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _take(self, patience: float | None) -> list[JobEvent]:
        """Take in what has come, waiting for the first of it."""
        events: list[JobEvent] = []
        with contextlib.suppress(queue.Empty):
            if patience == 0.0 or not self._runs:
                self._take_one(self._news.get_nowait(), events)
            else:
                self._take_one(self._news.get(timeout=patience), events)
            for _ in range(_AT_ONCE):
                self._take_one(self._news.get_nowait(), events)
        return events

    def _take_one(self, news: Any, events: list[JobEvent]) -> None:
        match news:
            case JobEvent():
                if news.line is not None:
                    self._room.release()
                followed = self._jobs.get(news.run_id)
                if followed is not None:
                    if news.line is not None:
                        followed.take_line(news.line)
                    events.append(news)
            case _Created():
                if (followed := self._jobs.get(news.run_id)) is not None:
                    followed.ahead = self.api.ahead
                    followed.take_created(news.job)
                    self._changed.add(news.run_id)
            case _Drained():
                self._changed.add(news.run_id)
            case Nodes():
                self._extra.take(news)
                self._changed |= {
                    one.plan.run_id for one in self._followed() if one.is_short_of_nodes()
                }
            case Workload():
                self._extra.take(news)
                self._changed.add(news.run_id)
            case _:
                self._take_news(news)

    def _take_news(self, news: News) -> None:
        match news:
            case Changed() | Deleted():
                if isinstance(news, Changed):
                    run_id = trimming.run_of(news.kind, news.object)
                else:
                    run_id = trimming.run_named(news.kind, news.name)
                followed = self._jobs.get(run_id or "")
                if followed is None or (news.kind == "Event" and isinstance(news, Deleted)):
                    return
                followed.take(news)
                self._changed.add(followed.plan.run_id)
                if news.kind == followed.kind:
                    self._extra.take_sign(followed.operator_seen_at())
            case Listed():
                if self._watches.take(news):
                    self._changed |= {one.plan.run_id for one in self._followed()}
                for followed in self._followed():
                    if (
                        news.kind == followed.kind
                        and followed.plan.job_name not in news.names
                        and followed.since < news.asked_at
                    ):
                        followed.take_absence()
                        self._changed.add(followed.plan.run_id)
            case _:
                self._watches.take(news)

    # -- reading --------------------------------------------------------------------------------

    def _read_all(self) -> list[JobEvent]:
        """Read the jobs of which something has changed, or whose time has come."""
        now = time.monotonic()
        due = {
            one.plan.run_id
            for one in self._followed()
            if one.look_at is not None and one.look_at <= now
        }
        changed, self._changed = self._changed | due, set()
        events: list[JobEvent] = []
        for run_id in changed:
            if (followed := self._jobs.get(run_id)) is not None:
                events += self._read(followed)
        return events

    def _read(self, followed: Followed) -> list[JobEvent]:
        run_id, now = followed.plan.run_id, self._clock()
        followed.ahead = self.api.ahead
        self._extra.look(followed, now)
        snapshot = followed.snapshot()
        self._extra.complete(snapshot, run_id)
        reading, replicas = followed.read(now, snapshot)
        all_seen = self._watches.has_all(followed.kind) and self._watches.has_all("Pod")
        if followed.taken_up and not all_seen and not reading.phase.final:
            return []  # without itself or its pods it would seem to go back to its creation
        if reading.phase is Phase.CREATED and followed.reported.phase is not Phase.CREATED:
            return []  # nor without the events, where there is nothing else of it
        self._follow_logs(followed, replicas, all_over=False)
        events = list(followed.changes(reading, now))
        moment = time.monotonic()
        if not reading.phase.final:
            followed.ended_at = None
            again = reading.look_again_s
            followed.look_at = None if again is None else moment + again
            return events
        if followed.ended_at is None:
            followed.ended_at = moment
        is_failure = reading.phase is Phase.FAILED
        due = followed.ended_at + min(self._end_s, FAILED_SECONDS if is_failure else END_SECONDS)
        # The watches do not wait for each other: the end may arrive before the pods do.
        has_pods = all(one.pod is not None for one in replicas)
        settled = followed.ended_at + (0.0 if has_pods else SETTLE_SECONDS)
        if not reading.over or not self._watches.has_all("Pod"):
            settled = due
        times = [followed.ended_at + REPORT_SECONDS]
        if moment < min(settled, due):
            times.append(min(settled, due))
        else:
            self._follow_logs(followed, replicas, all_over=True)
            if self._logs.drained(run_id):
                events.append(followed.end(reading, now))
                self._drop(run_id)
                return events
        if times[0] <= moment:
            events += followed.ending(reading, now)
        followed.look_at = min((at for at in times if at > moment), default=None)
        return events

    def _follow_logs(
        self, followed: Followed, replicas: Sequence[facts.Replica], *, all_over: bool
    ) -> None:
        run_id = followed.plan.run_id
        for rank, one in enumerate(replicas):
            if one.pod is None or not one.started:
                if all_over:  # the log is that of a pod before it, if there is one
                    self._logs.ended(run_id, one.name, gone=True)
                continue
            uid, restarts = one.meta["uid"], int(one.main.get("restartCount", 0))
            failing = one.phase == "Failed" or restarts > 0
            if followed.logs.get(one.name) != (uid, restarts, failing):
                followed.logs[one.name] = uid, restarts, failing
                self._logs.want(
                    run_id,
                    one.name,
                    pod=one.pod_name,
                    uid=uid,
                    container=one.container,
                    rank=rank,
                    restarts=restarts,
                    failing=failing,
                    mark=followed.marks.get(one.name),
                )
            if all_over or one.ended or one.gone or one.on_lost_node:
                self._logs.ended(run_id, one.name, gone=one.gone)

    def _drop(self, run_id: str) -> None:
        """Forget a job whose end was reported, or that is released."""
        followed = self._jobs.pop(run_id, None)
        if followed is None:
            return
        if followed.uid is not None:
            self._uids[run_id] = followed.uid
        self._runs.discard(run_id)
        self._logs.forget(run_id)
        self._extra.forget(run_id)

    def _notes(self) -> list[JobEvent]:
        """Report once that a watch fails, and once that all work again."""
        text = self._watches.note()
        if text is None:
            return []
        return [JobEvent(run_id=one.plan.run_id, note=text) for one in self._followed()]

    # -- asking without waiting ----------------------------------------------------------------

    def _ask(self, request: Callable[[], None]) -> None:
        """Have a request made by another thread."""
        if self._workers is None:
            from concurrent.futures import ThreadPoolExecutor

            self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="request")
        future = self._workers.submit(request)
        self._requests.add(future)
        future.add_done_callback(self._requests.discard)

    # -- sharing --------------------------------------------------------------------------------

    def _say_used(self, run_id: str) -> None:
        """Say that a job is followed from here, too, unless it is over by then."""
        if (user := self._user) is not None:
            self._ask(
                lambda: sharing.join(self.api, run_id, user) if run_id in self._jobs else None
            )

    def _say_unused(self, run_ids: Sequence[str]) -> None:
        """Say that jobs which go on are not followed any more, unless somebody wants them kept."""
        user = self._user
        # While the server does not answer, nobody should wait for this.
        if user is None or user.keep or self._watches.trouble:
            return
        for run_id in run_ids:
            self._ask(functools.partial(sharing.leave, self.api, run_id, user))

    # -- ending ---------------------------------------------------------------------------------

    def _try_to_cancel(self, followed: Followed, wish: Mapping[str, Any]) -> ApiFault | None:
        """Ask once that a job which is followed end; None: that is done, or the job is gone."""
        run_id = followed.plan.run_id
        try:
            path = kinds.path(followed.kind, self._namespace, run_id)
            uid = followed.uid or self.api.get(path, patience=REQUEST_SECONDS)["metadata"]["uid"]
            self._cancel(followed.kind, run_id, uid, wish, patience=REQUEST_SECONDS)
        except ApiFault as fault:
            return None if fault.status == 404 else fault
        return None

    def _cancel_followed(self, followed: Followed, wish: Mapping[str, Any]) -> None:
        """Cancel a job that is followed, for as long as it takes; say why if that cannot be."""
        run_id, attempt = followed.plan.run_id, 0
        while not self._is_closed and run_id in self._jobs:
            fault = self._try_to_cancel(followed, wish)
            if fault is None:
                return
            if not fault.passes or not attempt:
                said = self.api.explained(fault, f"job {run_id} be cancelled")
                note = f"The job could not be cancelled: {said}"
                note += " Trying on." if fault.passes else ""
                self._news.put(JobEvent(run_id=run_id, note=note))
            if not fault.passes:
                return
            attempt += 1
            self.api.pause(min(2.0**attempt, 15.0))

    def _cancel(
        self,
        kind: str,
        name: str,
        uid: str,
        wish: Mapping[str, Any],
        *,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        def on_change(job: KubeObject) -> None:
            self._news.put(Changed(kind, trimming.job(job)))

        ending.cancel(
            self.api,
            kind,
            name,
            uid,
            wish,
            suspend=self._keep,
            on_change=on_change,
            patience=patience,
        )
