"""Why pods that have a node do not start: images, volumes, commands, the node itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from k8sbench.diagnose.job import endings, reasons
from k8sbench.diagnose.job.causes import Diagnosis, found
from k8sbench.diagnose.job.facts import Facts, Replica, first_seen
from k8sbench.diagnose.job.reasons import EVENTS, Event, Waiting
from k8sbench.diagnose.job.scheduling import unrecoverable_later
from k8sbench.diagnose.job.words import quoted
from k8sbench.model.kube import KubeObject

RETRY_SECONDS = 10.0
"""Mounts and sandboxes that fail once often work at the kubelet's next try."""
_DENIED = re.compile(
    r"unauthorized|authentication required|denied|forbidden|\b40[13]\b|no basic auth|"
    r"insufficient_scope|authorization failed|docker login",
    re.IGNORECASE,
)
_UNREACHABLE = re.compile(
    r"dial tcp|no such host|connection (?:refused|reset)|timeout|timed out|no route to host|"
    r"tls:|x509|server misbehaving|\b5\d\d\b|toomanyrequests|\b429\b|unexpected EOF|"
    r"deadline exceeded",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(
    r"not found|manifest unknown|name unknown|no match for platform", re.IGNORECASE
)
_MISSING = re.compile(
    r"(?:configmap|secret)s? \"?[\w.-]+\"? not found|couldn't find key|references non-existent"
    r" (?:config|secret) key|object \"[^\"]+\"/\"[^\"]+\" not registered",
    re.IGNORECASE,
)


def causes(facts: Facts) -> Iterator[Diagnosis | float]:
    """Yield what keeps placed pods from starting, rank 0's first; a number: look again then."""
    for one in facts.replicas:
        if one.node and not one.gone and not one.ended:
            yield from _causes(facts, one)


def _causes(facts: Facts, one: Replica) -> Iterator[Diagnosis | float]:
    for status in (*one.inits, one.main):
        waiting = (status.get("state") or {}).get("waiting")
        if waiting:
            is_init = status is not one.main
            yield from _waiting(facts, one, status, waiting, is_init=is_init)
    if one.phase == "Pending":
        yield from _by_events(facts, one)


def _waiting(
    facts: Facts, one: Replica, status: KubeObject, waiting: KubeObject, *, is_init: bool
) -> Iterator[Diagnosis | float]:
    reason, message = str(waiting.get("reason", "")), str(waiting.get("message") or "")
    where = facts.names(one)
    means = reasons.waiting(reason)
    if means is Waiting.IMAGE:
        yield image(facts, one, str(status.get("image", "")), reason, message, is_init=is_init)
    elif means is Waiting.CONFIG and _MISSING.search(message):
        yield _config(facts, one, message)
    elif means is Waiting.CRASHED:
        if is_init:
            yield found("init-failed", endings.init_failed(one), where)
        else:
            yield endings.of_replica(facts, one)
    elif means is not Waiting.ROUTINE:
        text = f"{one.name} cannot be started ({reason}): {quoted(message)}."
        yield found("start-error", text)


def image(
    facts: Facts, one: Replica, name: str, reason: str, message: str, *, is_init: bool
) -> Diagnosis:
    """Say why an image is not there."""
    where = facts.names(one)
    name = name or _first_image(one, is_init=is_init)
    if "failed to" not in message and "rpc error" not in message:
        # Kubelets before 1.31 say only that they back off; the reason is in an event.
        failed = (str(each.get("message")) for each in reversed(one.events))
        message = next((text for text in failed if text.startswith("Failed to pull")), message)
    why = quoted(message.rpartition("failed to ")[2] if "failed to " in message else message)
    if is_init:
        text = (
            f"{one.name} waits for the image of the init container that the operator adds, {name}:"
            f" {why}."
        )
        return found("init-image-not-pullable", text)
    head = f"{one.name} cannot pull the image {name}"
    if reason == "InvalidImageName":
        return found("image-name-invalid", f"{name!r} is not an image name: {quoted(message)}.")
    if reason == "ErrImageNeverPull":
        text = f"{head}: it is not on node {one.node}, and imagePullPolicy is Never."
        return found("image-not-found", text)
    if _DENIED.search(message):
        return found("image-pull-denied", f"{head}: {why}.", where)
    if _UNREACHABLE.search(message):
        return found("registry-unreachable", f"{head}: {why}.")
    if _UNKNOWN.search(message):
        return found("image-not-found", f"{head}: {why}.")
    return found("image-pull-failed", f"{head}: {why}.", where)


def _by_events(facts: Facts, one: Replica) -> Iterator[Diagnosis | float]:
    """Volumes and sandboxes: the pod only says that it is being created."""
    event = one.last_event(Event.MOUNT_FAILED, Event.NODE_FAILED)
    if event is None:
        return
    message = str(event.get("message", ""))
    if _MISSING.search(message):
        yield _config(facts, one, message)
        return
    waited = facts.now - (first_seen(event) or facts.now)
    if waited < RETRY_SECONDS:
        yield RETRY_SECONDS - waited
    elif EVENTS[event["reason"]] is Event.MOUNT_FAILED:
        text = f"{one.name} cannot mount a volume on node {one.node}: {quoted(message)}."
        yield found("mount-failed", text, facts.names(one))
    else:
        text = f"Node {one.node} cannot set up the pod of {one.name}: {quoted(message)}."
        yield found("node-cannot-start", text, facts.names(one))


def _config(facts: Facts, one: Replica, message: str) -> Diagnosis:
    missing = _MISSING.search(message)
    text = f"{one.name} cannot start: {quoted(missing[0] if missing else message)}."
    return unrecoverable_later("config-missing", text, facts.names(), facts.age)


def _first_image(one: Replica, *, is_init: bool) -> str:
    containers = one.spec.get("initContainers" if is_init else "containers") or [{}]
    return str(containers[0].get("image", ""))
