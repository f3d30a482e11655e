"""GPU metrics of a run: from series to figures and findings.

Each metric comes from the source with the best coverage. It is aggregated over time for each GPU,
then over the job's GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from k8sbench.measure import verdict
from k8sbench.measure.run import gpu_judgement, gpu_series
from k8sbench.measure.run.gpu_judgement import PlannedGpus
from k8sbench.measure.run.gpu_series import Chosen, WindowFigure
from k8sbench.model.gpu_metrics import (
    METRICS,
    Fetched,
    Gpu,
    GpuMetric,
    SeriesQuery,
    SourceName,
)
from k8sbench.model.kinds import kind_of
from k8sbench.model.measurement import GpuFigure, GpuMetrics, GpuOfRun, Measurement, SteadyPart
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run

PATH = "gpu_metrics"
"""Prefix of the figures' keys in ``missing``."""
PREFERRED: tuple[SourceName, ...] = ("prometheus", "dcgm", "trainer", "nvml")
"""Sources, the first of them counting where coverage is equal."""
TITLES = {"prometheus": "Prometheus", "dcgm": "DCGM", "trainer": "trainer", "nvml": "NVML"}
_OVER_GPUS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": lambda values: sum(values) / len(values),
    "peak": max,
    "sum": sum,
}
"""Aggregations over GPUs; ``union`` counts distinct codes instead."""


def query(run: Run, nodes: Mapping[str, str | None], steady: SteadyPart) -> SeriesQuery:
    """Build the query for a run's series from its replicas' known nodes."""
    prefix = "" if run.location is None else f"{run.plan.job_name}-"
    nodes = dict.fromkeys(kind_of(run.plan).names(run.plan.replicas)) | dict(nodes)
    return SeriesQuery(
        run_id=run.run_id,
        namespace=run.location.namespace if run.location else None,
        nodes={prefix + replica: node for replica, node in nodes.items()},
        uuids=tuple(steady.gpu_uuids),
        start=steady.started_at,
        end=steady.ended_at,
    )


def completed(
    measurement: Measurement,
    plan: RunPlan | PlannedGpus,
    wanted: SeriesQuery,
    fetched: Sequence[Fetched],
    *,
    accept: Collection[str] = (),
) -> Measurement:
    """Add what the sources had to a measurement, and judge it anew by that."""
    ranked = preferred(fetched)
    gpus = Gpus(ranked)
    missing = {
        path: why for path, why in measurement.missing.items() if path.partition(".")[0] != PATH
    }
    chosen: dict[str, Chosen] = {}
    absent: dict[str, str] = {}
    for metric in METRICS:
        choice = _chosen(metric, gpus, wanted, ranked, plan.world_size)
        if isinstance(choice, Chosen):
            chosen[metric.id] = choice
        else:
            absent[f"{PATH}.{metric.id}"] = choice
    if not chosen:
        why = joined({answer.source: answer.missing.get("*", "") for answer in fetched})
        missing[PATH] = why or next(iter(absent.values()))
        return msgspec.structs.replace(measurement, gpu_metrics=None, missing=missing)
    missing |= absent
    figures = {name: choice.figure for name, choice in chosen.items()}
    energy = _energy_per_1000(measurement, plan, figures)
    if energy is None:
        missing[f"{PATH}.energy_per_1000_samples"] = "It needs a throughput, and power or energy."
    metrics = GpuMetrics(
        figures=figures,
        gpus=tuple(
            GpuOfRun(
                gpu=gpu,
                figures={n: c.by_gpu[i].value for n, c in chosen.items() if i in c.by_gpu},
            )
            for i, gpu in enumerate(gpus.all)
        ),
        energy_per_1000_samples=energy,
        judgement=gpu_judgement.judgement(measurement, plan, figures),
    )
    new = list(gpu_judgement.reasons(measurement, plan, chosen, gpus.all, fetched))
    # What the whole steady part shows takes the place of what the end of the log did.
    ids = {reason.id for reason in new}
    kept_reasons = [reason for reason in measurement.reasons if reason.id not in ids]
    measurement = msgspec.structs.replace(measurement, gpu_metrics=metrics, missing=missing)
    return verdict.with_reasons(measurement, [*kept_reasons, *verdict.accepted(new, accept)], ())


def _chosen(
    metric: GpuMetric, gpus: Gpus, wanted: SeriesQuery, ranked: Sequence[Fetched], planned: int
) -> Chosen | str:
    """Return a metric by its best source, or why none has it."""
    best: tuple[tuple[float, int], Chosen] | None = None
    why: dict[str, str] = {}
    for answer in ranked:
        by_gpu: dict[int, WindowFigure] = {}
        lines: dict[int, int] = {}
        failed = (
            answer.missing.get(metric.id) or answer.missing.get("*") or "It has no series of it."
        )
        for line, series in enumerate(answer.series, 1):
            if series.metric != metric.id:
                continue
            place = gpus.place(series.gpu)
            taken = gpu_series.over_time(series, metric, wanted.start, wanted.end)
            if isinstance(taken, str):
                failed = taken
            elif place not in by_gpu or taken.coverage > by_gpu[place].coverage:
                by_gpu[place], lines[place] = taken, line
        if by_gpu and metric.over_gpus == "sum" and len(by_gpu) < planned:
            failed = f"It is known of {len(by_gpu)} of {planned} GPUs."
        elif by_gpu:
            codes = sorted({code for of_gpu in by_gpu.values() for code in of_gpu.codes})
            values = [of_gpu.value for of_gpu in by_gpu.values()]
            of_all = _OVER_GPUS.get(metric.over_gpus)
            figure = GpuFigure(
                value=float(len(codes)) if of_all is None else of_all(values),
                unit=metric.unit,
                source=answer.source,
                coverage=sum(g.coverage for g in by_gpu.values()) / max(planned, len(by_gpu)),
                samples=sum(of_gpu.samples for of_gpu in by_gpu.values()),
                codes=tuple(codes),
            )
            rank = (round(figure.coverage, 2), -PREFERRED.index(answer.source))
            if best is None or rank > best[0]:
                best = rank, Chosen(figure=figure, by_gpu=by_gpu, lines=lines)
            continue
        why[answer.source] = failed
    return best[1] if best else joined(why) or "No source has it."


def _energy_per_1000(
    measurement: Measurement, plan: RunPlan | PlannedGpus, figures: Mapping[str, GpuFigure]
) -> float | None:
    rate: float | None = getattr(
        measurement.throughput or measurement.unverified, measurement.estimator, None
    )
    steady = measurement.steady
    if not rate or steady is None:
        return None
    if "energy" in figures:
        watts = figures["energy"].value / (steady.ended_at - steady.started_at)
    elif "power" in figures:
        watts = figures["power"].value * plan.world_size
    else:
        return None
    return 1000 * watts / rate


def preferred(fetched: Iterable[Fetched]) -> list[Fetched]:
    """Sort what sources had: the source that counts at a tie first."""
    return sorted(fetched, key=lambda answer: PREFERRED.index(answer.source))


def joined(why: Mapping[str, str]) -> str:
    """Write the sources' sentences as one; what several say stands once."""
    by_text: dict[str, list[str]] = {}
    for source, text in why.items():
        if text:
            by_text.setdefault(text, []).append(TITLES.get(source, source))
    if len(by_text) == 1:
        return next(iter(by_text))
    return " ".join(f"{', '.join(sources)}: {text}" for text, sources in by_text.items())


class Gpus:
    """The GPUs that the sources know, each once although they name it differently."""

    def __init__(self, fetched: Iterable[Fetched]) -> None:
        self.all: list[Gpu] = []
        self._places: dict[tuple[str | None, ...], int] = {}
        distinct = dict.fromkeys(series.gpu for answer in fetched for series in answer.series)
        for gpu in distinct:
            self.place(gpu)

    def place(self, gpu: Gpu) -> int:
        """Return the GPU's place in the list; adds what this source knows of it."""
        keys = list(_keys(gpu))
        places = (self._places[key] for key in keys if key in self._places)
        place = next((place for place in places if self._may_be(place, gpu)), None)
        if place is None:
            place = len(self.all)
            self.all.append(gpu)
        else:
            known = self.all[place]
            more = {n: getattr(gpu, n) for n in Gpu.__struct_fields__ if getattr(known, n) is None}
            self.all[place] = msgspec.structs.replace(known, **more)
        for key in keys:
            self._places.setdefault(key, place)
        return place

    def _may_be(self, place: int, gpu: Gpu) -> bool:
        known = self.all[place].uuid
        return known is None or gpu.uuid is None or plain_uuid(known) == plain_uuid(gpu.uuid)


def plain_uuid(uuid: str) -> str:
    """Normalize a GPU's UUID: NVML puts ``GPU-`` before it."""
    return uuid.lower().removeprefix("gpu-")


def _keys(gpu: Gpu) -> Iterator[tuple[str | None, ...]]:
    if gpu.uuid is not None:
        yield "uuid", plain_uuid(gpu.uuid), gpu.mig
    for place in ("node", "pod"):
        if getattr(gpu, place) is not None and gpu.index is not None:
            yield place, getattr(gpu, place), gpu.index, gpu.mig
