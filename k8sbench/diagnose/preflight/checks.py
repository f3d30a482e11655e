"""The checks of the preflight: one table from facts to findings.

A check yields subjects, one for each thing that it looks at. The first of its rows whose condition
holds for a subject is the finding; where none holds there is nothing to say. Sentences and actions
name attributes of the subject and ``f`` (the facts).

``fail`` means that no run can succeed as it is asked for, or that the cluster does not tell what it
tells every user; ``warn`` is for what may spoil or slow a run, and for what could not be looked at.
A new check is an entry of :data:`CHECKS` with a function of :mod:`.subjects`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace as Subject
from typing import Any, NamedTuple

from k8sbench.diagnose.preflight import subjects
from k8sbench.diagnose.preflight.facts import (
    ClusterFacts,
    ObserverFacts,
    Unknown,
)
from k8sbench.model.errors import Finding, Severity


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
    Check("api-server", subjects.api_server, "the version of Kubernetes", (
        CheckRow("ok", always, "Kubernetes {version} answers at {f.server} ({f.why})."),
    )),
    Check("namespace", subjects.namespace, "the namespace {f.home}", (
        CheckRow("fail", lambda s: s.found is None,
            "There is no namespace {f.home}.",
            "Create it (kubectl create namespace {f.home}), or name another with -n."),
        CheckRow("fail", lambda s: s.found.get("status", {}).get("phase") == "Terminating",
            "The namespace {f.home} is being deleted.",
            "Name another with -n."),
        CheckRow("ok", always, "The namespace {f.home} is there."),
    )),
    Check("permissions", subjects.permissions, "your permissions", (
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
    Check("k8sbench-operator", subjects.serving, "the operator of k8sbench and its CRD", (
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
    Check("job-kinds", subjects.job_kinds, "the kinds of object that are served", (
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
    Check("job-admission", subjects.admission, "", (
        CheckRow("ok", lambda s: not s.message, "A {kind} of k8sbench is accepted."),
        CheckRow("fail", lambda s: "failed calling webhook" in s.message,
            "The operator does not answer; without it no {kind} can be created: {message}.",
            "Start it; 'kubectl get deployments -A -l {f.operator.selector}' finds it."),
        CheckRow("fail", lambda s: s.is_news,
            "A {kind} of k8sbench is refused: {message}.",
            "Change what refuses it, or use another namespace (-n)."),
    )),
    # Users may not read other namespaces; job-admission says whether the operator answers.
    Check("operator", subjects.operator, "", (
        CheckRow("fail", lambda s: s.is_down,
            "{program.title} is not running: {status}.",
            "See why: kubectl -n {program.place[0]} describe pods -l {program.selector}."),
        CheckRow("warn", lambda s: not s.is_tested,
            "k8sbench is tested with {program.tested_version} of {program.name}, not with this:"
            " {status}.",
            "Install {program.install}."),
        CheckRow("ok", always, "{program.title} runs: {status}."),
    )),
    Check("pod-security", subjects.pod_security, "", (
        CheckRow("fail", lambda s: s.is_refused,
            "The namespace {f.home} enforces {enforced}, and will refuse {level} pods{reasons}.",
            "Take that out of pool {f.plan.pool.name}, or use a namespace of {level} pods."),
        CheckRow("ok", always,
            "The namespace {f.home} enforces {enforced}, the pods keep to {level}."),
    )),
    Check("operator-init-container", subjects.init_container, "the operator's init container", (
        CheckRow("ok", lambda s: s.has_own, "The operator has a template for its init container."),
        CheckRow("fail", always,
            "The namespace {f.home} enforces restricted, which upstream's init container of the"
            " workers of a {kind} does not pass: they will be refused.",
            "Give the operator the template of 'k8sbench doctor --init-template'"
            " (docs/first-hour.md#the-init-container)."),
    )),
    Check("quota", subjects.quota, "the quotas of {f.home}", (
        CheckRow("fail", lambda s: s.short,
            "The quota does not let {job} in: {short}.",
            "Wait until other jobs end, take fewer GPUs, or ask for more quota."),
        CheckRow("ok", always, "The quotas of {f.home} have room for {job}{seen}."),
    )),
    Check("nodes", subjects.pool_nodes, "the nodes of pool {f.plan.pool.name} and their GPUs", (
        CheckRow("fail", lambda s: not s.count,
            "No node belongs to pool {f.plan.pool.name} ({labels}).",
            "Choose another --node-pool, or write a pools file (--pools, or nodePools in the chart)"
            " for the labels of your nodes ('kubectl get nodes --show-labels')."),
        CheckRow("fail", lambda s: not s.has_room,
            "Pool {f.plan.pool.name} ({labels}) has room for {room}{away}.",
            "See 'kubectl describe node'; where GPUs are missing, see whether the device plugin"
            " runs. Or take fewer --gpus or --replicas, or describe your nodes in a pools file."),
        CheckRow("warn", lambda s: s.away,
            "{fit} of pool {f.plan.pool.name} ({labels}) {take} a replica{away}.",
            "Bring them back, or do without."),
        CheckRow("ok", always,
            "{fit} of pool {f.plan.pool.name} ({labels}) {take} a replica."),
    )),
    Check("gpu-resource", subjects.gpu_resource, "", (
        CheckRow("fail", lambda s: s.lacks_image,
            "Pool {f.plan.pool.name} asks for {f.plan.pool.gpu_resource}, and the image"
            " {f.plan.image} is for CUDA.",
            "Give an image for these GPUs with --image, or choose another --node-pool."),
        CheckRow("warn", always,
            "Pool {f.plan.pool.name} asks for {f.plan.pool.gpu_resource}{where}: {remark}.",
            "Choose a pool of whole NVIDIA GPUs with --node-pool for comparable figures."),
    )),
    Check("gpu-metrics", subjects.gpu_metrics, "", (
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
    Check("data", subjects.volume_claims, "", (
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
    Check("queue", subjects.queue, "the queue {f.plan.queue}", (
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
    Check("queue-nodes", subjects.queue_nodes, "the nodes that queue {f.plan.queue} is for", (
        CheckRow("fail", always,
            "Queue {f.plan.queue} has no quota for nodes of pool {f.plan.pool.name}: the pool's"
            " have {wanted}, those of the queue's flavors {theirs}.",
            "Give a --queue and a --node-pool that fit."),
    )),
)
"""In the order in which problems are best solved."""
OBSERVER_CHECKS = (
    *(check for check in CHECKS if check.id == "api-server"),
    Check("observing", subjects.observing, "your permissions", (
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
