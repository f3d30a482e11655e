"""``local.json`` in a run's folder: what was started."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

import msgspec

from k8sbench.adapters.local import launch as launching
from k8sbench.adapters.local import manifest
from k8sbench.adapters.local.gpus import GPU

RECORD = "local.json"


def describe(
    job: manifest.ManifestJob,
    launches: Sequence[launching.Launch],
    machine: launching.Machine,
    assigned: Sequence[Sequence[GPU]] | None,
) -> dict[str, Any]:
    """Say what was started."""
    return {
        "schema": 1,
        "job": f"{job.kind}/{job.name}",
        "host": platform.node(),
        "python": machine.python,
        "cores": machine.cores,
        "meeting_point": f"{manifest.LOOPBACK}:{machine.port}",
        "replicas": [
            {
                "name": launch.replica,
                "command": launch.command,
                "cwd": launch.cwd,
                "injected": launch.injected,
                "local": launch.local,
                "gpus": [msgspec.to_builtins(gpu) for gpu in assigned[number]] if assigned else [],
            }
            for number, launch in enumerate(launches)
        ],
    }
