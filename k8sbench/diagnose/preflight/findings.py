"""What the checks share: how they say that something was not looked at, and small readings."""

from __future__ import annotations

from k8sbench.diagnose.preflight.facts import Facts, Line, Thing, Unknown

ENFORCE = "pod-security.kubernetes.io/enforce"
LEVELS = ("privileged", "baseline", "restricted")
"""Pod Security Standards, the strictest last."""


def unseen(identifier: str, what: str, unknown: Unknown) -> Line:
    """The line of a check that could not be made."""
    return Line(
        id=identifier,
        level="warning",
        message=f"Not looked at: {what} ({unknown.why}).",
        action="Ask somebody who may look, or go on without.",
    )


def enforced_level(facts: Facts) -> str | None:
    """The Pod Security Standard that the namespace enforces; None where that is not known."""
    if facts.namespace is None or isinstance(facts.namespace, Unknown):
        return None
    labels = facts.namespace["metadata"].get("labels") or {}
    level = labels.get(ENFORCE, "privileged")
    return level if level in LEVELS else "restricted"  # as the API server does


def name_of(thing: Thing) -> str:
    """The object's name."""
    return str(thing["metadata"]["name"])
