"""Checks of the volume claims that the pods mount: there, bound, for several nodes, writable.

What becomes of a claim that is not bound is known from its events: few users may read its class.
"""

from __future__ import annotations

from collections.abc import Iterator

from k8sbench.diagnose.preflight.facts import CheckResult, Storage, Unknown, fail, ok, warn
from k8sbench.model.kube import KubeObject

FIRST_CONSUMER = "WaitForFirstConsumer"
NOT_BOUND = {"ProvisioningFailed", "FailedBinding"}
"""Reasons of events of claims that wait for no pod."""
FOR_MANY_TO_READ, FOR_MANY_TO_WRITE = {"ReadOnlyMany", "ReadWriteMany"}, {"ReadWriteMany"}
"""Access modes of a claim that pods on several nodes may mount."""


def claims(facts: Storage) -> Iterator[CheckResult]:
    """Every claim can be mounted as the pods mount it."""
    namespace = facts.request.namespace
    for name, claim in facts.claims.items():
        if isinstance(claim, Unknown):
            yield warn(
                f"Not looked at: the volume claim {name} ({claim.why}).",
                "Ask somebody with this permission, or continue without it.",
            )
        elif claim is None:
            yield fail(
                f"There is no volume claim {name} in {namespace}.",
                f"'kubectl -n {namespace} get pvc' lists those there are.",
            )
        else:
            yield _unfit(name, claim, facts) or _bound(name, claim, facts)


def _unfit(name: str, claim: KubeObject, facts: Storage) -> CheckResult | None:
    """What is wrong with a claim whether it is bound or not; None: nothing."""
    modes = set(claim.get("status", {}).get("accessModes") or claim["spec"].get("accessModes", ()))
    writes, several = name in facts.request.written, facts.request.replicas > 1
    needed = FOR_MANY_TO_WRITE if writes else FOR_MANY_TO_READ
    has = f"The volume claim {name} is {', '.join(sorted(modes))}"
    if claim.get("metadata", {}).get("deletionTimestamp"):
        return fail(
            f"The volume claim {name} is being deleted: no new pod may mount it.",
            "Name another, or create it again when it is gone.",
        )
    if writes and not modes - {"ReadOnlyMany"}:
        return fail(
            f"{has}: checkpoints cannot be written to it.",
            f"Name a claim with {'ReadWriteMany' if several else 'ReadWriteOnce'}.",
        )
    if several and not modes & needed:
        return fail(
            f"{has}: {facts.request.replicas} replicas on nodes of their own cannot share it.",
            f"Name a claim with {' or '.join(sorted(needed))}, or run one replica.",
        )
    return None


def _bound(name: str, claim: KubeObject, facts: Storage) -> CheckResult:
    phase = claim.get("status", {}).get("phase", "Pending")
    if phase == "Bound":
        return ok(f"The volume claim {name} is bound.")
    describe = f"'kubectl -n {facts.request.namespace} describe pvc {name}' says"
    events = facts.claim_events.get(name, ())
    known = () if isinstance(events, Unknown) else events
    messages = {str(event.get("reason")): str(event.get("message") or "") for event in known}
    if phase == "Pending" and FIRST_CONSUMER in messages:
        return ok(f"The volume claim {name} is bound when the first pod comes.")
    why = "; ".join(message for reason, message in messages.items() if reason in NOT_BOUND)
    if phase == "Pending" and not why:
        return warn(
            f"The volume claim {name} is Pending, and no event says whether it is bound when the"
            " first pod comes.",
            f"{describe} what it waits for.",
        )
    return fail(
        f"The volume claim {name} is {phase}, not Bound{f': {why}' if why else ''}.",
        f"{describe} why.",
    )
