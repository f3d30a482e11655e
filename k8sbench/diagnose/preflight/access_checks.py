"""Checks of the way in: API server, namespace, permissions, Pod Security."""

from __future__ import annotations

import re
from collections.abc import Iterator

from k8sbench.diagnose.preflight.facts import Asked, Facts, Line, Unknown, failure, ok, warning
from k8sbench.diagnose.preflight.findings import LEVELS, enforced_level, unknown, unseen
from k8sbench.render.security import security

OLDEST, NEWEST = (1, 28), (1, 34)
"""Kubernetes minors that are expected to work: the operator's own tests begin with 1.28."""
TESTED = "1.33"


def api_server(facts: Facts, asked: Asked) -> Iterator[Line]:  # noqa: ARG001
    """It answers, and has a version that is known to work."""
    if isinstance(facts.version, Unknown):
        yield unknown("api-server", "the version of Kubernetes", facts.version)
        return
    found = f"Kubernetes {facts.version} answers at {facts.server} ({facts.why})."
    number = re.match(r"v(\d+)\.(\d+)", facts.version)
    if number is None or OLDEST <= (int(number[1]), int(number[2])) <= NEWEST:
        yield ok("api-server", found)
        return
    span = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
    yield warning(
        "api-server",
        f"{found} It is expected to work with {span}, and tested with {TESTED}.",
        "Try one small run first: k8sbench submit resnet50 --replicas 1 --gpus 1.",
    )


def namespace(facts: Facts, asked: Asked) -> Iterator[Line]:
    """It exists."""
    name = asked.namespace
    if facts.namespace is None:
        yield failure(
            "namespace",
            f"There is no namespace {name}.",
            f"Create it (kubectl create namespace {name}), or name another with -n.",
        )
    elif isinstance(facts.namespace, Unknown):
        yield unseen("namespace", f"the namespace {name}", facts.namespace)
    elif facts.namespace.get("status", {}).get("phase") == "Terminating":
        yield failure(
            "namespace", f"The namespace {name} is being deleted.", "Name another with -n."
        )
    else:
        yield ok("namespace", f"The namespace {name} is there.")


def permissions(facts: Facts, asked: Asked) -> Iterator[Line]:
    """The user has every permission of the rules file."""
    if isinstance(facts.access, Unknown):
        yield unknown("permissions", "your permissions", facts.access)
        return
    missing: dict[tuple[str, bool, bool], list[str]] = {}
    for one in (access.permission for access in facts.access if not access.allowed):
        missing.setdefault((one.what, one.namespaced, one.needed), []).append(one.verb)
    for (what, namespaced, needed), verbs in missing.items():
        where = f"in the namespace {asked.namespace}" if namespaced else "of the cluster"
        rules = "Role" if namespaced else "ClusterRole"
        yield Line(
            id="permissions",
            level="failure" if needed else "warning",
            message=f"You may not {', '.join(verbs)} {what} {where}.",
            action=f"Have an administrator bind you to the {rules} in {facts.role_file}"
            + ("." if needed else "; without it some checks and diagnoses are left out."),
        )
    if not missing:
        yield ok("permissions", f"You have all {len(facts.access)} permissions it takes.")


def pod_security(facts: Facts, asked: Asked) -> Iterator[Line]:
    """The namespace lets the pool's pods in."""
    enforced = enforced_level(facts)
    if enforced is None:
        return
    ours = security(asked.pool)
    reasons = f" ({', '.join(ours.reasons)})" if ours.reasons else ""
    what = "no Pod Security Standard" if enforced == LEVELS[0] else enforced
    levels = f"The namespace {asked.namespace} enforces {what}, the pods keep to {ours.level}"
    if LEVELS.index(ours.level) < LEVELS.index(enforced):
        yield failure(
            "pod-security",
            f"{levels}{reasons}: they will be refused.",
            f"Take that out of the pool {asked.pool.name}, or use a namespace that enforces"
            f" no more than {ours.level}.",
        )
    else:
        yield ok("pod-security", f"{levels}{reasons}.")
