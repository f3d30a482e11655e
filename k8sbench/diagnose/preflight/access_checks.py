"""Checks of the way in: API server, namespace, permissions, Pod Security."""

from __future__ import annotations

import re
from collections.abc import Iterator

from k8sbench.adapters.kubernetes.client import faults
from k8sbench.diagnose.preflight.facts import Asked, Facts, Line, Unknown
from k8sbench.diagnose.preflight.findings import LEVELS, enforced_level, unseen
from k8sbench.render.security import security

OLDEST, NEWEST = (1, 28), (1, 34)
"""Kubernetes minors that are expected to work: the operator's own tests begin with 1.28."""
TESTED = "1.33"


def api_server(facts: Facts, asked: Asked) -> Iterator[Line]:  # noqa: ARG001
    """It answers, and has a version that is known to work."""
    if isinstance(facts.version, Unknown):
        yield unseen("api-server", "the version of Kubernetes", facts.version)
        return
    said = f"Kubernetes {facts.version} answers at {facts.server} ({facts.why})."
    found = re.match(r"v(\d+)\.(\d+)", facts.version)
    if found is None or OLDEST <= (int(found[1]), int(found[2])) <= NEWEST:
        yield Line(id="api-server", level="ok", message=said)
        return
    span = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
    yield Line(
        id="api-server",
        level="warning",
        message=f"{said} It is expected to work with {span}, and tested with {TESTED}.",
        action="Try one small run first: k8sbench submit resnet50 --replicas 1 --gpus 1.",
    )


def namespace(facts: Facts, asked: Asked) -> Iterator[Line]:
    """It exists."""
    name = asked.namespace
    if facts.namespace is None:
        yield Line(
            id="namespace",
            level="failure",
            message=f"There is no namespace {name}.",
            action=f"Create it (kubectl create namespace {name}), or name another with -n.",
        )
    elif isinstance(facts.namespace, Unknown):
        yield unseen("namespace", f"the namespace {name}", facts.namespace)
    elif facts.namespace.get("status", {}).get("phase") == "Terminating":
        yield Line(
            id="namespace",
            level="failure",
            message=f"The namespace {name} is being deleted.",
            action="Name another with -n.",
        )
    else:
        yield Line(id="namespace", level="ok", message=f"The namespace {name} is there.")


def permissions(facts: Facts, asked: Asked) -> Iterator[Line]:
    """The user has every permission of the rules file."""
    if isinstance(facts.access, Unknown):
        yield unseen("permissions", "your permissions", facts.access)
        return
    missing: dict[tuple[str, bool, bool], list[str]] = {}
    for access in facts.access:
        if not access.allowed:
            kind = (access.what, access.namespaced, access.needed)
            missing.setdefault(kind, []).append(access.verb)
    for (what, namespaced, needed), verbs in missing.items():
        where = f"in the namespace {asked.namespace}" if namespaced else "of the cluster"
        rules = "Role" if namespaced else "ClusterRole"
        yield Line(
            id="permissions",
            level="failure" if needed else "warning",
            message=f"You may not {', '.join(verbs)} {what} {where}.",
            action=f"Have an administrator bind you to the {rules} in {faults.ROLE}"
            + ("." if needed else "; without it some checks and diagnoses are left out."),
        )
    if not missing:
        count = len(facts.access)
        yield Line(
            id="permissions", level="ok", message=f"You have all {count} permissions it takes."
        )


def pod_security(facts: Facts, asked: Asked) -> Iterator[Line]:
    """The namespace lets the pool's pods in."""
    enforced = enforced_level(facts)
    if enforced is None:
        return
    ours = security(asked.pool)
    reasons = f" ({', '.join(ours.reasons)})" if ours.reasons else ""
    what = "no Pod Security Standard" if enforced == LEVELS[0] else enforced
    told = f"The namespace {asked.namespace} enforces {what}, the pods keep to {ours.level}"
    if LEVELS.index(ours.level) < LEVELS.index(enforced):
        yield Line(
            id="pod-security",
            level="failure",
            message=f"{told}{reasons}: they will be refused.",
            action=f"Take that out of the pool {asked.pool.name}, or use a namespace that enforces"
            f" no more than {ours.level}.",
        )
    else:
        yield Line(id="pod-security", level="ok", message=f"{told}{reasons}.")
