"""Checks of the volume claims that the pods mount: there, bound, for several nodes, writable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from k8sbench.diagnose.preflight.check import CheckResult, fail, ok, warn
from k8sbench.diagnose.preflight.facts import Storage, Unknown
from k8sbench.model.kube import KubeObject

FIRST_CONSUMER = "WaitForFirstConsumer"
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
    volume = facts.volumes.get(claim["spec"].get("volumeName", ""))
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
    if writes and isinstance(volume, Mapping) and (why := _read_only(volume)) is not None:
        return fail(
            f"The volume of claim {name} is read-only ({why}): it takes no checkpoints.",
            "Name a claim of another volume.",
        )
    return None


def _bound(name: str, claim: KubeObject, facts: Storage) -> CheckResult:
    phase, why = claim.get("status", {}).get("phase", "Pending"), ""
    if phase == "Bound":
        return ok(f"The volume claim {name} is bound.")
    describe = f"'kubectl -n {facts.request.namespace} describe pvc {name}' says"
    if phase == "Pending" and (class_name := claim["spec"].get("storageClassName")):
        storage_class = facts.storage_classes.get(class_name)
        if isinstance(storage_class, Unknown):
            return warn(
                f"The volume claim {name} is Pending, and whether {class_name} binds it when the"
                f" first pod comes is not known ({storage_class.why}).",
                f"{describe} what it waits for.",
            )
        if storage_class is None:
            why = f": there is no storage class {class_name}"
        elif storage_class.get("volumeBindingMode") == FIRST_CONSUMER:
            return ok(f"The volume claim {name} is bound when the first pod comes ({class_name}).")
        else:
            why = f", though {class_name} binds at once"
    return fail(f"The volume claim {name} is {phase}, not Bound{why}.", f"{describe} why.")


def _read_only(volume: KubeObject) -> str | None:
    """What makes a volume read-only, as its own field says it; None: nothing that it states."""
    if "ro" in volume["spec"].get("mountOptions", ()):
        return "mountOptions: ro"
    for source, fields in volume["spec"].items():
        if not isinstance(fields, Mapping):
            continue
        if fields.get("readOnly") is True:
            return f"{source}.readOnly"
        if str(fields.get("volumeAttributes", {}).get("readOnly")).lower() == "true":
            return f"{source}.volumeAttributes.readOnly"
    return None
