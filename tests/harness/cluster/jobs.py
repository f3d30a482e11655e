"""Small training jobs for tests on a cluster."""

from typing import Any

from tests.harness.cluster.nodes import RUN_FOR

ON_GPUS = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}


def pytorch_job(
    name: str = "job",
    *,
    workers: int = 1,
    gpus: int = 0,
    run_for: str | None = "0s",
    annotations: dict[str, str] | None = None,
    pod: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a PyTorchJob; its fake pods run for a time or until released."""
    container: dict[str, Any] = {"name": "pytorch", "image": "example.invalid/trainer:1"}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    reported = {} if run_for is None else {RUN_FOR: run_for}
    template = {
        "metadata": {"annotations": {**reported, **(annotations or {})}},
        "spec": {"containers": [container], **(ON_GPUS if gpus else {}), **(pod or {})},
    }
    replica = {"restartPolicy": "Never", "template": template}
    replicas = {"Master": {"replicas": 1, **replica}}
    if workers:
        replicas["Worker"] = {"replicas": workers, **replica}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"runPolicy": {"cleanPodPolicy": "None"}, "pytorchReplicaSpecs": replicas, **spec},
    }
