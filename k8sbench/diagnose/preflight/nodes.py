"""Nodes that can take a replica, and a first pools file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import yaml

from k8sbench.model.errors import DoesNotFit, list_few
from k8sbench.model.kube import KubeObject, conditions, is_trouble, is_true, labels_of, name_of
from k8sbench.model.plain_text import counted
from k8sbench.model.plan import RunPlan
from k8sbench.model.pool import (
    GKE_PART,
    OF_PARTS,
    PRODUCT,
    SHARED,
    gpu_remark,
    label_of_parts,
    parse_quantity,
    write_number,
)

SELECTORS = (
    PRODUCT,
    "cloud.google.com/gke-accelerator",
    "node.kubernetes.io/instance-type",
    "beta.amd.com/gpu.product-name",
)
"""Labels that tell kinds of nodes apart, the best first."""
_GPU = re.compile(r"(nvidia\.com/(gpu|gpu\.shared|mig-.+)|amd\.com/gpu)\Z")
_EFA = "vpc.amazonaws.com/efa"
_RDMA = re.compile(
    rf"{_EFA}\Z|rdma/.+|nvidia\.com/(hostdev|rdma.*)|.+/(sriov|roce|ib|hca).*", re.IGNORECASE
)
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
        f" of its {counted(plan.replicas, 'replica')}.",
        "Give --wait where an autoscaler adds nodes, or choose another --node-pool.",
    )


def refusal(node: KubeObject, plan: RunPlan) -> str | None:
    """Return why a node cannot take a replica even when empty, or None."""
    if (closed := _closed(node)) is not None:
        return closed
    for taint in _taints(node):
        if not _tolerated(taint, plan):
            return f"taint {taint['key']} is not tolerated"
    for name, need in replica(plan).items():
        if allocatable(node, name) < need:
            return f"offers {_offered(node, name)} of {name}, {write_number(need)} are needed"
    return None


def _closed(node: KubeObject) -> str | None:
    if not is_true(conditions(node).get("Ready")):
        return "not ready"
    return "cordoned" if node.get("spec", {}).get("unschedulable") else None


def remark(node: KubeObject, resource: str) -> str | None:
    """Return the remark for runs on a node; None for whole NVIDIA GPUs."""
    labels = labels_of(node)
    there = labels_of(node).get("nvidia.com/gpu.count", "")
    more = resource == "nvidia.com/gpu" and there.isdigit() and int(there)
    is_shared = more and allocatable(node, resource) > more
    return gpu_remark(resource, labels) or (SHARED if is_shared else None)


def replica(plan: RunPlan) -> dict[str, Decimal]:
    """Return what one replica asks for, by resource."""
    shares = max(1, plan.gpus_per_replica)
    pool = plan.pool
    needs = {pool.gpu_resource: Decimal(plan.gpus_per_replica)} if plan.gpus_per_replica else {}
    needs["cpu"] = parse_quantity(pool.cpu_per_gpu) * shares
    needs["memory"] = parse_quantity(pool.memory_per_gpu) * shares
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
    return parse_quantity(_offered(node, resource))


# -- a pools file ------------------------------------------------------------------------------


class _Kind(NamedTuple):
    """Common facts of the nodes of a proposed pool."""

    resource: str
    offered: int
    """Number of devices of each node."""
    remark: str | None
    selector: tuple[tuple[str, str], ...]
    taints: tuple[tuple[str, str], ...]
    """Key and effect."""
    rdma: tuple[str, int] | None
    """Resource and how many of it a pod needs."""

    @property
    def is_parts(self) -> bool:
        """True if the resource is not of whole GPUs."""
        return self.remark in OF_PARTS


def left_out(nodes: Sequence[KubeObject]) -> list[str]:
    """Return the nodes with GPUs that no proposed pool has, each with the reason."""
    reasons = ((name_of(node), _absence(node)) for node in nodes if _gpus(node))
    return [f"{name} ({why})" for name, why in reasons if why is not None]


def proposed(nodes: Sequence[KubeObject]) -> str:
    """Write a pools file for the nodes with GPUs; empty without any."""
    kinds: dict[_Kind, list[KubeObject]] = {}
    for node in nodes:
        if _absence(node) is None:
            for kind in _kinds(node):
                kinds.setdefault(kind, []).append(node)
    if not kinds:
        return ""
    # The first one is the default: whole GPUs, and many.
    order = sorted(kinds, key=lambda kind: (kind.is_parts, kind.remark is not None, -kind.offered))
    pools = [_pool(kind, kinds[kind], _strangers(kind, nodes)) for kind in order]
    for place, pool in enumerate(pools):
        names = [other["name"] for other in pools[:place]]
        pool["name"] += f"-{place + 1}" if pool["name"] in names else ""
    document = {} if order[0].is_parts else {"default": pools[0]["name"]}
    head = (
        "# Proposed from the cluster's nodes. Check gpu_model (as nvidia-smi prints it), cores,\n"
        "# memory, and rdma; docs/catalog.md explains the keys.\n"
    )
    head += f"# Left out: {list_few(away)}.\n" if (away := left_out(nodes)) else ""
    return head + yaml.safe_dump(document | {"pools": pools}, sort_keys=False, width=100)


def _absence(node: KubeObject) -> str | None:
    """Return why a node is in no pool, or None."""
    if labels_of(node).get("type") == "virtual-kubelet":
        return "virtual"
    taints = (f"taint {taint['key']}" for taint in _taints(node) if is_trouble(taint["key"]))
    return _closed(node) or next(taints, None)


def _kinds(node: KubeObject) -> Iterator[_Kind]:
    """Yield a kind for each GPU resource that a node offers."""
    taints = tuple(sorted((taint["key"], taint["effect"]) for taint in _taints(node)))
    for resource, count in _gpus(node).items():
        selector = _selector(labels_of(node), resource)
        kind = _Kind(resource, count, remark(node, resource), selector, taints, _rdma(node))
        # All of a node's EFA devices are for its whole GPUs.
        yield kind._replace(rdma=(kind.rdma[0], 1)) if kind.rdma and kind.is_parts else kind


def _strangers(kind: _Kind, nodes: Sequence[KubeObject]) -> list[str]:
    """Return the nodes that a kind's selector matches, but not its remark."""
    return [
        name_of(node)
        for node in nodes
        if dict(kind.selector).items() <= labels_of(node).items()
        and kind.resource in _gpus(node)
        and remark(node, kind.resource) != kind.remark
    ]


def _pool(kind: _Kind, nodes: Sequence[KubeObject], strangers: Sequence[str]) -> dict[str, Any]:
    """Build the pool of nodes that are alike."""
    labels = labels_of(nodes[0])
    selector = dict(kind.selector)
    product = labels.get(PRODUCT, next(iter(selector.values()), ""))
    part = kind.resource.partition("/mig-")[2] or labels.get(GKE_PART, "")
    cores, memory = (min(allocatable(node, name) for node in nodes) for name in ("cpu", "memory"))
    per_gpu = int(float(memory) * LEFT / kind.offered / 2**30)
    is_plain = kind.resource.endswith("/gpu")
    pool: dict[str, Any] = {
        "name": _name(f"{product or 'gpu'}{'' if is_plain else '-' + kind.resource}"),
        # NCCL connects neither slices of one GPU nor two processes on one.
        "gpus_per_node": 1 if kind.is_parts else kind.offered,
        "gpu_model": gpu_model(product, part.removesuffix(".shared")),
        "gpu_resource": kind.resource,
        "selector": selector,
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": effect} for key, effect in kind.taints
        ],
        "cpu_per_gpu": str(max(1, int(float(cores) * LEFT / kind.offered))),
        "memory_per_gpu": f"{max(1, per_gpu)}Gi",
        "shm": f"{max(1, min(16, per_gpu // 2))}Gi",
        "nccl_env": {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"},
    }
    if kind.rdma:
        pool["rdma"] = dict(zip(("resource", "count"), kind.rdma, strict=True))
    pool["note"] = " ".join(_remarks(kind, len(nodes), strangers))
    return pool


def _remarks(kind: _Kind, nodes: int, strangers: Sequence[str]) -> Iterator[str]:
    yield f"{counted(nodes, 'node')}."
    if kind.remark:
        yield f"{kind.remark[0].upper()}{kind.remark[1:]}."
    if kind.is_parts:
        yield f"A node offers {kind.offered}; a replica takes one."
    if strangers:
        yield f"The selector also matches {list_few(strangers)}, whose GPUs differ: add a label."
    if kind.rdma is None:
        yield "No RDMA device: NCCL talks over TCP between nodes."
    elif kind.rdma[0] == _EFA:
        yield "NCCL uses EFA only with aws-ofi-nccl in the image."


def gpu_model(product: str, part: str = "") -> str:
    """Guess the driver's name of a GPU from its label's dashes."""
    product, _, profile = product.removesuffix("-SHARED").partition("-MIG-")
    maker, _, rest = product.partition("-")
    name = product or "unknown"
    if maker in ("NVIDIA", "Tesla") and rest:
        name = f"{maker} {rest if _DASHED.match(rest) else rest.replace('-', ' ')}"
    return f"{name} MIG {profile or part}" if profile or part else name


def _name(text: str) -> str:
    # A name has at most 63 characters, and a number may follow.
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:58].strip("-")


def _selector(labels: Mapping[str, str], resource: str) -> tuple[tuple[str, str], ...]:
    """Return the labels that distinguish this kind of node; empty: any node."""
    chosen = next(({key: labels[key]} for key in SELECTORS if labels.get(key)), {})
    if gpu_remark(resource, chosen) is None and (found := label_of_parts(labels)):
        chosen[found[0]] = labels[found[0]]
    return tuple(chosen.items())


def _devices(node: KubeObject) -> dict[str, int]:
    names = node.get("status", {}).get("allocatable", {})
    counts = {name: int(allocatable(node, name)) for name in names if "/" in name}
    return {name: count for name, count in counts.items() if count}


def _gpus(node: KubeObject) -> dict[str, int]:
    return {name: count for name, count in _devices(node).items() if _GPU.match(name)}


def _rdma(node: KubeObject) -> tuple[str, int] | None:
    """Return a node's RDMA resource, and how many a pod needs."""
    found = ((name, count) for name, count in _devices(node).items() if _RDMA.match(name))
    # EFA's are the node's network cards; the others are usually one device for many pods.
    return next(((name, min(count, 64) if name == _EFA else 1) for name, count in found), None)


def _taints(node: KubeObject) -> list[KubeObject]:
    """Return the taints that keep pods away."""
    taints = node.get("spec", {}).get("taints") or ()
    return [taint for taint in taints if taint["effect"] != "PreferNoSchedule"]
