"""Reads a followed job's state, and decides when to report its end.

The end is reported when the replicas have ended and their logs are read completely, or cannot be
read. The watch of pods may lag behind that of jobs: unless all pods are known to have ended, they
are listed once before.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from k8sbench import limits
from k8sbench.adapters.kubernetes import job_changes, kinds, listing
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.logs.streams import Failing, LogStreams
from k8sbench.adapters.kubernetes.watching.followed import Followed
from k8sbench.adapters.kubernetes.watching.reflector import Watches
from k8sbench.diagnose.job import facts
from k8sbench.diagnose.job.endings import FAILED_SECONDS
from k8sbench.diagnose.job.state import JobState
from k8sbench.model.creation import JOB_GONE
from k8sbench.model.kube import JobOwner, KubeObject
from k8sbench.model.phase import Phase
from k8sbench.ports.cluster import JobEvent

LIST_SECONDS = 5.0
"""Interval before a failed list of pods is repeated."""
NODE_FACTS_SECONDS = 5.0
"""Time limit for reading the nodes of a successful job."""
FACTS_SECONDS = 600.0
"""Age at which a node's facts are read again."""


class EndDetector:
    """Turns a job's observed state into events, on the waiting thread."""

    def __init__(
        self,
        api: Api,
        watches: Watches,
        logs: LogStreams,
        start: Callable[[Callable[[], None]], None],
        queue: Callable[[Callable[[], None]], None],
        reread: Callable[[Collection[str] | None], None],
        *,
        user: JobOwner | None,
        selection: kinds.Selection,
    ) -> None:
        """``start`` executes a request on another thread.

        ``queue`` takes a call that is made when what is before it in the queue was taken.

        ``reread`` gets the runs whose state is to be read again; None: all.
        """
        self._api, self._watches, self._logs = api, watches, logs
        self._start, self._queue, self._reread = start, queue, reread
        self._user, self._selection = user, selection
        self._asked_at = -math.inf
        """Time of the last query of queue positions, monotonic seconds."""
        self._workloads: Mapping[str, KubeObject] = {}
        self._facts: dict[str, tuple[float, Mapping[str, str]]] = {}
        """Time of reading, monotonic seconds, and facts of nodes, by name."""

    def read(self, followed: Followed) -> list[JobEvent]:
        """Return the new events of a job.

        Sets the time of its next read, or marks the job as over.
        """
        now = self._api.time()
        events = list(followed.taken(self._user))
        self._ask_for_place(followed)
        reading, replicas = followed.read(now, self._workloads.get(followed.uid or ""))
        all_seen = self._watches.has_all(followed.kind) and self._watches.has_all("Pod")
        if followed.is_resumed and not all_seen and not reading.phase.final:
            return events  # without the job or its pods it would seem to go back to its creation
        if reading.phase is Phase.CREATED and followed.reported.phase is not Phase.CREATED:
            return events  # the same before its events have arrived
        self._follow_logs(followed, replicas, all_over=False)
        events += [*followed.new_pods(), *followed.changes(reading, now)]
        if not reading.phase.final:
            followed.ended_at = None
            again = reading.look_again_s
            followed.look_at = None if again is None else time.monotonic() + again
            return events
        return events + self._read_ended(followed, reading, replicas, now)

    def _read_ended(
        self,
        followed: Followed,
        reading: JobState,
        replicas: Sequence[facts.Replica],
        now: float,
    ) -> list[JobEvent]:
        run_id = followed.plan.run_id
        moment = time.monotonic()
        if followed.ended_at is None:
            followed.ended_at = moment
        report_at = followed.ended_at + limits.now.report_end
        if must_list_pods(replicas, followed.ended_at, followed.pods_listed_at):
            patience = limits.now.last_logs if followed.is_ending else limits.now.unread_logs
            give_up_at = followed.ended_at + patience
            if moment < give_up_at:
                list_at = max(followed.ended_at + limits.now.pods_settle, followed.list_pods_at)
                if moment >= list_at:
                    followed.list_pods_at = list_at = math.inf
                    self._start(partial(self._list_pods, followed))
                followed.look_at = min(at for at in (report_at, list_at, give_up_at) if at > moment)
                return list(followed.ending(reading, now)) if moment >= report_at else []
            if not followed.is_ending:
                followed.is_over = True
                fault = f"its pods cannot be listed: {followed.pods_fault}"
                left = {one.name: fault for one in replicas if not (one.ended or one.gone)}
                return [*followed.ending(reading, now), followed.incomplete(reading, now, left)]
        logs_at = followed.ended_at + self._wait_for_replicas(followed, reading)
        if moment >= logs_at:
            self._follow_logs(followed, replicas, all_over=True)
            if self._logs.drained(run_id):
                return [*followed.new_pods(), *self._end(followed, reading, now)]
        events = list(followed.new_pods())
        if moment >= report_at:
            events += followed.ending(reading, now)
        look_at = [at for at in (logs_at, report_at) if at > moment]
        if moment >= logs_at:
            failing = self._logs.failing(run_id)
            why = logs_to_wait_for(followed, replicas, failing)
            patience = (
                limits.now.unread_logs if why else min(limits.now.unread_logs, limits.now.last_logs)
            )
            give_up_at = (moment if failing is None else failing.since) + patience
            if give_up_at > moment:
                look_at.append(give_up_at)
            elif why:
                followed.is_over = True
                return [*events, followed.incomplete(reading, now, why)]
            else:
                self._logs.give_up(run_id)
        followed.look_at = min(look_at, default=None)
        return events

    def _list_pods(self, followed: Followed) -> None:
        """Request a list of a job's pods, on a worker thread.

        The thread that waits for events takes the answer.
        """
        started_at = time.monotonic()
        try:
            pods = listing.objects(self._api, "Pod", followed.plan.run_id, self._selection)
        except ApiFault as fault:
            self._queue(partial(self._take_no_pods, followed, fault.message))
        else:
            self._queue(partial(self._take_pods, followed, pods, started_at))

    def _take_pods(self, followed: Followed, pods: Sequence[KubeObject], started_at: float) -> None:
        followed.take_pods(pods)
        followed.pods_listed_at = started_at
        followed.list_pods_at = -math.inf
        self._reread({followed.plan.run_id})

    def _take_no_pods(self, followed: Followed, why: str) -> None:
        followed.list_pods_at = time.monotonic() + LIST_SECONDS
        followed.pods_fault = why
        self._reread({followed.plan.run_id})

    def _wait_for_replicas(self, followed: Followed, reading: JobState) -> float:
        """Return the seconds from a job's end to its complete logs."""
        has_all = self._watches.has_all("Pod") or followed.pods_listed_at > -math.inf
        if reading.over and has_all:
            return 0.0
        is_failed = reading.phase is Phase.FAILED
        return (
            min(limits.now.replicas_end, FAILED_SECONDS) if is_failed else limits.now.replicas_end
        )

    def _end(self, followed: Followed, reading: JobState, now: float) -> list[JobEvent]:
        """Return the end of a job whose logs are read.

        Empty while log lines, or facts of the nodes, are still to be processed.
        """
        if followed.logs_taken != followed.logs_given:
            # The last lines may still be in the queue; then what follows is behind them.
            self._queue(partial(self._take_drained, followed, followed.logs_given))
            return []
        if self._waits_for_nodes(followed, reading):
            followed.look_at = followed.read_nodes_until
            return []
        followed.is_over = True
        for uid, _, _ in followed.logs.values():
            followed.set_log_read(uid, is_read=True)  # or its gap is named
        if reading.cause_id == JOB_GONE and followed.plan.observed is None:
            discard = partial(job_changes.discard, self._api, followed.run)
            self._start(discard)
        nodes = followed.node_facts
        known = [JobEvent(run_id=followed.plan.run_id, nodes=nodes)] if nodes else []
        return [*known, *followed.new_pods(), followed.end(reading, now)]

    def _waits_for_nodes(self, followed: Followed, reading: JobState) -> bool:
        """Return True while a successful job's nodes are being read.

        The first call starts the read.
        """
        names = sorted({one.node for one in reading.replicas if one.node})
        if reading.phase is not Phase.SUCCEEDED or not names:
            return False
        moment = time.monotonic()
        if followed.read_nodes_until is None:
            followed.read_nodes_until = moment + NODE_FACTS_SECONDS
            known = {name: self._facts[name] for name in names if name in self._facts}
            times = [read_at for read_at, _ in known.values()]
            if len(known) == len(names) and min(times) > moment - FACTS_SECONDS:
                followed.node_facts = {name: facts for name, (_, facts) in known.items()}
            else:
                self._start(partial(self._read_nodes, followed, names))
        return followed.node_facts is None and moment < followed.read_nodes_until

    def _read_nodes(self, followed: Followed, names: Sequence[str]) -> None:
        found = listing.node_facts(self._api, names)
        self._queue(partial(self._take_nodes, followed, found))

    def _take_nodes(self, followed: Followed, found: Mapping[str, Mapping[str, str]]) -> None:
        followed.node_facts = found
        self._facts |= {name: (time.monotonic(), facts) for name, facts in found.items()}
        self._reread({followed.plan.run_id})

    def _take_drained(self, followed: Followed, logs_given: int) -> None:
        followed.logs_taken = logs_given
        self._reread({followed.plan.run_id})

    def _follow_logs(
        self, followed: Followed, replicas: Sequence[facts.Replica], *, all_over: bool
    ) -> None:
        for rank, replica in enumerate(replicas):
            if all_over and (replica.pod is None or not replica.started):
                # Only an earlier pod may have left a log.
                self._logs.ended(followed.plan.run_id, replica.name, gone=True)
            for name, one in followed.logs_of(replica):
                if one.pod is not None and one.started:
                    self._follow_log(followed, name, one, rank)
                    if all_over or one.ended or one.gone or one.on_lost_node:
                        self._logs.ended(followed.plan.run_id, name, gone=one.gone)
                    self._note_read(followed, name)

    def _note_read(self, followed: Followed, name: str) -> None:
        """Note that a log is read to its end, when what is before in the queue was taken."""
        given = followed.logs[name]
        is_read = self._logs.is_read(followed.plan.run_id, name)
        if is_read and not followed.log_is_read(given[0]):
            self._queue(partial(self._take_read, followed, name, given))

    def _take_read(self, followed: Followed, name: str, given: tuple[str, int, bool]) -> None:
        if followed.logs[name] == given and not followed.log_is_read(given[0]):
            followed.set_log_read(given[0], is_read=True)
            self._reread({followed.plan.run_id})

    def _follow_log(self, followed: Followed, name: str, replica: facts.Replica, rank: int) -> None:
        uid = replica.meta["uid"]
        restarts = int(replica.main.get("restartCount", 0))
        given = uid, restarts, replica.has_log
        if followed.logs.get(name) == given:
            return
        followed.logs[name] = given
        followed.set_log_read(uid, is_read=False)
        followed.logs_given += 1
        self._logs.want(
            followed.plan.run_id,
            name,
            pod=replica.pod_name,
            uid=uid,
            container=replica.container,
            rank=rank,
            restarts=restarts,
            exists=replica.has_log,
            mark=followed.mark_of(name, restarts),
            is_split=followed.plan.observed is not None,
        )

    # -- the queue, while a job waits in it ------------------------------------------------------

    def _ask_for_place(self, followed: Followed) -> None:
        """Read the queue positions on a worker thread if a job is queued."""
        moment = time.monotonic()
        if followed.is_queued() and moment - self._asked_at >= limits.now.poll:
            self._asked_at = moment
            self._start(self._read_places)

    def _read_places(self) -> None:
        self._queue(partial(self._take_places, listing.workloads(self._api)))

    def _take_places(self, found: Mapping[str, KubeObject]) -> None:
        self._workloads = found
        self._reread(None)


def must_list_pods(replicas: Iterable[facts.Replica], ended_at: float, listed_at: float) -> bool:
    """Return True if an ended job's pods must first be listed.

    A pod that the watch has not reported yet would otherwise count as one that never ran. Both
    times are in monotonic seconds; ``listed_at`` is that of the newest list.
    """
    return listed_at < ended_at and not all(one.ended or one.gone for one in replicas)


def logs_to_wait_for(
    followed: Followed, replicas: Sequence[facts.Replica], failing: Failing | None
) -> dict[str, str]:
    """Return the replicas whose logs may be readable later, with reasons.

    Replicas whose pods are being deleted, or will be with their job, are left out. Rank 0 comes
    first.
    """
    if failing is None or followed.is_ending:
        return {}
    staying = [
        replica.name
        for replica in replicas
        if replica.pod and not (replica.gone or replica.terminating)
    ]
    return {name: failing.why[name] for name in staying if name in failing.why}
