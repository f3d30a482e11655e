"""Why the scheduler finds no node for replicas, read from the message of its condition.

``0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't match Pod's node affinity/selector.
preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling.`` Each node counts
under what failed first: taints are looked at before labels, and labels before resources.
Schedulers before 1.34 do not tell a request that is larger than a node from one that is larger
than what is free: there the nodes themselves decide, where they may be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

import msgspec

from k8sbench.diagnose.job.causes import Diagnosis, found
from k8sbench.diagnose.job.facts import Facts, Replica
from k8sbench.diagnose.job.reasons import Event
from k8sbench.diagnose.job.words import has, names, quoted
from k8sbench.model.kube import KubeObject, labels_of, moment
from k8sbench.model.pool import amount

BIND_SECONDS = 30.0
"""A claim that was just made has no volume for some seconds, and someone may be making one that is
missing; longer than a provisioner usually takes."""
_HEAD = re.compile(r"^0/(?P<nodes>\d+) nodes are available: (?P<why>.*)$", re.DOTALL)
_NO_NODES = "no nodes available to schedule pods"
_INSUFFICIENT = re.compile(r"^Insufficient (\S+)$|^(Too many pods)$")
_TAINT = re.compile(
    r"^node\(s\) had untolerated taint \{(?P<key>[^:}]+)(?:: ?(?P<value>[^}]*))?\}$"
)
_MISMATCH = {
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't satisfy plugin(s) [NodeAffinity]",  # of a pod that is pinned to one node
}
_CLOSED = "node(s) were unschedulable"
_NO_CLAIM = re.compile(r'persistentvolumeclaim "(?P<claim>[^"]+)" not found')
_UNBOUND = re.compile(
    r"unbound immediate PersistentVolumeClaims|didn't find available persistent volumes|"
    r"did not have enough free storage|bound to non-existent|waiting for .*persistentvolumeclaim"
    r"|is being deleted"
)
_GANG = re.compile(r"\bgang\b|pod ?group|minMember|minAvailable", re.IGNORECASE)
# Kubernetes' own taints of nodes in trouble, and an autoscaler's of nodes that it takes away.
_PASSING = re.compile(
    r"^node\.kubernetes\.io/|^node\.cloudprovider\.kubernetes\.io/|CandidateOfClusterAutoscaler$"
    r"|^ToBeDeletedByClusterAutoscaler$|^karpenter\.sh/(disrupt|unregistered)"
)
_UNHELPFUL = "Preemption is not helpful for scheduling"


class SchedulerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What the scheduler wrote about one pod."""

    nodes: int
    insufficient: Mapping[str, int]
    """Nodes by the resource that they have too little of."""
    taints: Mapping[str, int]
    """Nodes by taint, ``key: value``."""
    mismatched: int
    closed: int
    """Nodes that are cordoned."""
    unhelpful: bool
    """Whether nothing that ends could make room, on any node."""


def read(message: str) -> SchedulerMessage | None:
    """Read the scheduler's sentence about nodes; None where it is about something else."""
    head = _HEAD.match(message)
    if head is None:
        return None
    why, _, preemption = head["why"].partition(" preemption: ")
    insufficient: dict[str, int] = {}
    taints: dict[str, int] = {}
    mismatched = closed = 0
    for count, reason in _counted(why):
        if short := _INSUFFICIENT.match(reason):
            insufficient[short[1] or "pods"] = count
        elif taint := _TAINT.match(reason):
            value = (taint["value"] or "").strip()
            taints[f"{taint['key']}: {value}" if value else taint["key"]] = count
        elif reason in _MISMATCH:
            mismatched = count
        elif reason == _CLOSED:
            closed = count
    nodes = int(head["nodes"])
    preempted = _HEAD.match(preemption)
    reasons = list(_counted(preempted["why"])) if preempted else []
    return SchedulerMessage(
        nodes=nodes,
        insufficient=insufficient,
        taints=taints,
        mismatched=mismatched,
        closed=closed,
        unhelpful=reasons == [(nodes, _UNHELPFUL)],
    )


def unplaced(facts: Facts) -> list[Replica]:
    """Return the replicas whose pods have no node."""
    return [one for one in facts.replicas if one.pod and not one.gone and not one.node]


def causes(facts: Facts) -> Iterator[Diagnosis | float]:
    """Yield why replicas have no node; a number: seconds after which there may be a cause."""
    groups: dict[str, list[Replica]] = {}
    for one in unplaced(facts):
        condition = one.condition("PodScheduled") or {}
        if message := str(condition.get("message") or ""):
            groups.setdefault(message, []).append(one)
    for message, some in groups.items():
        yield _cause(facts, message, some)


def _cause(facts: Facts, message: str, some: Sequence[Replica]) -> Diagnosis | float:
    where = facts.names(some[0])
    head = f"No node for {names(some)}"
    report = read(message)
    if _GANG.search(message):
        text = f"{head}: the gang scheduler waits for room for all: {quoted(message)}."
        return found("gang-incomplete", text)
    if _NO_NODES in message or (report and report.nodes == 0):
        return found("no-node-fits", f"{head}: the cluster has no nodes at all.")
    if volume := _volume(facts, message, some[0], head):
        return volume
    if report is None:
        return found("unscheduled", f"{head}: {quoted(message)}.", where)
    missing = _missing_labels(facts, some[0])
    comes = some[0].last_event(Event.NODE_COMES) is not None
    if report.mismatched == report.nodes or (missing and not report.insufficient):
        text = f"{head}: {_none(report)} has {_labels(some[0])}{missing}."
        return found("no-matching-node", text, unrecoverable=not comes)
    if report.insufficient:
        return _too_little(facts, report, some, head, comes=comes)
    return _closed_or_tainted(report, message, head, where)


def _too_little(
    facts: Facts, report: SchedulerMessage, some: Sequence[Replica], head: str, *, comes: bool
) -> Diagnosis:
    wanted = requests(some[0].spec)
    most = _largest(facts, some[0])
    over = [name for name in report.insufficient if name in most and wanted[name] > most[name]]
    short = over or sorted(report.insufficient, key=lambda name: -report.insufficient[name])
    # Extended resources first: GPUs are what a benchmark waits for.
    name = next((one for one in short if "/" in one), short[0])
    each = _quantity(name, wanted.get(name))
    if over or (report.unhelpful and not comes):
        largest = f"; the largest has {_quantity(name, most[name])}" if name in most else ""
        text = f"{head}: {each} is more than {_any(report)} has{largest}."
        return found("request-too-large", text)
    rest = [
        f"{_of(count, report)} {has(count)} too little {one} free"
        for one, count in sorted(report.insufficient.items(), key=lambda item: item[0] != name)
    ]
    total = wanted.get(name, Decimal(0)) * len(some)
    asks = f"it asks for {each}"
    if len(some) > 1:
        asks = f"each asks for {each} ({_value(name, total)} in all)"
    text = f"{head}: {asks}, and {'; '.join([*rest, *_other_nodes(report)])}."
    return found("no-node-fits", text)


def _closed_or_tainted(
    report: SchedulerMessage, message: str, head: str, where: Mapping[str, str]
) -> Diagnosis:
    text = f"{head}: {'; '.join(_other_nodes(report))}."
    if report.closed or any(_PASSING.search(taint) for taint in report.taints):
        return found("nodes-not-ready", text)
    if report.taints:
        return found("taint-not-tolerated", text)
    return found("unscheduled", f"{head}: {quoted(message)}.", where)


def _other_nodes(report: SchedulerMessage) -> list[str]:
    """Say of the nodes that were not even looked at for resources why not."""
    parts = []
    for taint, count in report.taints.items():
        text = (
            f"{_of(count, report)} {has(count)} the taint {taint}, which the pool does not tolerate"
        )
        parts.append(text)
    if report.closed:
        parts.append(
            f"{_of(report.closed, report)} {'is' if report.closed == 1 else 'are'} closed to pods"
        )
    if report.mismatched:
        parts.append(f"{_of(report.mismatched, report)} {has(report.mismatched)} other labels")
    return parts


def _any(report: SchedulerMessage) -> str:
    return "the only node" if report.nodes == 1 else f"any of the {report.nodes} nodes"


def _none(report: SchedulerMessage) -> str:
    return f"none of the {report.nodes} nodes" if report.nodes > 1 else "not even the only node"


def _of(count: int, report: SchedulerMessage) -> str:
    if count == report.nodes:
        return "the only node" if count == 1 else f"all {count} nodes"
    return f"{count} of {report.nodes} nodes"


def _volume(facts: Facts, message: str, one: Replica, head: str) -> Diagnosis | float | None:
    missing = _NO_CLAIM.search(message)
    if missing is None and not _UNBOUND.search(message):
        return None
    waited = facts.now - (moment(one.meta.get("creationTimestamp")) or facts.now)
    if missing is not None:
        text = f"{head}: there is no claim {missing['claim']} in namespace {facts.namespace}."
        claim = {**facts.names(), "claim": missing["claim"]}
        return unrecoverable_later("volume-missing", text, claim, waited)
    if waited < BIND_SECONDS:
        return BIND_SECONDS - waited
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in one.spec.get("volumes") or []
        if "persistentVolumeClaim" in volume
    ]
    why = next(
        (
            str(event.get("message", ""))
            for event in reversed(facts.seen.events)
            if (event.get("involvedObject") or {}).get("kind") == "PersistentVolumeClaim"
            and event["involvedObject"].get("name") in claims
        ),
        message.partition(" preemption: ")[0].partition(": ")[2],
    )
    text = (
        f"{head}: after {waited:.0f} s the claim {' or '.join(claims)} has no volume:"
        f" {quoted(why)}."
    )
    names = {**facts.names(), "claim": claims[0] if claims else ""}
    return found("volume-not-bound", text, names)


def unrecoverable_later(
    cause_id: str, sentence: str, names: Mapping[str, str], waited: float
) -> Diagnosis:
    """Make a diagnosis, unrecoverable after half a minute: someone may be creating the object."""
    again_s = BIND_SECONDS - waited if waited < BIND_SECONDS else None
    return found(cause_id, sentence, names, unrecoverable=again_s is None, again_s=again_s)


def requests(spec: KubeObject) -> dict[str, Decimal]:
    """Add up what a pod's containers ask for (its init containers ask for less)."""
    wanted: dict[str, Decimal] = {"pods": Decimal(1)}
    for container in spec.get("containers") or []:
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, quantity in asked.items():
            wanted[name] = wanted.get(name, Decimal(0)) + amount(str(quantity))
    return wanted


def matching(nodes: Sequence[KubeObject], pod: KubeObject) -> list[KubeObject]:
    """Return the nodes that have the labels of a pod's selector."""
    selector = (pod.get("nodeSelector") or {}).items()
    return [one for one in nodes if selector <= labels_of(one).items()]


def _largest(facts: Facts, one: Replica) -> dict[str, Decimal]:
    """Most that any matching node has of each resource, also when empty; empty: not known."""
    most: dict[str, Decimal] = {}
    for node in matching(facts.seen.nodes or (), one.spec):
        for name, quantity in ((node.get("status") or {}).get("allocatable") or {}).items():
            most[name] = max(most.get(name, Decimal(0)), amount(str(quantity)))
    if most:
        # A resource that no matching node has at all is not in their lists.
        return {name: most.get(name, Decimal(0)) for name in {*most, *requests(one.spec)}}
    return most


def _missing_labels(facts: Facts, one: Replica) -> str:
    """Say which values the nodes have instead; empty where one matches, or none is known."""
    if not facts.seen.nodes or matching(facts.seen.nodes, one.spec):
        return ""
    for key, value in (one.spec.get("nodeSelector") or {}).items():
        there = {labels_of(node).get(key) for node in facts.seen.nodes}
        if value not in there:
            values = sorted(one for one in there if one is not None)
            return f"; theirs is {', '.join(values)}" if values else "; they have no such label"
    return "; each has only some of them"


def _labels(one: Replica) -> str:
    selector = one.spec.get("nodeSelector") or {}
    if not selector:
        return "the labels of its node affinity"
    listed = ", ".join(f"{key}={value}" for key, value in selector.items())
    return f"the label{'s' if len(selector) > 1 else ''} {listed}"


def _quantity(name: str, value: Decimal | None) -> str:
    return name if value is None else f"{_value(name, value)} {name}"


def _value(name: str, value: Decimal) -> str:
    if name in ("memory", "ephemeral-storage"):
        return f"{(value / 2**30).quantize(Decimal('0.1')).normalize():f} GiB"
    return f"{value.normalize():f}"


def _counted(text: str) -> Iterator[tuple[int, str]]:
    for part in re.split(r", (?=\d+ )", text.strip().rstrip(".")):
        count, _, reason = part.partition(" ")
        if count.isdigit():
            yield int(count), reason
