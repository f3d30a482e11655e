"""Series of GPU metrics that our trainers print with their logs."""

from __future__ import annotations

from k8sbench.measure.run import redaction
from k8sbench.model.gpu_metrics import METRICS, OF_RANK, Fetched, Gpu, Series
from k8sbench.model.sample import GpuSamples, Item, Mark, Place

RANKS = 4096
"""Ranks whose GPUs are kept; a log that names more is broken."""
NONE_PRINTED = (
    "The log holds no samples of a GPU: its program is none of k8sbench's trainers, or had no NVML."
)


class TrainerSeries:
    """The series of a run's logs, while they are read."""

    def __init__(self) -> None:
        self._gpus: dict[int, Gpu] = {}
        """By rank."""
        self._found: dict[tuple[Gpu, str], tuple[float | None, list[float], list[float]]] = {}
        """By GPU and metric: the interval, times and values."""
        self._places: list[Place] = []
        """Of each series its first line."""

    def take(self, item: Item, file: str) -> None:
        """Take which GPU a rank has, and what it did; of other items nothing."""
        if isinstance(item, Mark):
            rank = item.values.get("rank")
            if item.kind == "gpu" and isinstance(rank, float) and len(self._gpus) < RANKS:
                self._gpus[int(rank)] = _gpu(item, int(rank))
        elif isinstance(item, GpuSamples) and (gpu := self._gpus.get(item.rank)) is not None:
            for metric, values in item.values.items():
                if (gpu, metric) not in self._found:
                    self._found[gpu, metric] = (item.every, [], [])
                    self._places.append(redaction.place(file, item.line, item.text))
                _, at, kept = self._found[gpu, metric]
                for when, value in zip(item.at, values, strict=True):
                    if value is not None:
                        at.append(when)
                        kept.append(value)

    def place(self, line: int) -> Place:
        """Where the log has the series of a line, from 1, of those that :meth:`fetched` returns."""
        return self._places[line - 1]

    def fetched(self) -> Fetched:
        """Return what the logs have."""
        found = [
            Series(
                metric=metric,
                gpu=gpu,
                source="trainer",
                at=tuple(at),
                values=tuple(values),
                every=every,
            )
            for (gpu, metric), (every, at, values) in self._found.items()
        ]
        if not found:
            return Fetched(source="trainer", missing={"*": NONE_PRINTED})
        missing = {
            metric.id: "The GPU does not support it." if metric.nvml else "NVML does not have it."
            for metric in METRICS
        }
        for series in found:
            missing.pop(series.metric, None)
        return Fetched(source="trainer", series=tuple(found), missing=missing)


def _gpu(mark: Mark, rank: int) -> Gpu:
    known = {
        name: redaction.redact(value)
        for name, value in mark.values.items()
        if isinstance(value, str)
    }
    uuid = known.get("gpu_uuid")
    return Gpu(
        node=known.get("node") or known.get("host"),
        # The driver's number is not known inside a container; a rank has one GPU.
        index=None if uuid else f"{OF_RANK}{rank}",
        uuid=uuid,
        model=known.get("gpu_model"),
        pod=known.get("pod"),
    )
