"""Nodes that can take a replica, and reasons of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from k8sbench.model.kube import KubeObject, conditions, is_true
from k8sbench.model.plan import RunPlan
from k8sbench.model.pool import amount, plain


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
