"""Checks of the volume claims that the pods mount: there, bound, for several nodes, writable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from k8sbench.diagnose.preflight.facts import Asked, Line, Storage, Unknown, failure, ok, warning
from k8sbench.diagnose.preflight.findings import unseen
from k8sbench.model.kube import KubeObject

FIRST_CONSUMER = "WaitForFirstConsumer"
FOR_MANY_TO_READ, FOR_MANY_TO_WRITE = {"ReadOnlyMany", "ReadWriteMany"}, {"ReadWriteMany"}
"""Access modes of a claim that pods on several nodes may mount."""


def claims(facts: Storage, asked: Asked) -> Iterator[Line]:
    """Every claim can be mounted as the pods mount it."""
    for name, claim in facts.claims.items():
        if isinstance(claim, Unknown):
            yield unseen("data", f"the volume claim {name}", claim)
        elif claim is None:
            yield failure(
                "data",
                f"There is no volume claim {name} in {asked.namespace}.",
                f"'kubectl -n {asked.namespace} get pvc' lists those there are.",
            )
        else:
            yield _unfit(name, claim, facts, asked) or _bound(name, claim, facts, asked)


def _unfit(name: str, claim: KubeObject, facts: Storage, asked: Asked) -> Line | None:
    """What is wrong with a claim whether it is bound or not; None: nothing."""
    modes = set(claim.get("status", {}).get("accessModes") or claim["spec"].get("accessModes", ()))
    writes, several = name in asked.written, asked.replicas > 1
    says = f"The volume claim {name} is {', '.join(sorted(modes))}"
    if claim.get("metadata", {}).get("deletionTimestamp"):
        return failure(
            "data",
            f"The volume claim {name} is being deleted: no new pod may mount it.",
            "Name another, or create it again when it is gone.",
        )
    if writes and not modes - {"ReadOnlyMany"}:
        return failure(
            "data",
            f"{says}: checkpoints cannot be written to it.",
            f"Name a claim with {'ReadWriteMany' if several else 'ReadWriteOnce'}.",
        )
    if several and not modes & (FOR_MANY_TO_WRITE if writes else FOR_MANY_TO_READ):
        wanted = FOR_MANY_TO_WRITE if writes else FOR_MANY_TO_READ
        return failure(
            "data",
            f"{says}: {asked.replicas} replicas on nodes of their own cannot share it.",
            f"Name a claim with {' or '.join(sorted(wanted))}, or run one replica.",
        )
    volume = facts.volumes.get(claim["spec"].get("volumeName", ""))
    if writes and isinstance(volume, Mapping) and (why := _read_only(volume)) is not None:
        return failure(
            "data",
            f"The volume of claim {name} is read-only ({why}): checkpoints cannot be written to"
            " it.",
            "Name a claim of another volume.",
        )
    return None


def _bound(name: str, claim: KubeObject, facts: Storage, asked: Asked) -> Line:
    phase = claim.get("status", {}).get("phase", "Pending")
    if phase == "Bound":
        return ok("data", f"The volume claim {name} is bound.")
    why, of_class = "", claim["spec"].get("storageClassName")
    if phase == "Pending" and of_class:
        found = facts.storage_classes.get(of_class)
        if isinstance(found, Unknown):
            return warning(
                "data",
                f"The volume claim {name} is Pending, and whether {of_class} binds it when the"
                f" first pod comes is not known ({found.why}).",
                f"'kubectl -n {asked.namespace} describe pvc {name}' says what it waits for.",
            )
        if found is None:
            why = f": there is no storage class {of_class}"
        elif found.get("volumeBindingMode") == FIRST_CONSUMER:
            message = f"The volume claim {name} is bound when the first pod comes ({of_class})."
            return ok("data", message)
        else:
            why = f", though {of_class} binds at once"
    return failure(
        "data",
        f"The volume claim {name} is {phase}, not Bound{why}.",
        f"'kubectl -n {asked.namespace} describe pvc {name}' says why.",
    )


def _read_only(volume: KubeObject) -> str | None:
    """What makes a volume read-only, as its own field says it; None: nothing that it states."""
    spec: Mapping[str, Any] = volume["spec"]
    if "ro" in spec.get("mountOptions", ()):
        return "mountOptions: ro"
    for source, fields in spec.items():
        if not isinstance(fields, Mapping):
            continue
        if fields.get("readOnly") is True:
            return f"{source}.readOnly"
        if str(fields.get("volumeAttributes", {}).get("readOnly")).lower() == "true":
            return f"{source}.volumeAttributes.readOnly"
    return None
