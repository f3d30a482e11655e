"""Reason why a job does not run yet, among its replicas' causes.

A cause that cannot pass goes first. Then the stages in the order in which the user can act: refused
pods, images, volumes, and last the wait for nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from k8sbench.diagnose.job import causes, endings, refusals, scheduling
from k8sbench.diagnose.job.causes import EVENTS, Event, Waiting, finding_of
from k8sbench.diagnose.job.facts import Facts, Replica, first_seen, names, quoted
from k8sbench.model import times
from k8sbench.model.errors import Finding
from k8sbench.model.kube import QUEUE_LABEL, KubeObject, conditions, is_true, labels_of, parse_time
from k8sbench.model.phase import Phase
from k8sbench.model.plain_text import counted

OPERATOR_SECONDS = 30.0
"""Seconds without a sign of the operator until it counts as missing.

It takes 0.1 s when it runs.
"""
QUEUE_SECONDS = 30.0
"""Seconds until Kueue's Workload is missing; also the interval of looks.

Kueue makes its Workload within a second.
"""
RESUME_SECONDS = 30.0
"""Seconds from the admission to a queue until a job that is still suspended is not resumed.

Kueue resumes it within a second.
"""
LOOK_SECONDS = 8.0
"""Interval of looks at a silent queue: some refusals are in the Workload alone."""
RETRY_SECONDS = 10.0
"""Seconds for the kubelet's retry of mounts and sandboxes."""
_OF_ANOTHER = re.compile(
    r"no match(?:ing manifest)? for (?:platform|[a-z]+/\w)"
    r"|no image found in (?:image index|manifest list)"
    r"|does not (?:match the specified|support) platform|exec format error",
    re.IGNORECASE,
)
"""Runtimes' text about an image of another architecture: containerd, Docker, CRI-O."""
_IMAGE_ERRORS = (
    ("pod-not-started", "no space left on device|disk quota exceeded"),
    ("pull-limited", r"toomanyrequests|too many requests|\b429\b"),
    (
        "image-pull-denied",
        (
            r"unauthorized|authentication required|denied|forbidden|\b40[13]\b"
            r"|no basic auth|insufficient_scope|authorization failed|docker login"
        ),
    ),
    (
        "registry-unreachable",
        (
            r"dial tcp|no such host|connection (?:refused|reset)|timeout|timed out"
            r"|no route to host|tls:|x509|server misbehaving|\b5\d\d\b"
            r"|unexpected EOF|deadline exceeded"
        ),
    ),
    ("image-not-found", r"not found|not present|manifest unknown|name unknown"),
    ("pod-not-started", ""),
)
"""Cause, and text of a kubelet about an image; the first that fits."""
_NAMES = re.compile(r'\S*/\S*|"\S*"')
"""Names of images, files and addresses in it: their words and numbers say nothing."""
_MISSING = re.compile(
    r"(?:configmap|secret)s? \"?[\w.-]+\"? not found|couldn't find key|references non-existent"
    r" (?:config|secret) key|object \"[^\"]+\"/\"[^\"]+\" not registered",
    re.IGNORECASE,
)
_VOLUME = re.compile(r'for volume "([^"]+)"')
_SUMMARY = "Unable to attach or mount volumes"
"""Beginning of the kubelet's event of all volumes, which does not say why."""
_UNUSABLE = re.compile(
    "doesn't exist|does not exist|inactive|not found|is stopped|HoldAndDrain|terminating or missing"
    # Another namespace's queue, no quota at all of what is asked for, taken out of the queue.
    "|doesn't match ClusterQueue|unavailable in ClusterQueue|workload is deactivated"
    # A LimitRange of the namespace, requests beyond limits.
    "|didn't satisfy LimitRange|resources validation failed"
)
_NEVER = re.compile(
    "maximum capacity|node affinity|untolerated"
    # Topologies
    "|no topology domains at level|no requested topology level|TopologyAwareScheduling"
    "|not contain the requested level|TAS cache"
    r"|Total nodes: (?P<nodes>\d+); excluded: "
    r"(?:nodeSelector|affinity|taint [^:]*:[^:]*): (?P=nodes)\b"
)
"""Kueue's text about a flavor that can never have room."""
_LATER = "insufficient unused quota"
"""Kueue's text about a flavor that others use now."""


def cause(facts: Facts) -> tuple[Finding | None, float | None]:
    """Return the cause that delays a job, and seconds until the next look."""
    if facts.suspended:
        return _queue(facts)
    all_found = [*refusals.find_refusals(facts), *unstarted(facts)]
    all_found += [*scheduling.unscheduled(facts), *_operator(facts)]
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
    admitted_at = _admitted_at(facts)
    if admitted_at is not None:
        left = admitted_at + RESUME_SECONDS - facts.now
        if left <= 0:
            at = times.utc(admitted_at)
            return finding_of("not-resumed", where, at=at), QUEUE_SECONDS
        return finding_of("queue-admitted", where), left
    if checks := _waiting_checks(facts):
        return finding_of("queued", where, why=checks), QUEUE_SECONDS
    why = _queue_message(facts)
    if not why and facts.age >= QUEUE_SECONDS:
        named = f"its integrations.frameworks must name {where['kind']}"
        silence = f"in {QUEUE_SECONDS:.0f} s Kueue has not answered; {named}"
        return finding_of("queue-unusable", where, why=silence), None
    if not why:
        # A cause of its own: what Kueue says then is reported as a change.
        return finding_of("queue-silent", where), min(LOOK_SECONDS, QUEUE_SECONDS - facts.age)
    evicted = conditions(facts.seen.workload or {}).get("Evicted", {})
    pod_sets = why.split("; couldn't assign flavors")
    is_never = any(_NEVER.search(each) and _LATER not in each for each in pod_sets)
    if _UNUSABLE.search(why) or is_never:
        cause_id = "queue-unusable"
    elif is_true(evicted) or why.startswith("Preempted"):
        cause_id = "queue-evicted"
        why = str(evicted.get("message") or why)
    else:
        cause_id = "queued"
    # Its place changes with other jobs, of which none of its own events tells.
    return finding_of(cause_id, where, said=why, why=quoted(why)), QUEUE_SECONDS


def _admitted_at(facts: Facts) -> float | None:
    """Return when Kueue admitted a job that it has not suspended since, Unix seconds; else None."""
    admitted = conditions(facts.seen.workload or {}).get("Admitted")
    at = parse_time(admitted.get("lastTransitionTime")) if admitted and is_true(admitted) else None
    if admitted is None and (event := _newest_of_kueue(facts)) and event["reason"] == "Admitted":
        at = first_seen(event)
    held = facts.condition(Phase.QUEUED, only_true=False) or {}
    since = parse_time(held.get("lastTransitionTime"))
    # What is known of the Workload may be older than an eviction.
    is_evicted = held.get("status") == "False" or (at and since and since > at)
    return None if is_evicted else at


def _waiting_checks(facts: Facts) -> str:
    """Return the admission checks that a job with reserved quota waits for; empty without any."""
    workload = facts.seen.workload or {}
    if not is_true(conditions(workload).get("QuotaReserved")):
        return ""
    return " and ".join(
        f"admission check {check['name']} says {quoted(str(check.get('message') or state))}"
        for check in workload["status"].get("admissionChecks") or []
        if (state := check.get("state")) in ("Pending", "Retry")
    )


def _queue_message(facts: Facts) -> str:
    """Return Kueue's newest message, from the Workload or its events."""
    known = conditions(facts.seen.workload or {})
    for wanted in ("QuotaReserved", "Admitted"):
        if known.get(wanted, {}).get("status") == "False":
            return str(known[wanted].get("message", ""))
    event = _newest_of_kueue(facts)
    return "" if event is None else str(event.get("message", ""))


def _newest_of_kueue(facts: Facts) -> KubeObject | None:
    """Return Kueue's newest event of a job's turn."""
    for event in reversed(facts.seen.events):
        if event.get("reason") == "CreatedWorkload":
            continue  # says nothing of its turn
        about = event.get("involvedObject") or {}
        by = (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""
        if about.get("kind") == "Workload" or "kueue" in by.lower():
            return event
    return None


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
    resumed = parse_time(held.get("lastTransitionTime")) if held.get("status") == "False" else None
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
    total = sum(scheduling.requests(replica.spec).get(resource, 0) for replica in placed)
    held = {"held": f"{total} {resource}" if total else "Nodes", "placed": names(placed)}
    waits = next(replica for replica in facts.replicas if not replica.node)
    return finding_of("half-placed", facts.names(waits) | held, why=worst.sentence)


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
    reason = str(waiting.get("reason", ""))
    message = str(waiting.get("message") or "")
    means = causes.waiting(reason)
    if means is Waiting.IMAGE:
        yield _image(facts, replica, status, reason, message)
    elif means is Waiting.START and (missing := _MISSING.search(message)):
        yield from _config(facts, replica, missing)
    elif means is Waiting.CRASHED and status is not replica.main:
        yield finding_of("init-failed", facts.names(replica), code="")
    elif means is Waiting.CRASHED:
        yield endings.describe_end(facts, replica)
    elif means is not Waiting.ROUTINE:
        yield endings.start_error(facts, replica, reason, message)


def _image(
    facts: Facts, replica: Replica, status: KubeObject, reason: str, message: str
) -> Finding:
    """Say why an image is not there."""
    is_init = status is not replica.main
    where = facts.names(replica)
    containers = replica.spec.get("initContainers" if is_init else "containers") or [{}]
    image = str(status.get("image") or containers[0].get("image", ""))
    why = quoted(message.rpartition("failed to ")[2] if "failed to " in message else message)
    if is_init:
        return finding_of("init-image-not-pullable", where, image=image, why=why)
    if reason == "InvalidImageName":
        return finding_of("image-not-found", where, unrecoverable=True, image=image, why=why)
    if _OF_ANOTHER.search(message):
        why = f"it is of another architecture than node {replica.node}, {why}"
        return finding_of("image-not-found", where, image=image, why=why)
    said = _NAMES.sub(" ", message.replace(image, " ") if ":" in image else message)
    found = (id_ for id_, text in _IMAGE_ERRORS if re.search(text, said, re.IGNORECASE))
    what = f"{replica.name} cannot pull the image {image}"
    return finding_of(next(found), where, said=message, what=what, image=image, why=why)


def _by_events(facts: Facts, replica: Replica) -> Iterator[Finding | float]:
    """Yield problems of volumes and sandboxes, from events.

    The pod only says that it is being created.
    """
    event = replica.last_event(Event.MOUNT_FAILED, Event.NODE_FAILED, but=_SUMMARY)
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
        volume = _VOLUME.search(message)
        mounts = f"mount the volume {volume[1]}" if volume else "mount a volume"
        what = f"{replica.name} cannot {mounts} on node {replica.node}"
        # What the command says comes after the command.
        why = quoted(message.rpartition("Output: ")[2])
        yield finding_of(cause_id, facts.names(replica), said=message, what=what, why=why)


def _config(facts: Facts, replica: Replica, missing: re.Match[str]) -> Iterator[Finding | float]:
    return scheduling.passing(
        "config-missing", facts.names(replica), facts.age, why=quoted(missing[0])
    )
