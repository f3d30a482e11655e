"""Checks of what a run works with: metrics, data, queues, kernels for the GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k8sbench.diagnose.preflight.facts import Asked, Facts, Line, Thing, Unknown
from k8sbench.diagnose.preflight.findings import name_of, unseen
from k8sbench.diagnose.preflight.operator_checks import gang
from k8sbench.model.image import TITLES, ImageTable, image_warning

METRICS = (
    # Labels of upstream's charts: GPU operator, dcgm-exporter; prometheus-operator, prometheus.
    (
        "gpu-metrics",
        "DCGM exporter",
        {("app", "nvidia-dcgm-exporter"), ("app.kubernetes.io/name", "dcgm-exporter")},
        "Install NVIDIA's dcgm-exporter (the GPU operator does), or live without GPU metrics.",
    ),
    (
        "prometheus",
        "Prometheus",
        {("operated-prometheus", "true"), ("app.kubernetes.io/name", "prometheus")},
        "Nothing need be done: k8sbench does not read it yet.",
    ),
)
FIRST_CONSUMER = "WaitForFirstConsumer"
QUEUEING = {
    "kueue.x-k8s.io": "Kueue",
    "scheduling.volcano.sh": "Volcano",
    "scheduling.x-k8s.io": "the coscheduling plugin",
}
"""API group → what serves it."""


def metrics(facts: Facts, asked: Asked) -> Iterator[Line]:
    """There is something to ask for GPU metrics."""
    for identifier, name, labels, action in METRICS:
        if identifier == "gpu-metrics" and not asked.pool.gpus_per_node:
            continue
        if isinstance(facts.services, Unknown):
            yield unseen(identifier, f"whether {name} is there", facts.services)
            continue
        found = [
            f"{each['metadata']['namespace']}/{name_of(each)}"
            for each in facts.services
            if labels & set((each["metadata"].get("labels") or {}).items())
        ]
        if found:
            message = f"{name} found: {', '.join(found)}."
            yield Line(id=identifier, level="ok", message=message)
        else:
            message = f"No service of {name} was found by its labels."
            yield Line(id=identifier, level="warning", message=message, action=action)


def claims(facts: Facts, asked: Asked) -> Iterator[Line]:
    """Volume claims can be mounted."""
    for name, claim in facts.claims.items():
        yield _claim(name, claim, facts, asked)


def _claim(name: str, claim: Thing | Unknown | None, facts: Facts, asked: Asked) -> Line:
    if isinstance(claim, Unknown):
        return unseen("data", f"the volume claim {name}", claim)
    if claim is None:
        return Line(
            id="data",
            level="failure",
            message=f"There is no volume claim {name} in {asked.namespace}.",
            action=f"'kubectl -n {asked.namespace} get pvc' lists those there are.",
        )
    phase = claim.get("status", {}).get("phase", "Pending")
    modes = set(claim["spec"].get("accessModes", ()))
    if phase == "Bound":
        if asked.replicas < 2 or modes & {"ReadOnlyMany", "ReadWriteMany"}:
            return Line(id="data", level="ok", message=f"The volume claim {name} is bound.")
        return Line(
            id="data",
            level="warning",
            message=f"The volume claim {name} is bound, but {', '.join(sorted(modes))}: one node"
            " alone may mount it.",
            action="Use a claim with ReadOnlyMany or ReadWriteMany.",
        )
    why, of_class = "", claim["spec"].get("storageClassName")
    if phase == "Pending" and of_class:
        found = facts.storage_classes.get(of_class)
        if found is None:
            why = f": there is no storage class {of_class}"
        elif isinstance(found, Mapping) and found.get("volumeBindingMode") == FIRST_CONSUMER:
            message = f"The volume claim {name} is bound when the first pod comes ({of_class})."
            return Line(id="data", level="ok", message=message)
    return Line(
        id="data",
        level="failure",
        message=f"The volume claim {name} is {phase}, not Bound{why}.",
        action=f"'kubectl -n {asked.namespace} describe pvc {name}' says why.",
    )


def queueing(facts: Facts, asked: Asked) -> Iterator[Line]:
    """What queues and gangs need is there."""
    groups = {} if isinstance(facts.groups, Unknown) else facts.groups
    there = [f"{name} ({group})" for group, name in QUEUEING.items() if group in groups]
    message = f"Installed: {', '.join(there)}." if there else "No Kueue, Volcano or coscheduling."
    yield Line(id="queueing", level="ok", message=message)
    if asked.queue is not None:
        yield from _queue(facts, asked, groups)
    if asked.gang:
        yield gang(facts)


def _queue(facts: Facts, asked: Asked, groups: Mapping[str, Any]) -> Iterator[Line]:
    queue, name = facts.queue, asked.queue
    if "kueue.x-k8s.io" not in groups:
        yield Line(
            id="queue",
            level="failure",
            message="Kueue is not installed: a job with --queue is suspended, and nothing would"
            " ever start it.",
            action="Install Kueue, or leave --queue out.",
        )
    elif isinstance(queue, Unknown):
        yield unseen("queue", f"the queue {name}", queue)
    elif queue is None:
        yield Line(
            id="queue",
            level="failure",
            message=f"There is no LocalQueue {name} in {asked.namespace}.",
            action="'kubectl get localqueues' lists those there are.",
        )
    else:
        conditions = queue.get("status", {}).get("conditions") or ()
        stopped = [
            each.get("message", "")
            for each in conditions
            if each["type"] == "Active" and each["status"] == "False"
        ]
        if stopped:
            yield Line(
                id="queue",
                level="failure",
                message=f"The queue {name} admits nothing: {stopped[0]}",
                action="Ask whoever keeps its ClusterQueue.",
            )
        else:
            yield Line(id="queue", level="ok", message=f"The queue {name} is there.")


def kernels(facts: Facts, asked: Asked, images: ImageTable) -> Iterator[Line]:
    """The image's framework has kernels for the nodes' GPUs."""
    nodes = facts.nodes if isinstance(facts.nodes, Sequence) else ()
    # What the nodes say of themselves goes before what the pools file says of them.
    models = {(n["metadata"].get("labels") or {}).get("nvidia.com/gpu.product") for n in nodes}
    known = sorted(filter(None, models)) or [asked.pool.gpu_model]
    if known == [None]:
        return
    tried = [asked.image] if asked.image else [i.name for i in _public(images, asked)]
    warnings = list(
        dict.fromkeys(
            warning
            for model in known
            for image in tried
            if (warning := image_warning(images, gpu_model=model, image=image)) is not None
        )
    )
    for warning in warnings:
        yield Line(id="kernels", level="warning", message=warning)
    if warnings:
        return
    unknown = [image for image in tried if images.content(image) is None]
    unknown += [model for model in known if model and images.capability(model) is None]
    if unknown:
        message = f"Whether {', '.join(tried)} has kernels for {', '.join(map(str, known))} is not"
        yield Line(id="kernels", level="ok", message=f"{message} known.")
        return
    verb = "has" if len(tried) == 1 else "have"
    message = f"{' and '.join(tried)} {verb} kernels for {', '.join(map(str, known))}."
    yield Line(id="kernels", level="ok", message=message)


def _public(images: ImageTable, asked: Asked) -> list[Any]:
    return [images.image(framework, "public") for framework in asked.frameworks or TITLES]
