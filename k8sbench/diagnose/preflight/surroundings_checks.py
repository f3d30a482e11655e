"""Checks of what a run works with: queues, kernels for the GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from k8sbench.diagnose.preflight.facts import Asked, Facts, Line, Unknown, failure, ok, warning
from k8sbench.diagnose.preflight.findings import unseen
from k8sbench.diagnose.preflight.operator_checks import gang
from k8sbench.model.image import TITLES, ImageTable, image_warning
from k8sbench.model.kube import conditions, labels_of

QUEUEING = {
    "kueue.x-k8s.io": "Kueue",
    "scheduling.volcano.sh": "Volcano",
    "scheduling.x-k8s.io": "the coscheduling plugin",
}
"""API group → what serves it."""


def queueing(facts: Facts, asked: Asked) -> Iterator[Line]:
    """What queues and gangs need is there."""
    groups = {} if isinstance(facts.groups, Unknown) else facts.groups
    there = [f"{name} ({group})" for group, name in QUEUEING.items() if group in groups]
    message = f"Installed: {', '.join(there)}." if there else "No Kueue, Volcano or coscheduling."
    yield ok("queueing", message)
    if asked.queue is not None:
        yield from _queue(facts, asked, groups)
    if asked.gang:
        yield gang(facts)


def _queue(facts: Facts, asked: Asked, groups: Mapping[str, Any]) -> Iterator[Line]:
    queue, name = facts.queue, asked.queue
    if "kueue.x-k8s.io" not in groups:
        yield failure(
            "queue",
            "Kueue is not installed: a job with --queue is suspended, and nothing would"
            " ever start it.",
            "Install Kueue, or leave --queue out.",
        )
    elif isinstance(queue, Unknown):
        yield unseen("queue", f"the queue {name}", queue)
    elif queue is None:
        yield failure(
            "queue",
            f"There is no LocalQueue {name} in {asked.namespace}.",
            "'kubectl get localqueues' lists those there are.",
        )
    else:
        active = conditions(queue).get("Active", {})
        if active.get("status") == "False":
            yield failure(
                "queue",
                f"The queue {name} admits nothing: {active.get('message', '')}",
                "Ask the administrator of its ClusterQueue.",
            )
        else:
            yield ok("queue", f"The queue {name} is there.")


def kernels(facts: Facts, asked: Asked, images: ImageTable) -> Iterator[Line]:
    """The image's framework has kernels for the nodes' GPUs."""
    nodes = facts.nodes if isinstance(facts.nodes, Sequence) else ()
    # What the nodes say of themselves goes before what the pools file says of them.
    models = {labels_of(one).get("nvidia.com/gpu.product") for one in nodes} - {None}
    known = sorted(filter(None, models or {asked.pool.gpu_model}))
    if not known:
        return
    tried = [asked.image] if asked.image else [i.name for i in _public(images, asked)]
    found = (image_warning(images, gpu_model=gpu, image=one) for gpu in known for one in tried)
    if texts := list(dict.fromkeys(text for text in found if text is not None)):
        yield from (warning("kernels", text) for text in texts)
        return
    unknown = [image for image in tried if images.content(image) is None]
    unknown += [model for model in known if images.capability(model) is None]
    if unknown:
        message = f"Whether {', '.join(tried)} has kernels for {', '.join(known)} is not"
        yield ok("kernels", f"{message} known.")
        return
    verb = "has" if len(tried) == 1 else "have"
    message = f"{' and '.join(tried)} {verb} kernels for {', '.join(known)}."
    yield ok("kernels", message)


def _public(images: ImageTable, asked: Asked) -> list[Any]:
    return [images.image(framework, "public") for framework in asked.frameworks or TITLES]
