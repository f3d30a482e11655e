"""API objects by kind: their paths, selectors, runs, and the fields that are kept."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from k8sbench.diagnose.job.causes import FREQUENT_SILENT_EVENTS
from k8sbench.model.benchmark_object import API_VERSION as BENCHMARK_VERSION
from k8sbench.model.job_kind import JobKind
from k8sbench.model.kinds import KINDS, OBSERVED
from k8sbench.model.kube import (
    MANAGED,
    RUN_LABEL,
    KubeObject,
    annotations_of,
    labels_of,
    name_of,
    parse_time,
)
from k8sbench.model.names import LABEL_DOMAIN, PLAN_ANNOTATION

_API_PATHS = {kind.name: f"/apis/{kind.api_version}" for kind in OBSERVED.values()} | {
    "Benchmark": f"/apis/{BENCHMARK_VERSION}",
    "Deployment": "/apis/apps/v1",
    "Job": "/apis/batch/v1",
    "Lease": "/apis/coordination.k8s.io/v1",
    "SelfSubjectAccessReview": "/apis/authorization.k8s.io/v1",
}
"""Kind → path of its API group and version; others: the core API."""
JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
"""Label of a Workload: its job's uid."""
_EVENT_FIELDS = ",".join(f"reason!={reason}" for reason in FREQUENT_SILENT_EVENTS)
_AFTER_JOB = re.compile(f"(?:{'|'.join(kind.pod_suffix for kind in KINDS.values())})$")
_RUNTIMES = {kind.runtime.name: kind for kind in KINDS.values() if kind.runtime is not None}


def path(kind: str, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
    """Return the path of a kind's objects, or of one object."""
    if kind in KINDS:
        root = f"/apis/{KINDS[kind].api_version}"
        plural = KINDS[kind].plural
    elif kind in _RUNTIMES:
        of = _RUNTIMES[kind]
        assert of.runtime is not None
        root = f"/apis/{of.api_version}"
        plural = of.runtime.plural
    else:
        root = _API_PATHS.get(kind, "/api/v1")
        plural = kind.lower() + ("es" if kind.endswith("s") else "s")
    where = f"{root}/namespaces/{namespace}" if namespace else root
    return "/".join(filter(None, (where, plural, name, subresource)))


class Selection:
    """The objects of k8sbench's runs, by their labels and names."""

    def selectors(self, kind: str, run_id: str | None = None) -> tuple[str, str]:
        """Return label and field selectors of a kind, for all runs or one.

        Users write Benchmark objects, with the labels that they like.
        """
        if kind == "Event":
            return "", _EVENT_FIELDS
        labels = MANAGED if run_id is None else f"{RUN_LABEL}={run_id}"
        return "" if kind == "Benchmark" else labels, ""

    def keeps(self, kind: str, found: KubeObject, runs: Container[str | None]) -> bool:
        """Return True for an object of one of these runs."""
        return self.run_of(kind, found) in runs

    def runs_of(self, kind: str, found: KubeObject) -> Sequence[str | None]:
        """Return the runs that a change of an object may concern."""
        return (self.run_of(kind, found),)

    def runs_named(self, kind: str, name: str) -> Sequence[str | None]:
        """Return the runs that the deletion of an object of this name may concern."""
        return (self.run_named(kind, name),)

    def run_of(self, kind: str, found: KubeObject) -> str | None:
        """Return the run that an object or an event's object may belong to.

        By its label or, where that was removed, by its name.
        """
        if kind != "Event":
            return labels_of(found).get(RUN_LABEL) or self.run_named(kind, name_of(found))
        about = found.get("involvedObject") or {}
        return self.run_named(about.get("kind", ""), str(about.get("name", "")))

    def run_named(self, kind: str, name: str) -> str | None:
        """Return the run that an object of this kind and name would belong to."""
        if kind == "Workload":
            # Kueue's name for it: kind, job, and a hash.
            return name.partition("-")[2].rpartition("-")[0]
        if kind in {"Pod", "Service", "Job"}:
            # NAME-worker-0
            return _AFTER_JOB.sub("", name)
        return name


OURS = Selection()


class JobSelection(Selection):
    """The objects of one job that somebody else created."""

    def __init__(self, run_id: str, kind: JobKind, name: str, created_at: float) -> None:
        self._run_id, self._kind = run_id, kind
        self._name, self._created_at = name, created_at

    def selectors(self, kind: str, run_id: str | None = None) -> tuple[str, str]:  # noqa: ARG002
        """Return label and field selectors of a kind."""
        if kind == "Event":
            return "", _EVENT_FIELDS
        if kind == "Pod":
            return f"{self._kind.pod_label}={self._name}", ""
        return "", f"metadata.name={self._name}"

    def run_of(self, kind: str, found: KubeObject) -> str | None:
        """Return the run of an object; pods of an earlier job of the name belong to none."""
        if kind == "Pod":
            made = parse_time(found["metadata"].get("creationTimestamp"))
            return None if made is not None and made < self._created_at else self._run_id
        return super().run_of(kind, found)

    def run_named(self, kind: str, name: str) -> str | None:
        """Return the run if an object of this kind and name is one of the job's."""
        if kind == self._kind.name:
            return self._run_id if name == self._name else None
        own = name if kind != "Workload" else name.partition("-")[2]
        return self._run_id if own.startswith(f"{self._name}-") or own == self._name else None


# -- trimming of objects, to save memory with thousands of pods ------------------------------------
#
# Pure. The shapes keep what a diagnosis reads; not managed fields, the containers' environment and
# commands, the plan's annotation, addresses.


class _Shared(NamedTuple):
    """The shape of data that many objects have alike, and share."""

    shape: Any


def _all(*keys: str) -> dict[str, Any]:
    """Make the shape of what has these keys, whatever they hold; many objects have their texts."""
    return dict.fromkeys(keys, ...)


def _own(*keys: str) -> dict[str, Any]:
    """Make the shape of what has these keys, whose texts no other object has."""
    return dict.fromkeys(keys)


_METADATA = (
    _own("name", "uid", "resourceVersion")
    | _all("namespace", "finalizers", "labels", "ownerReferences")
    | _all("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
)
_CONTAINER = _Shared(_all("name", "image", "resources", "restartPolicy"))
_STATE = {
    "running": {},
    "waiting": _all("reason", "message"),
    "terminated": _all("exitCode", "reason", "message", "finishedAt"),
}
_STATUS = _Shared(
    _all("name", "image", "imageID", "restartCount") | {"state": _STATE, "lastState": _STATE}
)
"""The status of a container: those that run have most of it in common."""
_CONDITION = _Shared(_all("type", "status", "reason", "message", "lastTransitionTime"))
_REPLICAS = _Shared(
    _all("replicas", "restartPolicy") | {"template": {"spec": {"containers": _CONTAINER.shape}}}
)
_POD = {
    "metadata": _METADATA
    | {"labels": _all(RUN_LABEL, *{kind.pod_label for kind in OBSERVED.values()})}
    | {"ownerReferences": _all("uid")},
    "spec": _all("nodeName", "schedulerName")
    | {"nodeSelector": _Shared(...), "volumes": _all("persistentVolumeClaim")}
    | {"containers": _CONTAINER, "initContainers": _Shared(_all("name", "image"))},
    "status": _all("phase", "reason", "message")
    | {"containerStatuses": _STATUS, "initContainerStatuses": _STATUS}
    | {"conditions": _CONDITION},
}
_POD_CONDITIONS = frozenset({"PodScheduled", "Ready", "DisruptionTarget"})
"""Types of the conditions that are kept."""
_WORKLOAD = {
    "metadata": _own("name") | _all("creationTimestamp") | {"labels": _own(JOB_UID_LABEL)},
    "spec": _all("priority", "queueName"),
    "status": {"conditions": _CONDITION},
}
"""Without the templates of the job's pods, and without their admission."""
_EVENT = {
    "metadata": _own("name", "uid", "resourceVersion") | _all("creationTimestamp"),
    "involvedObject": _all("kind", "name", "uid"),
    "source": _Shared(_all("component")),
    **_all("reason", "message", "type", "count", "series", "reportingComponent"),
    **_all("firstTimestamp", "lastTimestamp", "eventTime"),
}


def trimmed_job(found: KubeObject) -> dict[str, Any]:
    """Trim a job: metadata, run policy, status, and replicas.

    Of replicas it keeps their counts, and the images and resources of their containers.
    """
    whole = found.get("spec") or {}
    spec = _kept(whole, _all("runPolicy", "suspend"))
    for kind in KINDS.values():
        if roles := kind.replica_specs(whole):
            spec[kind.replicas_key] = {role: _kept(one, _REPLICAS) for role, one in roles.items()}
    return _trimmed(found, {"metadata": _METADATA}) | {
        "spec": spec,
        "status": _interned(found.get("status") or {}),
    }


def trimmed_pod(found: KubeObject) -> dict[str, Any]:
    """Trim a pod: run, owners' uids, placement, claims and status."""
    kept = _trimmed(found, _POD)
    status = kept.get("status", {})
    if "conditions" in status:
        status["conditions"] = [
            one for one in status["conditions"] if one["type"] in _POD_CONDITIONS
        ]
    return kept


def trimmed_workload(found: KubeObject) -> dict[str, Any]:
    """Keep of a Workload its job, queue, priority, age and conditions."""
    return dict(_kept(found, _WORKLOAD))


def trimmed_event(found: KubeObject) -> dict[str, Any]:
    """Keep of an event its object, reason, message, times, count and source."""
    return dict(_kept(found, _EVENT))


def keeper(
    kind: str, runs: Container[str | None], selection: Selection = OURS
) -> Callable[[KubeObject], KubeObject | None]:
    """Make the function that trims objects of these runs and drops all others."""
    trim = {"Pod": trimmed_pod, "Event": trimmed_event}.get(kind, trimmed_job)

    def keep(found: KubeObject) -> KubeObject | None:
        return trim(found) if selection.keeps(kind, found, runs) else None

    return keep


def _trimmed(found: KubeObject, shape: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what a shape has, and our own annotations."""
    kept: dict[str, Any] = _kept(found, shape)
    annotations = annotations_of(found).items()
    if ours := {
        name: text
        for name, text in annotations
        if name.startswith(LABEL_DOMAIN) and name != PLAN_ANNOTATION
    }:
        kept["metadata"]["annotations"] = ours
    return kept


def _kept(found: Any, shape: Any) -> Any:
    """Trim plain data to a shape; a list's shape is its items'."""
    if shape is ...:
        return _interned(found)
    if shape is None:
        return found
    if isinstance(found, list):
        return [kept for one in found if (kept := _kept(one, shape))]
    if isinstance(shape, _Shared):
        return _equal(msgspec.json.encode(_kept(found, shape.shape)))
    return {
        key: _kept(value, inner)
        for key, inner in shape.items()
        if (value := found.get(key)) is not None
    }


def _interned(found: Any) -> Any:
    """Return plain data whose texts are one object each: many objects have them in common."""
    if type(found) is str:
        return sys.intern(found)
    if isinstance(found, list):
        return [_interned(one) for one in found]
    if isinstance(found, dict):
        return {key: _interned(value) for key, value in found.items()}
    return found


@functools.lru_cache(maxsize=4096)
def _equal(text: bytes) -> Any:
    """Return the one object of all whose text this is."""
    return msgspec.json.decode(text)
