"""Tiny programs as user benchmarks, for ``k8sbench submit FILE``.

Each takes seconds.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from tests.harness import benchmark_files
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import Shell
from tests.harness.node import faults, image

MEMORY = "64Mi"
DISK = "20Mi"
"""Ephemeral storage that a container gets where :func:`limit_disk` was called."""
POOL = {
    "gpus_per_node": 0,
    "gpu_model": None,
    "cpu_per_gpu": "100m",
    "memory_per_gpu": MEMORY,
    "shm": "1Mi",
}
POOLS = {
    "default": "near",
    "pools": [
        {"name": "near", **POOL, "selector": faults.on("node-0")},
        {"name": "far", **POOL, "selector": faults.on("node-1")},
    ],
}
"""Pools of one node each, so that one can fail alone."""
GATE = """
import os
os.mkfifo("/tmp/gate")
def wait_at_gate():
    open("/tmp/gate").read()
"""
"""Python that lets a program wait until :meth:`Programs.open_gate`."""


class Programs:
    """One user's k8sbench on real nodes, and a benchmark file whose variants are programs."""

    def __init__(self, shell: Shell, **variants: dict[str, Any]) -> None:
        self.shell = shell
        shell.pools.write_text(json.dumps(POOLS))
        self._file = shell.folder / "mine.yaml"
        self._file.write_text(json.dumps(benchmark_files.benchmark(**variants)))

    def words(self, variant: str, *words: str, command: str = "submit") -> tuple[str, ...]:
        """The arguments that submit a variant; the run has its name."""
        case = (f"--variant={variant}", f"--run-id={variant}", "--replicas=1")
        return (command, str(self._file), *case, *words)

    def job(self, variant: str) -> dict[str, Any]:
        """Render a variant's job, for someone who changes it by hand before creating it."""
        return job_of(self.shell.run(*self.words(variant, command="render")).out)

    def open_gate(self, run_id: str) -> None:
        """Let a run's program continue past its gate."""
        way = ("sh", "-c", "until test -p /tmp/gate; do :; done; echo > /tmp/gate")
        self.shell.namespace.kubectl("exec", f"{run_id}-master-0", "--", *way)


def job_of(rendered: str) -> dict[str, Any]:
    """Return the job among the objects that ``render`` printed."""
    (job,) = (one for one in yaml.safe_load_all(rendered) if one["kind"] != "ConfigMap")
    assert isinstance(job, dict)
    return job


def variant(program: str | tuple[str, ...], runs_on: str = image.PYTHON, **more: Any) -> Any:
    """Make a variant that runs a Python program, or a command."""
    command = ("python3", "-c", program) if isinstance(program, str) else program
    return benchmark_files.variant(command, runs_on, **more)


def limit_disk(namespace: Namespace) -> None:
    """Limit the ephemeral storage of every container of a namespace."""
    limit = {"type": "Container", "default": {"ephemeral-storage": DISK}}
    namespace.create(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "disk"},
            "spec": {"limits": [{**limit, "defaultRequest": limit["default"]}]},
        }
    )
