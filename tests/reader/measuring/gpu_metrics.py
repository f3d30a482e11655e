"""Measurements that GPU series complete."""

from collections.abc import Callable, Sequence
from typing import Any

from k8sbench.model.gpu_metrics import Fetched, Gpu, Series, SeriesQuery, SourceName
from k8sbench.model.measurement import Measurement, SteadyPart
from k8sbench.model.spec_values import Preset
from k8sbench.reader.measuring import gpu_metrics
from tests.unit.model.measurements import measurement
from tests.unit.model.plans import plan

START, END = 1000.0, 1200.0

IDLE = {"last": [0.9] * 8 + [0.0] * 2, "first": [0.0] * 2 + [0.9] * 8, "": [0.0, *[0.9] * 8, 0.0]}
"""Utilization, sample by sample, of a GPU that is idle at an edge of its window."""


def gpu(number: int = 0, **more: Any) -> Gpu:
    return Gpu(node="node-1", index=str(number), uuid=f"GPU-{number}", **more)


def series(
    metric: str,
    values: Sequence[float] | Callable[[float], float],
    *,
    at: Sequence[float] = tuple(range(1010, 1200, 20)),
    every: float | None = 20.0,
    source: SourceName = "prometheus",
    of: Gpu | None = None,
) -> Series:
    taken = [values(t) for t in at] if callable(values) else list(values)
    return Series(
        metric=metric,
        gpu=of or gpu(),
        source=source,
        at=tuple(map(float, at)),
        values=tuple(map(float, taken)),
        every=every,
    )


def completed(
    *fetched: Fetched,
    gpus: int = 1,
    accept: Sequence[str] = (),
    preset: Preset = "full",
    environment: dict[str, Any] | None = None,
    **changes: Any,
) -> Measurement:
    found = measurement(
        steady=SteadyPart(started_at=START, ended_at=END),
        environment=environment or {},
        missing={"gpu_metrics": "No source of GPU metrics was queried."},
        **{"gpu_model": None, **changes},
    )
    wanted = SeriesQuery(run_id="seg-1", namespace="bench", nodes={}, start=START, end=END)
    planned = plan(f"1x{gpus}", preset=preset)
    return gpu_metrics.completed(found, planned, wanted, fetched, accept=accept)


def of(*every: Series, **more: Any) -> Fetched:
    return Fetched(source=every[0].source, series=every, **more)
