"""Observed objects of one job, and the questions of a diagnosis.

The API server's objects stay plain data. :func:`look` sorts them by replica once, so that only it
needs to know how the operator names pods and which events belong to which incarnation of a pod.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from k8sbench.diagnose.job.causes import EVENTS, NEVER_STARTED, Event
from k8sbench.model.kinds import kind_of, replica_names
from k8sbench.model.kube import KubeObject, conditions, is_suspended, is_true, name_of, parse_time
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan

QUOTED = 240
"""Longest text of Kubernetes' own that is quoted, characters."""
DELETED = "_deleted"
"""Mark in the last state of a deleted pod."""
_TAINTED = "DeletionByTaintManager"
_WITHOUT_LOG = {"ContainerStatusUnknown"} | NEVER_STARTED
_COMBINED = "(combined from similar events): "
"""Prefix of the newest message of many similar ones.

From the tenth on, Kubernetes keeps one event about one object and reason, and its count is that of
all of them.
"""


class JobSnapshot(msgspec.Struct, kw_only=True):
    """Objects of one job from the API server."""

    job: KubeObject | None
    """The job; its last state if ``deleted``; None if not seen."""
    pods: Mapping[str, KubeObject] = {}
    """Pods by name; a deleted pod's last state has ``_deleted``."""
    earlier: Sequence[KubeObject] = ()
    """Last states of replaced pods, oldest first."""
    events: Sequence[KubeObject] = ()
    """core/v1 Events of the job, its pods and its Kueue Workload, oldest first."""
    deleted: bool = False
    """The job object is gone."""
    workload: KubeObject | None = None
    """The job's Kueue Workload where that was asked and allowed."""


class ContainerEnd(msgspec.Struct, frozen=True, kw_only=True):
    """End of a container."""

    code: int
    reason: str
    message: str
    at: float | None
    """Unix seconds; None where the runtime does not say."""


class Replica(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One replica of the plan, with its pod if there is one."""

    name: str
    """``master-0``, ``worker-1``."""
    pod_name: str
    container: str
    pod: KubeObject | None
    """None: not created, or never seen."""
    events: Sequence[KubeObject] = ()
    """About this incarnation of the pod, oldest first."""
    created: int = 0
    """Number of creations of the pod, by the operator or as seen."""

    @property
    def gone(self) -> bool:
        """True if the pod existed and is deleted."""
        return self.pod is not None and bool(self.pod.get(DELETED))

    @property
    def terminating(self) -> bool:
        """True if the pod is being deleted."""
        return "deletionTimestamp" in self.meta

    @property
    def deletion_asked_at(self) -> float | None:
        """Unix seconds of the pod's deletion request; None without one.

        Also None if the pod was gone at once.
        """
        due = parse_time(self.meta.get("deletionTimestamp"))
        grace = self.meta.get("deletionGracePeriodSeconds") or 0
        return None if due is None else due - float(grace)

    @functools.cached_property
    def meta(self) -> KubeObject:
        """The pod's metadata."""
        return (self.pod or {}).get("metadata") or {}

    @property
    def spec(self) -> KubeObject:
        """The pod's spec."""
        return (self.pod or {}).get("spec") or {}

    @functools.cached_property
    def status(self) -> KubeObject:
        """The pod's status."""
        return (self.pod or {}).get("status") or {}

    @functools.cached_property
    def phase(self) -> str | None:
        """Kubernetes' phase of the pod; None without one."""
        return None if self.pod is None else self.status.get("phase", "Pending")

    @property
    def node(self) -> str | None:
        """The node that it was placed on."""
        return self.spec.get("nodeName")

    @property
    def names(self) -> dict[str, str]:
        """The names that a sentence or an action may hold."""
        where = f" on node {self.node}" if self.node else ""
        names = {"replica": self.name, "replicas": self.name, "pod": self.pod_name}
        return names | {"node": str(self.node), "where": where}

    @property
    def ended(self) -> bool:
        """True if all its containers have ended."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def stopped(self) -> bool:
        """True if its training container has ended; a sidecar may still run."""
        return self.ended or "terminated" in (self.main.get("state") or {})

    @property
    def started(self) -> bool:
        """True if its main container has ever run."""
        state = self.main.get("state") or {}
        ran = "running" in state or "terminated" in state or "terminated" in self.last_state
        return ran or self.phase in ("Running", "Succeeded", "Failed")

    @functools.cached_property
    def main(self) -> KubeObject:
        """Status of the training container; empty before the kubelet wrote it."""
        statuses = self.status.get("containerStatuses") or []
        return next((status for status in statuses if status["name"] == self.container), {})

    @property
    def last_state(self) -> KubeObject:
        """State of the training container before its last restart."""
        return self.main.get("lastState") or {}

    @property
    def has_log(self) -> bool:
        """True if its node should have the log: it ran, and was not evicted."""
        ending = self.ending
        if self.status.get("reason") == "Evicted" or (ending and ending.reason in _WITHOUT_LOG):
            return False
        return ending is not None or "running" in (self.main.get("state") or {})

    @property
    def inits(self) -> Sequence[KubeObject]:
        """Statuses of its init containers."""
        return self.status.get("initContainerStatuses") or []

    @functools.cached_property
    def ending(self) -> ContainerEnd | None:
        """Latest end of its training container."""
        state = (self.main.get("state") or {}).get("terminated")
        return ending_of(state or self.last_state.get("terminated"))

    @property
    def restarts(self) -> int:
        """Restarts of its container and replacements of its pod."""
        return int(self.main.get("restartCount", 0)) + max(0, self.created - 1)

    @property
    def disruption(self) -> KubeObject | None:
        """Condition with the external cause of the pod's end, if any."""
        condition = self.condition("DisruptionTarget")
        return condition if is_true(condition) else None

    @property
    def on_lost_node(self) -> bool:
        """True if its node does not answer: it cannot end or be read."""
        return self.terminating and not self.ended and self.tainted and not self.ready

    @property
    def tainted(self) -> bool:
        """True if a taint ends the pod.

        Its node does not answer, or somebody tainted it.
        """
        return (self.disruption or {}).get("reason") == _TAINTED

    @property
    def ready(self) -> bool:
        """True if ready by its node; never on a node that does not answer."""
        return is_true(self.condition("Ready"))

    def condition(self, kind: str) -> KubeObject | None:
        """One of the pod's conditions."""
        return conditions(self.pod or {}).get(kind)

    def last_event(self, *wanted: Event, but: str = "\n") -> KubeObject | None:
        """Return the newest event of the pod with one of these meanings.

        One whose message begins with ``but`` counts only without others.
        """
        found = [event for event in reversed(self.events) if _means(event, *wanted)]
        found.sort(key=lambda event: message_of(event).startswith(but))
        return found[0] if found else None


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One job, sorted: what all causes are read from."""

    seen: JobSnapshot
    plan: RunPlan
    now: float
    job: KubeObject
    replicas: tuple[Replica, ...]
    """Those that the plan has, rank 0's first."""
    events: tuple[KubeObject, ...]
    """About the job itself, oldest first."""

    @property
    def namespace(self) -> str:
        """The job's namespace."""
        return str((self.job.get("metadata") or {}).get("namespace", "default"))

    def names(self, replica: Replica | None = None) -> dict[str, str]:
        """Return names of the job and one replica, for an action."""
        kind = kind_of(self.plan)
        names = {"namespace": self.namespace, "kind": kind.singular, "job": self.plan.job_name}
        resume = {"spec": kind.policy(suspend=False)}
        # The operator's own webhook has let the job in: what it needs makes the pods.
        maker = next(iter(kind.operator.needs), kind.operator)
        names |= {"operator": maker.name, "resume": msgspec.json.encode(resume).decode()}
        return names if replica is None else names | replica.names

    @property
    def age(self) -> float:
        """Seconds since the job was created."""
        made = parse_time((self.job.get("metadata") or {}).get("creationTimestamp"))
        return 0.0 if made is None else max(0.0, self.now - made)

    @property
    def suspended(self) -> bool:
        """True if the job is suspended and so has no pods."""
        return is_suspended(self.job)

    @property
    def never_restarts(self) -> bool:
        """True if a failed replica is not restarted.

        The controllers of others' jobs make pods anew, and say when a job has ended.
        """
        if self.plan.observed is not None:
            return False
        specs = (self.job.get("spec") or {}).get(kind_of(self.plan).replicas_key) or {}
        return all(spec.get("restartPolicy", "Never") == "Never" for spec in specs.values())

    def condition(self, phase: Phase, *, only_true: bool = True) -> KubeObject | None:
        """Return the job's condition for ``phase``; ``only_true``: if it is true."""
        status = self.job.get("status") or {}
        return kind_of(self.plan).condition(status, phase, only_true=only_true)

    def events_of(self, wanted: Event) -> Iterator[KubeObject]:
        """Events about the job that mean this, newest first."""
        return (event for event in reversed(self.events) if _means(event, wanted))


def look(seen: JobSnapshot, plan: RunPlan, now: float) -> Facts:
    """Sort what was seen by replica."""
    job = seen.job or {}
    uid = (job.get("metadata") or {}).get("uid")
    kind = kind_of(plan)
    made = first_seen(job) or 0.0
    own = tuple(
        event
        for event in seen.events
        if _about(event, plan.job_name, uid)
        or (
            (event.get("involvedObject") or {}).get("kind") in kind.makers
            # Those of an earlier attempt have the same names; clocks differ by a little.
            and (first_seen(event) or made) >= made - 5.0
        )
    )
    created: dict[str, int] = {}
    for event in own:
        message = str(event.get("message") or "")
        # Of many events that were combined only the newest message is known.
        if _means(event, Event.POD_CREATED) and not message.startswith(_COMBINED):
            pod_name = message.rpartition(": ")[2]
            created[pod_name] = created.get(pod_name, 0) + times(event)
    replaced = Counter(kind.replica_of(name_of(pod), plan.job_name) for pod in seen.earlier)
    replicas = []
    for name in replica_names(plan):
        pod = seen.pods.get(f"{plan.job_name}-{name}")
        pod_name = f"{plan.job_name}-{name}" if pod is None else name_of(pod)
        pod_uid = ((pod or {}).get("metadata") or {}).get("uid")
        replica = Replica(
            name=name,
            pod_name=pod_name,
            container=kind.container if plan.observed is None else plan.observed.container,
            pod=pod,
            events=[
                seen_event
                for seen_event in seen.events
                if pod and _about(seen_event, pod_name, pod_uid)
            ],
            created=max(created.get(pod_name, 0), 1 + replaced[name] if replaced[name] else 0),
        )
        replicas.append(replica)
    return Facts(seen=seen, plan=plan, now=now, job=job, replicas=tuple(replicas), events=own)


def earlier(facts: Facts) -> Iterator[Replica]:
    """Yield the replicas' pods that were replaced, oldest first."""
    by_name = {replica.name: replica for replica in facts.replicas}
    count: Counter[str] = Counter()
    for pod in facts.seen.earlier:
        name = kind_of(facts.plan).replica_of(name_of(pod), facts.plan.job_name)
        count[name] += 1
        if name in by_name:
            yield msgspec.structs.replace(
                by_name[name], pod=pod, pod_name=name_of(pod), events=(), created=count[name]
            )


def _means(event: KubeObject, *wanted: Event) -> bool:
    return EVENTS.get(str(event.get("reason"))) in wanted


def message_of(event: KubeObject) -> str:
    """Return the message of an event."""
    return str(event.get("message") or "").removeprefix(_COMBINED)


def times(event: KubeObject) -> int:
    """Return how often an event happened; one object counts equal events."""
    series = event.get("series") or {}
    return int(event.get("count") or series.get("count") or 1)


def first_seen(event: KubeObject) -> float | None:
    """Return the Unix seconds of an event's first occurrence."""
    return parse_time(
        event.get("firstTimestamp")
        or event.get("eventTime")
        or (event.get("metadata") or {}).get("creationTimestamp")
    )


def ending_of(state: KubeObject | None) -> ContainerEnd | None:
    """Read a container's state ``terminated``; None without one."""
    if not state:
        return None
    return ContainerEnd(
        code=int(state.get("exitCode", 0)),
        reason=str(state.get("reason") or ""),
        message=str(state.get("message") or "").strip(),
        at=parse_time(state.get("finishedAt")),
    )


def names(replicas: Sequence[Replica]) -> str:
    """Write replicas' names: up to three, else two and a count."""
    shown = [replica.name for replica in replicas]
    if len(shown) > 3:
        shown = [*shown[:2], f"{len(shown) - 2} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def quoted(text: str) -> str:
    """Quote Kubernetes' own words, in short."""
    text = " ".join(text.split()).rstrip(".")
    return f"'{text if len(text) <= QUOTED else text[: QUOTED - 1] + '…'}'"


def _about(event: KubeObject, name: str, uid: str | None) -> bool:
    """Return True if an event is about this object, not an earlier namesake."""
    about = event.get("involvedObject") or {}
    return about.get("name") == name and (uid is None or about.get("uid", uid) == uid)
