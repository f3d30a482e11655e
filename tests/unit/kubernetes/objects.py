"""Small Kubernetes objects of one job: by default running master and worker."""

import datetime
from typing import Any

from k8sbench.diagnose.job import facts, state
from k8sbench.model.plan import RunPlan
from tests.unit.render.plans import plan

JOB = "job"
START = 1_700_000_000.0
"""Creation time of the job, Unix seconds."""
GPU = "nvidia.com/gpu"
PLAN: RunPlan = plan("2x8", run_id=JOB)
Object = dict[str, Any]


def stamp(after: float) -> str:
    """Return a Kubernetes time stamp, ``after`` seconds after the job's creation."""
    at = datetime.datetime.fromtimestamp(START + after, datetime.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def job(*conditions: Object, annotations: dict[str, str] | None = None, **policy: Any) -> Object:
    """A PyTorchJob of one master and, unless ``workers`` says otherwise, one worker."""
    role = {"replicas": 1, "restartPolicy": policy.pop("restart_policy", "Never")}
    others = role | {"replicas": policy.pop("workers", 1)}
    labels = policy.pop("labels", {})
    return {
        "metadata": {
            "name": JOB,
            "namespace": "team",
            "uid": "job-1",
            "creationTimestamp": stamp(0),
            "annotations": annotations or {},
            "labels": labels,
        },
        "spec": {"runPolicy": policy, "pytorchReplicaSpecs": {"Master": role, "Worker": others}},
        "status": {"conditions": list(conditions)} if conditions else {},
    }


def condition(kind: str, message: str = "", *, status: str = "True", at: float = 1) -> Object:
    """One condition of a job or a pod."""
    return {
        "type": kind,
        "status": status,
        "message": message,
        "reason": kind,
        "lastTransitionTime": stamp(at),
    }


FAILED = condition("Failed", "PyTorchJob job is failed because 1 Worker replica(s) failed.", at=60)
RUNS = {"running": {"startedAt": stamp(2)}}


def ended(code: int, reason: str = "Error", *, at: float = 60, message: str = "") -> Object:
    """State of a container that has ended."""
    reported = {"exitCode": code, "reason": reason, "finishedAt": stamp(at), "message": message}
    return {"terminated": reported}


def waits(reason: str, message: str = "") -> Object:
    """State of a container that has not started."""
    return {"waiting": {"reason": reason, "message": message}}


def pod(
    replica: str = "worker-0",
    state: Object | None = None,
    *,
    node: str | None = "gpu-0",
    phase: str | None = None,
    inits: tuple[Object, ...] = (),
    conditions: tuple[Object, ...] = (),
    last: Object | None = None,
    restarts: int = 0,
    **more: Any,
) -> Object:
    """Return a running pod on a node, with changes.

    ``more``: metadata, spec and status.
    """
    state = RUNS if state is None else state
    if phase is None:
        code = state.get("terminated", {}).get("exitCode")
        phase = "Pending" if not node or "waiting" in state else "Running"
        phase = phase if code is None else "Failed" if code else "Succeeded"
    container = {"name": "pytorch", "image": "registry.example.com/a:1", "restartCount": restarts}
    statuses = [{**container, "state": state, "lastState": last or {}, "imageID": ""}]
    resources = {"limits": {GPU: "8", "memory": "256Gi"}}
    return {
        "metadata": {
            "name": f"{JOB}-{replica}",
            "uid": replica,
            "creationTimestamp": stamp(1),
            **more.get("metadata", {}),
        },
        "spec": {
            "containers": [
                {"name": "pytorch", "image": container["image"], "resources": resources}
            ],
            **({"nodeName": node} if node else {}),
            **more.get("spec", {}),
        },
        "status": {
            "phase": phase,
            "conditions": list(conditions),
            "containerStatuses": statuses if node else [],
            "initContainerStatuses": list(inits),
            **more.get("status", {}),
        },
    }


def unplaced(message: str, replica: str = "worker-0", **more: Any) -> Object:
    """A pod of which the scheduler says why it has no node."""
    reported = condition("PodScheduled", message, status="False")
    return pod(replica, node=None, conditions=(reported,), **more)


def init(state: Object) -> Object:
    """Status of the operator's init container."""
    return {"name": "init-pytorch", "image": "alpine:3.10", "restartCount": 0, "state": state}


def event(reason: str, message: str, about: str = JOB, *, at: float = 2, **more: Any) -> Object:
    """An event about the job, or about one of its pods."""
    names = {"name": about, "kind": "PyTorchJob" if about == JOB else "Pod"}
    return {
        "reason": reason,
        "message": message,
        "involvedObject": {**names, **more.pop("involved", {})},
        "firstTimestamp": stamp(at),
        "count": 1,
        **more,
    }


def refused(message: str, **more: Any) -> Object:
    """The operator's event of a pod that it could not create."""
    return event("FailedCreatePod", f"Error creating: {message}", **more)


def seen(*pods: Object, of: Object | None = None, **more: Any) -> state.JobSnapshot:
    """Return a snapshot of the job; by default with a running master."""
    found = {one["metadata"]["name"]: one for one in (pod("master-0"), *pods)}
    return state.JobSnapshot(job=of or job(condition("Created")), pods=found, **more)


def read(found: state.JobSnapshot, plan: RunPlan = PLAN, *, after: float = 10, **more: Any) -> Any:
    """Read it so many seconds after the job was created."""
    return state.read(facts.look(found, plan, START + after), **more)
