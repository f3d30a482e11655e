"""Reads the objects of a job that somebody else created; writes none."""

from __future__ import annotations

from collections.abc import Iterable

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault, Tolerated
from k8sbench.model.errors import BenchError, NotFound
from k8sbench.model.job_kind import JobKind
from k8sbench.model.kinds import OBSERVED
from k8sbench.model.kube import KubeObject, labels_of, name_of
from k8sbench.model.pool import PRODUCT


def read_job(api: Api, kind: JobKind, name: str) -> KubeObject:
    """Return a job; raises :class:`BenchError`, also if there is none."""
    namespace = api.place.namespace
    with api.explaining(f"{kind.singular}/{name} be read"):
        found = api.find(kinds.path(kind.name, namespace, name))
    if found is None:
        raise NotFound(
            f"There is no {kind.singular}/{name} in namespace {namespace}.",
            f"See those that there are: kubectl get {kind.plural}.{kind.group} -n {namespace}",
        )
    return found


def check_rights(api: Api, kind: JobKind, name: str) -> None:
    """Raise :class:`BenchError` if a job may be read, but its pods, or their logs, may not.

    Watches, which begin with lists, and readers of logs would ask again without end.
    """
    selectors = {kind.name: ("", f"metadata.name={name}"), "Pod": (f"{kind.pod_label}={name}", "")}
    for listed, (labels, fields) in selectors.items():
        path = kinds.path(listed, api.place.namespace)
        with api.explaining(f"{kind.singular}/{name} be watched"):
            api.list(path, labels=labels, fields=fields, keep=lambda _: None)
    # Rights are checked before it is known that there is no such pod.
    path = kinds.path("Pod", api.place.namespace, f"{name[:40]}-of-nobody", "log")
    with api.explaining(f"the logs of {kind.singular}/{name} be read"), Tolerated(404):
        api.get(path)


def read_child(api: Api, kind: JobKind, job: KubeObject) -> KubeObject | None:
    """Return the object with a job's list of jobs; None before its controller has created it."""
    path = kinds.path(OBSERVED[kind.child].name, api.place.namespace, name_of(job))
    with api.explaining(f"{kind.child}/{name_of(job)} be read"):
        return api.find(path)


def last_states(
    api: Api, kind: JobKind, name: str, uid: str
) -> tuple[KubeObject | None, KubeObject | None]:
    """Return a job and the object with its list of jobs; None for what cannot be read."""
    try:
        job = api.find(kinds.path(kind.name, api.place.namespace, name))
        if job is None or job["metadata"]["uid"] != uid:
            return None, None
        return job, read_child(api, kind, job) if kind.child else None
    except (ApiFault, BenchError):
        return None, None


def pods(api: Api, selection: kinds.Selection) -> dict[str, str | None]:
    """Return the pods of a job that there are, and their nodes."""
    labels, _ = selection.selectors("Pod")
    try:
        found, _ = api.list(kinds.path("Pod", api.place.namespace), labels=labels)
    except ApiFault:
        return {}
    return {
        name_of(pod): (pod.get("spec") or {}).get("nodeName")
        for pod in found
        if selection.run_of("Pod", pod) is not None
    }


def gpu_model(api: Api, nodes: Iterable[str]) -> str | None:
    """Return the GPU model that all nodes have by their labels; None if unknown or several."""
    models: set[str | None] = set()
    for node in nodes:
        try:
            found = api.list(kinds.path("Node"), fields=f"metadata.name={node}", retry_s=0)[0]
        except ApiFault:
            return None
        models.update(labels_of(one).get(PRODUCT) for one in found)
    return next(iter(models)) if len(models) == 1 else None
