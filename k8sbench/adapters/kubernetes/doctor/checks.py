"""From facts to lines: what is well, what is not, and what to do. Asks nobody.

Each check is a function in :data:`CHECKS` that yields lines; the ids of its lines are stable. A
*failure* means that no run can succeed as asked. A *warning* is what may spoil or slow a run, and
what could not be looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from k8sbench.adapters.kubernetes import faults
from k8sbench.adapters.kubernetes.diagnosis.causes import CAUSES
from k8sbench.adapters.kubernetes.doctor import operator
from k8sbench.adapters.kubernetes.doctor.facts import (
    Asked,
    Facts,
    Level,
    Line,
    Refusal,
    Thing,
    Unknown,
)
from k8sbench.model.image import TITLES, ImageTable, image_warning
from k8sbench.model.pool import amount
from k8sbench.model.spec import Framework
from k8sbench.render.kinds import KINDS
from k8sbench.render.security import security

OLDEST, NEWEST = (1, 29), (1, 34)
"""Kubernetes minors that are expected to work; below, the operator's own tests end (1.28)."""
TESTED = "1.33"
OPERATOR = (1, 9)
INSTALL = (
    "Install the training operator v1.9: kubectl apply --server-side -k"
    " 'github.com/kubeflow/training-operator.git/manifests/overlays/standalone?ref=v1.9.3'"
)
ENFORCE = "pod-security.kubernetes.io/enforce"
LEVELS = ("privileged", "baseline", "restricted")
"""Pod Security Standards, the strictest last."""
METRICS = (
    # Labels of upstream's charts: GPU operator, dcgm-exporter; prometheus-operator, prometheus.
    (
        "gpu-metrics",
        "DCGM exporter",
        {("app", "nvidia-dcgm-exporter"), ("app.kubernetes.io/name", "dcgm-exporter")},
        "Install NVIDIA's dcgm-exporter (the GPU operator does), or live without GPU metrics.",
    ),
    (
        "prometheus",
        "Prometheus",
        {("operated-prometheus", "true"), ("app.kubernetes.io/name", "prometheus")},
        "Name it with --prometheus where it is elsewhere; without it the exporters are asked.",
    ),
)
FIRST_CONSUMER = "WaitForFirstConsumer"
QUEUEING = {
    "kueue.x-k8s.io": "Kueue",
    "scheduling.volcano.sh": "Volcano",
    "scheduling.x-k8s.io": "the coscheduling plugin",
}
"""API group → what serves it."""


def lines(facts: Facts, asked: Asked, images: ImageTable) -> list[Line]:
    """Judge the facts: every check's lines, in order."""
    return [
        *(line for check in CHECKS for line in check(facts, asked)),
        *_kernels(facts, asked, images),
    ]


def unreachable(message: str, action: str) -> Line:
    """The one line of a cluster that does not answer."""
    return Line(id="api-server", level="failure", message=message, action=action or None)


def usable_nodes(facts: Facts, asked: Asked) -> int:
    """How many nodes take a replica, one each; 1 where nodes cannot be seen."""
    if isinstance(facts.nodes, Unknown):
        return 1
    wants = _replica(asked)
    return sum(not _away(node, asked) and _fits(node, wants) for node in facts.nodes)


def _api_server(facts: Facts, asked: Asked) -> Iterator[Line]:  # noqa: ARG001
    if isinstance(facts.version, Unknown):
        yield _unseen("api-server", "the version of Kubernetes", facts.version)
        return
    said = f"Kubernetes {facts.version} answers at {facts.server} ({facts.why})."
    found = re.match(r"v(\d+)\.(\d+)", facts.version)
    if found is None or OLDEST <= (int(found[1]), int(found[2])) <= NEWEST:
        yield Line(id="api-server", level="ok", message=said)
        return
    span = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
    yield Line(
        id="api-server",
        level="warning",
        message=f"{said} It is expected to work with {span}, and tested with {TESTED}.",
        action="Try one small run first: k8sbench submit resnet50 --replicas 1 --gpus 1.",
    )


def _namespace(facts: Facts, asked: Asked) -> Iterator[Line]:
    name = asked.namespace
    if facts.namespace is None:
        yield Line(
            id="namespace",
            level="failure",
            message=f"There is no namespace {name}.",
            action=f"Create it (kubectl create namespace {name}), or name another with -n.",
        )
    elif isinstance(facts.namespace, Unknown):
        yield _unseen("namespace", f"the namespace {name}", facts.namespace)
    elif facts.namespace.get("status", {}).get("phase") == "Terminating":
        yield Line(
            id="namespace",
            level="failure",
            message=f"The namespace {name} is being deleted.",
            action="Name another with -n.",
        )
    else:
        yield Line(id="namespace", level="ok", message=f"The namespace {name} is there.")


def _permissions(facts: Facts, asked: Asked) -> Iterator[Line]:
    if isinstance(facts.access, Unknown):
        yield _unseen("permissions", "your permissions", facts.access)
        return
    missing: dict[tuple[str, bool, bool], list[str]] = {}
    for access in facts.access:
        if not access.allowed:
            kind = (access.what, access.namespaced, access.needed)
            missing.setdefault(kind, []).append(access.verb)
    for (what, namespaced, needed), verbs in missing.items():
        where = f"in the namespace {asked.namespace}" if namespaced else "of the cluster"
        rules = "Role" if namespaced else "ClusterRole"
        yield Line(
            id="permissions",
            level="failure" if needed else "warning",
            message=f"You may not {', '.join(verbs)} {what} {where}.",
            action=f"Have an administrator bind you to the {rules} in {faults.ROLE}"
            + ("." if needed else "; without it some checks and diagnoses are left out."),
        )
    if not missing:
        count = len(facts.access)
        yield Line(
            id="permissions", level="ok", message=f"You have all {count} permissions it takes."
        )


def _job_kinds(facts: Facts, asked: Asked) -> Iterator[Line]:
    if isinstance(facts.groups, Unknown):
        yield _unseen("job-kinds", "the kinds of object that are served", facts.groups)
        return
    if isinstance(facts.kinds, Unknown):
        yield _unseen("job-kinds", "the kinds of kubeflow.org/v1", facts.kinds)
        return
    there = [f for f in KINDS if _plural(f) in facts.kinds]
    wanted = asked.frameworks or tuple(KINDS)
    if not there and "trainer.kubeflow.org" in facts.groups:
        versions = ", ".join(facts.groups["trainer.kubeflow.org"])
        yield Line(
            id="job-kinds",
            level="failure",
            message=f"Kubeflow Trainer v2 (trainer.kubeflow.org/{versions}) is installed, the"
            " training operator v1, whose PyTorchJobs and PaddleJobs k8sbench makes, is not.",
            action=f"{INSTALL}; both can be installed side by side.",
        )
        return
    if not there:
        yield Line(
            id="job-kinds",
            level="failure",
            message="The training operator is not installed: kubeflow.org/v1 has no PyTorchJob"
            " and no PaddleJob.",
            action=f"{INSTALL}.",
        )
        return
    for framework in set(wanted) - set(there):
        yield Line(
            id="job-kinds",
            level="failure" if asked.frameworks else "warning",
            message=f"{KINDS[framework].kind} is not served by kubeflow.org/v1: nothing runs on"
            f" {TITLES[framework]}.",
            action=f"{INSTALL}, without --enable-scheme or with that kind.",
        )
    names = " and ".join(KINDS[framework].kind for framework in there)
    yield Line(id="job-kinds", level="ok", message=f"{names} are served as kubeflow.org/v1.")


def _webhook(facts: Facts, asked: Asked) -> Iterator[Line]:  # noqa: ARG001
    for kind, refusal in facts.wrong_jobs.items():
        level, message, action = _webhook_answer(kind, refusal)
        yield Line(id="operator-webhook", level=level, message=message, action=action)


def _webhook_answer(kind: str, refusal: Refusal | None) -> tuple[Level, str, str | None]:
    """Judge what came of a job that the operator's webhook alone refuses."""
    if refusal is None:
        return (
            "warning",
            f"No webhook looks at a {kind}, so whether the operator runs cannot be seen.",
            "Look at its Deployment; from v1.8 on the operator checks jobs by a webhook.",
        )
    ours = f'"validator.{kind.lower()}.training-operator.kubeflow.org"'
    if "denied the request" in refusal.message and ours in refusal.message:
        return "ok", f"The operator is alive: its webhook looks at a {kind}.", None
    if "failed calling webhook" in refusal.message:
        dead = f"The operator does not answer, and without it no {kind} can be created"
        start = f"Start it; 'kubectl get deployments -A -l {operator.SELECTOR}' finds it."
        return "failure", f"{dead}: {_said(refusal)}.", start
    return (
        "warning",
        f"Whether the operator is alive could not be tried with a {kind}: {_said(refusal)}.",
        "Look at the operator's Deployment, or mend what refused the try.",
    )


def _admission(facts: Facts, asked: Asked) -> Iterator[Line]:  # noqa: ARG001
    for kind, refusal in facts.own_jobs.items():
        if refusal is None:
            yield Line(id="job-admission", level="ok", message=f"A {kind} of k8sbench is accepted.")
        elif (
            "failed calling webhook" in refusal.message
            or _is_forbidden(refusal)
            or facts.namespace is None
        ):
            continue  # told by operator-webhook, permissions and namespace
        else:
            yield Line(
                id="job-admission",
                level="failure",
                message=f"A {kind} of k8sbench is refused: {_said(refusal)}.",
                action="Change what refuses it, or use another namespace (-n).",
            )


def _deployment(facts: Facts, asked: Asked) -> Iterator[Line]:  # noqa: ARG001
    found = facts.operator
    if isinstance(found, Unknown):
        yield _unseen("operator", "the operator's Deployment, its flags and its version", found)
        return
    if found is None:
        yield Line(
            id="operator",
            level="warning",
            message=f"No Deployment has the label {operator.SELECTOR}, so the operator's flags and"
            " version are not known.",
            action="Nothing to do where the operator was installed in another way.",
        )
        return
    meta, wanted = found["metadata"], found["spec"].get("replicas", 1)
    available = found.get("status", {}).get("availableReplicas", 0)
    where = f"{meta['namespace']}/{meta['name']}"
    told = f"{available} of {wanted} replicas of {where} are available, {operator.image(found)}"
    if available < 1:
        yield Line(
            id="operator",
            level="failure",
            message=f"The training operator is not running: {told}.",
            action=f"See why: kubectl -n {meta['namespace']} describe pods -l {operator.SELECTOR}.",
        )
        return
    version = operator.version(found)
    if version is not None and version != OPERATOR:
        yield Line(
            id="operator",
            level="warning",
            message=f"k8sbench is tested with training operator 1.9, this is another: {told}.",
            action=f"{INSTALL}.",
        )
        return
    yield Line(id="operator", level="ok", message=f"The training operator runs: {told}.")


def _rate(facts: Facts, asked: Asked) -> Iterator[Line]:  # noqa: ARG001
    if isinstance(facts.operator, Unknown) or facts.operator is None:
        return
    qps = operator.number(facts.operator, "kube-api-qps", operator.QPS)
    burst = operator.number(facts.operator, "kube-api-burst", operator.BURST)
    threads = operator.number(facts.operator, "controller-threads", operator.THREADS)
    told = f"--kube-api-qps={qps} --kube-api-burst={burst} --controller-threads={threads}"
    if qps > operator.QPS:
        yield Line(id="operator-rate", level="ok", message=f"The operator may ask often: {told}.")
        return
    rate = operator.JOBS_PER_SECOND * qps / operator.QPS
    yield Line(
        id="operator-rate",
        level="warning",
        message=f"The operator may ask the API server for little ({told}): it brings up about"
        f" {rate:.1f} jobs of 4 pods per second, and tells their states late.",
        action="For many jobs at once start it with --kube-api-qps=400 --kube-api-burst=800"
        " --controller-threads=8.",
    )


def _pod_security(facts: Facts, asked: Asked) -> Iterator[Line]:
    enforced = _enforced(facts)
    if enforced is None:
        return
    ours = security(asked.pool)
    reasons = f" ({', '.join(ours.reasons)})" if ours.reasons else ""
    what = "no Pod Security Standard" if enforced == LEVELS[0] else enforced
    told = f"The namespace {asked.namespace} enforces {what}, the pods keep to {ours.level}"
    if LEVELS.index(ours.level) < LEVELS.index(enforced):
        yield Line(
            id="pod-security",
            level="failure",
            message=f"{told}{reasons}: they will be refused.",
            action=f"Take that out of the pool {asked.pool.name}, or use a namespace that enforces"
            f" no more than {ours.level}.",
        )
    else:
        yield Line(id="pod-security", level="ok", message=f"{told}{reasons}.")


def _init_container(facts: Facts, asked: Asked) -> Iterator[Line]:
    enforced = _enforced(facts)
    if enforced is None or (asked.frameworks and "pytorch" not in asked.frameworks):
        return
    if enforced != "restricted":
        yield Line(
            id="operator-init-container",
            level="ok",
            message="The operator's init container is not refused here: restricted is not"
            " enforced.",
        )
        return
    action = (
        "Give the operator a template that passes: 'k8sbench doctor --init-template' prints it,"
        " docs/doctor.md says how."
    )
    if isinstance(facts.operator, Unknown) or facts.operator is None:
        why: str | None = "the operator's Deployment was not to be seen"
    elif isinstance(facts.init_template, Unknown):
        why = facts.init_template.why
    else:
        why = None
    if why is not None:
        yield Line(
            id="operator-init-container",
            level="warning",
            message=f"The namespace {asked.namespace} enforces restricted, which upstream's init"
            f" container for the workers of a PyTorchJob does not pass; which one this operator"
            f" has is not known ({why}).",
            action=action,
        )
        return
    assert not isinstance(facts.init_template, Unknown)
    problem = operator.unrestricted(facts.init_template)
    if problem is None:
        yield Line(
            id="operator-init-container",
            level="ok",
            message="The operator's init container passes the restricted profile.",
        )
        return
    yield Line(
        id="operator-init-container",
        level="failure",
        message=f"The namespace {asked.namespace} enforces restricted and will refuse the workers"
        f" that the operator makes of a PyTorchJob: {problem}.",
        action=action,
    )


def _quota(facts: Facts, asked: Asked) -> Iterator[Line]:
    if isinstance(facts.quotas, Unknown):
        yield _unseen("quota", f"the quotas of {asked.namespace}", facts.quotas)
        return
    if not facts.quotas:
        yield Line(id="quota", level="ok", message=f"No quota limits {asked.namespace}.")
        return
    pool = asked.pool
    gpus = asked.gpus
    shares = max(1, gpus) * asked.replicas
    needs = {f"requests.{pool.gpu_resource}": Decimal(gpus * asked.replicas)} if gpus else {}
    for kind in ("requests", "limits"):
        needs[f"{kind}.cpu"] = amount(pool.cpu_per_gpu) * shares
        needs[f"{kind}.memory"] = amount(pool.memory_per_gpu) * shares
    needs |= {"cpu": needs["requests.cpu"], "memory": needs["requests.memory"]}
    needs["pods"] = needs["count/pods"] = Decimal(asked.replicas)
    for kind in _kinds(asked):
        needs[f"count/{kind}.kubeflow.org"] = Decimal(1)
    short, told = [], []
    for quota in facts.quotas:
        status = quota.get("status", {})
        for resource, hard in status.get("hard", {}).items():
            if resource not in needs:
                continue
            used = status.get("used", {}).get(resource, "0")
            left = amount(hard) - amount(used)
            text = f"{resource}: {used} of {hard} used ({quota['metadata']['name']})"
            told.append(text)
            if left < needs[resource]:
                short.append(f"{text}, {_plain(needs[resource])} are needed")
    job = f"{asked.replicas} replicas of {gpus} GPUs" if gpus else f"{asked.replicas} replicas"
    if short:
        yield Line(
            id="quota",
            level="failure",
            message=f"The quota does not let {job} in: {'; '.join(short)}.",
            action="Wait until other jobs end, take fewer GPUs, or ask for more quota.",
        )
    else:
        seen = "; ".join(told) or "none of it counts what k8sbench asks for"
        yield Line(id="quota", level="ok", message=f"The quota has room for {job}: {seen}.")


def _nodes(facts: Facts, asked: Asked) -> Iterator[Line]:
    pool = asked.pool
    if isinstance(facts.nodes, Unknown):
        yield _unseen("nodes", f"the nodes of pool {pool.name} and their GPUs", facts.nodes)
        return
    labels = ", ".join(f"{key}={value}" for key, value in pool.selector.items()) or "any label"
    if not facts.nodes:
        yield Line(
            id="nodes",
            level="failure",
            message=f"No node is of pool {pool.name} ({labels}).",
            action="Choose another with --node-pool, or describe your nodes in a pools file"
            " (--pools); 'kubectl get nodes --show-labels' shows theirs.",
        )
        return
    away = [f"{_name(node)} ({why})" for node in facts.nodes if (why := _away(node, asked))]
    there = [node for node in facts.nodes if not _away(node, asked)]
    told = f"{len(there)} of {len(facts.nodes)} nodes of pool {pool.name} ({labels}) take pods"
    if not there:
        yield Line(
            id="nodes",
            level="failure",
            message=f"{told}: {', '.join(away)}.",
            action="Bring a node back ('kubectl describe node' says why it is away), or mend the"
            " pool's tolerations.",
        )
        return
    yield Line(
        id="nodes",
        level="warning" if away else "ok",
        message=f"{told}{': not ' if away else ''}{', '.join(away)}.",
        action="Bring them back, or do without." if away else None,
    )
    if pool.gpus_per_node:
        yield from _gpus(facts, asked, there)


def _gpus(facts: Facts, asked: Asked, nodes: Sequence[Thing]) -> Iterator[Line]:
    pool = asked.pool
    has = {_name(node): _allocatable(node, pool.gpu_resource) for node in nodes}
    without = sorted(name for name, count in has.items() if count == 0)
    if without:
        yield Line(
            id="device-plugin",
            level="failure" if len(without) == len(has) else "warning",
            message=f"{len(without)} of {len(has)} nodes of pool {pool.name} offer no"
            f" {pool.gpu_resource}: {_some(without)}.",
            action="See whether the device plugin runs there, and whether the driver is loaded.",
        )
    else:
        yield Line(
            id="device-plugin",
            level="ok",
            message=f"All {len(has)} nodes offer {pool.gpu_resource}.",
        )
    wants = _replica(asked)
    fits = [node for node in nodes if _fits(node, wants)]
    if len(fits) < asked.replicas:
        best = max(nodes, key=lambda node: _allocatable(node, pool.gpu_resource))
        offered = ", ".join(f"{_offered(best, resource)} of {resource}" for resource in wants)
        needed = (
            f"{asked.gpus} of {pool.gpu_resource}, {_plain(wants['cpu'])} of cpu,"
            f" {asked.gpus} × {pool.memory_per_gpu} of memory"
        )
        yield Line(
            id="node-size",
            level="failure",
            message=f"{len(fits)} nodes are large enough for a replica on pool {pool.name}"
            f" ({needed}), {asked.replicas} are needed; {_name(best)} offers {offered}.",
            action="Take fewer GPUs per replica (--gpus), or describe your nodes in a pools file.",
        )
    total = sum(has.values())
    if isinstance(facts.pods, Unknown):
        yield _unseen("gpus", f"k8sbench's pods in {asked.namespace}", facts.pods)
        return
    used = sum(
        _requested(pod, pool.gpu_resource)
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


def _metrics(facts: Facts, asked: Asked) -> Iterator[Line]:
    for identifier, name, labels, action in METRICS:
        if identifier == "gpu-metrics" and not asked.pool.gpus_per_node:
            continue
        if isinstance(facts.services, Unknown):
            yield _unseen(identifier, f"whether {name} is there", facts.services)
            continue
        found = [
            f"{each['metadata']['namespace']}/{_name(each)}"
            for each in facts.services
            if labels & set((each["metadata"].get("labels") or {}).items())
        ]
        if found:
            message = f"{name} found: {', '.join(found)}."
            yield Line(id=identifier, level="ok", message=message)
        else:
            message = f"No service of {name} was found by its labels."
            yield Line(id=identifier, level="warning", message=message, action=action)


def _claims(facts: Facts, asked: Asked) -> Iterator[Line]:
    for name, claim in facts.claims.items():
        yield _claim(name, claim, facts, asked)


def _claim(name: str, claim: Thing | Unknown | None, facts: Facts, asked: Asked) -> Line:
    if isinstance(claim, Unknown):
        return _unseen("data", f"the volume claim {name}", claim)
    if claim is None:
        return Line(
            id="data",
            level="failure",
            message=f"There is no volume claim {name} in {asked.namespace}.",
            action=f"'kubectl -n {asked.namespace} get pvc' lists those there are.",
        )
    phase = claim.get("status", {}).get("phase", "Pending")
    modes = set(claim["spec"].get("accessModes", ()))
    if phase == "Bound":
        if asked.replicas < 2 or modes & {"ReadOnlyMany", "ReadWriteMany"}:
            return Line(id="data", level="ok", message=f"The volume claim {name} is bound.")
        return Line(
            id="data",
            level="warning",
            message=f"The volume claim {name} is bound, but {', '.join(sorted(modes))}: one node"
            " alone may mount it.",
            action="Use a claim with ReadOnlyMany or ReadWriteMany.",
        )
    why, of_class = "", claim["spec"].get("storageClassName")
    if phase == "Pending" and of_class:
        found = facts.storage_classes.get(of_class)
        if found is None:
            why = f": there is no storage class {of_class}"
        elif isinstance(found, Mapping) and found.get("volumeBindingMode") == FIRST_CONSUMER:
            message = f"The volume claim {name} is bound when the first pod comes ({of_class})."
            return Line(id="data", level="ok", message=message)
    return Line(
        id="data",
        level="failure",
        message=f"The volume claim {name} is {phase}, not Bound{why}.",
        action=f"'kubectl -n {asked.namespace} describe pvc {name}' says why.",
    )


def _queueing(facts: Facts, asked: Asked) -> Iterator[Line]:
    groups = {} if isinstance(facts.groups, Unknown) else facts.groups
    there = [f"{name} ({group})" for group, name in QUEUEING.items() if group in groups]
    message = f"Installed: {', '.join(there)}." if there else "No Kueue, Volcano or coscheduling."
    yield Line(id="queueing", level="ok", message=message)
    if asked.queue is not None:
        yield from _queue(facts, asked, groups)
    if asked.gang:
        yield _gang(facts)


def _queue(facts: Facts, asked: Asked, groups: Mapping[str, Any]) -> Iterator[Line]:
    queue, name = facts.queue, asked.queue
    if "kueue.x-k8s.io" not in groups:
        yield Line(
            id="queue",
            level="failure",
            message="Kueue is not installed: a job with --queue is suspended, and nothing would"
            " ever start it.",
            action="Install Kueue, or leave --queue out.",
        )
    elif isinstance(queue, Unknown):
        yield _unseen("queue", f"the queue {name}", queue)
    elif queue is None:
        yield Line(
            id="queue",
            level="failure",
            message=f"There is no LocalQueue {name} in {asked.namespace}.",
            action="'kubectl get localqueues' lists those there are.",
        )
    else:
        conditions = queue.get("status", {}).get("conditions") or ()
        stopped = [
            each.get("message", "")
            for each in conditions
            if each["type"] == "Active" and each["status"] == "False"
        ]
        if stopped:
            yield Line(
                id="queue",
                level="failure",
                message=f"The queue {name} admits nothing: {stopped[0]}",
                action="Ask whoever keeps its ClusterQueue.",
            )
        else:
            yield Line(id="queue", level="ok", message=f"The queue {name} is there.")


def _gang(facts: Facts) -> Line:
    if isinstance(facts.operator, Unknown) or facts.operator is None:
        why = facts.operator.why if isinstance(facts.operator, Unknown) else "it was not found"
        return Line(
            id="gang",
            level="warning",
            message=f"Whether the operator makes gangs cannot be seen from its Deployment ({why}).",
            action="Nothing to do: where it makes none, submit sees that by the first pod and ends"
            " the job.",
        )
    refusal = operator.gang_refusal(facts.operator)
    if refusal is not None:
        return Line(
            id="gang", level="failure", message=refusal, action=CAUSES["gang-ignored"].action
        )
    scheduler = operator.gang_scheduler(facts.operator)
    message = f"The operator makes a pod group of every job, for the scheduler {scheduler}."
    return Line(id="gang", level="ok", message=message)


def _kernels(facts: Facts, asked: Asked, images: ImageTable) -> Iterator[Line]:
    nodes = facts.nodes if isinstance(facts.nodes, Sequence) else ()
    # What the nodes say of themselves goes before what the pools file says of them.
    models = {(n["metadata"].get("labels") or {}).get("nvidia.com/gpu.product") for n in nodes}
    known = sorted(filter(None, models)) or [asked.pool.gpu_model]
    if known == [None]:
        return
    tried = [asked.image] if asked.image else [i.name for i in _public(images, asked)]
    warnings = list(
        dict.fromkeys(
            warning
            for model in known
            for image in tried
            if (warning := image_warning(images, gpu_model=model, image=image)) is not None
        )
    )
    for warning in warnings:
        yield Line(id="kernels", level="warning", message=warning)
    if warnings:
        return
    unknown = [image for image in tried if images.content(image) is None]
    unknown += [model for model in known if model and images.capability(model) is None]
    if unknown:
        message = f"Whether {', '.join(tried)} has kernels for {', '.join(map(str, known))} is not"
        yield Line(id="kernels", level="ok", message=f"{message} known.")
        return
    verb = "has" if len(tried) == 1 else "have"
    message = f"{' and '.join(tried)} {verb} kernels for {', '.join(map(str, known))}."
    yield Line(id="kernels", level="ok", message=message)


CHECKS: tuple[Callable[[Facts, Asked], Iterator[Line]], ...] = (
    _api_server,
    _namespace,
    _permissions,
    _job_kinds,
    _webhook,
    _admission,
    _deployment,
    _rate,
    _pod_security,
    _init_container,
    _quota,
    _nodes,
    _metrics,
    _claims,
    _queueing,
)
"""The checks, in the order in which one mends things."""


def _unseen(identifier: str, what: str, unknown: Unknown) -> Line:
    return Line(
        id=identifier,
        level="warning",
        message=f"Not looked at: {what} ({unknown.why}).",
        action="Ask somebody who may look, or go on without.",
    )


def _enforced(facts: Facts) -> str | None:
    """The Pod Security Standard that the namespace enforces; None where that is not known."""
    if facts.namespace is None or isinstance(facts.namespace, Unknown):
        return None
    labels = facts.namespace["metadata"].get("labels") or {}
    level = labels.get(ENFORCE, "privileged")
    return level if level in LEVELS else "restricted"  # as the API server does


def _plural(framework: Framework) -> str:
    return KINDS[framework].kind.lower() + "s"


def _kinds(asked: Asked) -> list[str]:
    return [_plural(framework) for framework in asked.frameworks or KINDS]


def _public(images: ImageTable, asked: Asked) -> list[Any]:
    return [images.image(framework, "public") for framework in asked.frameworks or KINDS]


def _said(refusal: Refusal) -> str:
    return refusal.message.strip().rstrip(".")


def _is_forbidden(refusal: Refusal) -> bool:
    # Quotas and admission plug-ins answer 403 as well, in words of their own.
    return refusal.status == 403 and "cannot create resource" in refusal.message


def _name(thing: Thing) -> str:
    return str(thing["metadata"]["name"])


def _some(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _away(node: Thing, asked: Asked) -> str | None:
    """Why a node takes no pods of the pool; None: it does."""
    conditions = node.get("status", {}).get("conditions") or ()
    if not any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
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


def _fits(node: Thing, wants: Mapping[str, Decimal]) -> bool:
    return all(_allocatable(node, resource) >= want for resource, want in wants.items())


def _offered(node: Thing, resource: str) -> str:
    return str(node.get("status", {}).get("allocatable", {}).get(resource, "0"))


def _allocatable(node: Thing, resource: str) -> Decimal:
    return amount(_offered(node, resource))


def _requested(pod: Thing, resource: str) -> Decimal:
    return sum(
        (
            amount(str(container.get("resources", {}).get("limits", {}).get(resource, "0")))
            for container in pod["spec"]["containers"]
        ),
        Decimal(0),
    )


def _plain(number: Decimal | int) -> str:
    """A number of things, or a quantity in its plain unit, without an exponent."""
    return f"{number:f}".rstrip("0").rstrip(".") if "." in f"{number:f}" else f"{number:f}"
