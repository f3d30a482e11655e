"""One job that is followed: its objects as last seen, and the events that were reported of it.

No I/O: it takes changes of objects and returns events of the job.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from k8sbench.adapters.kubernetes import ownership
from k8sbench.adapters.kubernetes.watching.reflector import Changed, Deleted
from k8sbench.diagnose.job import exits, facts, state
from k8sbench.diagnose.job.facts import DELETED, JobSnapshot
from k8sbench.diagnose.job.state import CANCEL_ANNOTATION, JobState
from k8sbench.model import attempts
from k8sbench.model.identity import NONCE_ANNOTATION
from k8sbench.model.kinds import kind_of
from k8sbench.model.kube import (
    KubeObject,
    annotations_of,
    attempt_of,
    conditions,
    is_suspended,
    moment,
    name_of,
)
from k8sbench.model.ownership import Ownership
from k8sbench.model.phase import LOGS_BEING_READ, LOGS_INCOMPLETE, Phase, ReplicaState, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.ports import JobEvent, LogLine, LogMark

EVENTS = 200
"""The newest Kubernetes events of one job that are kept."""
LINES = 20
"""The last lines of one replica's log that are kept."""
REPORTED_LINES = 400
"""The same with a report of torchrun's at their end, which has several lines for each rank."""
QUEUED_SECONDS = 60.0
"""Before a job's new place in its queue is reported: each report stays on record."""
_ENDED = {
    Phase.SUCCEEDED: "has succeeded",
    Phase.FAILED: "has failed",
    Phase.CANCELLED: "is cancelled",
    Phase.LOST: "is gone",
}


class PodList(msgspec.Struct):
    """The list of a job's pods that is made once the job has ended."""

    listed_at: float = -math.inf
    """When the newest list that was answered was requested, monotonic seconds."""
    next_at: float = -math.inf
    """When it may be requested, monotonic seconds; inf while a request is on its way."""
    fault: str = "no answer"
    """Why the newest request failed."""


class NodeFacts(msgspec.Struct):
    """What the nodes of a job that has succeeded say of themselves."""

    found: Mapping[str, Mapping[str, str]] | None = None
    """By node; None: they were not read."""
    give_up_at: float | None = None
    """How long that is waited for, monotonic seconds; None: it was not asked for."""


class Followed:
    """One job that is followed."""

    def __init__(
        self,
        plan: RunPlan,
        *,
        reported: Transition,
        marks: Mapping[str, LogMark] | None = None,
        since: float,
        attempt: int = 1,
        nonce: str | None = None,
        is_of: Callable[[KubeObject], bool] = lambda _: True,
    ) -> None:
        self.plan = plan
        self._of = kind_of(plan)
        self.kind = self._of.name
        self.marks = dict(marks or {})
        self.is_resumed = marks is not None
        """Whether it was created before."""
        self.since = since
        """A list that was requested later contains it if it exists; monotonic seconds."""
        self._attempt = attempt
        """The number of the run's attempt that it is; what is older is not looked at."""
        self.nonce = nonce
        """Of the job that the record asks for; None: it asks for none that can be told."""
        self.ended_at: float | None = None
        """When its end was first read, monotonic seconds."""
        self.look_at: float | None = None
        """When to read it again although nothing happens, monotonic seconds."""
        self.pod_list = PodList()
        self.nodes = NodeFacts()
        self.is_over = False
        """Whether its end was reported, or that it stays because its logs cannot be read."""
        self.is_unwanted = False
        """Whether the user has asked to end it, so that its pods need not stay for their logs."""
        self.uid: str | None = None
        self._is_of = is_of
        """Whether a job of the name is the run's."""
        self._stranger: str | None = None
        """The uid of a job of the name that is not."""
        self._whose = Ownership()
        """What was reported of its owner."""
        self.logs: dict[str, tuple[str, int, bool, bool]] = {}
        """Replica → what the log streams were given: its pod's uid, restarts, whether it fails,
        and whether its log exists."""
        self.logs_given = 0
        """How often the log streams were given anything."""
        self.logs_taken = -1
        """How often they had been when the last line that they had read was taken."""
        self.reported = reported
        """The transition that was reported last."""
        self._replicas: dict[str, ReplicaState] = {}
        self._packed_job: bytes | None = None
        self._is_deleted = False
        # Objects are kept as JSON, which takes a quarter of the memory that they take as dicts. To
        # decode a pod whenever it is read takes 10 µs.
        self._pods: dict[str, bytes] = {}
        self._earlier: dict[str, bytes] = {}
        """Pods that were replaced, by their uids."""
        self._events: dict[str, bytes] = {}
        self._lines: dict[str, deque[str]] = {}
        self._reports: dict[str, exits.TorchrunReport] = {}

    @property
    def _job(self) -> KubeObject | None:
        return None if self._packed_job is None else msgspec.json.decode(self._packed_job)

    @_job.setter
    def _job(self, found: KubeObject | None) -> None:
        self._packed_job = None if found is None else _packed(found)

    # -- input ----------------------------------------------------------------------------------

    def take(self, change: Changed | Deleted) -> None:
        """Take in a change of the job, of one of its pods or of an event about them."""
        if isinstance(change, Deleted):
            self._take_deleted(change)
        elif change.kind == "Pod":
            self._take_pod(change.object)
        elif change.kind == "Event":
            name = change.object["metadata"]["name"]
            self._events.pop(name, None)
            self._events[name] = _packed(change.object)
            if len(self._events) > EVENTS:
                del self._events[next(iter(self._events))]
        elif name_of(change.object) != self.plan.job_name:
            return  # a copy of it, with its labels
        elif attempt_of(change.object) < self._attempt:
            return  # the watch is late: it is of the attempt before
        elif self.uid is None and not self._is_of(change.object):
            self._stranger = change.object["metadata"]["uid"]
            self._is_deleted = True
        elif self.uid in {None, change.object["metadata"]["uid"]} and not self._is_deleted:
            self.uid = change.object["metadata"]["uid"]
            self._job = change.object
            if attempt_of(change.object) > self._attempt:
                self.marks = {}  # another store has restarted it, and its logs begin anew

    def take_created(self, job: KubeObject) -> None:
        """Take in the answer to its creation; what the watch has received by then is newer."""
        if self._packed_job is None:
            self.take(Changed(self.kind, job))

    def take_pods(self, pods: Sequence[KubeObject]) -> None:
        """Take in a list of all its pods: those that it lacks are gone."""
        listed = {pod["metadata"]["uid"] for pod in pods}
        for known in [msgspec.json.decode(pod) for pod in self._pods.values()]:
            if known["metadata"]["uid"] not in listed:
                self._take_deleted(Deleted("Pod", name_of(known), known["metadata"]["uid"], None))
        for pod in pods:
            self._take_pod(pod)

    def take_line(self, line: LogLine) -> None:
        """Keep the last lines of a replica's log: they may say why the replica failed."""
        lines = self._lines.setdefault(line.replica, deque(maxlen=REPORTED_LINES))
        lines.append(line.text)
        if not self._reports.setdefault(line.replica, exits.TorchrunReport()).has(line.text):
            for _ in range(min(2, len(lines) - LINES)):  # a line behind a report may be a stray
                lines.popleft()

    def take_absence(self) -> None:
        """Take in that the cluster has no such job."""
        self._is_deleted = True

    def _take_pod(self, pod: KubeObject) -> None:
        # Under the replica's name: that of a pod may end by chance.
        name = f"{self.plan.job_name}-{self._of.replica_of(name_of(pod), self.plan.job_name)}"
        before = self._pod(name)
        if before is not None and _is_newer(before, pod):
            return  # the watch is behind a list
        if before is not None and before["metadata"]["uid"] != pod["metadata"]["uid"]:
            if self._owns(before) and not self._owns(pod):
                return  # it belongs to a newer job of the name; ours is still read
            uid = pod["metadata"]["uid"]
            if uid in self._earlier:  # it still changes while the one that replaced it starts
                self._earlier[uid] = _packed(pod)
                return
            self._earlier[before["metadata"]["uid"]] = self._pods[name]
        self._pods[name] = _packed(pod)

    def _pod(self, name: str) -> KubeObject | None:
        packed = self._pods.get(name)
        return None if packed is None else msgspec.json.decode(packed)

    def _take_deleted(self, change: Deleted) -> None:
        if change.kind == "Pod":
            for name in self._pods:
                pod = self._pod(name)
                if pod is not None and pod["metadata"]["uid"] == change.uid:
                    gone = {**(change.object or pod), DELETED: True}
                    self._pods[name] = _packed(gone)
        elif self.uid is None and self._attempt > 1:
            return  # what was not seen yet cannot be gone: it is of the attempt before
        elif change.kind == self.kind and self.uid in {None, change.uid}:
            self._is_deleted = True
            self._job = change.object or self._job

    # -- reading --------------------------------------------------------------------------------

    @property
    def found(self) -> tuple[str, KubeObject] | None:
        """The kind and the job as it was last seen; None: it was not seen yet."""
        return None if self._job is None else (self.kind, self._job)

    def snapshot(self) -> JobSnapshot:
        """Return the job, its pods and their events as they were last seen."""
        pods = {name: msgspec.json.decode(pod) for name, pod in self._pods.items()}
        return JobSnapshot(
            job=self._job,
            pods={name: pod for name, pod in pods.items() if self._owns(pod)},
            earlier=[
                pod for pod in map(msgspec.json.decode, self._earlier.values()) if self._owns(pod)
            ],
            events=sorted(map(msgspec.json.decode, self._events.values()), key=_stamp),
            deleted=self._is_deleted,
        )

    def read(
        self, now: float, snapshot: JobSnapshot | None = None
    ) -> tuple[JobState, tuple[facts.Replica, ...]]:
        """Return the state of the job, and its replicas; ``now`` is the cluster's time.

        ``snapshot`` is that of :meth:`snapshot`, completed with what is known beyond the job.
        """
        seen = snapshot or self.snapshot()
        found = facts.look(seen, self.plan, now)
        reading = state.read(found, self._lines)
        if seen.job is not None and ownership.waits(seen.job):
            reading = msgspec.structs.replace(reading, unrecoverable=False)
        return reading, found.replicas

    def is_queued(self) -> bool:
        """Whether the job waits in a queue."""
        return self.plan.queue is not None and is_suspended(self._job or {})

    @property
    def is_ending(self) -> bool:
        """Whether it is cancelled or deleted, so that its pods do not stay."""
        job = self._job or {}
        is_deleted = self._is_deleted or "deletionTimestamp" in (job.get("metadata") or {})
        return self.is_unwanted or is_deleted or CANCEL_ANNOTATION in annotations_of(job)

    def operator_seen_at(self) -> float | None:
        """When the operator last changed the job's state, Unix seconds."""
        known = conditions(self._job or {}).values()
        moments = [moment(one.get("lastUpdateTime")) for one in known]
        return max(filter(None, moments), default=None)

    def _owns(self, pod: KubeObject) -> bool:
        if self._of.runtime is not None:
            nonce = annotations_of(pod).get(NONCE_ANNOTATION)
            return nonce in {None, annotations_of(self._job or {}).get(NONCE_ANNOTATION, nonce)}
        owners = pod["metadata"].get("ownerReferences") or ()
        return self.uid is None or any(owner["uid"] == self.uid for owner in owners)

    # -- reporting ------------------------------------------------------------------------------

    def changes(self, reading: JobState, now: float) -> Iterator[JobEvent]:
        """Yield what is new in a state, except the job's end."""
        while self._attempt < attempt_of(self._job or {}):
            at = max(now, self.reported.at)
            yield self._report(attempts.elsewhere(self.plan, self._attempt, at))
            self._attempt += 1
        for replica in reading.replicas:
            if self._replicas.get(replica.replica) != replica:
                self._replicas[replica.replica] = replica
                yield JobEvent(run_id=self.plan.run_id, replica=replica)
        known = self.reported
        before = known.phase, known.cause_id, known.unrecoverable
        is_new = (reading.phase, reading.cause_id, reading.unrecoverable) != before
        # Its place in the queue, or what it waits for there.
        if reading.phase is Phase.QUEUED and reading.cause != known.cause:
            is_new = is_new or now >= known.at + QUEUED_SECONDS
        if is_new and not reading.phase.final:
            yield self.move(reading, now)

    def ending(self, reading: JobState, now: float) -> Iterator[JobEvent]:
        """Yield, once, that the job has ended, though its logs are not read to their ends.

        Nothing of a job that was not seen: it may never have existed.
        """
        is_known = self.reported.cause_id == LOGS_BEING_READ or self.reported.phase.final
        if is_known or self._job is None:
            return
        transition = Transition(
            phase=self.reported.phase,
            at=self._at(reading.phase, now),
            cause=f"The job {_ENDED[reading.phase]}; its logs are being read to their ends.",
            cause_id=LOGS_BEING_READ,
        )
        yield self._report(transition)

    def end(self, reading: JobState, now: float) -> JobEvent:
        """Return the transition to the final state."""
        if self._stranger is not None:
            other = f"Another job of its name was created since (uid {self._stranger})."
            reading = msgspec.structs.replace(reading, cause=f"{reading.cause} {other}")
        return self.move(reading, now)

    def whose(self, user: ownership.User | None) -> Iterator[JobEvent]:
        """Yield the owner of the job, and the request to it, when that changes."""
        if self._job is None:
            return
        whose = ownership.of(self._job, user)
        known, self._whose = self._whose, whose
        is_plain = whose.is_ours and whose.wish is None
        if whose != known and not (is_plain and known == Ownership()):
            yield JobEvent(run_id=self.plan.run_id, ownership=whose)

    def incomplete(self, reading: JobState, now: float, why: Mapping[str, str]) -> JobEvent:
        """Return that the job has ended, and stays because logs of it cannot be read now.

        ``why`` holds the replicas whose logs those are.
        """
        first, *others = why
        more = f" and {len(others)} more" if others else ""
        run_id = self.plan.run_id
        transition = Transition(
            phase=self.reported.phase,
            at=self._at(reading.phase, now),
            cause=f"The job {_ENDED[reading.phase]}, and it stays with its pods: the log of {first}"
            f"{more} cannot be read now ({why[first]}).",
            cause_id=LOGS_INCOMPLETE,
            action=f"When logs can be read again: k8sbench collect {run_id}; to end the run without"
            f" these lines: k8sbench cancel {run_id}",
        )
        return self._report(transition)

    def move(self, reading: JobState, now: float) -> JobEvent:
        """Return the transition to a state."""
        transition = Transition(
            phase=reading.phase,
            at=self._at(reading.phase, now),
            cause=reading.cause,
            cause_id=reading.cause_id,
            action=reading.action,
            unrecoverable=reading.unrecoverable,
        )
        return self._report(transition)

    def _report(self, transition: Transition) -> JobEvent:
        self.reported = transition
        return JobEvent(run_id=self.plan.run_id, transition=transition)

    def _at(self, phase: Phase, now: float) -> float:
        """Return when the operator changed it, unless that is before the last change or after now.

        Both by the cluster's clock.
        """
        status = (self._job or {}).get("status") or {}
        condition = kind_of(self.plan).condition(status, phase) or {}
        stamp = moment(condition.get("lastTransitionTime"))
        at = now if stamp is None or phase is self.reported.phase else stamp
        return at if self.reported.at <= at <= now else max(now, self.reported.at)


def _is_newer(known: KubeObject, pod: KubeObject) -> bool:
    """Return True if a pod is known in a later state than this one."""
    one, other = known["metadata"], pod["metadata"]
    if one["uid"] != other["uid"]:
        return False
    versions = one.get("resourceVersion", ""), other.get("resourceVersion", "")
    is_later = all(map(str.isdecimal, versions)) and int(versions[0]) > int(versions[1])
    return DELETED in known or is_later


def _packed(found: KubeObject) -> bytes:
    """Return an object as JSON, in no more bytes than it takes: the encoder leaves room behind."""
    return bytes(memoryview(msgspec.json.encode(found)))


def is_short_of_nodes(seen: JobSnapshot) -> bool:
    """Whether the scheduler found no node for a pod of a job."""
    there = (conditions(pod) for pod in seen.pods.values() if DELETED not in pod)
    return any(known.get("PodScheduled", {}).get("status") == "False" for known in there)


def _stamp(event: Mapping[str, Any]) -> str:
    series = event.get("series") or {}
    return (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )
