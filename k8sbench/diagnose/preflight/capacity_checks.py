"""Checks of the capacity for a run: quotas, nodes of the pool, their GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from k8sbench.diagnose.job.scheduling import requests
from k8sbench.diagnose.preflight.facts import Asked, Facts, Line, Unknown, failure, ok
from k8sbench.diagnose.preflight.findings import unseen
from k8sbench.model.counts import counted
from k8sbench.model.kinds import kinds_of
from k8sbench.model.kube import KubeObject, conditions, is_true, name_of
from k8sbench.model.pool import amount


def usable_nodes(facts: Facts, asked: Asked) -> int:
    """How many nodes take a replica, one each; 1 where nodes cannot be seen."""
    if isinstance(facts.nodes, Unknown):
        return 1
    return sum(refusal(node, asked) is None for node in facts.nodes)


def room(nodes: Sequence[KubeObject], asked: Asked) -> int:
    """How many replicas the nodes take when nothing else runs there."""
    wants = _replica(asked)
    return sum(
        min(int(_allocatable(node, name) // want) for name, want in wants.items() if want)
        for node in nodes
        if refusal(node, asked) is None
    )


def refusal(node: KubeObject, asked: Asked) -> str | None:
    """Why a node cannot take a replica, also when it is empty; None: it can."""
    if (why := _away(node, asked)) is not None:
        return why
    short = next(
        (name for name, want in _replica(asked).items() if _allocatable(node, name) < want), None
    )
    if short is None:
        return None
    return f"offers {_offered(node, short)} of {short}, {_plain(_replica(asked)[short])} are needed"


def quota(facts: Facts, asked: Asked) -> Iterator[Line]:
    """Quotas have room."""
    if isinstance(facts.quotas, Unknown):
        yield unseen("quota", f"the quotas of {asked.namespace}", facts.quotas)
        return
    if not facts.quotas:
        yield ok("quota", f"No quota limits {asked.namespace}.")
        return
    gpus = asked.gpus
    wants = {resource: each * asked.replicas for resource, each in _replica(asked).items()}
    needs = {f"requests.{resource}": total for resource, total in wants.items()}
    for resource in ("cpu", "memory"):
        needs[f"limits.{resource}"] = needs[resource] = wants[resource]
    needs["pods"] = needs["count/pods"] = Decimal(asked.replicas)
    for each in kinds_of(asked.frameworks):
        needs[f"count/{each.plural}.{each.group}"] = Decimal(1)
    short, room = [], []
    for quota in facts.quotas:
        status = quota.get("status", {})
        for resource, hard in status.get("hard", {}).items():
            if resource not in needs:
                continue
            used = status.get("used", {}).get(resource, "0")
            left = amount(hard) - amount(used)
            text = f"{resource}: {used} of {hard} used ({quota['metadata']['name']})"
            room.append(text)
            if left < needs[resource]:
                short.append(f"{text}, {_plain(needs[resource])} are needed")
    job = counted(asked.replicas, "replica") + (f" of {counted(gpus, 'GPU')}" if gpus else "")
    if short:
        yield failure(
            "quota",
            f"The quota does not let {job} in: {'; '.join(short)}.",
            "Wait until other jobs end, take fewer GPUs, or ask for more quota.",
        )
    else:
        seen = "; ".join(room) or "none of it counts what k8sbench asks for"
        yield ok("quota", f"The quota has room for {job}: {seen}.")


def limit_range(facts: Facts, asked: Asked) -> Iterator[Line]:
    """Limit ranges admit the pods: their training container, and the pod as far as that is known.

    Requests and limits of our pods are equal, so that no ratio between them is too large.
    """
    if isinstance(facts.limit_ranges, Unknown):
        yield unseen("limit-range", f"the limit ranges of {asked.namespace}", facts.limit_ranges)
        return
    wants = _replica(asked)
    wrong = [
        f"LimitRange {name_of(found)} takes {side} {bound} of {resource} for a {one['type']}, and"
        f" {_plain(wants[resource])} would be requested"
        for found in facts.limit_ranges
        for one in (found.get("spec") or {}).get("limits") or ()
        if one.get("type") in ("Container", "Pod")
        for side, key in (("at least", "min"), ("at most", "max"))
        for resource, bound in (one.get(key) or {}).items()
        if resource in wants
        and (wants[resource] < amount(bound) if key == "min" else wants[resource] > amount(bound))
    ]
    if wrong:
        yield failure(
            "limit-range",
            f"No pod would be created: {'; '.join(wrong)}.",
            "Take another number of GPUs per replica (--gpus) or another pool (--node-pool), "
            "or ask the namespace's administrator for other limits.",
        )
    else:
        yield ok("limit-range", f"No limit range of {asked.namespace} forbids the pods.")


def nodes(facts: Facts, asked: Asked) -> Iterator[Line]:
    """Nodes of the pool take pods, and have GPUs."""
    pool = asked.pool
    if isinstance(facts.nodes, Unknown):
        yield unseen("nodes", f"the nodes of pool {pool.name} and their GPUs", facts.nodes)
        return
    labels = ", ".join(f"{key}={value}" for key, value in pool.selector.items()) or "any label"
    if not facts.nodes:
        yield failure(
            "nodes",
            f"No node belongs to pool {pool.name} ({labels}).",
            "Choose another with --node-pool, or describe your nodes in a pools file"
            " (--pools); 'kubectl get nodes --show-labels' shows theirs.",
        )
        return
    away = [f"{name_of(node)} ({why})" for node in facts.nodes if (why := _away(node, asked))]
    there = [node for node in facts.nodes if not _away(node, asked)]
    take = "takes" if len(there) == 1 else "take"
    nodes = f"{len(there)} of {counted(len(facts.nodes), 'node')}"
    ready = f"{nodes} of pool {pool.name} ({labels}) {take} pods"
    if not there:
        yield failure(
            "nodes",
            f"{ready}: {', '.join(away)}.",
            "Bring a node back ('kubectl describe node' says why it is away), or correct the "
            "pool's tolerations.",
        )
        return
    yield Line(
        id="nodes",
        level="warning" if away else "ok",
        message=f"{ready}{': not ' if away else ''}{', '.join(away)}.",
        action="Bring them back, or do without." if away else None,
    )
    if pool.gpus_per_node:
        yield from _gpus(facts, asked, there)


def _gpus(facts: Facts, asked: Asked, nodes: Sequence[KubeObject]) -> Iterator[Line]:
    pool = asked.pool
    has = {name_of(node): _allocatable(node, pool.gpu_resource) for node in nodes}
    without = sorted(name for name, count in has.items() if count == 0)
    if without:
        yield Line(
            id="device-plugin",
            level="failure" if len(without) == len(has) else "warning",
            message=f"{len(without)} of {counted(len(has), 'node')} of pool {pool.name}"
            f" {'offers' if len(without) == 1 else 'offer'} no {pool.gpu_resource}:"
            f" {_some(without)}.",
            action="See whether the device plugin runs there, and whether the driver is loaded.",
        )
    else:
        offer = f"All {len(has)} nodes offer" if len(has) > 1 else "The node offers"
        yield ok("device-plugin", f"{offer} {pool.gpu_resource}.")
    wants = _replica(asked)
    fits = [node for node in nodes if _fits(node, wants)]
    if len(fits) < asked.replicas:
        best = max(nodes, key=lambda node: _allocatable(node, pool.gpu_resource))
        offered = ", ".join(f"{_offered(best, resource)} of {resource}" for resource in wants)
        needed = (
            f"{asked.gpus} of {pool.gpu_resource}, {_plain(wants['cpu'])} of cpu,"
            f" {asked.gpus} × {pool.memory_per_gpu} of memory"
        )
        yield failure(
            "node-size",
            f"{counted(len(fits), 'node', ('is', 'are'))} large enough for a replica on pool"
            f" {pool.name}"
            f" ({needed}), {asked.replicas} are needed; {name_of(best)} offers {offered}.",
            "Take fewer GPUs per replica (--gpus), or describe your nodes in a pools file.",
        )
    total = sum(has.values())
    if isinstance(facts.pods, Unknown):
        yield unseen("gpus", f"k8sbench's pods in {asked.namespace}", facts.pods)
        return
    used = sum(
        requests(pod["spec"]).get(pool.gpu_resource, Decimal(0))
        for pod in facts.pods
        if pod.get("spec", {}).get("nodeName") in has
    )
    wanted = asked.gpus * asked.replicas
    enough = total - used >= wanted
    yield Line(
        id="gpus",
        level="ok" if enough else "warning",
        message=f"Pool {pool.name} has {_plain(total)} GPUs; k8sbench's jobs in"
        f" {asked.namespace} hold {_plain(used)} of them (what others hold is not counted).",
        action=None if enough else f"A run on {wanted} would wait until those jobs end.",
    )


def _some(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _away(node: KubeObject, asked: Asked) -> str | None:
    """Why a node takes no pods of the pool; None: it does."""
    if not is_true(conditions(node).get("Ready")):
        return "not ready"
    if node.get("spec", {}).get("unschedulable"):
        return "cordoned"
    for taint in node.get("spec", {}).get("taints") or ():
        if taint["effect"] != "PreferNoSchedule" and not _tolerated(taint, asked):
            return f"taint {taint['key']} is not tolerated"
    return None


def _tolerated(taint: Mapping[str, str], asked: Asked) -> bool:
    return any(
        (each.key is None or each.key == taint["key"])
        and (each.effect is None or each.effect == taint["effect"])
        and (each.operator == "Exists" or (each.value or "") == taint.get("value", ""))
        for each in asked.pool.tolerations
    )


def _replica(asked: Asked) -> dict[str, Decimal]:
    """What one replica asks for."""
    shares, pool = max(1, asked.gpus), asked.pool
    wants = {"cpu": amount(pool.cpu_per_gpu) * shares}
    wants["memory"] = amount(pool.memory_per_gpu) * shares
    return {**({pool.gpu_resource: Decimal(asked.gpus)} if asked.gpus else {}), **wants}


def _fits(node: KubeObject, wants: Mapping[str, Decimal]) -> bool:
    return all(_allocatable(node, resource) >= want for resource, want in wants.items())


def _offered(node: KubeObject, resource: str) -> str:
    return str(node.get("status", {}).get("allocatable", {}).get(resource, "0"))


def _allocatable(node: KubeObject, resource: str) -> Decimal:
    return amount(_offered(node, resource))


def _plain(number: Decimal | int) -> str:
    """A number of things, or a quantity in its plain unit, without an exponent."""
    return f"{number:f}".rstrip("0").rstrip(".") if "." in f"{number:f}" else f"{number:f}"
