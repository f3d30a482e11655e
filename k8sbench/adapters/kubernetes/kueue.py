"""Kueue's objects: a job's Workload, a namespace's queue, and which nodes the queue has quota for.

They are read as v1beta2; of a Kueue that does not serve it, as v1beta1.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.kube import KubeObject
from k8sbench.model.pool import NodePool

_ROOTS = ("/apis/kueue.x-k8s.io/v1beta2", "/apis/kueue.x-k8s.io/v1beta1")


def find(api: Api, path: str) -> KubeObject | None:
    """Return an object of the group; None: there is none. Raises :class:`ApiFault`."""
    return next(filter(None, (api.find(f"{root}/{path}") for root in _ROOTS)), None)


def workload(api: Api, uid: str | None) -> KubeObject | None:
    """Return the Workload of a job; None: there is none, or the user may not list them."""
    for root in _ROOTS:
        path = f"{root}/namespaces/{api.place.namespace}/workloads"
        with contextlib.suppress(ApiFault):
            found, _ = api.list(path, labels=f"kueue.x-k8s.io/job-uid={uid}")
            return found[0] if found else None
    return None


def flavors(api: Api, queue: KubeObject | None, pool: NodePool) -> Mapping[str, Mapping[str, str]]:
    """Return the flavors of which a queue gives the pool's GPUs, or CPUs, and their node labels.

    Empty where there is no queue, or it has no ClusterQueue. Raises :class:`ApiFault`, also where
    the user may not read these objects of the whole cluster.
    """
    name = queue and queue["spec"]["clusterQueue"]
    cluster_queue = (name and find(api, f"clusterqueues/{name}")) or {}
    resource = pool.gpu_resource if pool.gpus_per_node else "cpu"
    labels = {}
    for group in (cluster_queue.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group["flavors"] if resource in group["coveredResources"] else ():
            found = find(api, f"resourceflavors/{flavor['name']}") or {}
            labels[flavor["name"]] = (found.get("spec") or {}).get("nodeLabels") or {}
    return labels
