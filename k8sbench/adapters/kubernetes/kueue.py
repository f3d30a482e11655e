"""Kueue's objects: a job's Workload, a namespace's queue, and which nodes the queue has quota for.

They are read as v1beta2; of a Kueue that does not serve it, as v1beta1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.kube import KubeObject
from k8sbench.model.pool import NodePool

_VERSIONS = ("v1beta2", "v1beta1")


def local_queue(api: Api, namespace: str, name: str) -> KubeObject | None:
    """Return a queue of a namespace; None: there is none. Raises :class:`ApiFault`."""
    return _find(api, f"namespaces/{namespace}/localqueues/{name}")


def workload(api: Api, uid: str | None) -> KubeObject | None:
    """Return the Workload of a job; None: there is none, or the user may not list them."""
    for root in _roots():
        try:
            path = f"{root}/namespaces/{api.place.namespace}/workloads"
            found, _ = api.list(path, labels=f"kueue.x-k8s.io/job-uid={uid}")
        except ApiFault as fault:
            if fault.status != 404:
                return None
            continue
        return found[0] if found else None
    return None


def flavors(api: Api, queue: KubeObject, pool: NodePool) -> Mapping[str, Mapping[str, str]]:
    """Return the flavors of which a queue gives the pool's GPUs, or CPUs, and their node labels.

    Empty where the queue has no ClusterQueue. Raises :class:`ApiFault`, also where the user may not
    read these objects of the whole cluster.
    """
    cluster_queue = _find(api, f"clusterqueues/{queue['spec']['clusterQueue']}") or {}
    resource = pool.gpu_resource if pool.gpus_per_node else "cpu"
    labels = {}
    for group in (cluster_queue.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group["flavors"] if resource in group["coveredResources"] else ():
            found = _find(api, f"resourceflavors/{flavor['name']}") or {}
            labels[flavor["name"]] = (found.get("spec") or {}).get("nodeLabels") or {}
    return labels


def _find(api: Api, path: str) -> KubeObject | None:
    return next(filter(None, (api.find(f"{root}/{path}") for root in _roots())), None)


def _roots() -> Iterator[str]:
    return (f"/apis/kueue.x-k8s.io/{version}" for version in _VERSIONS)
