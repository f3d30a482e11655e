"""One job that is followed: what was seen of it, and what was told of that.

No I/O: changes come in, events go out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from k8sbench.adapters.kubernetes import sharing
from k8sbench.adapters.kubernetes.watching.reflector import Changed, Deleted
from k8sbench.diagnose.job import facts, state
from k8sbench.diagnose.job.facts import DELETED, Seen
from k8sbench.diagnose.job.state import Reading
from k8sbench.model.kinds import kind_of
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.ports import JobEvent, LogLine, LogMark, ReplicaState

Object = dict[str, Any]
EVENTS = 200
"""Of one job, the newest that are kept."""
LINES = 20
"""Of one replica's log, the last that are kept."""
LOGS_BEING_READ = "logs-being-read"
"""What a run waits for when its job has ended: no diagnosis, as nothing is wrong."""
_ENDED = {
    Phase.SUCCEEDED: "has succeeded",
    Phase.FAILED: "has failed",
    Phase.CANCELLED: "is cancelled",
    Phase.LOST: "is gone",
}


class Surroundings(msgspec.Struct, kw_only=True):
    """What is known beyond the job itself."""

    nodes: Sequence[Object] | None = None
    workload: Object | None = None
    rivals: Sequence[str] = ()
    operator_seen_at: float | None = None


class Followed:
    """One job."""

    def __init__(
        self,
        plan: RunPlan,
        *,
        told: Transition,
        marks: Mapping[str, LogMark] | None = None,
        since: float,
    ) -> None:
        self.plan = plan
        self.kind = kind_of(plan).name
        self.marks = dict(marks or {})
        self.taken_up = marks is not None
        """Whether it was created before, and is read anew."""
        self.since = since
        """A listing that was asked for later shows it if it is there; never goes back."""
        self.ended_at: float | None = None
        """When its end was read first, on the clock that never goes back."""
        self.look_at: float | None = None
        """When to read it again although nothing happens, on that clock."""
        self.ahead = 0.0
        """Seconds by which the cluster's clock, and so all its time stamps, are ahead of ours."""
        self.uid: str | None = None
        self.logs: dict[str, tuple[str, int, bool]] = {}
        """What the log streams know of a replica: its pod, restarts, and whether it fails."""
        self._told = told
        self._replicas: dict[str, ReplicaState] = {}
        self._job: Object | None = None
        self._is_deleted = False
        self._pods: dict[str, Object] = {}
        self._earlier: list[Object] = []
        self._events: dict[str, Object] = {}
        self._lines: dict[str, deque[str]] = {}

    # -- taking in ------------------------------------------------------------------------------

    def take(self, news: Changed | Deleted) -> None:
        """Take in a change of the job, of one of its pods or of an event about them."""
        if isinstance(news, Deleted):
            self._take_deleted(news)
        elif news.kind == "Pod":
            self._take_pod(news.object)
        elif news.kind == "Event":
            name = news.object["metadata"]["name"]
            self._events.pop(name, None)
            self._events[name] = news.object
            if len(self._events) > EVENTS:
                del self._events[next(iter(self._events))]
        elif self.uid in {None, news.object["metadata"]["uid"]} and not self._is_deleted:
            self.uid = news.object["metadata"]["uid"]
            self._job = news.object

    def take_created(self, job: Object) -> None:
        """Take in the answer to its creation; what was seen of it by then is newer."""
        at = facts.moment(job["metadata"].get("creationTimestamp"))
        if at is not None and self._told.phase is Phase.CREATED:
            self._told = msgspec.structs.replace(self._told, at=at - self.ahead)
        if self._job is None:
            self.take(Changed(self.kind, job))

    def take_line(self, line: LogLine) -> None:
        """Remember the end of a replica's log: it may tell why the replica failed."""
        self._lines.setdefault(line.replica, deque(maxlen=LINES)).append(line.text)

    def take_absence(self) -> None:
        """Take in that the cluster has no such job."""
        self._is_deleted = True

    def _take_pod(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        before = self._pods.get(name)
        if before is not None and before["metadata"]["uid"] != pod["metadata"]["uid"]:
            if self._owns(before) and not self._owns(pod):
                return  # another job's, that was given the name since: ours is still what is read
            self._earlier.append(before)
        self._pods[name] = pod

    def _take_deleted(self, news: Deleted) -> None:
        if news.kind == "Pod":
            pod = self._pods.get(news.name)
            if pod is not None and pod["metadata"]["uid"] == news.uid:
                self._pods[news.name] = {**(news.object or pod), DELETED: True}
        elif news.kind == self.kind and self.uid in {None, news.uid}:
            self._is_deleted = True
            self._job = news.object or self._job

    # -- reading --------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether the job is there."""
        return self._job is not None and not self._is_deleted

    @property
    def told(self) -> Transition:
        """The change of state that was told last."""
        return self._told

    def seen(self, around: Surroundings) -> Seen:
        """Put together what was seen."""
        return Seen(
            job=self._job,
            pods={name: pod for name, pod in self._pods.items() if self._owns(pod)},
            earlier=[pod for pod in self._earlier if self._owns(pod)],
            left_behind=sum(map(_is_left_behind, self._pods.values())),
            events=sorted(self._events.values(), key=_stamp),
            deleted=self._is_deleted,
            nodes=around.nodes,
            workload=around.workload,
            rivals=around.rivals,
            operator_seen_at=around.operator_seen_at,
        )

    def read(self, around: Surroundings, now: float) -> tuple[Reading, tuple[facts.Replica, ...]]:
        """Say how the job is, and which pods its replicas are."""
        seen, now = self.seen(around), now + self.ahead
        reading = state.read(seen, self.plan, now=now, lines=self._lines)
        if self._job is None and self._is_deleted:
            reading = _gone(reading)
        if self._job is not None and sharing.waits(self._job):
            reading = msgspec.structs.replace(reading, hopeless=False)
        return reading, facts.look(seen, self.plan, now).replicas

    def is_half_placed(self, now: float) -> bool:
        """Whether it holds some nodes and waits for more."""
        return state.half_placed(self.seen(Surroundings()), self.plan, now=now)

    def is_short_of_nodes(self) -> bool:
        """Whether the scheduler found no node for a pod of the job."""
        return any(
            unplaceable(one)
            for one in self._pods.values()
            if self._owns(one) and DELETED not in one
        )

    def is_queued(self) -> bool:
        """Whether the job waits in a queue."""
        policy = ((self._job or {}).get("spec") or {}).get("runPolicy") or {}
        return self.plan.queue is not None and bool(policy.get("suspend"))

    def operator_seen_at(self) -> float | None:
        """When the operator last changed the job's state, Unix seconds."""
        conditions = ((self._job or {}).get("status") or {}).get("conditions") or ()
        moments = [facts.moment(one.get("lastUpdateTime")) for one in conditions]
        return max((one for one in moments if one is not None), default=None)

    def _owns(self, pod: Object) -> bool:
        owners = pod["metadata"].get("ownerReferences") or ()
        return self.uid is None or any(owner["uid"] == self.uid for owner in owners)

    # -- telling --------------------------------------------------------------------------------

    def changes(self, reading: Reading, now: float) -> Iterator[JobEvent]:
        """Yield what of a reading was not told yet, but for the job's end."""
        for replica in reading.replicas:
            if self._replicas.get(replica.replica) != replica:
                self._replicas[replica.replica] = replica
                yield JobEvent(run_id=self.plan.run_id, replica=replica)
        if not reading.phase.final and self._is_news(reading):
            yield self._moved(reading, now)

    def ending(self, reading: Reading, now: float) -> Iterator[JobEvent]:
        """Yield, once, that the job has ended, though its logs are not read to their ends."""
        if self._told.cause_id == LOGS_BEING_READ or self._told.phase.final:
            return
        self._told = Transition(
            phase=self._told.phase,
            at=self._at(reading.phase, now),
            cause=f"The job {_ENDED[reading.phase]}; its logs are being read to their ends.",
            cause_id=LOGS_BEING_READ,
        )
        yield JobEvent(run_id=self.plan.run_id, transition=self._told)

    def end(self, reading: Reading, now: float) -> JobEvent:
        """Return the final transition."""
        return self._moved(reading, now)

    def _is_news(self, reading: Reading) -> bool:
        told = self._told
        return (reading.phase, reading.cause_id, reading.hopeless) != (
            told.phase,
            told.cause_id,
            told.hopeless,
        )

    def _moved(self, reading: Reading, now: float) -> JobEvent:
        self._told = Transition(
            phase=reading.phase,
            at=self._at(reading.phase, now),
            cause=reading.cause,
            cause_id=reading.cause_id,
            action=reading.action,
            hopeless=reading.hopeless,
        )
        return JobEvent(run_id=self.plan.run_id, transition=self._told)

    def _at(self, phase: Phase, now: float) -> float:
        """Take the operator's time of the change, unless the history would go back or ahead."""
        said = kind_of(self.plan).condition((self._job or {}).get("status") or {}, phase) or {}
        stamp = facts.moment(said.get("lastTransitionTime"))
        if stamp is not None and self._told.at <= stamp - self.ahead <= now:
            return stamp - self.ahead
        return max(now, self._told.at)


def _gone(reading: Reading) -> Reading:
    return msgspec.structs.replace(
        reading,
        phase=Phase.LOST,
        cause="The cluster has no such job any more, and its end was not seen.",
        cause_id="job-gone",
        action="Submit it again; what was archived of its logs is kept.",
    )


def unplaceable(pod: Object) -> bool:
    """Whether the scheduler found no node for a pod."""
    return any(
        one["type"] == "PodScheduled" and one["status"] == "False"
        for one in (pod.get("status") or {}).get("conditions") or ()
    )


def _is_left_behind(pod: Object) -> bool:
    return DELETED not in pod and not pod["metadata"].get("ownerReferences")


def _stamp(event: Mapping[str, Any]) -> str:
    series = event.get("series") or {}
    stamps = (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    return next((one for one in stamps if one), "")
