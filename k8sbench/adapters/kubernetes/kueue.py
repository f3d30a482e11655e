"""Kueue's objects: Workloads of jobs, a queue, and its nodes.

Read as v1beta2, or as v1beta1 from a Kueue without v1beta2.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping

from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.kube import KubeObject, conditions, is_true, labels_of
from k8sbench.model.pool import NodePool

_ROOTS = ("/apis/kueue.x-k8s.io/v1beta2", "/apis/kueue.x-k8s.io/v1beta1")
_JOB = "kueue.x-k8s.io/job-uid"
"""Label of a Workload: its job's uid."""


def find(api: Api, path: str) -> KubeObject | None:
    """Return an object of the group, or None; raises :class:`ApiFault`."""
    return next(filter(None, (api.find(f"{root}/{path}") for root in _ROOTS)), None)


def workloads(api: Api) -> Mapping[str, KubeObject]:
    """Return a namespace's Workloads by job uid; none if forbidden.

    A waiting Workload has its ``place`` in the queue.
    """
    for root in _ROOTS:
        path = f"{root}/namespaces/{api.place.namespace}/workloads"
        with contextlib.suppress(ApiFault):
            found, _ = api.list(path, labels=_JOB, keep=_without_pods)
            jobs, numbers = {}, Counter[str]()
            for one in sorted(found, key=_turn):
                waits = not is_true(conditions(one).get("QuotaReserved", {}))
                numbers[queue := one["spec"].get("queueName", "")] += waits
                place = f", number {numbers[queue]} there" if waits else ""
                jobs[labels_of(one)[_JOB]] = {**one, "place": place}
            return jobs
    return {}


def _without_pods(workload: KubeObject) -> KubeObject:
    return {**workload, "spec": {**workload["spec"], "podSets": ()}}


def _turn(workload: KubeObject) -> tuple[int, str]:
    """Sort key of Workloads in Kueue's order: priority, then age."""
    return -workload["spec"].get("priority", 0), workload["metadata"]["creationTimestamp"]


def flavors(api: Api, queue: KubeObject | None, pool: NodePool) -> Mapping[str, Mapping[str, str]]:
    """Return a queue's flavors for the pool's GPUs or CPUs.

    The values are their node labels. Empty without a queue or its ClusterQueue. Raises
    :class:`ApiFault`, also if the user may not read these cluster-wide objects.
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
