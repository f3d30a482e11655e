"""The checks of the preflight: one table from facts to findings.

A check yields subjects, one for each thing that it looks at. The first of its rows whose condition
holds for a subject is the finding; where none holds there is nothing to say. Sentences and actions
name attributes of the subject and ``f`` (the facts).

``fail`` means that no run can succeed as it is asked for, or that the cluster does not tell what it
tells every user; ``warn`` is for what may spoil or slow a run, and for what could not be looked at.
A new check is an entry of :data:`CHECKS` with its function.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from types import SimpleNamespace as Subject
from typing import Any, NamedTuple

import msgspec

from k8sbench import __version__
from k8sbench.diagnose.preflight import nodes
from k8sbench.diagnose.preflight.facts import (
    LEVELS,
    ClusterFacts,
    ObserverFacts,
    Permission,
    PreflightFacts,
    Unknown,
    known,
)
from k8sbench.model import benchmark_object, times
from k8sbench.model.errors import Finding, Severity, few
from k8sbench.model.gpu_metrics import METRICS
from k8sbench.model.kinds import KINDS
from k8sbench.model.kube import KubeObject, ServingOperator, conditions, name_of
from k8sbench.model.operators import OPERATORS, TRAINING_OPERATOR, Operator
from k8sbench.model.plain_text import counted
from k8sbench.model.pool import OTHER_VENDOR, amount, gpu_remark, plain
from k8sbench.model.training import claims
from k8sbench.render.pod import security

KUEUE = "kueue.x-k8s.io"
"""API group."""
LEASES = "coordination.k8s.io"
"""API group."""
MOST_NAMES = 5
"""Nodes that a sentence names."""
TEMPLATE_FILE = "/etc/config/initContainer.yaml"
"""Default path of the init container's template in training operator v1.9."""


class CheckRow(NamedTuple):
    """A finding, where its condition holds for a subject."""

    severity: Severity
    when: Callable[[Any], object]
    sentence: str
    action: str | None = None


class Check(NamedTuple):
    """One check."""

    id: str
    """Stable: the id of its findings."""
    subjects: Callable[[Any], Iterator[Subject]]
    looks_at: str
    """Subject to name if a fact is unknown; empty: another check reports it."""
    rows: tuple[CheckRow, ...]

    def findings(self, facts: ClusterFacts) -> Iterator[Finding]:
        """Yield what the check finds."""
        try:
            for subject in self.subjects(facts):
                for row in self.rows:
                    if row.when(subject):
                        yield self._finding(row, facts, vars(subject))
                        break
        except Unknown as unknown:
            if self.looks_at:
                names = {"what": _filled(self.looks_at, facts, {}), "unseen": unknown.why}
                yield self._finding(UNKNOWN if self.id in ESSENTIAL else UNSEEN, facts, names)

    def _finding(self, row: CheckRow, facts: ClusterFacts, names: Mapping[str, Any]) -> Finding:
        action = None if row.action is None else _filled(row.action, facts, names)
        sentence = _filled(row.sentence, facts, names)
        return Finding(id=self.id, severity=row.severity, sentence=sentence, action=action)


def _filled(text: str, facts: ClusterFacts, names: Mapping[str, Any]) -> str:
    return text.format(f=facts, **names)


def findings(facts: ClusterFacts, *ids: str) -> tuple[Finding, ...]:
    """Return the findings of the named checks, by default of all for the facts, in order."""
    checks = OBSERVER_CHECKS if isinstance(facts, ObserverFacts) else CHECKS
    chosen = [check for check in checks if check.id in ids or not ids]
    return tuple(finding for check in chosen for finding in check.findings(facts))


def unreachable(message: str, action: str) -> Finding:
    """Return the one finding of a cluster that does not answer."""
    return Finding(id="api-server", severity="fail", sentence=message, action=action or None)


# -- what the checks look at ---------------------------------------------------------------------


def _api_server(facts: ClusterFacts) -> Iterator[Subject]:
    yield Subject(version=known(facts.version))


def _namespace(facts: PreflightFacts) -> Iterator[Subject]:
    yield Subject(found=known(facts.namespace))


def _permissions(facts: PreflightFacts) -> Iterator[Subject]:
    others = {operator.group for operator in OPERATORS.values()} - {facts.operator.group}
    if not _has_kueue(facts):
        others.add(KUEUE)
    is_operated = isinstance(facts.serving, ServingOperator)
    if not is_operated:
        others.add(benchmark_object.GROUP)
    missing: dict[tuple[str, bool, bool], list[str]] = defaultdict(list)
    for one, is_allowed in known(facts.access).items():
        if not is_allowed and one.group not in others:
            missing[one.what, one.namespaced, one.needed].append(one.verb)
    for (what, namespaced, needed), verbs in missing.items():
        where = f"in the namespace {facts.home}" if namespaced else "of the cluster"
        role = "Role" if namespaced else "ClusterRole"
        grant = f"bind you to the {role} in {facts.role_file}"
        if namespaced and is_operated:  # the Role also lets them create jobs
            grant = "list you in users.subjects of the operator's chart"
        yield Subject(
            missing=f"{', '.join(verbs)} {what} {where}",
            needed=needed,
            role=role,
            grant=grant,
        )
    if not missing:
        yield Subject(missing=None)


def _observing(facts: ObserverFacts) -> Iterator[Subject]:
    """Yield each resource that observing reads, but none of groups that are not served."""
    groups = {"", *known(facts.groups)}
    rights: dict[Permission, dict[str, bool]] = defaultdict(dict)
    for one, is_allowed in known(facts.rights).items():
        if one.group in groups:
            rights[msgspec.structs.replace(one, verb="")][one.verb] = is_allowed
    for of, verbs in rights.items():
        missing = [verb for verb, is_allowed in verbs.items() if not is_allowed]
        where = f"in the namespace {facts.home}" if of.namespaced else "of the cluster"
        yield Subject(
            may=f"{', '.join(verbs)} {of.what} {where}",
            may_not=f"{', '.join(missing)} {of.what} {where}" if missing else None,
            is_needed=of.namespaced and of.group not in {KUEUE, LEASES},
            role="Role" if of.namespaced else "ClusterRole",
        )


def _serving(facts: PreflightFacts) -> Iterator[Subject]:
    if (found := known(facts.serving)) is None:
        yield Subject(found=None)
        return
    yield Subject(
        found=found,
        schema=known(facts.crd_schema),
        needed=benchmark_object.SCHEMA,
        age=times.duration(found.age_s),
        home=found.place.partition("/")[0],
        ours=__version__,
    )


def _job_kinds(facts: PreflightFacts) -> Iterator[Subject]:
    groups = known(facts.groups)
    served = known(facts.kinds)
    for program in (facts.operator, *facts.operator.needs):
        if program.group not in groups:
            yield Subject(lacks=program)
    some = any(KINDS[name].plural in served for name in facts.asked)
    for name in facts.asked if facts.operator.group in groups else ():
        is_served = KINDS[name].plural in served
        yield Subject(lacks=None, kind=KINDS[name], is_served=is_served, is_other_served=some)


def _admission(facts: PreflightFacts) -> Iterator[Subject]:
    for kind, refusal in facts.refusals.items():
        message = (refusal or "").strip().rstrip(".")
        # Else permissions or namespace reports it. Quotas and admission plug-ins answer 403 as
        # well, in words of their own.
        is_news = facts.namespace is not None and "cannot create resource" not in message
        yield Subject(kind=kind, message=message, is_news=is_news)


def _operator(facts: PreflightFacts) -> Iterator[Subject]:
    for program in (facts.operator, *facts.operator.needs):
        if (found := known(facts.deployments.get(program.name))) is not None:
            meta = found["metadata"]
            replicas = found["spec"].get("replicas", 1)
            available = found.get("status", {}).get("availableReplicas", 0)
            where = f"{meta['namespace']}/{meta['name']}"
            image = _container(found, program).get("image", "unknown")
            yield Subject(
                program=program,
                is_down=available < 1,
                is_tested=version(found, program) in (None, program.version),
                status=f"{available} of {replicas} replicas of {where} are available, {image}",
            )


def _pod_security(facts: PreflightFacts) -> Iterator[Subject]:
    if (level := facts.enforced_level) is not None:
        pods = security(facts.plan.pool)
        yield Subject(
            is_refused=LEVELS.index(pods.level) < LEVELS.index(level),
            enforced=level,
            level=pods.level,
            reasons=f" ({', '.join(pods.reasons)})" if pods.reasons else "",
        )


def _init_container(facts: PreflightFacts) -> Iterator[Subject]:
    with_one = [name for name in facts.asked if KINDS[name].init_container]
    if facts.enforced_level != "restricted" or not with_one:
        return
    if (found := known(facts.deployments.get(facts.operator.name))) is not None:
        yield Subject(kind=with_one[0], has_own=has_init_template(found))


def _quota(facts: PreflightFacts) -> Iterator[Subject]:
    replicas, gpus = facts.plan.replicas, facts.plan.gpus_per_replica
    needs = {"pods": amount(str(replicas))}
    for name, need in nodes.replica(facts.plan).items():
        needs |= dict.fromkeys((name, f"requests.{name}", f"limits.{name}"), need * replicas)
    short = []
    seen = []
    for quota in known(facts.quotas):
        used = quota.get("status", {}).get("used", {})
        for key, hard in quota.get("status", {}).get("hard", {}).items():
            if (asked := needs.get(key.removeprefix("count/"))) is not None:
                seen.append(f"{key}: {used.get(key, '0')} of {hard} used ({name_of(quota)})")
                if amount(hard) - amount(used.get(key, "0")) < asked:
                    short.append(f"{seen[-1]}, {plain(asked)} are needed")
    job = counted(replicas, "replica") + (f" of {counted(gpus, 'GPU')}" if gpus else "")
    yield Subject(job=job, short="; ".join(short), seen=f": {'; '.join(seen)}" if seen else "")


def _nodes(facts: PreflightFacts) -> Iterator[Subject]:
    if _is_denied(facts, "nodes"):
        return
    plan = facts.plan
    of_pool = known(facts.nodes)
    refusals = {name_of(node): nodes.refusal(node, plan) for node in of_pool}
    away = [f"{name} ({why})" for name, why in refusals.items() if why is not None]
    more = ", …" if len(away) > MOST_NAMES else ""
    yield Subject(
        count=len(of_pool),
        labels=_listed(plan.pool.selector, "any label"),
        room=(room := nodes.room(of_pool, plan)),
        has_room=room >= plan.replicas,
        fit=len(of_pool) - len(away),
        away=f": not {', '.join(away[:MOST_NAMES])}{more}" if away else "",
    )


def _gpu_resource(facts: PreflightFacts) -> Iterator[Subject]:
    plan, pool = facts.plan, facts.plan.pool
    of_nodes = () if isinstance(facts.nodes, Unknown) else facts.nodes
    remarks = {name_of(node): nodes.remark(node, pool.gpu_resource) for node in of_nodes}
    by_node = [name for name, remark in remarks.items() if remark is not None]
    of_pool = gpu_remark(pool.gpu_resource, pool.selector)
    if plan.gpus_per_replica and (remark := of_pool or next(filter(None, remarks.values()), None)):
        where = "" if of_pool else f" on {few(by_node)}"
        lacks_image = remark == OTHER_VENDOR and plan.image_reason != "--image"
        yield Subject(remark=remark, where=where, lacks_image=lacks_image)


def _gpu_metrics(facts: PreflightFacts) -> Iterator[Subject]:
    source = facts.prometheus
    missing = []
    fault = "no Prometheus was asked"
    if source is not None:
        names = {*source.fields}
        fault = source.fault or f"{source.name} has no field of DCGM"
        missing = [m for m in METRICS if m.dcgm and not names & {field.name for field in m.dcgm}]
    if facts.plan.pool.gpus_per_node:
        yield Subject(
            source=source,
            fault=fault,
            lacks=f" but {', '.join(metric.dcgm[0].name for metric in missing)}" if missing else "",
            is_wanted=any(metric.is_wanted for metric in missing),
        )


def _claims(facts: PreflightFacts) -> Iterator[Subject]:
    several = facts.plan.replicas > 1
    written = claims(facts.plan)
    for name, found in facts.claims.items():
        claim = {} if found is None or isinstance(found, Unknown) else found
        status = claim.get("status", {})
        modes = set(status.get("accessModes") or claim.get("spec", {}).get("accessModes", ()))
        needed = {"ReadWriteMany"} if written.get(name) else {"ReadOnlyMany", "ReadWriteMany"}
        yield Subject(
            name=name,
            found=found,
            unseen=getattr(found, "why", ""),
            modes=", ".join(sorted(modes)),
            is_read_only=written.get(name) and not modes - {"ReadOnlyMany"},
            is_for_one=several and not modes & needed,
            phase=status.get("phase", "Pending"),
            fitting=" or ".join(sorted(needed)) if several else "ReadWriteOnce",
        )


def _queue(facts: PreflightFacts) -> Iterator[Subject]:
    if facts.plan.queue is not None:
        has_kueue = _has_kueue(facts)
        found = known(facts.queue) if has_kueue else None
        active = {} if found is None else conditions(found).get("Active", {})
        yield Subject(has_kueue=has_kueue, found=found, active=active)


def _has_kueue(facts: ClusterFacts) -> bool:
    return not isinstance(facts.groups, Unknown) and KUEUE in facts.groups


def _queue_nodes(facts: PreflightFacts) -> Iterator[Subject]:
    """Compare flavors with a pool as Kueue does.

    Labels that no flavor has are ignored.
    """
    if _is_denied(facts, "clusterqueues") or _is_denied(facts, "resourceflavors"):
        return
    flavors = known(facts.flavors)
    pool = facts.plan.pool
    keys = {key for labels in flavors.values() for key in labels}
    wanted = {key: value for key, value in pool.selector.items() if key in keys}
    if flavors and not any(wanted.items() <= labels.items() for labels in flavors.values()):
        theirs = "; ".join(f"{name} {_listed(labels)}" for name, labels in flavors.items())
        yield Subject(wanted=_listed(wanted), theirs=theirs)


def _is_denied(facts: PreflightFacts, resource: str) -> bool:
    """Return whether a permission is missing, which the check ``permissions`` reports."""
    access = {} if isinstance(facts.access, Unknown) else facts.access
    return any(one.resource == resource and not allowed for one, allowed in access.items())


def _listed(labels: Mapping[str, str], none: str = "no such label") -> str:
    return ", ".join(f"{key}={value}" for key, value in labels.items()) or none


# -- the operator's Deployment -------------------------------------------------------------------
#
# Its flags are those of the training operator v1.9 (cmd/training-operator.v1/main.go).


def flags(deployment: KubeObject) -> dict[str, str]:
    """Return flags of the operator's process, without dashes; one without a value is ``true``."""
    container = _container(deployment)
    words = [*container.get("command", ()), *container.get("args", ()), "-"]
    values: dict[str, str] = {}
    for word, following in pairwise(words):
        if re.match(r"--?[a-z]", word):
            name, has_value, value = word.lstrip("-").partition("=")
            is_switch = following.startswith("-")
            values[name] = value if has_value else "true" if is_switch else following
    return values


def version(deployment: KubeObject, program: Operator) -> tuple[int, int] | None:
    """Return the version by the image's tag; None without one.

    Upstream's tags name a commit.
    """
    image = str(_container(deployment, program).get("image", ""))
    tag = re.search(r":v?(\d+)\.(\d+)", image)
    return (int(tag[1]), int(tag[2])) if tag else None


def has_init_template(deployment: KubeObject) -> bool:
    """Return whether the template of the operator's init container comes from a ConfigMap.

    Where there is no such file, the operator takes its own, which has no security context.
    """
    file = flags(deployment).get("pytorch-init-container-template-file", TEMPLATE_FILE)
    volumes = deployment["spec"]["template"]["spec"].get("volumes", ())
    config_maps = {volume["name"] for volume in volumes if "configMap" in volume}
    return any(
        mount["name"] in config_maps
        and mount["mountPath"].rstrip("/") in (file, file.rpartition("/")[0])
        for mount in _container(deployment).get("volumeMounts", ())
    )


def _container(deployment: KubeObject, program: Operator = TRAINING_OPERATOR) -> KubeObject:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    named = (container for container in containers if container["name"] == program.container)
    operator: KubeObject = next(named, containers[0])
    return operator


# -- the table -----------------------------------------------------------------------------------


def always(_: object) -> bool:
    """Return True: the condition of a last row."""
    return True


ESSENTIAL = {"api-server", "permissions", "observing", "job-kinds"}
"""Checks whose facts every user may read; without them nothing is known."""
# A row is a condition, below it the sentence, below that the action.
# fmt: off
UNKNOWN = CheckRow("fail", always,
    "Not known: {what} ({unseen}).",
    "Every user may read this: check server and credentials of the kubeconfig, and proxies.")
UNSEEN = CheckRow("warn", always,
    "Not looked at: {what} ({unseen}).",
    "Ask somebody with this permission, or continue without it.")
CHECKS = (
    Check("api-server", _api_server, "the version of Kubernetes", (
        CheckRow("ok", always, "Kubernetes {version} answers at {f.server} ({f.why})."),
    )),
    Check("namespace", _namespace, "the namespace {f.home}", (
        CheckRow("fail", lambda s: s.found is None,
            "There is no namespace {f.home}.",
            "Create it (kubectl create namespace {f.home}), or name another with -n."),
        CheckRow("fail", lambda s: s.found.get("status", {}).get("phase") == "Terminating",
            "The namespace {f.home} is being deleted.",
            "Name another with -n."),
        CheckRow("ok", always, "The namespace {f.home} is there."),
    )),
    Check("permissions", _permissions, "your permissions", (
        CheckRow("ok", lambda s: s.missing is None, "You have all permissions that it takes."),
        CheckRow("fail", lambda s: s.needed,
            "You may not {missing}.",
            "Have an administrator {grant}."),
        CheckRow("warn", lambda s: s.role == "Role",
            "You may not {missing}.",
            "Have an administrator {grant}; without it some checks and diagnoses are left out."),
        CheckRow("warn", always,
            "You may not {missing}.",
            "Have an administrator set listNodes=true in the chart, or bind you to the ClusterRoles"
            " in {f.role_file}; without them some checks and diagnoses are left out."),
    )),
    Check("k8sbench-operator", _serving, "the operator of k8sbench and its CRD", (
        CheckRow("ok", lambda s: s.found is None,
            "No operator of k8sbench serves {f.home}: who submits collects the runs."),
        CheckRow("fail", lambda s: s.schema is None,
            "The CRD of Benchmark objects is not installed; without it operator {found.place}"
            " serves nobody.",
            "Have an administrator run: k8sbench operator crd | kubectl apply --server-side -f -"),
        CheckRow("fail", lambda s: s.schema < s.needed,
            "The CRD of Benchmark objects has schema {schema}; k8sbench {ours} needs {needed}.",
            "Have an administrator run: k8sbench operator crd | kubectl apply --server-side -f -"),
        CheckRow("fail", lambda s: not s.found.is_alive,
            "Operator {found.place} has given no sign of life for {age}; what is submitted waits"
            " for it.",
            "See why: kubectl -n {home} get pods -l app.kubernetes.io/component=operator."),
        CheckRow("warn", lambda s: s.found.version != s.ours,
            "Operator {found.place} is k8sbench {found.version}, and this is {ours}.",
            "Install the same version here, or have the operator upgraded."),
        CheckRow("ok", always,
            "Operator {found.place} (k8sbench {found.version}) serves {f.home}."),
    )),
    Check("job-kinds", _job_kinds, "the kinds of object that are served", (
        CheckRow("fail", lambda s: s.lacks,
            "{lacks.title} is not installed; without it there are no pods.",
            "Install {lacks.install}."),
        CheckRow("ok", lambda s: s.is_served, "{kind.name} is served as {kind.api_version}."),
        CheckRow("warn", lambda s: s.is_other_served,
            "{kind.name} is not served by {kind.api_version}.",
            "Install {f.operator.install}, without --enable-scheme or with that kind."),
        CheckRow("fail", always,
            "{kind.name} is not served by {kind.api_version}.",
            "Install {f.operator.install}, without --enable-scheme or with that kind."),
    )),
    Check("job-admission", _admission, "", (
        CheckRow("ok", lambda s: not s.message, "A {kind} of k8sbench is accepted."),
        CheckRow("fail", lambda s: "failed calling webhook" in s.message,
            "The operator does not answer; without it no {kind} can be created: {message}.",
            "Start it; 'kubectl get deployments -A -l {f.operator.selector}' finds it."),
        CheckRow("fail", lambda s: s.is_news,
            "A {kind} of k8sbench is refused: {message}.",
            "Change what refuses it, or use another namespace (-n)."),
    )),
    # Users may not read other namespaces; job-admission says whether the operator answers.
    Check("operator", _operator, "", (
        CheckRow("fail", lambda s: s.is_down,
            "{program.title} is not running: {status}.",
            "See why: kubectl -n {program.place[0]} describe pods -l {program.selector}."),
        CheckRow("warn", lambda s: not s.is_tested,
            "k8sbench is tested with {program.tested} of {program.name}, not with this: {status}.",
            "Install {program.install}."),
        CheckRow("ok", always, "{program.title} runs: {status}."),
    )),
    Check("pod-security", _pod_security, "", (
        CheckRow("fail", lambda s: s.is_refused,
            "The namespace {f.home} enforces {enforced}, and will refuse {level} pods{reasons}.",
            "Take that out of pool {f.plan.pool.name}, or use a namespace of {level} pods."),
        CheckRow("ok", always,
            "The namespace {f.home} enforces {enforced}, the pods keep to {level}."),
    )),
    Check("operator-init-container", _init_container, "the operator's init container", (
        CheckRow("ok", lambda s: s.has_own, "The operator has a template for its init container."),
        CheckRow("fail", always,
            "The namespace {f.home} enforces restricted, which upstream's init container of the"
            " workers of a {kind} does not pass: they will be refused.",
            "Give the operator the template of 'k8sbench doctor --init-template'"
            " (docs/first-hour.md#the-init-container)."),
    )),
    Check("quota", _quota, "the quotas of {f.home}", (
        CheckRow("fail", lambda s: s.short,
            "The quota does not let {job} in: {short}.",
            "Wait until other jobs end, take fewer GPUs, or ask for more quota."),
        CheckRow("ok", always, "The quotas of {f.home} have room for {job}{seen}."),
    )),
    Check("nodes", _nodes, "the nodes of pool {f.plan.pool.name} and their GPUs", (
        CheckRow("fail", lambda s: not s.count,
            "No node belongs to pool {f.plan.pool.name} ({labels}).",
            "Choose another --node-pool, or write a pools file (--pools, or nodePools in the chart)"
            " for the labels of your nodes ('kubectl get nodes --show-labels')."),
        CheckRow("fail", lambda s: not s.has_room,
            "Pool {f.plan.pool.name} ({labels}) has room for {room} of {f.plan.replicas}"
            " replicas{away}.",
            "See 'kubectl describe node'; where GPUs are missing, see whether the device plugin"
            " runs. Or take fewer --gpus or --replicas, or describe your nodes in a pools file."),
        CheckRow("warn", lambda s: s.away,
            "{fit} of {count} nodes of pool {f.plan.pool.name} ({labels}) take a replica{away}.",
            "Bring them back, or do without."),
        CheckRow("ok", always,
            "{fit} of {count} nodes of pool {f.plan.pool.name} ({labels}) take a replica."),
    )),
    Check("gpu-resource", _gpu_resource, "", (
        CheckRow("fail", lambda s: s.lacks_image,
            "Pool {f.plan.pool.name} asks for {f.plan.pool.gpu_resource}, and the image"
            " {f.plan.image} is for CUDA.",
            "Give an image for these GPUs with --image, or choose another --node-pool."),
        CheckRow("warn", always,
            "Pool {f.plan.pool.name} asks for {f.plan.pool.gpu_resource}{where}: {remark}.",
            "Choose a pool of whole NVIDIA GPUs with --node-pool for comparable figures."),
    )),
    Check("gpu-metrics", _gpu_metrics, "", (
        CheckRow("warn", lambda s: not s.source or not s.source.fields,
            "Only k8sbench's own trainers give GPU metrics: {fault}.",
            "Name a Prometheus that scrapes dcgm-exporter: --prometheus URL, or for all users"
            " prometheus.url in the chart (docs/gpu-metrics.md)."),
        CheckRow("warn", lambda s: s.is_wanted,
            "{source.name} has every field that k8sbench reads{lacks}.",
            "Have an administrator add them to the exporter's counters (docs/gpu-metrics.md). PROF"
            " fields need a GPU that has them."),
        CheckRow("ok", always, "{source.name} has every field that k8sbench reads{lacks}."),
    )),
    Check("data", _claims, "", (
        CheckRow("warn", lambda s: s.unseen,
            "Not looked at: the volume claim {name} ({unseen}).",
            UNSEEN.action),
        CheckRow("fail", lambda s: s.found is None,
            "There is no volume claim {name} in {f.home}.",
            "'kubectl -n {f.home} get pvc' lists those there are."),
        CheckRow("fail", lambda s: s.is_read_only,
            "The volume claim {name} is {modes}: checkpoints cannot be written to it.",
            "Name a claim with {fitting}."),
        CheckRow("fail", lambda s: s.is_for_one,
            "The volume claim {name} is {modes}: {f.plan.replicas} replicas on nodes of their own"
            " cannot share it.",
            "Name a claim with {fitting}, or run one replica."),
        CheckRow("ok", lambda s: s.phase == "Bound", "The volume claim {name} is bound."),
        CheckRow("warn", lambda s: s.phase == "Pending",
            "The volume claim {name} is Pending: it may be bound when the first pod comes.",
            "'kubectl -n {f.home} describe pvc {name}' says what it waits for."),
        CheckRow("fail", always,
            "The volume claim {name} is {phase}, not Bound.",
            "'kubectl -n {f.home} describe pvc {name}' says why."),
    )),
    Check("queue", _queue, "the queue {f.plan.queue}", (
        CheckRow("fail", lambda s: not s.has_kueue,
            "Kueue is not installed: nothing would ever start a job with --queue.",
            "Install Kueue, or leave --queue out."),
        CheckRow("fail", lambda s: s.found is None,
            "There is no LocalQueue {f.plan.queue} in {f.home}.",
            "'kubectl get localqueues' lists those there are."),
        CheckRow("fail", lambda s: s.active.get("status") == "False",
            "The queue {f.plan.queue} admits nothing: {active[message]}",
            "Ask the administrator of its ClusterQueue."),
        CheckRow("ok", always, "The queue {f.plan.queue} is there."),
    )),
    Check("queue-nodes", _queue_nodes, "the nodes that queue {f.plan.queue} is for", (
        CheckRow("fail", always,
            "Queue {f.plan.queue} has no quota for nodes of pool {f.plan.pool.name}: the pool's"
            " have {wanted}, those of the queue's flavors {theirs}.",
            "Give a --queue and a --node-pool that fit."),
    )),
)
"""In the order in which problems are best solved."""
OBSERVER_CHECKS = (
    *(check for check in CHECKS if check.id == "api-server"),
    Check("observing", _observing, "your permissions", (
        CheckRow("ok", lambda s: s.may_not is None, "You may {may}."),
        CheckRow("fail", lambda s: s.is_needed,
            "You may not {may_not}.",
            "Have an administrator bind you to the Role in {f.role_file}, which says how."),
        CheckRow("warn", always,
            "You may not {may_not}.",
            "Have an administrator bind you to the {role} in {f.role_file}; without it some facts"
            " about a job are left out."),
    )),
)
"""The checks of who observes jobs of others."""
# fmt: on
