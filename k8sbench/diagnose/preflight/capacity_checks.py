"""Checks of what a run takes: quotas, nodes of the pool and their GPUs, volume claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from k8sbench.diagnose.preflight.facts import (
    DoctorRequest,
    PreflightFacts,
    Unknown,
    fail,
    known,
    ok,
    warn,
)
from k8sbench.model.counts import counted
from k8sbench.model.finding import Finding
from k8sbench.model.kinds import kinds_of
from k8sbench.model.kube import KubeObject, conditions, is_true, name_of
from k8sbench.model.pool import amount, plain

MOST_NAMES = 5
"""Nodes that a sentence names."""
NOT_PERMITTED = "Ask somebody with this permission, or continue without it."
FOR_MANY_TO_READ, FOR_MANY_TO_WRITE = {"ReadOnlyMany", "ReadWriteMany"}, {"ReadWriteMany"}
"""Access modes of a claim that pods on several nodes may mount."""


def room(nodes: Sequence[KubeObject], request: DoctorRequest) -> int:
    """How many replicas the nodes take when nothing else runs there."""
    usable = [node for node in nodes if refusal(node, request) is None]
    if not request.pack:
        return len(usable)
    needs = _replica(request)
    return sum(
        min(int(_allocatable(node, name) // need) for name, need in needs.items() if need)
        for node in usable
    )


def refusal(node: KubeObject, request: DoctorRequest) -> str | None:
    """Why a node cannot take a replica, also when it is empty; None: it can."""
    if (why := _away(node, request)) is not None:
        return why
    for name, need in _replica(request).items():
        if _allocatable(node, name) < need:
            return f"offers {_offered(node, name)} of {name}, {plain(need)} are needed"
    return None


def quota(facts: PreflightFacts) -> Iterator[Finding]:
    """Quotas have room for all replicas."""
    quotas, request = known(facts.quotas), facts.request
    if not quotas:
        yield ok(f"No quota limits {request.namespace}.")
        return
    needs = {"pods": Decimal(request.replicas), "count/pods": Decimal(request.replicas)}
    needs |= {
        f"count/{kind.plural}.{kind.group}": Decimal(1)
        for kind in kinds_of(facts.operators[0], request.frameworks)
    }
    for name, need in _replica(request).items():
        total = need * request.replicas
        needs |= {f"requests.{name}": total}
        if name in ("cpu", "memory"):
            needs |= {name: total, f"limits.{name}": total}
    short, seen = [], []
    for of_namespace in quotas:
        status = of_namespace.get("status", {})
        for name, hard in status.get("hard", {}).items():
            if name in needs:
                used = status.get("used", {}).get(name, "0")
                seen.append(f"{name}: {used} of {hard} used ({name_of(of_namespace)})")
                if amount(hard) - amount(used) < needs[name]:
                    short.append(f"{seen[-1]}, {plain(needs[name])} are needed")
    job = counted(request.replicas, "replica")
    job += f" of {counted(request.gpus, 'GPU')}" if request.gpus else ""
    if short:
        yield fail(
            f"The quota does not let {job} in: {'; '.join(short)}.",
            "Wait until other jobs end, take fewer GPUs, or ask for more quota.",
        )
    else:
        counts = "; ".join(seen) or "none of it counts what k8sbench asks for"
        yield ok(f"The quota has room for {job}: {counts}.")


def nodes(facts: PreflightFacts) -> Iterator[Finding]:
    """Nodes of the pool take pods."""
    request, pool, of_pool = facts.request, facts.request.pool, known(facts.nodes)
    labels = ", ".join(f"{key}={value}" for key, value in pool.selector.items()) or "any label"
    if not of_pool:
        yield fail(
            f"No node belongs to pool {pool.name} ({labels}).",
            "Choose another --node-pool, or write a pools file (--pools) for the labels of your"
            " nodes ('kubectl get nodes --show-labels').",
        )
        return
    away = [f"{name_of(node)} ({why})" for node in of_pool if (why := _away(node, request))]
    there = len(of_pool) - len(away)
    ready = (
        f"{there} of {counted(len(of_pool), 'node')} of pool {pool.name} ({labels})"
        f" {'takes' if there == 1 else 'take'} pods"
    )
    if not there:
        yield fail(
            f"{ready}: {', '.join(away)}.",
            "Bring a node back ('kubectl describe node'), or correct the pool's tolerations.",
        )
    elif away:
        yield warn(f"{ready}: not {', '.join(away)}.", "Bring them back, or do without.")
    else:
        yield ok(f"{ready}.")


def device_plugin(facts: PreflightFacts) -> Iterator[Finding]:
    """The nodes offer the pool's GPUs."""
    gpu_nodes, pool = _gpu_nodes(facts), facts.request.pool
    without = sorted(
        name_of(node) for node in gpu_nodes if not _allocatable(node, pool.gpu_resource)
    )
    number = counted(len(gpu_nodes), "node")
    if without:
        some = ", ".join(without[:MOST_NAMES]) + (", …" if len(without) > MOST_NAMES else "")
        yield (fail if len(without) == len(gpu_nodes) else warn)(
            f"No {pool.gpu_resource} on {len(without)} of {number} of pool {pool.name}: {some}.",
            "See whether the device plugin runs there, and whether the driver is loaded.",
        )
    elif gpu_nodes:
        yield ok(f"{counted(len(gpu_nodes), 'node', ('has', 'have'))} {pool.gpu_resource}.")


def node_size(facts: PreflightFacts) -> Iterator[Finding]:
    """As many nodes as there are replicas are large enough for one; silent where they are."""
    request, gpu_nodes, pool = facts.request, _gpu_nodes(facts), facts.request.pool
    large = [node for node in gpu_nodes if refusal(node, request) is None]
    if gpu_nodes and len(large) < request.replicas:
        best = max(gpu_nodes, key=lambda node: _allocatable(node, pool.gpu_resource))
        why = refusal(best, request)
        yield fail(
            f"{counted(len(large), 'node', ('is', 'are'))} large enough for a replica,"
            f" {request.replicas} are needed{f'; {name_of(best)} {why}' if why else ''}.",
            "Take fewer GPUs per replica (--gpus), or describe your nodes in a pools file.",
        )


def data(facts: PreflightFacts) -> Iterator[Finding]:
    """Every claim can be mounted as the pods mount it."""
    return claims(facts.request, facts.claims)


def claims(
    request: DoctorRequest, found: Mapping[str, KubeObject | Unknown | None]
) -> Iterator[Finding]:
    """The same of the claims alone, by name."""
    namespace = request.namespace
    for name, claim in found.items():
        if isinstance(claim, Unknown):
            yield warn(
                f"Not looked at: the volume claim {name} ({claim.why}).",
                NOT_PERMITTED,
            )
        elif claim is None:
            yield fail(
                f"There is no volume claim {name} in {namespace}.",
                f"'kubectl -n {namespace} get pvc' lists those there are.",
            )
        else:
            yield _unfit(name, claim, request) or _bound(name, claim, request)


def _unfit(name: str, claim: KubeObject, request: DoctorRequest) -> Finding | None:
    """What is wrong with a claim whether it is bound or not; None: nothing."""
    modes = set(claim.get("status", {}).get("accessModes") or claim["spec"].get("accessModes", ()))
    writes, several = name in request.written, request.replicas > 1
    needed = FOR_MANY_TO_WRITE if writes else FOR_MANY_TO_READ
    has = f"The volume claim {name} is {', '.join(sorted(modes))}"
    if claim.get("metadata", {}).get("deletionTimestamp"):
        return fail(
            f"The volume claim {name} is being deleted: no new pod may mount it.",
            "Name another, or create it again when it is gone.",
        )
    if writes and not modes - {"ReadOnlyMany"}:
        return fail(
            f"{has}: checkpoints cannot be written to it.",
            f"Name a claim with {'ReadWriteMany' if several else 'ReadWriteOnce'}.",
        )
    if several and not modes & needed:
        return fail(
            f"{has}: {request.replicas} replicas on nodes of their own cannot share it.",
            f"Name a claim with {' or '.join(sorted(needed))}, or run one replica.",
        )
    return None


def _bound(name: str, claim: KubeObject, request: DoctorRequest) -> Finding:
    phase = claim.get("status", {}).get("phase", "Pending")
    describe = f"'kubectl -n {request.namespace} describe pvc {name}' says"
    if phase == "Bound":
        return ok(f"The volume claim {name} is bound.")
    if phase == "Pending":
        # Few users may read its class, which says when.
        sentence = f"The volume claim {name} is Pending: it may be bound when the first pod comes."
        return warn(sentence, f"{describe} what it waits for.")
    return fail(f"The volume claim {name} is {phase}, not Bound.", f"{describe} why.")


def _gpu_nodes(facts: PreflightFacts) -> Sequence[KubeObject]:
    """The nodes that take pods of a pool with GPUs; none where nodes cannot be seen."""
    if isinstance(facts.nodes, Unknown) or not facts.request.pool.gpus_per_node:
        return ()
    return [node for node in facts.nodes if _away(node, facts.request) is None]


def _away(node: KubeObject, request: DoctorRequest) -> str | None:
    """Why a node takes no pods of the pool; None: it does."""
    if not is_true(conditions(node).get("Ready")):
        return "not ready"
    if node.get("spec", {}).get("unschedulable"):
        return "cordoned"
    for taint in node.get("spec", {}).get("taints") or ():
        if taint["effect"] != "PreferNoSchedule" and not _tolerated(taint, request):
            return f"taint {taint['key']} is not tolerated"
    return None


def _tolerated(taint: Mapping[str, str], request: DoctorRequest) -> bool:
    return any(
        (toleration.key is None or toleration.key == taint["key"])
        and (toleration.effect is None or toleration.effect == taint["effect"])
        and (toleration.operator == "Exists" or (toleration.value or "") == taint.get("value", ""))
        for toleration in request.pool.tolerations
    )


def _replica(request: DoctorRequest) -> dict[str, Decimal]:
    """What one replica asks for, by resource."""
    shares, pool = max(1, request.gpus), request.pool
    needs = {pool.gpu_resource: Decimal(request.gpus)} if request.gpus else {}
    needs["cpu"] = amount(pool.cpu_per_gpu) * shares
    needs["memory"] = amount(pool.memory_per_gpu) * shares
    return needs


def _offered(node: KubeObject, resource: str) -> str:
    return str(node.get("status", {}).get("allocatable", {}).get(resource, "0"))


def _allocatable(node: KubeObject, resource: str) -> Decimal:
    return amount(_offered(node, resource))
