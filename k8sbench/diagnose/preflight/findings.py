"""What the checks share: the line of a check that could not be made, and readings of facts."""

from __future__ import annotations

from k8sbench.diagnose.preflight.facts import Facts, Line, Unknown, failure, warning
from k8sbench.model.kube import labels_of

ENFORCE = "pod-security.kubernetes.io/enforce"
LEVELS = ("privileged", "baseline", "restricted")
"""Pod Security Standards, the strictest last."""


def unseen(identifier: str, what: str, unknown: Unknown) -> Line:
    """The line of a check that could not be made."""
    return warning(
        identifier,
        f"Not looked at: {what} ({unknown.why}).",
        "Ask somebody with this permission, or continue without it.",
    )


def unknown(identifier: str, what: str, unknown: Unknown) -> Line:
    """The line of a check without which nothing is known of the cluster: every user may ask it."""
    return failure(
        identifier,
        f"Not known: {what} ({unknown.why}).",
        "Every user of a cluster may read this. Check the server and the credentials of the "
        "kubeconfig, and any proxy in between.",
    )


def enforced_level(facts: Facts) -> str | None:
    """The Pod Security Standard that the namespace enforces; None where that is not known."""
    if facts.namespace is None or isinstance(facts.namespace, Unknown):
        return None
    level = labels_of(facts.namespace).get(ENFORCE, "privileged")
    return level if level in LEVELS else "restricted"  # as the API server does
