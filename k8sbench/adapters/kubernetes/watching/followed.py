"""One followed job: latest objects and reported events.

No I/O: changes of objects come in, events of the job go out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from k8sbench.adapters.kubernetes import ownership
from k8sbench.adapters.kubernetes.watch_events import ObjectChanged, ObjectDeleted
from k8sbench.diagnose.job import exits, facts, state
from k8sbench.diagnose.job.facts import DELETED, JobSnapshot
from k8sbench.diagnose.job.state import CANCEL_ANNOTATION, JobState
from k8sbench.model import creation, observed_job
from k8sbench.model.kinds import kind_of
from k8sbench.model.kube import (
    JobOwner,
    KubeObject,
    annotations_of,
    attempt_of,
    is_suspended,
    name_of,
    parse_time,
)
from k8sbench.model.names import NONCE_ANNOTATION
from k8sbench.model.phase import LOGS_BEING_READ, LOGS_INCOMPLETE, Phase, ReplicaState, Transition
from k8sbench.model.replica_logs import LogLine, LogMark, log_name, replica_of_log
from k8sbench.model.run import Run
from k8sbench.ports.cluster import JobEvent, KnownPods

EVENTS = 200
"""Maximum kept Kubernetes events of a job, the newest ones."""
LINES = 20
"""Kept lines of a replica's log, the last ones."""
REPORTED_LINES = 400
"""Kept lines if the log ends in a torchrun report.

The report has several lines for each rank.
"""
QUEUED_SECONDS = 60.0
"""Minimum interval between reports of a job's place in its queue.

Each report stays on record.
"""
PROGRESS_SECONDS = 60.0
"""Minimum interval between the notes on what a TrainJob's program reports."""
_ENDED = {
    Phase.SUCCEEDED: "has succeeded",
    Phase.FAILED: "has failed",
    Phase.CANCELLED: "is cancelled",
    Phase.LOST: "is gone",
}


class _Progress:
    """Notes on the progress that a job's program reports."""

    _noted: str | None = None
    _at = -math.inf
    """Time of the last note, Unix seconds."""

    def news(self, job: KubeObject, now: float) -> str | None:
        """Return a report that is to be noted now."""
        said = observed_job.describe_progress(job)
        if said in {None, self._noted} or now < self._at + PROGRESS_SECONDS:
            return None
        self._noted = said
        self._at = now
        return said


class _ReplacedPods:
    """The pods of a job that others have replaced."""

    def __init__(self, known: KnownPods) -> None:
        """``known`` has the pods that are on record: they keep their numbers."""
        self.pods: dict[str, KubeObject] = {}
        """By uid."""
        self.replicas: Sequence[facts.Replica] = ()
        """The job's replicas with these pods, oldest first."""
        self._known = {name: dict(pods) for name, pods in known.items()}
        """All pods by replica and uid, oldest first; False: its log is being read."""
        self._is_reported = True
        """False if a pod has come, or its log is read, since they were last reported."""

    def logs_of(self, replica: facts.Replica) -> Iterator[tuple[str, facts.Replica]]:
        """Yield the name of each pod's log, and the replica with that pod."""
        for one in (*self.replicas, replica):
            if one.name == replica.name and one.pod is not None:
                known = self._known.setdefault(replica.name, {})
                self._is_reported = self._is_reported and one.meta["uid"] in known
                known.setdefault(one.meta["uid"], True)
                number = list(known).index(one.meta["uid"]) + 1
                yield log_name(replica.name, pod=number), one

    def is_read(self, uid: str) -> bool:
        """Return True if a pod has no log, or it is read to its end."""
        return all(pods.get(uid, True) for pods in self._known.values())

    def set_read(self, uid: str, *, is_read: bool) -> None:
        """Note whether the log of a pod is read to its end."""
        for pods in self._known.values():
            if pods.get(uid, is_read) != is_read:
                pods[uid] = is_read
                self._is_reported = False

    def news(self) -> KnownPods | None:
        """Return all pods if they are not as they were reported; None if they are."""
        if self._is_reported:
            return None
        self._is_reported = True
        return {name: dict(pods) for name, pods in self._known.items()}


class Followed:
    """A job that is followed."""

    def __init__(
        self,
        run: Run,
        *,
        reported: Transition,
        marks: Mapping[str, LogMark] | None = None,
        pods: KnownPods | None = None,
        since: float,
    ) -> None:
        """``marks`` and ``pods`` are on record of a job that was followed before."""
        self.run, self.plan = run, run.plan
        self._of = kind_of(run.plan)
        self.marks = dict(marks or {})
        self.is_resumed = marks is not None
        """True if the job was created before this process followed it."""
        self.since = since
        """Time from which lists must contain an existing job, monotonic seconds.

        Only lists that are requested later count.
        """
        self._attempt = run.attempt
        """Number of the run's attempt; jobs of earlier attempts are ignored."""
        self.ended_at: float | None = None
        """Time when the job's end was first read, monotonic seconds."""
        self.look_at: float | None = None
        """Time of the next read without a change, monotonic seconds.

        None: only a change causes a read.
        """
        self.pods_listed_at = -math.inf
        """Request time of the newest answered list of the ended job's pods, monotonic seconds."""
        self.list_pods_at = -math.inf
        """Earliest time of the next list of pods, monotonic seconds.

        Infinite while a request is pending.
        """
        self.pods_fault = "no answer"
        """Error of the latest failed list of pods."""
        self.node_facts: Mapping[str, Mapping[str, str]] | None = None
        """Facts by node of a successful job; None: not read."""
        self.read_nodes_until: float | None = None
        """Deadline for reading the facts, monotonic seconds; None: not requested."""
        self.is_over = False
        """True if the end, or a stay with unreadable logs, was reported."""
        self.is_unwanted = False
        """True if the job was cancelled: its pods may go unread."""
        self.uid: str | None = None
        self._stranger: str | None = None
        """Uid of another job that has the name."""
        self._is_lost = False
        """True if another store owns the job."""
        self.logs: dict[str, tuple[str, int, bool]] = {}
        """Input of the log streams by replica: pod uid, restarts, True if its log exists."""
        self.logs_given = 0
        """Number of inputs to the log streams."""
        self.logs_taken = -1
        """Number of inputs when the streams' last line was processed."""
        self.reported = reported
        """Last reported transition."""
        self._progress = _Progress()
        self._replicas: dict[str, ReplicaState] = {}
        self._job: KubeObject | None = None
        self._is_deleted = False
        self._pods: dict[str, KubeObject] = {}
        self._replaced = _ReplacedPods(pods or {})
        self._events: dict[str, KubeObject] = {}
        self._lines: dict[str, list[str]] = {}
        self._reports: dict[str, exits.TorchrunReport] = {}

    @property
    def kind(self) -> str:
        """Kind of the job."""
        return self._of.name

    # -- input ----------------------------------------------------------------------------------

    def take(self, change: ObjectChanged | ObjectDeleted) -> None:
        """Process a change of the job, a pod or an event."""
        if isinstance(change, ObjectDeleted):
            self._take_deleted(change)
        elif change.kind == "Pod":
            self._take_pod(change.object)
        elif change.kind == "Event":
            name = change.object["metadata"]["name"]
            self._events.pop(name, None)
            self._events[name] = change.object
            if len(self._events) > EVENTS:
                del self._events[next(iter(self._events))]
        elif name_of(change.object) != self.plan.job_name:
            return  # a copy of it, with its labels
        elif attempt_of(change.object) < self._attempt:
            return  # the watch is late: it is of the attempt before
        elif self.uid is None and not ownership.is_of(change.object, self.run):
            self._stranger = change.object["metadata"]["uid"]
            self._is_deleted = True
        elif self.uid in {None, change.object["metadata"]["uid"]} and not self._is_deleted:
            self.uid = change.object["metadata"]["uid"]
            self._job = change.object
            if attempt_of(change.object) > self._attempt:
                self.marks = {}  # another store has restarted it, and its logs begin anew

    def take_created(self, job: KubeObject) -> None:
        """Process the answer to the job's creation.

        An object that the watch has already received is newer.
        """
        if self._job is None:
            self.take(ObjectChanged(self.kind, job))

    def take_pods(self, pods: Sequence[KubeObject]) -> None:
        """Process a list of all pods; missing pods are gone."""
        listed = {pod["metadata"]["uid"] for pod in pods}
        for known in list(self._pods.values()):
            if known["metadata"]["uid"] not in listed:
                self._take_deleted(
                    ObjectDeleted("Pod", name_of(known), known["metadata"]["uid"], None)
                )
        for pod in pods:
            self._take_pod(pod)

    def take_line(self, line: LogLine) -> None:
        """Keep a replica's last log lines, which may explain its failure."""
        replica = replica_of_log(line.replica)
        lines = self._lines.setdefault(replica, [])  # a deque takes 0.8 kB, if empty
        lines.append(line.text)
        if not self._reports.setdefault(replica, exits.TorchrunReport()).has(line.text):
            # Not all at once: a line behind a report may be a stray.
            del lines[: min(2, max(0, len(lines) - LINES))]
        elif len(lines) > REPORTED_LINES:
            del lines[0]

    def take_absence(self) -> None:
        """Note that the cluster does not have the job."""
        self._is_deleted = True

    def _take_pod(self, pod: KubeObject) -> None:
        # Under the replica's name: that of a pod may end by chance.
        name = f"{self.plan.job_name}-{self._of.replica_of(name_of(pod), self.plan.job_name)}"
        before = self._pods.get(name)
        if before is not None and _is_newer(before, pod):
            return  # the watch is behind a list
        if before is not None and before["metadata"]["uid"] != pod["metadata"]["uid"]:
            if _created(pod) < _created(before):  # a list is in order of names, not of ages
                self._replaced.pods[pod["metadata"]["uid"]] = pod
                return
            if self._owns(before) and not self._owns(pod):
                return  # it belongs to a newer job of the name; ours is still read
            uid = pod["metadata"]["uid"]
            if uid in self._replaced.pods:  # it still changes while the one that replaced it starts
                self._replaced.pods[uid] = pod
                return
            self._replaced.pods[before["metadata"]["uid"]] = self._pods[name]
        self._pods[name] = pod

    def _take_deleted(self, change: ObjectDeleted) -> None:
        if change.kind == "Pod":
            for name, pod in self._pods.items():
                if pod["metadata"]["uid"] == change.uid:
                    self._pods[name] = {**(change.object or pod), DELETED: True}
            if (replaced := self._replaced.pods.get(change.uid)) is not None:
                self._replaced.pods[change.uid] = {**(change.object or replaced), DELETED: True}
            self._take_unknown(change)
        elif self.uid is None and self._attempt > 1:
            return  # what was not seen yet cannot be gone: it is of the attempt before
        elif change.kind == self.kind and self.uid in {None, change.uid}:
            self._is_deleted = True
            self._job = change.object or self._job

    def _take_unknown(self, change: ObjectDeleted) -> None:
        """Take a deleted pod that was never seen: of an observed job it may have had a log."""
        known = {pod["metadata"]["uid"] for pod in self._pods.values()} | {*self._replaced.pods}
        pod = change.object
        if self.plan.observed is None or self._job is None or pod is None or change.uid in known:
            return
        if self._owns(pod) and _created(pod) >= _created(self._job):
            self._take_pod({**pod, DELETED: True})

    # -- reading --------------------------------------------------------------------------------

    @property
    def found(self) -> tuple[str, KubeObject] | None:
        """Kind and latest state of the job; None if not seen yet."""
        return None if self._job is None else (self.kind, self._job)

    def read(
        self, now: float, workload: KubeObject | None = None
    ) -> tuple[JobState, tuple[facts.Replica, ...]]:
        """Return the state of the job, and its replicas.

        ``now`` is the cluster's time, and ``workload`` what Kueue knows of the job.
        """
        seen = JobSnapshot(
            job=self._job,
            pods={name: pod for name, pod in self._pods.items() if self._owns(pod)},
            earlier=sorted(filter(self._owns, self._replaced.pods.values()), key=_created),
            events=sorted(self._events.values(), key=_stamp),
            deleted=self._is_deleted,
            workload=workload,
        )
        found = facts.look(seen, self.plan, now)
        self._replaced.replicas = [*facts.earlier(found)]
        reading = state.read(found, self._lines)
        if self._job is not None and ownership.waits(self._job):
            reading = msgspec.structs.replace(reading, unrecoverable=False)
        return reading, found.replicas

    def logs_of(self, replica: facts.Replica) -> Iterator[tuple[str, facts.Replica]]:
        """Yield the name of each log of a replica, and the replica with the pod that wrote it.

        A log that another pod of a job of ours continues is one; pods of others are attempts.
        """
        if self.plan.observed is None:
            yield replica.name, replica
            return
        yield from self._replaced.logs_of(replica)

    def mark_of(self, name: str, restarts: int) -> LogMark | None:
        """Return the archived end of a pod's log: that of its newest container with lines.

        The log of a job of ours has one name, whichever container writes it.
        """
        names = (log_name(name, restarts=number) for number in range(restarts, -1, -1))
        return next((self.marks[one] for one in names if one in self.marks), None)

    def log_is_read(self, uid: str) -> bool:
        """Return True if a pod's log is read to its end, or need not be noted as such."""
        return self.plan.observed is None or self._replaced.is_read(uid)

    def set_log_read(self, uid: str, *, is_read: bool) -> None:
        """Note whether the log of a pod of an observed job is read to its end."""
        if self.plan.observed is not None:
            self._replaced.set_read(uid, is_read=is_read)

    def new_pods(self) -> Iterator[JobEvent]:
        """Yield the pods of an observed job if they have changed, or what is read of them."""
        if self.plan.observed is not None and (known := self._replaced.news()) is not None:
            yield JobEvent(run_id=self.plan.run_id, pods=known)

    def is_queued(self) -> bool:
        """Return True if the job waits in a queue."""
        return self.plan.queue is not None and is_suspended(self._job or {})

    @property
    def is_ending(self) -> bool:
        """True if the job is cancelled or deleted: its pods do not stay."""
        job = self._job or {}
        is_deleted = self._is_deleted or "deletionTimestamp" in (job.get("metadata") or {})
        return self.is_unwanted or is_deleted or CANCEL_ANNOTATION in annotations_of(job)

    def _owns(self, pod: KubeObject) -> bool:
        if self._of.runtime is not None or self._of.maker is not None:
            nonce = annotations_of(pod).get(NONCE_ANNOTATION)
            return nonce in {None, annotations_of(self._job or {}).get(NONCE_ANNOTATION, nonce)}
        owners = pod["metadata"].get("ownerReferences") or ()
        return self.uid is None or any(owner["uid"] == self.uid for owner in owners)

    # -- reporting ------------------------------------------------------------------------------

    def changes(self, reading: JobState, now: float) -> Iterator[JobEvent]:
        """Yield the news of a state, except the job's end."""
        while self._attempt < attempt_of(self._job or {}):
            at = max(now, self.reported.at)
            yield self._report(creation.restarted_elsewhere(self.plan, self._attempt, at, self.uid))
            self._attempt += 1
        for replica in reading.replicas:
            if self._replicas.get(replica.replica) != replica:
                self._replicas[replica.replica] = replica
                yield JobEvent(run_id=self.plan.run_id, replica=replica)
        if (said := self._progress.news(self._job or {}, now)) is not None:
            yield JobEvent(run_id=self.plan.run_id, note=said)
        known = self.reported
        before = known.phase, known.cause_id, known.unrecoverable
        is_new = (reading.phase, reading.cause_id, reading.unrecoverable) != before
        # Its place in the queue, or what it waits for there.
        if reading.phase is Phase.QUEUED and reading.cause != known.cause:
            is_new = is_new or now >= known.at + QUEUED_SECONDS
        if is_new and not reading.phase.final:
            yield self.move(reading, now)

    def ending(self, reading: JobState, now: float) -> Iterator[JobEvent]:
        """Yield once that the job has ended and its logs are incomplete.

        Yields nothing for a job that was not seen: it may never have existed.
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

    def taken(self, user: JobOwner | None) -> Iterator[JobEvent]:
        """Yield once who has taken the job over."""
        if self._job is None or self._is_lost:
            return
        whose = ownership.read_ownership(self._job, user)
        if not whose.is_ours:
            self._is_lost = True
            yield JobEvent(run_id=self.plan.run_id, taken_by=whose.holder)

    def incomplete(self, reading: JobState, now: float, why: Mapping[str, str]) -> JobEvent:
        """Return the event of an ended job with unreadable logs.

        The job stays on the cluster. ``why`` maps the replicas with unreadable logs to the reasons.
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
        """Return when the operator changed the job, by the cluster's clock.

        A time before the last report or after ``now`` is replaced.
        """
        status = (self._job or {}).get("status") or {}
        condition = kind_of(self.plan).condition(status, phase) or {}
        stamp = parse_time(condition.get("lastTransitionTime"))
        at = now if stamp is None or phase is self.reported.phase else stamp
        return at if self.reported.at <= at <= now else max(now, self.reported.at)


def _created(pod: KubeObject) -> float:
    return parse_time(pod["metadata"].get("creationTimestamp")) or 0.0


def _is_newer(known: KubeObject, pod: KubeObject) -> bool:
    """Return True if the known state of a pod is newer."""
    one = known["metadata"]
    other = pod["metadata"]
    if one["uid"] != other["uid"]:
        return False
    versions = one.get("resourceVersion", ""), other.get("resourceVersion", "")
    is_later = all(map(str.isdecimal, versions)) and int(versions[0]) > int(versions[1])
    return DELETED in known or is_later


def _stamp(event: Mapping[str, Any]) -> str:
    series = event.get("series") or {}
    return (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )
