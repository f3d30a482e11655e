"""Objects of kind Benchmark."""

from __future__ import annotations

from typing import Any

from k8sbench.model import benchmark_object
from k8sbench.model.benchmark_object import Benchmark


def an_object(status: dict[str, Any] | None = None, **spec: Any) -> Benchmark:
    metadata = {
        "name": "night",
        "uid": "u-1",
        "generation": 3,
        "creationTimestamp": "2026-11-27T00:00:00Z",
    }
    found = {"metadata": metadata, "spec": {"benchmark": "resnet50", **spec}}
    return benchmark_object.read(found if status is None else {**found, "status": status})
