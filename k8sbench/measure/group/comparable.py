"""Ids of everything that can forbid a ratio; ``docs/results.md`` explains them."""

from __future__ import annotations

NOT_COMPARABLE = (
    *("smoke", "cpu", "no-figure", "benchmark", "case", "precision", "batch", "gpu-model"),
    "device",
    *("estimator", "model", "arithmetic", "data", "backend", "mode"),
    *("metric", "target", "weights", "length"),
)

_ID = {"batch_size": "batch", "gpu_model": "gpu-model"}
"""Field of the case → the id for a difference in it, where that is not the field's name."""


def id_of(field: str) -> str:
    """Return the id for a difference in a field of the case."""
    return _ID.get(field, field)
