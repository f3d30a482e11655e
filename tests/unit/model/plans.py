"""The plan of a run, with easy changes of its fields."""

from typing import Any

from k8sbench.model.plan import PlannedWindow, RunPlan
from k8sbench.model.pool import NodePool

POOL = NodePool(name="plain", gpus_per_node=8, gpu_model="Tesla V100-SXM2-16GB")


def plan(case: str = "4x8", **changes: Any) -> RunPlan:
    """Return a plan: by default 4x8 of ResNet-50 on PyTorch."""
    replicas, gpus = (int(part) for part in case.removesuffix("-cpu").split("x"))
    cpu = case.endswith("-cpu")
    framework = changes.get("framework", "pytorch")
    launch = {
        "pytorch": ("-m", "torch.distributed.run", "-m", "k8sbench.trainers.resnet50"),
        "paddle": (
            "/opt/k8sbench/k8sbench/trainers/paddle_launch.py",
            "/opt/k8sbench/k8sbench/trainers/resnet50.py",
        ),
    }[framework]
    fields: dict[str, Any] = {
        "run_id": "resnet50-261120-081500-x7k2qd",
        "set_name": "nightly.2026-11-20",
        "repeat": 1,
        "benchmark": "resnet50",
        "spec_digest": "0" * 64,
        "spec_source": "built-in",
        "variant": "v15",
        "impl": "k8sbench",
        "framework": framework,
        "precision": "fp32",
        "amp_dtype": "fp16" if changes.get("precision") == "amp" else None,
        "device": "cpu" if cpu else "cuda",
        "replicas": replicas,
        "gpus_per_replica": 0 if cpu else gpus,
        "processes_per_replica": gpus,
        "batch_size": 128,
        "preset": "full",
        "mode": "throughput",
        "data": "synthetic",
        "window": PlannedWindow(
            warmup=20, iterations=100, log_interval=1, min_steady_seconds=120.0, rule="ours"
        ),
        "log": "dle-resnet50",
        "unit": "images",
        "trainer": "resnet50",
        "command": ("python3", *launch, "--batch-size", "128", "--lr", "1e-4"),
        "env": {},
        "workdir": None,
        "options": {"channels_last": False},
        "image": f"registry.example.com/{framework}:1.2.3",
        "image_reason": "--image",
        "trainers_by": "configmap",
        "trainers_digest": "t" * 64,
        "pool": POOL,
        "backend": "kubernetes",
        "timeout_s": None,
        "fingerprint": None,
        "sync_bn": False,
    }
    return RunPlan(**(fields | changes))
