"""Lists and reads without following: jobs of anybody, nodes, queues of Kueue."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from k8sbench.adapters.kubernetes import kinds, ownership
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.catalog.pool_files import PublishedPools
from k8sbench.diagnose.job import state
from k8sbench.json_decoders import decoder
from k8sbench.model.errors import UsageError
from k8sbench.model.kinds import KINDS, kind_of, served_words
from k8sbench.model.kube import (
    MANAGED,
    RUN_LABEL,
    JobOwner,
    KubeObject,
    annotations_of,
    attempt_of,
    conditions,
    is_true,
    labels_of,
    name_of,
    parse_time,
)
from k8sbench.model.names import PLAN_ANNOTATION
from k8sbench.model.plan import SCHEMA, RunPlan
from k8sbench.model.pool import NodePool
from k8sbench.ports.cluster import FoundJob

POOLS, POOLS_KEY = "dlperf-pools", "pools.yaml"
_ROOTS = ("/apis/kueue.x-k8s.io/v1beta2", "/apis/kueue.x-k8s.io/v1beta1")
MOST_NODES = 20
"""Maximum nodes that are read one by one."""
_READ = ("name", "uid", "creationTimestamp", "labels", "annotations")
"""Kept fields of a job's metadata."""


def jobs(
    api: Api, run_ids: Collection[str] | None = None, *, user: JobOwner | None = None
) -> list[FoundJob]:
    """Return the jobs in the namespace, oldest first.

    For no ``run_ids`` no request is sent. ``user`` is the store that asks.
    """
    if run_ids is not None and not run_ids:
        return []
    found: list[FoundJob] = []
    missing: list[ApiFault] = []
    for kind in KINDS:
        try:
            path = kinds.path(kind, api.place.namespace)
            items, _ = api.list(path, labels=MANAGED, keep=_head)
        except ApiFault as fault:
            if fault.status not in {403, 404}:  # a Role of before the kind was known
                raise api.explained(fault, f"the {kind}s be listed") from fault
            missing.append(fault)
            continue
        found += [_found_job(kind, job, api, user) for job in items]
    if len(missing) == len(KINDS):
        worst = max(missing, key=lambda fault: fault.status == 403)
        raise api.explained(worst, "the jobs be listed") from worst
    return sorted(found, key=lambda job: job.created_at)


def _head(job: KubeObject) -> KubeObject:
    """Trim a job to the fields for its plan and phase."""
    metadata = {key: job["metadata"].get(key) for key in _READ}
    spec = {key: (job.get("spec") or {}).get(key) for key in ("runPolicy", "suspend")}
    return {"metadata": metadata, "spec": spec, "status": job.get("status")}


def _found_job(kind: str, job: KubeObject, api: Api, user: JobOwner | None) -> FoundJob:
    plan, why = _plan(job)
    which = f"{kind} {name_of(job)} in namespace {api.place.namespace}"
    created_at = parse_time(job["metadata"].get("creationTimestamp")) or 0.0
    return FoundJob(
        run_id=name_of(job),
        known_plan=plan,
        unreadable=f"The plan of {which} cannot be read: {why}." if why else "",
        removal=ownership.removal(kind, job, api.place.namespace),
        # Not after the run's next state, which has this clock's time.
        created_at=min(created_at, api.time()),
        attempt=attempt_of(job),
        uid=job["metadata"].get("uid"),
        phase=state.phase_alone(job, KINDS[kind]),
        ownership=ownership.read_ownership(job, user),
    )


def _plan(job: KubeObject) -> tuple[RunPlan | None, str]:
    """Read the plan in a job's annotation; without one the reason."""
    text = annotations_of(job).get(PLAN_ANNOTATION)
    if text is None:
        return None, f"it has no annotation {PLAN_ANNOTATION}"
    try:
        plan = decoder(RunPlan).decode(text)
        kind_of(plan)
    except (msgspec.MsgspecError, UnicodeError) as wrong:
        return None, f"its annotation {PLAN_ANNOTATION} holds none ({str(wrong).rstrip('.')})"
    except UsageError as wrong:
        return None, wrong.message.rstrip(".")
    if plan.schema > SCHEMA:
        return None, f"a newer k8sbench wrote it (schema {plan.schema})"
    if not plan.run_id == name_of(job) == labels_of(job).get(RUN_LABEL):
        return None, f"its annotation {PLAN_ANNOTATION} is that of run {plan.run_id}"
    return plan, ""


def objects(
    api: Api, kind: str, run_id: str, selection: kinds.Selection = kinds.OURS
) -> Sequence[KubeObject]:
    """Return all pods, or all events, of a run; raises :class:`ApiFault`."""
    labels, fields = selection.selectors(kind, run_id)
    path = kinds.path(kind, api.place.namespace)
    keep = kinds.keeper(kind, {run_id}, selection)
    return api.list(path, labels=labels, fields=fields, keep=keep)[0]


# -- nodes ---------------------------------------------------------------------------------------


def nodes(api: Api, labels: Mapping[str, str], selector: str = "") -> Sequence[KubeObject]:
    """List the nodes with all labels and a selector as kubectl's ``-l``.

    Raises :class:`BenchError`, also if the user may not list nodes, a separate permission.
    """
    wanted = [*(f"{key}={value}" for key, value in labels.items()), *filter(None, [selector])]
    try:
        return api.list(kinds.path("Node"), labels=",".join(wanted))[0]
    except ApiFault as fault:
        if fault.status == 400 and selector:
            raise UsageError(
                f"-l {selector!r} is not a label selector.",
                "Write it as for kubectl: rack=7,zone!=b.",
            ) from fault
        raise api.explained(fault, "the nodes be listed") from fault


NODE_FACTS = {
    "osImage": "node_os",
    "kernelVersion": "node_kernel",
    "architecture": "node_architecture",
    "kubeletVersion": "kubelet",
    "containerRuntimeVersion": "container_runtime",
}
"""Recorded fields of a node's ``nodeInfo`` → names in the environment."""


def node_facts(api: Api, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Return the recorded facts of readable nodes, by node.

    Few nodes are read one by one; for more, all of the cluster are listed.
    """
    found: dict[str, Mapping[str, str]] = {}

    def take(node: KubeObject) -> None:
        info = (node.get("status") or {}).get("nodeInfo") or {}
        if (name := name_of(node)) in names:
            found[name] = {ours: info[key] for key, ours in NODE_FACTS.items() if info.get(key)}

    few = len(names) <= MOST_NODES
    with contextlib.suppress(ApiFault):
        for fields in (f"metadata.name={name}" for name in names) if few else ("",):
            api.list(kinds.path("Node"), fields=fields, keep=take, retry_s=0)
    return found


def job_kinds(api: Api) -> list[str]:
    """Return the values of ``--job-kind`` that the cluster serves; none if unknown."""
    try:
        return served_words({group["name"] for group in api.get("/apis")["groups"]})
    except (ApiFault, KeyError, TypeError):
        return []  # what is wrong is said of the creation


def published_pools(api: Api) -> PublishedPools | None:
    """Return the namespace's pools file; None if absent or forbidden.

    Raises :class:`BenchError`.
    """
    namespace = api.place.namespace
    try:
        found = api.get(kinds.path("ConfigMap", namespace, POOLS))
    except ApiFault as fault:
        if fault.status in {403, 404}:
            return None
        raise api.explained(fault, f"the node pools of namespace {namespace} be read") from fault
    text = (found.get("data") or {}).get(POOLS_KEY)
    return None if text is None else (text, f"ConfigMap {namespace}/{POOLS}")


# -- Kueue ---------------------------------------------------------------------------------------


def read_kueue_object(api: Api, path: str) -> KubeObject | None:
    """Return an object of the group, or None; raises :class:`ApiFault`."""
    return next(filter(None, (api.find(f"{root}/{path}") for root in _ROOTS)), None)


def workloads(api: Api) -> Mapping[str, KubeObject]:
    """Return a namespace's Workloads by job uid; none if forbidden.

    A waiting Workload has its ``place`` in the queue.
    """
    for root in _ROOTS:
        path = f"{root}/namespaces/{api.place.namespace}/workloads"
        with contextlib.suppress(ApiFault):
            found, _ = api.list(path, labels=kinds.JOB_UID_LABEL, keep=kinds.trimmed_workload)
            jobs = {}
            numbers = Counter[str]()
            for one in sorted(found, key=_turn):
                waits = not is_true(conditions(one).get("QuotaReserved", {}))
                numbers[queue := one["spec"].get("queueName", "")] += waits
                place = f", number {numbers[queue]} there" if waits else ""
                jobs[labels_of(one)[kinds.JOB_UID_LABEL]] = {**one, "place": place}
            return jobs
    return {}


def _turn(workload: KubeObject) -> tuple[int, str]:
    """Sort key of Workloads in Kueue's order: priority, then age."""
    return -workload["spec"].get("priority", 0), workload["metadata"]["creationTimestamp"]


def flavors(api: Api, queue: KubeObject | None, pool: NodePool) -> Mapping[str, Mapping[str, str]]:
    """Return a queue's flavors for the pool's GPUs or CPUs.

    The values are their node labels. Empty without a queue or its ClusterQueue. Raises
    :class:`ApiFault`, also if the user may not read these cluster-wide objects.
    """
    name = queue and queue["spec"]["clusterQueue"]
    cluster_queue = (name and read_kueue_object(api, f"clusterqueues/{name}")) or {}
    resource = pool.gpu_resource if pool.gpus_per_node else "cpu"
    labels = {}
    for group in (cluster_queue.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group["flavors"] if resource in group["coveredResources"] else ():
            found = read_kueue_object(api, f"resourceflavors/{flavor['name']}") or {}
            labels[flavor["name"]] = (found.get("spec") or {}).get("nodeLabels") or {}
    return labels
