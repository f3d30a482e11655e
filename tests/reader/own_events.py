"""Lines of our own trainers."""

import json
from collections.abc import Mapping
from typing import Any

START: dict[str, Any] = json.loads(
    '{"event": "start", "schema": 1, "impl": "k8sbench", "rank": 0, "world_size": 2, '
    '"batch_size_per_gpu": 4, "warmup": 2, "iterations": 8, "amp_dtype": null}'
)
STEP: dict[str, Any] = json.loads(
    '{"event": "step", "step": 10, "of": 100, "steps": 5, "seconds": 2.5, "data_seconds": 0.25, '
    '"loss": 1.5, "samples_per_second": 16.0, "lr": 0.1, "memory_mib": 100.5, '
    '"time": 1772445600.5}'
)


def line(event: Mapping[str, object]) -> str:
    return "K8SBENCH " + json.dumps(event)
