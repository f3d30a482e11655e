"""What the GPUs of a run do now: the latest sample of each metric of each, of any source."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from k8sbench.measure.run.gpu_metrics import Gpus, joined, preferred
from k8sbench.model.gpu_metrics import BY_ID, METRICS, NO_FIGURE, Fetched, Gpu, SourceName
from k8sbench.model.kinds import rank_order


class LatestSample(msgspec.Struct, frozen=True, kw_only=True):
    """The latest sample of one metric of one GPU."""

    value: float
    """In the metric's unit; of a counter as it stands, of ``throttled`` and ``xid`` the code."""
    unit: str
    """As in the table of metrics; empty for codes."""
    source: SourceName
    """Which source took it."""
    at: float
    """Unix seconds."""
    age: float
    """Seconds."""


class GpuNow(msgspec.Struct, frozen=True, kw_only=True):
    """One of a run's GPUs and what it does now, by metric."""

    gpu: Gpu
    """Which one."""
    metrics: dict[str, LatestSample]
    """By id of a metric, the newest sample of each metric, at most two minutes old."""


def latest(fetched: Sequence[Fetched], now: float) -> tuple[GpuNow, ...]:
    """Take the latest samples, in the order of pods and GPUs."""
    ranked = preferred(fetched)
    gpus = Gpus(ranked)
    by_gpu: dict[int, dict[str, LatestSample]] = {}
    for answer in ranked:
        for series in answer.series:
            metrics = by_gpu.setdefault(gpus.place(series.gpu), {})
            samples = zip(reversed(series.at), reversed(series.values), strict=True)
            for at, value in samples:
                if abs(value) < NO_FIGURE:
                    known = metrics.get(series.metric)
                    if known is None or at > known.at:
                        metrics[series.metric] = LatestSample(
                            value=value,
                            unit=BY_ID[series.metric].unit,
                            source=answer.source,
                            at=at,
                            age=max(0.0, now - at),
                        )
                    break
    made = (
        GpuNow(gpu=gpus.all[i], metrics={m.id: samples[m.id] for m in METRICS if m.id in samples})
        for i, samples in by_gpu.items()
    )
    return tuple(sorted(made, key=lambda now: _order(now.gpu)))


def missing(fetched: Sequence[Fetched], gpus: Sequence[GpuNow]) -> dict[str, str]:
    """Say why there are metrics that no GPU has; key ``*``: why there is none of any metric."""
    if not any(gpu.metrics for gpu in gpus):
        return {"*": joined({answer.source: _why(answer, "*") for answer in fetched})}
    known = {name for gpu in gpus for name in gpu.metrics}
    return {
        metric.id: joined({answer.source: _why(answer, metric.id) for answer in fetched})
        for metric in METRICS
        if metric.id not in known
    }


def _why(answer: Fetched, metric: str) -> str:
    said = answer.missing.get(metric) or answer.missing.get("*")
    if said is None and any(series.metric == metric and series.at for series in answer.series):
        return "The GPU does not support it."
    return said or "It has no sample of it."


def _order(gpu: Gpu) -> tuple[object, ...]:
    replica = "-".join((gpu.pod or "").rsplit("-", 2)[-2:])
    index = gpu.index or ""
    number = int(index) if index.isdecimal() else -1
    return rank_order(replica), gpu.node or "", number, index, gpu.uuid or "", gpu.mig or ""
