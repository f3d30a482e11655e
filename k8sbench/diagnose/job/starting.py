"""Why pods that have a node do not start: images, volumes, commands, the node itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from k8sbench.diagnose.job import endings, reasons
from k8sbench.diagnose.job.causes import finding_of
from k8sbench.diagnose.job.facts import Facts, Replica, first_seen, quoted
from k8sbench.diagnose.job.reasons import EVENTS, Event, Waiting
from k8sbench.diagnose.job.scheduling import passing
from k8sbench.model.finding import Finding
from k8sbench.model.kube import KubeObject

RETRY_SECONDS = 10.0
"""Mounts and sandboxes that fail once often work at the kubelet's next try."""
_IMAGE_ERRORS = {
    "image-pull-denied": r"unauthorized|authentication required|denied|forbidden|\b40[13]\b"
    r"|no basic auth|insufficient_scope|authorization failed|docker login",
    "registry-unreachable": r"dial tcp|no such host|connection (?:refused|reset)|timeout|timed out"
    r"|no route to host|tls:|x509|server misbehaving|\b5\d\d\b|toomanyrequests|\b429\b"
    r"|unexpected EOF|deadline exceeded",
    "image-not-found": r"not found|manifest unknown|name unknown|no match for platform",
    "pod-not-started": "",
}
"""The cause by what a kubelet says of an image, in any case of letters; the first that fits."""
_MISSING = re.compile(
    r"(?:configmap|secret)s? \"?[\w.-]+\"? not found|couldn't find key|references non-existent"
    r" (?:config|secret) key|object \"[^\"]+\"/\"[^\"]+\" not registered",
    re.IGNORECASE,
)


def causes(facts: Facts) -> Iterator[Finding | float]:
    """Yield what keeps placed pods from starting, rank 0's first; a number: look again then."""
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
    elif means is Waiting.CONFIG and (missing := _MISSING.search(message)):
        yield from _config(facts, replica, missing)
    elif means is Waiting.CRASHED and status is not replica.main:
        yield finding_of("init-failed", facts.names(replica), code="")
    elif means is Waiting.CRASHED:
        yield endings.of_replica(facts, replica)
    elif means is not Waiting.ROUTINE:
        yield finding_of("start-error", facts.names(replica), why=f"{reason}, {quoted(message)}")


def _image(
    facts: Facts, replica: Replica, status: KubeObject, reason: str, message: str
) -> Finding:
    """Say why an image is not there."""
    is_init, where = status is not replica.main, facts.names(replica)
    containers = replica.spec.get("initContainers" if is_init else "containers") or [{}]
    image = str(status.get("image") or containers[0].get("image", ""))
    if "failed to" not in message and "rpc error" not in message:
        # Kubelets before 1.31 say only that they back off; the reason is in an event.
        events = (str(event.get("message")) for event in reversed(replica.events))
        message = next((text for text in events if text.startswith("Failed to pull")), message)
    why = quoted(message.rpartition("failed to ")[2] if "failed to " in message else message)
    if is_init:
        return finding_of("init-image-not-pullable", where, image=image, why=why)
    if reason == "InvalidImageName":
        return finding_of("image-not-found", where, unrecoverable=True, image=image, why=why)
    if reason == "ErrImageNeverPull":
        why = f"it is not on node {replica.node}, and imagePullPolicy is Never"
        return finding_of("image-not-found", where, image=image, why=why)
    errors = _IMAGE_ERRORS.items()
    cause_id = next(id_ for id_, text in errors if re.search(text, message, re.IGNORECASE))
    what = f"{replica.name} cannot pull the image {image}"
    return finding_of(cause_id, where, what=what, image=image, why=why)


def _by_events(facts: Facts, replica: Replica) -> Iterator[Finding | float]:
    """Volumes and sandboxes: the pod only says that it is being created."""
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
