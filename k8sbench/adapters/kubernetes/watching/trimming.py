"""Trimming of the API server's objects before they are kept in memory, for thousands of pods.

Pure. Fields that no diagnosis reads are dropped: managed fields, the containers' environment and
commands, most of the job's pod templates, the plan's annotation, addresses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from typing import Any

from k8sbench.model.identity import LABEL_DOMAIN, PLAN_ANNOTATION
from k8sbench.model.kinds import KINDS
from k8sbench.model.kube import RUN_LABEL, KubeObject, annotations_of, labels_of

_METADATA = (
    *("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"),
    *("deletionGracePeriodSeconds", "finalizers", "labels", "ownerReferences"),
)
_CONTAINER = ("name", "image", "resources", "restartPolicy")
_POD_SPEC_LEFT_OUT = frozenset(
    {
        *("containers", "initContainers", "volumes", "securityContext", "imagePullSecrets"),
        *("automountServiceAccountToken", "serviceAccount", "serviceAccountName", "dnsPolicy"),
        *("enableServiceLinks", "preemptionPolicy", "priority", "restartPolicy", "tolerations"),
        "terminationGracePeriodSeconds",
    }
)
_POD_STATUS_LEFT_OUT = frozenset({"podIP", "podIPs", "hostIP", "hostIPs", "qosClass"})
_AFTER_JOB = re.compile(f"(?:{'|'.join(kind.pod_suffix for kind in KINDS.values())})$")
_EVENT_METADATA = ("name", "uid", "resourceVersion", "creationTimestamp")
_EVENT = (
    *("involvedObject", "reason", "message", "type", "count", "series", "source"),
    *("firstTimestamp", "lastTimestamp", "eventTime", "reportingComponent"),
)


def job(found: KubeObject) -> dict[str, Any]:
    """Keep of a job its metadata, its run policy and its status; of its replicas their counts, and
    the images and the resources of their containers.
    """
    spec = dict(found.get("spec") or {})
    for kind in KINDS.values():
        if roles := kind.replica_specs(spec):
            spec[kind.replicas_key] = {role: _replicas(one) for role, one in roles.items()}
    spec.pop("runtimePatches", None)
    return {"metadata": _metadata(found), "spec": spec, "status": found.get("status") or {}}


def _replicas(found: KubeObject) -> dict[str, Any]:
    containers = ((found.get("template") or {}).get("spec") or {}).get("containers") or ()
    kept = [_some(one, _CONTAINER) for one in containers]
    template = {"spec": {"containers": kept}}
    return {**_some(found, ("replicas", "restartPolicy")), "template": template}


def pod(found: KubeObject) -> dict[str, Any]:
    """Keep of a pod its run, its owners' uids, what places it, its claims and its status."""
    spec = found.get("spec") or {}
    kept = {key: value for key, value in spec.items() if key not in _POD_SPEC_LEFT_OUT}
    for key in ("containers", "initContainers"):
        if key in spec:
            kept[key] = [_some(one, _CONTAINER) for one in spec[key]]
    claims = [one for one in spec.get("volumes") or () if "persistentVolumeClaim" in one]
    if claims:
        kept["volumes"] = claims
    status = found.get("status") or {}
    metadata = _metadata(found)
    if labels_of(found):
        metadata["labels"] = _some(labels_of(found), (RUN_LABEL,))
    if owners := metadata.get("ownerReferences"):
        metadata["ownerReferences"] = [_some(one, ("uid",)) for one in owners]
    return {
        "metadata": metadata,
        "spec": kept,
        "status": {key: value for key, value in status.items() if key not in _POD_STATUS_LEFT_OUT},
    }


def event(found: KubeObject) -> dict[str, Any]:
    """Keep of an event its object, reason, message, times, count and source."""
    kept = {key: value for key, value in _some(found, _EVENT).items() if value not in (None, {})}
    if "involvedObject" in kept:
        kept["involvedObject"] = _some(kept["involvedObject"], ("kind", "name", "uid"))
    return {"metadata": _some(found["metadata"], _EVENT_METADATA), **kept}


def node(found: KubeObject) -> dict[str, Any]:
    """Keep of a node its labels and its allocatable resources."""
    return {
        "metadata": _some(found["metadata"], ("name", "labels")),
        "status": _some(found.get("status") or {}, ("allocatable",)),
    }


def keeper(kind: str, runs: Container[str]) -> Callable[[KubeObject], KubeObject | None]:
    """Make the function that trims objects of these runs and drops all others."""
    trim = {"Pod": pod, "Event": event}.get(kind, job)

    def keep(found: KubeObject) -> KubeObject | None:
        return trim(found) if run_of(kind, found) in runs else None

    return keep


def run_of(kind: str, found: KubeObject) -> str | None:
    """Return the run that an object may belong to; an event's by the object that it is about.

    By its label or, where that was removed, by its name.
    """
    if kind != "Event":
        return labels_of(found).get(RUN_LABEL) or run_named(kind, found["metadata"]["name"])
    about = found.get("involvedObject") or {}
    return run_named(about.get("kind", ""), str(about.get("name", "")))


def run_named(kind: str, name: str) -> str:
    """Return the run that an object of this kind and name would belong to."""
    if kind == "Workload":
        # Kueue's name for it: kind, job, and a hash.
        return name.partition("-")[2].rpartition("-")[0]
    if kind in {"Pod", "Service", "Job"}:
        # NAME-worker-0
        return _AFTER_JOB.sub("", name)
    return name


def _metadata(found: KubeObject) -> dict[str, Any]:
    kept = _some(found["metadata"], _METADATA)
    annotations = annotations_of(found)
    ours = {one for one in annotations if one.startswith(LABEL_DOMAIN)} - {PLAN_ANNOTATION}
    if ours:
        kept["annotations"] = _some(annotations, ours)
    return kept


def _some(found: KubeObject, keys: Iterable[str]) -> dict[str, Any]:
    return {key: found[key] for key in keys if key in found}
