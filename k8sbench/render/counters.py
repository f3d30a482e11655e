"""The fields that a DCGM exporter is to give, as the ConfigMap that it reads them from."""

from __future__ import annotations

from k8sbench.model.gpu_metrics import COUNTERS, METRICS
from k8sbench.render.manifest import to_yaml

KEYS = ("metrics", "dcgm-metrics.csv")
"""Of the exporter itself, and of the GPU operator."""


def text() -> str:
    """Write the ConfigMap as YAML, with every field of the table of metrics."""
    lines = ""
    for metric in METRICS:
        for field in metric.dcgm[:1]:
            kind = "counter" if metric.over_time == "increase" else "gauge"
            lines += f"{field.name}, {kind}, {metric.title}\n"
    about = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": COUNTERS}}
    return to_yaml([{**about, "data": dict.fromkeys(KEYS, lines)}])
