"""Nodes that can take a replica, and a first pools file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import yaml

from k8sbench.model.errors import DoesNotFit
from k8sbench.model.kube import KubeObject, conditions, is_true, labels_of
from k8sbench.model.plan import RunPlan
from k8sbench.model.pool import amount, gpu_remark, plain

PRODUCT = "nvidia.com/gpu.product"
"""Label of NVIDIA's GPU feature discovery."""
SELECTORS = (
    PRODUCT,
    "cloud.google.com/gke-accelerator",
    "node.kubernetes.io/instance-type",
    "beta.amd.com/gpu.product-name",
)
"""Labels that tell kinds of nodes apart, the best first."""
_GPU = re.compile(r"(nvidia\.com/(gpu|gpu\.shared|mig-.+)|amd\.com/gpu)\Z")
_RDMA = re.compile(r"rdma/.+|nvidia\.com/(hostdev|rdma.*)|.+/(sriov|roce|ib|hca).*", re.IGNORECASE)
_OWN_TAINTS = "node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"
"""Kubernetes' own, of nodes in trouble."""
_DASHED = re.compile(r"[A-Z]\d+-(SXM\d?|PCIE)-\d+GB\Z")
LEFT = 0.9
"""Share of a node's cores and memory that is left for pods.

Agents and caches use the rest.
"""


def room(nodes: Sequence[KubeObject], plan: RunPlan) -> int:
    """Return how many replicas the nodes take when otherwise empty."""
    usable = [node for node in nodes if refusal(node, plan) is None]
    if not plan.pack:
        return len(usable)
    needs = replica(plan)
    return sum(
        min(int(allocatable(node, name) // need) for name, need in needs.items() if need)
        for node in usable
    )


def no_room(nodes: Sequence[KubeObject], plan: RunPlan) -> DoesNotFit | None:
    """Return the refusal of a run that needs more nodes than its pool has."""
    here = room(nodes, plan)
    if plan.replicas <= here:
        return None
    return DoesNotFit(
        f"{plan.benchmark} {plan.framework} {plan.case}: pool {plan.pool.name} has room for {here}"
        f" of its {plan.replicas} replicas.",
        "Give --wait where an autoscaler adds nodes, or choose another --node-pool.",
    )


def refusal(node: KubeObject, plan: RunPlan) -> str | None:
    """Return why a node cannot take a replica even when empty, or None."""
    if not is_true(conditions(node).get("Ready")):
        return "not ready"
    if node.get("spec", {}).get("unschedulable"):
        return "cordoned"
    for taint in node.get("spec", {}).get("taints") or ():
        if taint["effect"] != "PreferNoSchedule" and not _tolerated(taint, plan):
            return f"taint {taint['key']} is not tolerated"
    for name, need in replica(plan).items():
        if allocatable(node, name) < need:
            return f"offers {_offered(node, name)} of {name}, {plain(need)} are needed"
    return None


def replica(plan: RunPlan) -> dict[str, Decimal]:
    """Return what one replica asks for, by resource."""
    shares, pool = max(1, plan.gpus_per_replica), plan.pool
    needs = {pool.gpu_resource: Decimal(plan.gpus_per_replica)} if plan.gpus_per_replica else {}
    needs["cpu"] = amount(pool.cpu_per_gpu) * shares
    needs["memory"] = amount(pool.memory_per_gpu) * shares
    return needs


def _tolerated(taint: Mapping[str, str], plan: RunPlan) -> bool:
    return any(
        (toleration.key is None or toleration.key == taint["key"])
        and (toleration.effect is None or toleration.effect == taint["effect"])
        and (toleration.operator == "Exists" or (toleration.value or "") == taint.get("value", ""))
        for toleration in plan.pool.tolerations
    )


def _offered(node: KubeObject, resource: str) -> str:
    return str(node.get("status", {}).get("allocatable", {}).get(resource, "0"))


def allocatable(node: KubeObject, resource: str) -> Decimal:
    """Return a node's allocatable amount of a resource; 0 if not named."""
    return amount(_offered(node, resource))


# -- a pools file ------------------------------------------------------------------------------


def proposed(nodes: Sequence[KubeObject]) -> str:
    """Write a pools file for the nodes with GPUs; empty without any."""
    kinds: dict[tuple[Any, ...], list[KubeObject]] = {}
    for node in nodes:
        offered = _devices(node)
        for resource, count in offered.items():
            if _GPU.match(resource) and count:
                taints = tuple(sorted((t["key"], t["effect"]) for t in _taints(node)))
                label = _selector(labels_of(node))
                key = (resource, count, taints, *label.items())
                kinds.setdefault(key, []).append(node)
    pools = [_pool(str(key[0]), int(key[1]), alike) for key, alike in kinds.items()]
    if not pools:
        return ""
    pools.sort(key=lambda pool: -pool["gpus_per_node"])
    for place, pool in enumerate(pools):
        names = [other["name"] for other in pools[:place]]
        pool["name"] += f"-{place + 1}" if pool["name"] in names else ""
    document = {"default": pools[0]["name"], "pools": pools}
    head = (
        "# Proposed from the cluster's nodes. Check gpu_model (as nvidia-smi prints it), cores,\n"
        "# memory, and rdma; docs/catalog.md explains the keys.\n"
    )
    return head + yaml.safe_dump(document, sort_keys=False, width=100)


def _pool(resource: str, count: int, nodes: Sequence[KubeObject]) -> dict[str, Any]:
    """Build the pool of nodes that are alike."""
    first, labels = nodes[0], labels_of(nodes[0])
    selector = _selector(labels)
    product = labels.get(PRODUCT, next(iter(selector.values()), ""))
    cores, memory = (min(allocatable(node, name) for node in nodes) for name in ("cpu", "memory"))
    per_gpu = int(float(memory) * LEFT / count / 2**30)
    pool: dict[str, Any] = {
        "name": _name(f"{product or 'gpu'}{'' if resource.endswith('/gpu') else '-' + resource}"),
        "gpus_per_node": count,
        "gpu_model": gpu_model(product),
        "gpu_resource": resource,
        "selector": selector,
        "tolerations": [
            {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}
            for taint in _taints(first)
        ],
        "cpu_per_gpu": str(max(1, int(float(cores) * LEFT / count))),
        "memory_per_gpu": f"{max(1, per_gpu)}Gi",
        "shm": f"{max(1, min(16, per_gpu // 2))}Gi",
        "nccl_env": {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"},
    }
    if devices := [
        name for name, number in _devices(first).items() if _RDMA.match(name) and number
    ]:
        pool["rdma"] = {"resource": devices[0]}
    said = [f"{len(nodes)} nodes."]
    said += [f"{remark[0].upper()}{remark[1:]}."] if (remark := gpu_remark(resource)) else []
    said += [] if devices else ["No RDMA device: NCCL talks over TCP between nodes."]
    pool["note"] = " ".join(said)
    return pool


def gpu_model(product: str) -> str:
    """Guess the driver's name of a GPU from its label, which has dashes."""
    product = re.sub(r"-(SHARED|MIG-.+)\Z", "", product)
    maker, _, rest = product.partition("-")
    if maker not in ("NVIDIA", "Tesla") or not rest:
        return product or "unknown"
    return f"{maker} {rest if _DASHED.match(rest) else rest.replace('-', ' ')}"


def _name(text: str) -> str:
    # A name has at most 63 characters, and a number may follow.
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:58].strip("-")


def _selector(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the label that distinguishes this kind of node; empty: any node."""
    return next(({key: labels[key]} for key in SELECTORS if labels.get(key)), {})


def _devices(node: KubeObject) -> dict[str, int]:
    names = node.get("status", {}).get("allocatable", {})
    return {name: int(allocatable(node, name)) for name in names if "/" in name}


def _taints(node: KubeObject) -> Iterable[KubeObject]:
    taints = node.get("spec", {}).get("taints") or ()
    return [
        taint
        for taint in taints
        if taint["effect"] != "PreferNoSchedule" and not taint["key"].startswith(_OWN_TAINTS)
    ]
