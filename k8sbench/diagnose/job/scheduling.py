"""Reason why pods have no node: the scheduler's message.

It is a condition of the pod. ``0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't match
Pod's node affinity/selector. preemption: 0/4 nodes are available: 4 Preemption is not helpful for
scheduling.`` Each node counts under its first failed check: taints before labels, labels before
resources. A check that has no words here is quoted. That a request exceeds a whole node, and not
only its free part, is known from schedulers from 1.34 on, if all nodes lack one resource alone:
preemption would not help then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

import msgspec

from k8sbench.diagnose.job.causes import Event, finding_of
from k8sbench.diagnose.job.facts import Facts, Replica, names, quoted
from k8sbench.model.errors import Finding
from k8sbench.model.kube import KubeObject, is_trouble, parse_time
from k8sbench.model.pool import parse_quantity, write_number

Names = Mapping[str, str]
"""Names for a sentence or an action."""
BIND_SECONDS = 30.0
"""Seconds until a missing volume of a claim is a problem.

Longer than a provisioner usually takes; somebody may also be creating the claim.
"""
# Volcano says "unavailable".
_HEAD = re.compile(r"^0/(?P<nodes>\d+) nodes are (?:un)?available: (?P<why>.*)$", re.DOTALL)
_PREEMPTION = re.compile(
    r"\.? *(?:(?:still not schedulable|no new claims to deallocate),? *)?preemption: "
)
_REASON = re.compile(
    r"Insufficient (?P<resource>\S+)|(?P<pods>Too many pods)"
    # From 1.35 on it does not name the taint.
    r"|node\(s\) had untolerated taint(?: \{(?P<taint>[^}]+)\}|(?P<unnamed>\(s\)))"
    # The second of a pod that is pinned to one node.
    r"|(?P<mismatched>node\(s\) didn't match Pod's node affinity/selector"
    r"|node\(s\) didn't satisfy plugin\(s\) \[NodeAffinity\])"
    r"|(?P<closed>node\(s\) were unschedulable)"
    r"|(?P<shared>node\(s\) didn't (match pod|satisfy existing pods) anti-affinity rules)"
)
_NO_CLAIM = re.compile(r'persistentvolumeclaim "(?P<claim>[^"]+)" not found')
_UNBOUND = re.compile(
    r"unbound immediate PersistentVolumeClaims|didn't find available persistent volumes|"
    r"did not have enough free storage|bound to non-existent|waiting for .*persistentvolumeclaim"
    r"|is being deleted"
)
_FOR_GOOD = re.compile(r"volume node affinity conflict|no available volume zone")
"""Texts of checks that no other pod's end changes."""
_CONTROL_PLANE = re.compile(r"node-role\.kubernetes\.io/(?:control-plane|master)\b")
"""Taint of nodes that are for no job."""
_UNNAMED = "(not named)"
_GATED = "scheduling gates"
_UNHELPFUL = "Preemption is not helpful for scheduling"


class SchedulerMessage(msgspec.Struct, kw_only=True):
    """The scheduler's message about one pod."""

    nodes: int
    """Number of nodes that it looked at."""
    insufficient: dict[str, int]
    """Nodes by the resource that they have too little of."""
    taints: dict[str, int]
    """Nodes by taint, ``key: value``."""
    mismatched: int
    """Number of nodes with other labels."""
    closed: int
    """Number of nodes that are cordoned."""
    shared: int
    """Number of nodes that have a replica of the run."""
    others: dict[str, int]
    """Nodes by another check's text; all where the scheduler gives no number."""
    unhelpful: bool
    """True if no ending pod could make room on any node."""

    def rest(self) -> list[str]:
        """Return reasons of nodes that were excluded before their resources."""
        count_by_reason: dict[str, int] = {}
        for taint, count in self.taints.items():
            why = "" if _is_trouble(taint) else ", which the pool does not tolerate,"
            count_by_reason[f"the taint {taint}{why}"] = count
        count_by_reason |= {"a cordon": self.closed, "other labels": self.mismatched}
        count_by_reason |= {"another replica of the run": self.shared}
        found = [self.on(what, count) for what, count in count_by_reason.items() if count]
        return [*(self.on(quoted(text), count) for text, count in self.others.items()), *found]

    def is_for_good(self) -> bool:
        """Return True if each node is excluded by what no other pod's end changes."""
        checks = all(_FOR_GOOD.search(text) for text in self.others)
        is_ready = not self.closed and not any(map(_is_trouble, self.taints))
        return self.unhelpful and checks and is_ready and not self.shared

    def lacks_only(self, resource: str) -> bool:
        """Return True if each node that is meant for the pods has too little of this alone."""
        elsewhere = sum(n for taint, n in self.taints.items() if _CONTROL_PLANE.match(taint))
        return self.insufficient == {resource: self.nodes - self.mismatched - elsewhere}

    def on(self, what: str, count: int) -> str:
        """Say on how many of the nodes something is."""
        return f"{what} on {count} of {self.nodes} node{'s' * (self.nodes > 1)}"


def read(message: str) -> SchedulerMessage | None:
    """Read the scheduler's sentence about nodes; None for other messages."""
    head = _HEAD.match(message)
    if head is None:
        return None
    why, *preemption = _PREEMPTION.split(head["why"], maxsplit=1)
    insufficient: dict[str, int] = {}
    taints: dict[str, int] = {}
    others: dict[str, int] = {}
    nodes_by_kind = {"mismatched": 0, "closed": 0, "shared": 0}
    nodes = int(head["nodes"])
    for count, text in _counted(why, nodes):
        reason = _REASON.fullmatch(text)
        if reason is None:
            others[text] = count
        elif reason["resource"] or reason["pods"]:
            insufficient[reason["resource"] or "pods"] = count
        elif reason["taint"]:
            taints[reason["taint"].strip(": ")] = count
        elif reason["unnamed"]:
            taints[_UNNAMED] = count
        elif reason.lastgroup:
            nodes_by_kind[reason.lastgroup] = count
    preempted = _HEAD.match(preemption[0]) if preemption else None
    reasons = list(_counted(preempted["why"], nodes)) if preempted else []
    return SchedulerMessage(
        nodes=nodes,
        insufficient=insufficient,
        taints=taints,
        **nodes_by_kind,
        others=others,
        unhelpful=reasons == [(nodes, _UNHELPFUL)],
    )


def unscheduled(facts: Facts) -> Iterator[Finding | float]:
    """Yield why replicas have no node; a number: seconds until a cause is due."""
    groups: dict[str, list[Replica]] = {}
    for replica in facts.replicas:
        if replica.pod is None or replica.gone or replica.node:
            continue
        condition = replica.condition("PodScheduled") or {}
        if message := str(condition.get("message") or ""):
            groups.setdefault(message, []).append(replica)
    for message, replicas in groups.items():
        yield from _unscheduled(facts, message, replicas)


def _unscheduled(
    facts: Facts, message: str, replicas: Sequence[Replica]
) -> Iterator[Finding | float]:
    first = replicas[0]
    report = read(message)
    where = facts.names(first) | {"replicas": names(replicas)}
    if missing := _NO_CLAIM.search(message):
        words = {"claim": missing["claim"], "why": "it does not exist"}
        age = _age(facts, first)
        yield from passing("volume-not-bound", where, age, seconds=f"{age:.0f}", **words)
    elif _UNBOUND.search(message):
        yield _unbound(facts, message, first, where)
    elif _GATED in message:
        gates = ", ".join(gate["name"] for gate in first.spec.get("schedulingGates") or [])
        yield finding_of("no-node-fits", where, why=quoted(f"{message}: {gates}".rstrip(": ")))
    elif report is None:
        # Of a gang scheduler, or of a cluster without nodes.
        yield finding_of("no-node-fits", where, why=quoted(message))
    else:
        yield _no_node(report, message, replicas, where)


def _no_node(
    report: SchedulerMessage, message: str, replicas: Sequence[Replica], where: Names
) -> Finding:
    first = replicas[0]
    comes = first.last_event(Event.NODE_COMES) is not None
    if report.mismatched == report.nodes:
        labels = _labels(first)
        return finding_of("no-matching-node", where, unrecoverable=not comes, labels=labels)
    if report.insufficient or report.others:
        return _lacking(report, replicas, where, comes=comes)
    why = "; ".join(report.rest())
    if report.closed or any(map(_is_trouble, report.taints)):
        return finding_of("nodes-not-ready", where, why=why)
    if report.shared:
        return finding_of("too-few-nodes", where, why=why)
    if report.taints:
        return finding_of("taint-not-tolerated", where, why=why)
    return finding_of("no-node-fits", where, why=why or quoted(message))


def _lacking(
    report: SchedulerMessage, replicas: Sequence[Replica], where: Names, *, comes: bool
) -> Finding:
    is_final = report.is_for_good() and not comes
    if not report.insufficient:
        why = "; ".join(report.rest())
        return finding_of("no-node-fits", where, unrecoverable=is_final, why=why)
    wanted = requests(replicas[0].spec)
    short = sorted(report.insufficient, key=lambda name: -report.insufficient[name])
    # Extended resources first: GPUs are what a benchmark waits for.
    name = next((resource for resource in short if "/" in resource), short[0])
    asked = f"{_value(name, wanted[name])} {name}" if name in wanted else name
    if report.unhelpful and not comes and report.lacks_only(name):
        node = f"node with {_labels(replicas[0])}" if report.mismatched else "node"
        return finding_of("request-too-large", where, asked=asked, node=node)
    if len(replicas) > 1:
        total = wanted.get(name, Decimal(0)) * len(replicas)
        asked += f" each ({_value(name, total)} in all)"
    parts = [
        report.on(f"too little {resource} free", report.insufficient[resource])
        for resource in sorted(report.insufficient, key=lambda resource: resource != name)
    ]
    why = "; ".join([f"asked for {asked}", *parts, *report.rest()])
    # Someone may untaint a node, and of several resources only one may be too large.
    is_final = is_final and bool(report.others) and not report.taints
    return finding_of("no-node-fits", where, unrecoverable=is_final, why=why)


def _is_trouble(taint: str) -> bool:
    return is_trouble(taint.partition(":")[0])


def _age(facts: Facts, replica: Replica) -> float:
    return facts.now - (parse_time(replica.meta.get("creationTimestamp")) or facts.now)


def _unbound(facts: Facts, message: str, replica: Replica, where: Names) -> Finding | float:
    waited = _age(facts, replica)
    if waited < BIND_SECONDS:
        return BIND_SECONDS - waited
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in replica.spec.get("volumes") or []
        if "persistentVolumeClaim" in volume
    ]
    why = message.partition(" preemption: ")[0].partition(": ")[2]
    claim = " or ".join(claims)
    return finding_of(
        "volume-not-bound", where, claim=claim, seconds=f"{waited:.0f}", why=quoted(why)
    )


def passing(cause_id: str, names: Names, waited: float, **words: str) -> Iterator[Finding | float]:
    """Yield a cause that is unrecoverable only after half a minute.

    Somebody may be creating the missing object.
    """
    yield finding_of(cause_id, names, unrecoverable=waited >= BIND_SECONDS, **words)
    if waited < BIND_SECONDS:
        yield BIND_SECONDS - waited


def requests(spec: KubeObject) -> dict[str, Decimal]:
    """Add up the requests of a pod's containers.

    Its init containers request less.
    """
    wanted: dict[str, Decimal] = {"pods": Decimal(1)}
    for container in spec.get("containers") or []:
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, quantity in asked.items():
            wanted[name] = wanted.get(name, Decimal(0)) + parse_quantity(str(quantity))
    return wanted


def _labels(replica: Replica) -> str:
    selector = replica.spec.get("nodeSelector") or {}
    listed = ", ".join(f"{key}={value}" for key, value in selector.items())
    return f"the label{'s' * (len(selector) > 1)} {listed}" if listed else "the labels asked for"


def _value(name: str, value: Decimal) -> str:
    if name in ("memory", "ephemeral-storage"):
        return f"{write_number((value / 2**30).quantize(Decimal('0.1')))} GiB"
    return write_number(value)


def _counted(text: str, nodes: int) -> Iterator[tuple[int, str]]:
    for part in re.split(r", (?=\d+ )", text.strip().rstrip(".")):
        count, _, reason = part.partition(" ")
        if part:
            yield (int(count), reason) if count.isdigit() else (nodes, part)
