"""Jobs as k8sbench really renders them, with small trainers of the test's own inside."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from k8sbench.adapters.local import launch
from k8sbench.adapters.local.launch import Launch, Machine
from k8sbench.model.plan import PlannedWindow, RunPlan
from k8sbench.model.pool import CPU_POOL
from k8sbench.render.manifest import manifests
from k8sbench.render.trainer_sources import TrainerSources
from tests.unit.render import plans

FOLDER = "/opt/k8sbench/k8sbench/trainers"
RUN_ID = "little-261120-081500-x7k2qd"
Objects = plans.Objects

STARTS: dict[tuple[str, bool], tuple[str, ...]] = {
    ("pytorch", True): ("python3", "-m", "torch.distributed.run", "-m", "k8sbench.trainers.little"),
    ("paddle", True): ("python3", f"{FOLDER}/paddle_launch.py", f"{FOLDER}/little.py"),
    ("pytorch", False): ("python3", f"{FOLDER}/little.py"),
    ("paddle", False): ("python3", f"{FOLDER}/little.py"),
}
"""(framework, by its launcher) → the command's first words."""


def sources(files: Mapping[str, str]) -> TrainerSources:
    """Take trainers by file name as the sources that travel with a job."""
    package = {"k8sbench/__init__.py": "", "k8sbench/trainers/__init__.py": ""}
    return TrainerSources.from_files(
        package | {f"k8sbench/trainers/{name}": text for name, text in files.items()}
    )


def plan(
    *words: str,
    files: Mapping[str, str] | None = None,
    launcher: bool = False,
    replicas: int = 2,
    framework: str = "pytorch",
    **changes: Any,
) -> RunPlan:
    """Make a local plan of the trainer ``little.py``, with ``words`` as its options."""
    fields: dict[str, Any] = {
        "run_id": RUN_ID,
        "benchmark": "little",
        "variant": "little",
        "framework": framework,
        "batch_size": 2,
        "preset": "smoke",
        "window": PlannedWindow(
            warmup=1, iterations=5, log_interval=1, min_steady_seconds=0.0, rule="ours"
        ),
        "log": "k8sbench",
        "trainer": "little",
        "command": (*STARTS[framework, launcher], *words),
        "options": {},
        "image": None,
        "image_reason": "runs here",
        "trainers_digest": sources(files or {}).digest,
        "pool": CPU_POOL,
        "backend": "local",
    }
    return plans.plan(f"{replicas}x1-cpu", **(fields | changes))


def rendered(wanted: RunPlan, files: Mapping[str, str] | None = None) -> Objects:
    """Render a plan as ``submit`` would."""
    return manifests(wanted, templates=plans.ready(), trainers=sources(files or {}))


def job(wanted: RunPlan, files: Mapping[str, str] | None = None) -> launch.ManifestJob:
    """Render a plan and read it back."""
    return launch.read_job(rendered(wanted, files), node="box")


def machine(**changes: Any) -> Machine:
    """Return a machine of two cores without GPU, with changes."""
    fields: dict[str, Any] = {
        "python": "/venv/bin/python",
        "library": Path("/venv/lib/site-packages"),
        "environ": {"HOME": "/home/user", "PATH": "/usr/bin"},
        "cores": 2,
        "port": 45001,
        "gpus": None,
    }
    return Machine(**(fields | changes))


def launches(wanted: RunPlan, here: Machine | None = None) -> tuple[Launch, ...]:
    """Prepare a plan's replicas for a machine."""
    found = job(wanted)
    return tuple(
        launch.launched(found, n, here or machine(), Path("/run/mounts"), f"/scratch/{one.name}")
        for n, one in enumerate(found.replicas)
    )
