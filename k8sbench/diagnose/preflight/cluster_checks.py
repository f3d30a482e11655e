"""Checks of what a run works with: API server, permissions, queues, GPU metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from k8sbench.diagnose.preflight.facts import (
    LEVELS,
    DoctorRequest,
    PreflightFacts,
    Unknown,
    fail,
    known,
    ok,
    warn,
)
from k8sbench.model.finding import Finding
from k8sbench.model.gpu_metrics import METRICS
from k8sbench.model.kube import conditions
from k8sbench.model.operators import OPERATORS
from k8sbench.render.pod import security


def api_server(facts: PreflightFacts) -> Iterator[Finding]:
    """It answers."""
    yield ok(f"Kubernetes {known(facts.version)} answers at {facts.server} ({facts.why}).")
    if not facts.is_verified:
        yield warn(
            f"The certificate of {facts.server} is not checked (insecure-skip-tls-verify): whoever"
            " is on the way to it can read the credentials.",
            "Give the kubeconfig its certificate-authority instead.",
        )


def namespace(facts: PreflightFacts) -> Iterator[Finding]:
    """It exists."""
    name, namespace = facts.request.namespace, known(facts.namespace)
    if namespace is None:
        yield fail(
            f"There is no namespace {name}.",
            f"Create it (kubectl create namespace {name}), or name another with -n.",
        )
    elif namespace.get("status", {}).get("phase") == "Terminating":
        yield fail(f"The namespace {name} is being deleted.", "Name another with -n.")
    else:
        yield ok(f"The namespace {name} is there.")


def permissions(facts: PreflightFacts) -> Iterator[Finding]:
    """The user has every permission of the rules file."""
    access, meant = known(facts.access), [operator.group for operator in facts.operators]
    others = {operator.group for operator in OPERATORS.values()}.difference(meant)
    missing: dict[tuple[str, bool, bool], list[str]] = defaultdict(list)
    for permission, is_allowed in access.items():
        if not is_allowed and permission.group not in others:
            # Of several operators the jobs of the first alone are needed.
            needed = permission.needed and permission.group not in meant[1:]
            key = permission.what, permission.namespaced, needed
            missing[key].append(permission.verb)
    for (what, namespaced, needed), verbs in missing.items():
        where = f"in the namespace {facts.request.namespace}" if namespaced else "of the cluster"
        sentence = f"You may not {', '.join(verbs)} {what} {where}."
        role = "Role" if namespaced else "ClusterRole"
        bind = f"Have an administrator bind you to the {role} in {facts.role_file}"
        if needed:
            yield fail(sentence, f"{bind}.")
        else:
            yield warn(sentence, f"{bind}; without it some checks and diagnoses are left out.")
    if not missing:
        yield ok(f"You have all {len(access)} permissions it takes.")


def pod_security(facts: PreflightFacts) -> Iterator[Finding]:
    """The namespace lets the pool's pods in."""
    enforced, pool = facts.enforced_level, facts.request.pool
    if enforced is None:
        return
    pods = security(pool)
    reasons = f" ({', '.join(pods.reasons)})" if pods.reasons else ""
    what = "no Pod Security Standard" if enforced == LEVELS[0] else enforced
    name = facts.request.namespace
    levels = f"The namespace {name} enforces {what}, the pods keep to {pods.level}{reasons}"
    if LEVELS.index(pods.level) >= LEVELS.index(enforced):
        yield ok(f"{levels}.")
    else:
        yield fail(
            f"{levels}: they will be refused.",
            f"Take that out of pool {pool.name}, or use a namespace of {pods.level} pods.",
        )


def queue(facts: PreflightFacts) -> Iterator[Finding]:
    """The queue that is asked for admits jobs."""
    name, namespace = facts.request.queue, facts.request.namespace
    if name is None:
        return
    if isinstance(facts.groups, Unknown) or "kueue.x-k8s.io" not in facts.groups:
        yield fail(
            "Kueue is not installed: nothing would ever start a job with --queue.",
            "Install Kueue, or leave --queue out.",
        )
    elif (local_queue := known(facts.queue)) is None:
        yield fail(
            f"There is no LocalQueue {name} in {namespace}.",
            "'kubectl get localqueues' lists those there are.",
        )
    elif (active := conditions(local_queue).get("Active", {})).get("status") == "False":
        yield fail(
            f"The queue {name} admits nothing: {active.get('message', '')}",
            "Ask the administrator of its ClusterQueue.",
        )
    else:
        yield ok(f"The queue {name} is there.")


def queue_nodes(facts: PreflightFacts) -> Iterator[Finding]:
    """The queue that is asked for has quota for nodes of the pool; silent where it has."""
    yield from nodes_of_queue(facts.request, known(facts.flavors))


def nodes_of_queue(
    request: DoctorRequest, flavors: Mapping[str, Mapping[str, str]]
) -> Iterator[Finding]:
    """Compare flavors with a pool as Kueue does, which looks at no label that none of them has."""
    keys = {key for labels in flavors.values() for key in labels}
    wanted = {key: value for key, value in request.pool.selector.items() if key in keys}
    if flavors and not any(wanted.items() <= labels.items() for labels in flavors.values()):
        theirs = "; ".join(f"{name} {_listed(labels)}" for name, labels in flavors.items())
        yield fail(
            f"Queue {request.queue} has no quota for nodes of pool {request.pool.name}: the pool's"
            f" have {_listed(wanted)}, those of the queue's flavors {theirs}.",
            "Give a --queue and a --node-pool that fit.",
        )


def _listed(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels.items()) or "no such label"


def gpu_metrics(facts: PreflightFacts) -> Iterator[Finding]:
    """A source of GPU metrics has the fields that judgements rest on.

    The figures are an addition: the check never fails.
    """
    if not facts.request.pool.gpus_per_node:
        return
    source = facts.prometheus
    if source is None or not source.fields:
        why = "no Prometheus was asked"
        if source is not None:
            why = source.fault or f"{source.name} has no field of DCGM"
        yield warn(
            f"Only k8sbench's own trainers give GPU metrics: {why}.",
            "Name a Prometheus that scrapes dcgm-exporter: --prometheus URL (docs/gpu-metrics.md).",
        )
        return
    missing = [
        metric
        for metric in METRICS
        if metric.dcgm and not any(field.name in source.fields for field in metric.dcgm)
    ]
    lacks = f" but {', '.join(metric.dcgm[0].name for metric in missing)}" if missing else ""
    sentence = f"{source.name} has every field that k8sbench reads{lacks}."
    if any(metric.is_wanted for metric in missing):
        yield warn(
            sentence,
            "Have an administrator add them to the exporter's counters (docs/gpu-metrics.md). PROF"
            " fields need a GPU that has them.",
        )
    else:
        yield ok(sentence)
