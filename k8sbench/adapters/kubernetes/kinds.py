"""Which path of the API server each kind of object that we ask for lives under."""

from __future__ import annotations

from typing import Any

from k8sbench.model.kinds import KINDS

_HOMES = {
    "ConfigMap": ("/api/v1", "configmaps"),
    "Event": ("/api/v1", "events"),
    "Node": ("/api/v1", "nodes"),
    "Pod": ("/api/v1", "pods"),
    "Namespace": ("/api/v1", "namespaces"),
    "ResourceQuota": ("/api/v1", "resourcequotas"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses"),
    "StorageClass": ("/apis/storage.k8s.io/v1", "storageclasses"),
    "CustomResourceDefinition": (
        "/apis/apiextensions.k8s.io/v1",
        "customresourcedefinitions",
    ),
    "SelfSubjectAccessReview": ("/apis/authorization.k8s.io/v1", "selfsubjectaccessreviews"),
    "LocalQueue": ("/apis/kueue.x-k8s.io/v1beta1", "localqueues"),
    "Workload": ("/apis/kueue.x-k8s.io/v1beta1", "workloads"),
}
TRAINER_V2 = "/apis/trainer.kubeflow.org"
"""Where Kubeflow Trainer v2, which knows none of our kinds of job, answers."""


def path(kind: str, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
    """Return the path of the objects of a kind, or of one of them."""
    if kind in KINDS:
        home, plural = f"/apis/{KINDS[kind].api_version}", KINDS[kind].plural
    else:
        home, plural = _HOMES[kind]
    parts = [home, *(("namespaces", namespace) if namespace else ()), plural]
    return "/".join([*parts, *filter(None, (name, subresource))])


def path_of(manifest: dict[str, Any], namespace: str) -> str:
    """Return where an object is created."""
    return path(manifest["kind"], namespace)


def resource(asked: str) -> str:
    """Name what a path leads to as access rules do: ``pods``, ``pods/log``; else the path."""
    parts = asked.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    if not rest:
        return asked
    return "/".join([rest[0], *rest[2:]])
