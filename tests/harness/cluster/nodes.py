"""Fake nodes with GPUs, kwok's rules for them, and what their pods say.

The nodes are objects that the real scheduler fills; kwok simulates their kubelets
as far as the stages define it: pods run at once, end as their annotations ask
(``kwok/pod-finish.yaml``), and are gone as soon as they are deleted. ``kubectl logs`` answers with
a file in the format of a container runtime.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tests.harness.cluster.tools import Programs

RUN_FOR, EXIT_CODE = "k8sbench.test/run-for", "k8sbench.test/exit-code"
"""Annotations of a pod; see ``kwok/pod-finish.yaml``."""
SELECTED = "kwok.x-k8s.io/node=fake"
"""Annotation of the nodes that kwok simulates; others, real ones, it leaves alone."""
GPUS = 8
CPUS, MEMORY_GIB = 48, 502
"""Machines of the reports; our pool requests 40 cores and 384 GiB."""
_CAPACITY = {"ephemeral-storage": "1Ti", "pods": "110"}
AT_ONCE = 32
"""Pods that kwok updates concurrently.

Real nodes have a kubelet each; with kwok's default of 4 a thousand jobs wait for it.
"""
_STAGES = ("node-initialize.yaml", "node-heartbeat.yaml", "pod-ready.yaml", "pod-delete.yaml")


def fake_nodes(count: int, gpus: int = GPUS) -> list[dict[str, Any]]:
    """Return nodes ``gpu-0`` etc.; more GPUs mean more CPUs and memory."""
    return [_node(f"gpu-{number}", gpus) for number in range(count)]


def _node(name: str, gpus: int) -> dict[str, Any]:
    more = gpus // GPUS
    room = {
        **_CAPACITY,
        "cpu": str(CPUS * more),
        "memory": f"{MEMORY_GIB * more}Gi",
        "nvidia.com/gpu": str(gpus),
    }
    annotation, _, value = SELECTED.partition("=")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {annotation: value},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "nvidia.com/gpu.present": "true",
                "nvidia.com/gpu.count": str(gpus),
                "nvidia.com/gpu.memory": "32768",
                "nvidia.com/gpu.product": "Tesla-V100-SXM2-32GB",
            },
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {"capacity": room, "allocatable": room},
    }


def write_rules(path: Path, programs: Programs, default_log: Path) -> Path:
    """Write kwok's configuration: stages, options, default log."""
    everything = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterLogs",
        "metadata": {"name": "default"},
        "spec": {"logs": [{"logsFile": str(default_log), "follow": False}]},
    }
    options = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {"podPlayStageParallelism": AT_ONCE},
    }
    own = Path(__file__).with_name("kwok") / "pod-finish.yaml"
    texts = [file.read_text() for file in (*map(programs.file, _STAGES), own)]
    # The finalizer of a Job's pod is the Job controller's to take away: without it the Job does not
    # count the pod, and replaces it.
    texts = [text.replace("    finalizers:\n      empty: true\n", "") for text in texts]
    # Their headers are written "---" and not: YAML reads an empty document between as nothing.
    path.write_text("\n---\n".join([*texts, *map(yaml.safe_dump, (everything, options))]))
    return path


def log_object(namespace: str, pod: str, file: Path) -> dict[str, Any]:
    """Return the object that assigns a log file to a pod."""
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Logs",
        "metadata": {"name": pod, "namespace": namespace},
        "spec": {"logs": [{"logsFile": str(file), "follow": True}]},
    }


def log_text(lines: Iterable[str], at: datetime | None = None) -> str:
    """Write lines as a container runtime does."""
    stamp = (at or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
    return "".join(f"{stamp} stdout F {line}\n" for line in lines)
