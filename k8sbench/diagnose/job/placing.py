"""Reason why a job does not run yet, among its replicas' causes.

A cause that cannot pass goes first. Then the stages in the order in which the user can act: refused
pods, images, volumes, and last the wait for nodes.

The scheduler's message is a condition of the pod. ``0/4 nodes are available: 1 Insufficient cpu, 3
node(s) didn't match Pod's node affinity/selector. preemption: 0/4 nodes are available: 4 Preemption
is not helpful for scheduling.`` Each node counts under its first failed check: taints before
labels, labels before resources. That a request exceeds a whole node, and not only its free part, is
known from schedulers from 1.34 on: preemption would not help then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

import msgspec

from k8sbench.diagnose.job import endings, reasons
from k8sbench.diagnose.job.causes import finding_of
from k8sbench.diagnose.job.facts import Facts, Replica, first_seen, message_of, names, quoted
from k8sbench.diagnose.job.reasons import EVENTS, Event, Waiting
from k8sbench.model.counts import counted
from k8sbench.model.finding import Finding
from k8sbench.model.kinds import kind_of
from k8sbench.model.kube import (
    QUEUE_LABEL,
    KubeObject,
    conditions,
    is_trouble,
    is_true,
    labels_of,
    moment,
)
from k8sbench.model.operators import OPERATORS
from k8sbench.model.phase import Phase
from k8sbench.model.pool import amount, plain

OPERATOR_SECONDS = 30.0
"""Seconds without a sign of the operator until it counts as missing.

It takes 0.1 s when it runs.
"""
QUEUE_SECONDS = 30.0
"""Seconds until Kueue's Workload is missing; also the interval of looks.

Kueue makes its Workload within a second.
"""
LOOK_SECONDS = 8.0
"""Interval of looks at a silent queue: some refusals are in the Workload alone."""
RETRY_SECONDS = 10.0
"""Seconds for the kubelet's retry of mounts and sandboxes."""
_IMAGE_ERRORS = {
    "pull-limited": r"toomanyrequests|too many requests|\b429\b",
    "image-pull-denied": r"unauthorized|authentication required|denied|forbidden|\b40[13]\b"
    r"|no basic auth|insufficient_scope|authorization failed|docker login",
    "registry-unreachable": r"dial tcp|no such host|connection (?:refused|reset)|timeout|timed out"
    r"|no route to host|tls:|x509|server misbehaving|\b5\d\d\b"
    r"|unexpected EOF|deadline exceeded",
    "image-not-found": r"not found|not present|manifest unknown|name unknown|no match for platform",
    "pod-not-started": "",
}
"""Text of a kubelet about an image → cause; the first that fits."""
_MISSING = re.compile(
    r"(?:configmap|secret)s? \"?[\w.-]+\"? not found|couldn't find key|references non-existent"
    r" (?:config|secret) key|object \"[^\"]+\"/\"[^\"]+\" not registered",
    re.IGNORECASE,
)
_UNUSABLE = re.compile(
    "doesn't exist|does not exist|inactive|not found|is stopped|HoldAndDrain|terminating or missing"
    # Another namespace's queue, no quota at all of what is asked for, taken out of the queue.
    "|doesn't match ClusterQueue|unavailable in ClusterQueue|workload is deactivated"
    # A LimitRange of the namespace, requests beyond limits.
    "|didn't satisfy LimitRange|resources validation failed"
)
_NEVER = re.compile("maximum capacity|node affinity|untolerated")
"""Kueue's text about a flavor that can never have room."""
_LATER = "insufficient unused quota"
"""Kueue's text about a flavor that others use now."""


def cause(facts: Facts) -> tuple[Finding | None, float | None]:
    """Return the cause that delays a job, and seconds until the next look."""
    if facts.suspended:
        return _queue(facts)
    all_found = [*refusals(facts), *unstarted(facts)]
    all_found += [*unscheduled(facts), *_operator(facts)]
    later = [seconds for seconds in all_found if isinstance(seconds, float)]
    troubles = [finding for finding in all_found if isinstance(finding, Finding)]
    again = max(1.0, min(later)) if later else None
    if not troubles:
        return None, again
    worst = next((finding for finding in troubles if finding.severity == "fail"), troubles[0])
    return _half_placed(facts, worst), again


def _queue(facts: Facts) -> tuple[Finding, float | None]:
    queue = labels_of(facts.job).get(QUEUE_LABEL)
    where = facts.names() | {"queue": str(queue)}
    where["place"] = (facts.seen.workload or {}).get("place", "")
    if queue is None:
        return finding_of("suspended", where), None
    why = _queue_message(facts)
    if not why and facts.age >= QUEUE_SECONDS:
        named = f"its integrations.frameworks must name {where['kind']}"
        silence = f"in {QUEUE_SECONDS:.0f} s Kueue has not answered; {named}"
        return finding_of("queue-unusable", where, why=silence), None
    if not why:
        # A cause of its own: what Kueue says then is reported as a change.
        return finding_of("queue-silent", where), min(LOOK_SECONDS, QUEUE_SECONDS - facts.age)
    evicted = conditions(facts.seen.workload or {}).get("Evicted", {})
    if _UNUSABLE.search(why) or (_NEVER.search(why) and _LATER not in why):
        cause_id = "queue-unusable"
    elif is_true(evicted) or why.startswith("Preempted"):
        cause_id, why = "queue-evicted", str(evicted.get("message") or why)
    else:
        cause_id = "queued"
    # Its place changes with other jobs, of which none of its own events tells.
    return finding_of(cause_id, where, why=quoted(why)), QUEUE_SECONDS


def _queue_message(facts: Facts) -> str:
    """Return Kueue's newest message, from the Workload or its events."""
    known = conditions(facts.seen.workload or {})
    for wanted in ("QuotaReserved", "Admitted"):
        if known.get(wanted, {}).get("status") == "False":
            return str(known[wanted].get("message", ""))
    for event in reversed(facts.seen.events):
        if event.get("reason") == "CreatedWorkload":
            continue  # says nothing of its turn
        about = event.get("involvedObject") or {}
        by = (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""
        if about.get("kind") == "Workload" or "kueue" in by.lower():
            return str(event.get("message", ""))
    return ""


def _operator(facts: Facts) -> Iterator[Finding | float]:
    """Yield the missing operator, if pods are missing without a refusal."""
    # The watch of pods may be later than that of events.
    missing = [one for one in facts.replicas if one.pod is None and not one.created]
    if not missing or next(facts.events_of(Event.POD_REFUSED), None) is not None:
        return
    begun = _released_at(facts)
    if facts.now - begun < OPERATOR_SECONDS:
        yield OPERATOR_SECONDS - (facts.now - begun)
        return
    count = len(facts.replicas)
    touched = facts.events or facts.job.get("status") or len(missing) < count
    cause_id = "operator-slow" if touched else "operator-down"
    pods = f"{count - len(missing)} of {counted(count, 'pod')}"
    yield finding_of(cause_id, facts.names(), seconds=f"{facts.now - begun:.0f}", pods=pods)


def _released_at(facts: Facts) -> float:
    """Return when the operator could begin: creation, or release by a queue."""
    held = facts.condition(Phase.QUEUED, only_true=False)
    if held is None:
        return facts.now - facts.age
    # Still true where the operator has not seen the release yet: its time is not known.
    resumed = moment(held.get("lastTransitionTime")) if held.get("status") == "False" else None
    return resumed or facts.now


def _half_placed(facts: Facts, worst: Finding) -> Finding:
    """Replace the wait for nodes if other replicas of the job hold theirs."""
    placed = [
        replica
        for replica in facts.replicas
        if replica.node and not replica.ended and not replica.gone
    ]
    if worst.id != "no-node-fits" or not placed:
        return worst
    resource = facts.plan.pool.gpu_resource
    total = sum(requests(replica.spec).get(resource, 0) for replica in placed)
    held = {"held": f"{total} {resource}" if total else "Nodes", "placed": names(placed)}
    return finding_of("half-placed", held, why=worst.sentence)


# -- pods that have a node and do not start: images, volumes, commands, the node itself ----------


def unstarted(facts: Facts) -> Iterator[Finding | float]:
    """Yield what keeps placed pods from starting, rank 0's first.

    A number: seconds until the next look.
    """
    for replica in facts.replicas:
        if replica.node and not replica.gone and not replica.ended:
            for status in (*replica.inits, replica.main):
                waiting = (status.get("state") or {}).get("waiting")
                if waiting:
                    yield from _waiting(facts, replica, status, waiting)
            if replica.phase == "Pending":
                yield from _by_events(facts, replica)


def _waiting(
    facts: Facts, replica: Replica, status: KubeObject, waiting: KubeObject
) -> Iterator[Finding | float]:
    reason, message = str(waiting.get("reason", "")), str(waiting.get("message") or "")
    means = reasons.waiting(reason)
    if means is Waiting.IMAGE:
        yield _image(facts, replica, status, reason, message)
    elif means is Waiting.START and (missing := _MISSING.search(message)):
        yield from _config(facts, replica, missing)
    elif means is Waiting.CRASHED and status is not replica.main:
        yield finding_of("init-failed", facts.names(replica), code="")
    elif means is Waiting.CRASHED:
        yield endings.of_replica(facts, replica)
    elif means is not Waiting.ROUTINE:
        yield endings.start_error(facts, replica, reason, message)


def _image(
    facts: Facts, replica: Replica, status: KubeObject, reason: str, message: str
) -> Finding:
    """Say why an image is not there."""
    is_init, where = status is not replica.main, facts.names(replica)
    containers = replica.spec.get("initContainers" if is_init else "containers") or [{}]
    image = str(status.get("image") or containers[0].get("image", ""))
    why = quoted(message.rpartition("failed to ")[2] if "failed to " in message else message)
    if is_init:
        return finding_of("init-image-not-pullable", where, image=image, why=why)
    if reason == "InvalidImageName":
        return finding_of("image-not-found", where, unrecoverable=True, image=image, why=why)
    errors = _IMAGE_ERRORS.items()
    cause_id = next(id_ for id_, text in errors if re.search(text, message, re.IGNORECASE))
    what = f"{replica.name} cannot pull the image {image}"
    return finding_of(cause_id, where, what=what, image=image, why=why)


def _by_events(facts: Facts, replica: Replica) -> Iterator[Finding | float]:
    """Yield problems of volumes and sandboxes, from events.

    The pod only says that it is being created.
    """
    event = replica.last_event(Event.MOUNT_FAILED, Event.NODE_FAILED)
    if event is None:
        return
    message = str(event.get("message", ""))
    waited = facts.now - (first_seen(event) or facts.now)
    if missing := _MISSING.search(message):
        yield from _config(facts, replica, missing)
    elif waited < RETRY_SECONDS:
        yield RETRY_SECONDS - waited
    else:
        is_mount = EVENTS[event["reason"]] is Event.MOUNT_FAILED
        cause_id = "pod-not-started" if is_mount else "node-cannot-start"
        what = f"{replica.name} cannot mount a volume on node {replica.node}"
        yield finding_of(cause_id, facts.names(replica), what=what, why=quoted(message))


def _config(facts: Facts, replica: Replica, missing: re.Match[str]) -> Iterator[Finding | float]:
    return passing("config-missing", facts.names(replica), facts.age, why=quoted(missing[0]))


# -- pods without a node: the scheduler's message --------------------------------------------------

Names = Mapping[str, str]
"""Names for a sentence or an action."""
BIND_SECONDS = 30.0
"""Seconds until a missing volume of a claim is a problem.

Longer than a provisioner usually takes; somebody may also be creating the claim.
"""
_HEAD = re.compile(r"^0/(?P<nodes>\d+) nodes are available: (?P<why>.*)$", re.DOTALL)
_REASON = re.compile(
    r"Insufficient (?P<resource>\S+)|(?P<pods>Too many pods)"
    r"|node\(s\) had untolerated taint \{(?P<taint>[^}]+)\}"
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
    unhelpful: bool
    """True if no ending pod could make room on any node."""

    def rest(self) -> list[str]:
        """Return reasons of nodes that were excluded before their resources."""
        count_by_reason = {
            f"the taint {taint}, which the pool does not tolerate,": count
            for taint, count in self.taints.items()
        }
        count_by_reason |= {"a cordon": self.closed, "other labels": self.mismatched}
        count_by_reason |= {"another replica of the run": self.shared}
        return [self.on(what, count) for what, count in count_by_reason.items() if count]

    def on(self, what: str, count: int) -> str:
        """Say on how many of the nodes something is."""
        return f"{what} on {count} of {self.nodes} node{'s' * (self.nodes > 1)}"


def read(message: str) -> SchedulerMessage | None:
    """Read the scheduler's sentence about nodes; None for other messages."""
    head = _HEAD.match(message)
    if head is None:
        return None
    why, _, preemption = head["why"].partition(" preemption: ")
    insufficient: dict[str, int] = {}
    taints: dict[str, int] = {}
    nodes_by_kind = {"mismatched": 0, "closed": 0, "shared": 0}
    for count, text in _counted(why):
        reason = _REASON.fullmatch(text)
        if reason is None:
            continue
        if reason["resource"] or reason["pods"]:
            insufficient[reason["resource"] or "pods"] = count
        elif reason["taint"]:
            taints[reason["taint"].strip(": ")] = count
        elif reason.lastgroup:
            nodes_by_kind[reason.lastgroup] = count
    preempted = _HEAD.match(preemption)
    reasons = list(_counted(preempted["why"])) if preempted else []
    nodes = int(head["nodes"])
    return SchedulerMessage(
        nodes=nodes,
        insufficient=insufficient,
        taints=taints,
        **nodes_by_kind,
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
    first, report = replicas[0], read(message)
    where = facts.names(first) | {"replicas": names(replicas)}
    if missing := _NO_CLAIM.search(message):
        words = {"claim": missing["claim"], "why": "it does not exist"}
        age = _age(facts, first)
        yield from passing("volume-not-bound", where, age, seconds=f"{age:.0f}", **words)
    elif _UNBOUND.search(message):
        yield _unbound(facts, message, first, where)
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
    if report.insufficient:
        return _too_little(report, replicas, where, comes=comes)
    why = "; ".join(report.rest())
    if report.closed or any(is_trouble(taint.partition(":")[0]) for taint in report.taints):
        return finding_of("nodes-not-ready", where, why=why)
    if report.shared:
        return finding_of("too-few-nodes", where, why=why)
    if report.taints:
        return finding_of("taint-not-tolerated", where, why=why)
    return finding_of("no-node-fits", where, why=why or quoted(message))


def _too_little(
    report: SchedulerMessage, replicas: Sequence[Replica], where: Names, *, comes: bool
) -> Finding:
    wanted = requests(replicas[0].spec)
    short = sorted(report.insufficient, key=lambda name: -report.insufficient[name])
    # Extended resources first: GPUs are what a benchmark waits for.
    name = next((resource for resource in short if "/" in resource), short[0])
    asked = f"{_value(name, wanted[name])} {name}" if name in wanted else name
    if report.unhelpful and not comes:
        return finding_of("request-too-large", where, asked=asked)
    if len(replicas) > 1:
        total = wanted.get(name, Decimal(0)) * len(replicas)
        asked += f" each ({_value(name, total)} in all)"
    parts = [
        report.on(f"too little {resource} free", report.insufficient[resource])
        for resource in sorted(report.insufficient, key=lambda resource: resource != name)
    ]
    why = "; ".join([*parts, *report.rest()])
    return finding_of("no-node-fits", where, why=f"asked for {asked}; {why}")


def _age(facts: Facts, replica: Replica) -> float:
    return facts.now - (moment(replica.meta.get("creationTimestamp")) or facts.now)


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
            wanted[name] = wanted.get(name, Decimal(0)) + amount(str(quantity))
    return wanted


def _labels(replica: Replica) -> str:
    selector = replica.spec.get("nodeSelector") or {}
    listed = ", ".join(f"{key}={value}" for key, value in selector.items())
    return f"the label{'s' * (len(selector) > 1)} {listed}" if listed else "the labels asked for"


def _value(name: str, value: Decimal) -> str:
    if name in ("memory", "ephemeral-storage"):
        return f"{plain((value / 2**30).quantize(Decimal('0.1')))} GiB"
    return plain(value)


def _counted(text: str) -> Iterator[tuple[int, str]]:
    for part in re.split(r", (?=\d+ )", text.strip().rstrip(".")):
        count, _, reason = part.partition(" ")
        if count.isdigit():
            yield int(count), reason


# -- pods that the API server refuses, quoted in the operator's events -----------------------------

_EVENT = re.compile(r"^Error creating: ", re.IGNORECASE)
_POD = re.compile(r'[Pp]ods? "(?P<pod>[^"]+)" (?:is (?:forbidden|invalid)|already exists)')
_OTHER = re.compile(r'.*?(?<![\w.])(?!pods?\b)[\w.]+ "[^"]+" is forbidden')
_QUOTA = re.compile(
    r"exceeded quota: (?P<quota>[^,]+), requested: (?P<requested>.+), used: (?P<used>.+), "
    r"limited: (?P<limited>.+)$"
)
_POD_SECURITY = re.compile(r'violates PodSecurity "(?P<level>[^"]+)": (?P<rules>.*)$', re.DOTALL)
_CONTAINERS = re.compile(r'containers? ((?:"[^"]+"(?:, )?)+)')
_QUOTA_WANTS = re.compile(r"failed quota: (?P<quota>[^:]+): must specify (?P<what>.*)$")
_FORBIDDEN = re.compile(r"^pods? \S+ is forbidden: ")
_EXISTS = re.compile(r"object is being deleted|already exists")
_INVALID = " is invalid: "
_WEBHOOK_DOWN = re.compile(r'failed calling webhook "(?P<name>[^"]+)": (?P<why>.*)$', re.DOTALL)
INIT = "init-pytorch"


def refusals(facts: Facts) -> Iterator[Finding]:
    """Yield the refusals of the job's pods, each once."""
    refused_by: dict[str, list[Replica]] = {}
    for replica in facts.replicas:
        if replica.pod is None or replica.gone:
            message = _newest_refusal(facts, replica)
            if message is not None:
                text = _POD.sub(lambda found: found[0].replace(found["pod"], "POD"), message)
                refused_by.setdefault(text, []).append(replica)
    for message, refused in refused_by.items():
        head = f"The pods of {names(refused)} are not created"
        if len(refused) == 1:
            head = f"The pod of {refused[0].name} is not created"
        # What makes the pods is one object, and may be refused as they may.
        is_of_pods = _OTHER.match(message) is None
        count = len(facts.replicas) if is_of_pods else 1
        yield refusal(message, head, facts.names(), replicas=count)


def _newest_refusal(facts: Facts, replica: Replica) -> str | None:
    """Return the newest refusal of a pod; None if it was created since."""
    for event in facts.events_of(Event.POD_REFUSED):
        message = _EVENT.sub("", message_of(event))
        about = _POD.search(message)
        kind, job = kind_of(facts.plan), facts.plan.job_name
        if about is None or kind.replica_of(about["pod"], job) == replica.name:
            return message
    return None


def refusal(message: str, head: str, where: Mapping[str, str], *, replicas: int = 1) -> Finding:
    """Read a refusal of pods.

    ``head`` begins the sentence: whose pods are not created. ``where`` names the namespace, as
    :meth:`.Facts.names` does. Of a job ``replicas`` ask for the same, and need it at once.
    """
    if quota := _QUOTA.search(message):
        return _quota(quota, head, where, replicas)
    if violation := _POD_SECURITY.search(message):
        return _pod_security(violation, head, where)
    if quota := _QUOTA_WANTS.search(message):
        words = {"quota": quota["quota"], "why": f"wants {quota['what']} to be set"}
        return finding_of("quota-exceeded", where, unrecoverable=True, head=head, **words)
    if down := _WEBHOOK_DOWN.search(message):
        programs = (one for each in OPERATORS.values() for one in (*each.needs, each))
        known = (one.name for one in programs if one.webhook in message)
        why = quoted(down["why"].rpartition('": ')[2])  # after the URL
        return finding_of(
            "webhook-down", where, head=head, server=next(known, down["name"]), why=why
        )
    if _EXISTS.search(message):
        return finding_of("name-in-use", where, head=head)
    _, invalid, why = message.partition(_INVALID)
    why = quoted(why if invalid else _FORBIDDEN.sub("", message))
    return finding_of("admission-denied", where, unrecoverable=bool(invalid), head=head, why=why)


def _quota(quota: re.Match[str], head: str, where: Mapping[str, str], replicas: int) -> Finding:
    requested, used, limited = (_amounts(quota[part]) for part in ("requested", "used", "limited"))
    known = {name: asked for name, asked in requested.items() if name in limited}
    parts = [
        f"{name} {limited[name]}, of which {used.get(name, '0')} used, and {asked} more asked for"
        for name, asked in known.items()
    ]
    never = [
        name for name, asked in known.items() if replicas * _number(asked) > _number(limited[name])
    ]
    why = f"allows {'; '.join(parts) or quoted(quota[0])}"
    if never and replicas > 1:
        amounts = " and ".join(f"{known[name]} of {name}" for name in never)
        why += f"; the job needs {replicas} times {amounts}"
    words = {"head": head, "quota": quota["quota"], "why": why}
    return finding_of("quota-exceeded", where, unrecoverable=bool(never), **words)


def _pod_security(violation: re.Match[str], head: str, where: Mapping[str, str]) -> Finding:
    containers = {
        name
        for listed in _CONTAINERS.findall(violation["rules"])
        for name in re.findall('"(.+?)"', listed)
    }
    rules = quoted(violation["rules"])
    cause_id = "operator-init-not-restricted" if containers == {INIT} else "pod-security"
    return finding_of(cause_id, where, head=head, level=violation["level"], why=rules)


def _amounts(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def _number(text: str) -> Decimal:
    try:
        return amount(text)
    except ValueError:
        return Decimal(0)
