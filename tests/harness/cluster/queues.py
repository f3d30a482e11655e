"""Queues of the real Kueue."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.harness.cluster.cluster import Cluster
from tests.harness.cluster.namespace import Namespace

QUEUE = "team-queue"
"""The LocalQueue that :func:`queue_of` makes."""
LABEL = "kueue.x-k8s.io/queue-name"
"""Label of a job that names its LocalQueue: Kueue suspends it until its turn."""
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


def stop(cluster: Cluster, queue: str, policy: str) -> None:
    """Set the ``stopPolicy`` of a ClusterQueue: Hold, HoldAndDrain, or None to let it go on."""
    patch = json.dumps({"spec": {"stopPolicy": policy}})
    cluster.kubectl("patch", "clusterqueue", queue, "--type=merge", f"--patch={patch}")
