"""Kueue's objects for tests: a quota of GPUs, and the queues that share it."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from tests.harness.cluster.namespace import Namespace

QUEUE = "team-queue"
"""The LocalQueue that :func:`queue_of` makes."""
QUEUE_LABEL, PRIORITY_LABEL = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
_PLENTY = {"cpu": "10k", "memory": "100Ti"}
"""Ample quota; a resource without quota would block the jobs that request it."""


def kueue(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    """Make an object of Kueue's."""
    metadata = {"name": name}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, **fields}


def local_queue(name: str, cluster_queue: str) -> dict[str, Any]:
    """Make a queue of a namespace."""
    return kueue("LocalQueue", name, spec={"clusterQueue": cluster_queue})


@contextlib.contextmanager
def queue_of(
    namespace: Namespace, gpus: int, labels: Mapping[str, str] | None = None, **spec: Any
) -> Iterator[str]:
    """Create the queue :data:`QUEUE` in a namespace with a GPU quota.

    Yields the name of its ClusterQueue and ResourceFlavor, which is the namespace's.
    """
    name = namespace.name
    quota = {"nvidia.com/gpu": str(gpus), **_PLENTY}
    resources = [{"name": each, "nominalQuota": amount} for each, amount in quota.items()]
    group = {"coveredResources": [*quota], "flavors": [{"name": name, "resources": resources}]}
    only_here = {"matchLabels": {"kubernetes.io/metadata.name": name}}
    queue_spec = {"namespaceSelector": only_here, "resourceGroups": [group], **spec}
    flavor = {"nodeLabels": labels} if labels else {}
    namespace.cluster.create(
        kueue("ResourceFlavor", name, spec=flavor), kueue("ClusterQueue", name, spec=queue_spec)
    )
    namespace.create(local_queue(QUEUE, name))
    namespace.wait("condition=Active", f"localqueue/{QUEUE}")
    try:
        yield name
    finally:
        # Without waiting: their finalizers go when the last workload of the namespace has gone.
        words = ("clusterqueue,resourceflavor", name, "--wait=false", "--ignore-not-found")
        namespace.cluster.kubectl("delete", *words)


@contextlib.contextmanager
def priorities(namespace: Namespace, **values: int) -> Iterator[None]:
    """Have WorkloadPriorityClasses of these names, for the whole cluster."""
    namespace.cluster.create(
        *(kueue("WorkloadPriorityClass", name, value=value) for name, value in values.items())
    )
    try:
        yield
    finally:
        namespace.cluster.kubectl("delete", "workloadpriorityclass", *values)


def is_admitted(workload: dict[str, Any]) -> bool:
    """Return True if Kueue admitted a workload."""
    found = workload.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Admitted" and one["status"] == "True" for one in found)
