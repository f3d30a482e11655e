"""GPU metrics of a run: from series to figures, findings and the bottleneck.

Each metric comes from the source with the best coverage. It is aggregated over time for each GPU,
then over the job's GPUs.
"""

from __future__ import annotations

import functools
import operator
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from k8sbench import messages
from k8sbench.messages import Arg, Note, and_list, note
from k8sbench.model import rules, times, verdict
from k8sbench.model.arithmetic import plain_name
from k8sbench.model.errors import Finding
from k8sbench.model.gpu_metrics import (
    HELD_DOWN,
    METRICS,
    Fetched,
    Gpu,
    GpuMetric,
    SeriesQuery,
    SourceName,
)
from k8sbench.model.kinds import replica_names
from k8sbench.model.measurement import GpuFigure, GpuMetrics, GpuOfRun, Measurement, SteadyPart
from k8sbench.model.missing import Missing, figure_of, reasons_of
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.model.sample import Place
from k8sbench.reader.measuring import gpu_series
from k8sbench.reader.measuring.gpu_series import Chosen, WindowFigure

PATH = "gpu_metrics"
"""Prefix of the figures' keys in ``missing``."""
PREFERRED: tuple[SourceName, ...] = ("prometheus", "dcgm", "trainer", "nvml")
"""Sources, the first of them counting where coverage is equal."""
NO_SERIES = note("no-gpu-metric-series")
NO_SOURCE = note("no-gpu-metric-source")
TITLES = {"prometheus": "Prometheus", "dcgm": "DCGM", "trainer": "trainer", "nvml": "NVML"}
_OVER_GPUS: dict[str, Callable[[Sequence[float], Sequence[float]], float]] = {
    "mean": lambda values, shares: sum(map(operator.mul, values, shares)) / sum(shares),
    "peak": lambda values, _: max(values),
    "sum": lambda values, _: sum(values),
}
"""Aggregations over GPUs and their shares of the time; ``union`` counts distinct codes instead."""


class PlannedGpus(NamedTuple):
    """Plan properties for a log without a plan."""

    world_size: int
    preset: str


def query(run: Run, nodes: Mapping[str, str | None], steady: SteadyPart) -> SeriesQuery:
    """Build the query for a run's series from its replicas' known nodes."""
    prefix = "" if run.location is None else f"{run.plan.job_name}-"
    nodes = dict.fromkeys(replica_names(run.plan)) | dict(nodes)
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
    former = [path for path in measurement.missing if path.partition(".")[0] == PATH]
    choices = {
        metric.id: _choose_source(metric, gpus, wanted, ranked, plan.world_size)
        for metric in METRICS
    }
    chosen = {name: choice for name, choice in choices.items() if isinstance(choice, Chosen)}
    absent = {f"{PATH}.{name}": reason for name, reason in reasons_of(choices).items()}
    if not chosen:
        whole = {one.source: one.missing["*"] for one in fetched if "*" in one.missing}
        why = joined(whole) or next(iter(absent.values()))
        return msgspec.structs.replace(
            measurement.without({PATH: why}, instead_of=former), gpu_metrics=None
        )
    figures = {name: choice.figure for name, choice in chosen.items()}
    energy = _energy_per_1000(measurement, plan, figures)
    absent |= reasons_of({f"{PATH}.energy_per_1000_samples": energy})
    judged = _judgement(measurement, plan, figures)
    metrics = GpuMetrics(
        figures=figures,
        gpus=tuple(
            GpuOfRun(
                gpu=gpu,
                figures={n: c.by_gpu[i].value for n, c in chosen.items() if i in c.by_gpu},
            )
            for i, gpu in enumerate(gpus.all)
        ),
        energy_per_1000_samples=figure_of(energy),
        judgement=None if judged is None else messages.text("en", judged),
        judgement_note=judged,
    )
    new = [
        *_findings(measurement, plan, chosen, gpus.all, fetched),
        *_apart(plan, chosen, fetched, wanted),
    ]
    if isinstance(plan, PlannedGpus):
        # The evidence of a run is in its artifacts, which a log alone does not have.
        new = [msgspec.structs.replace(finding, evidence=()) for finding in new]
    # What the whole steady part shows takes the place of what the end of the log did.
    ids = {reason.id for reason in new}
    kept_reasons = [reason for reason in measurement.reasons if reason.id not in ids]
    measurement = msgspec.structs.replace(
        measurement.without(absent, instead_of=former), gpu_metrics=metrics
    )
    return verdict.with_reasons(
        measurement, [*kept_reasons, *verdict.mark_accepted(new, accept)], ()
    )


def _choose_source(
    metric: GpuMetric, gpus: Gpus, wanted: SeriesQuery, ranked: Sequence[Fetched], planned: int
) -> Chosen | Missing:
    """Return a metric by its best source."""
    best: tuple[tuple[float, int], Chosen] | None = None
    why: dict[SourceName, Note] = {}
    for answer in ranked:
        by_gpu: dict[int, WindowFigure] = {}
        lines: dict[int, int] = {}
        failed = answer.missing.get(metric.id) or answer.missing.get("*") or NO_SERIES
        for line, series in enumerate(answer.series, 1):
            if series.metric != metric.id:
                continue
            place = gpus.place(series.gpu)
            taken = gpu_series.over_time(series, metric, wanted.start, wanted.end)
            if isinstance(taken, Missing):
                failed = taken.reason
            elif place not in by_gpu or taken.coverage > by_gpu[place].coverage:
                by_gpu[place], lines[place] = taken, line
        if by_gpu and metric.over_gpus == "sum" and len(by_gpu) < planned:
            failed = note("no-gpu-metric-of-all", known=len(by_gpu), planned=planned)
        elif by_gpu:
            shares = _shares(by_gpu, planned)
            if metric.over_time == "increase":
                by_gpu = {
                    i: msgspec.structs.replace(by_gpu[i], value=by_gpu[i].value * share)
                    for i, share in shares.items()
                }
            codes = sorted({code for of_gpu in by_gpu.values() for code in of_gpu.codes})
            values = [of_gpu.value for of_gpu in by_gpu.values()]
            of_all = _OVER_GPUS.get(metric.over_gpus)
            figure = GpuFigure(
                value=float(len(codes)) if of_all is None else of_all(values, [*shares.values()]),
                unit=metric.unit,
                source=answer.source,
                coverage=min(1.0, sum(g.coverage for g in by_gpu.values()) / planned),
                samples=sum(of_gpu.samples for of_gpu in by_gpu.values()),
                codes=tuple(codes),
            )
            rank = (round(figure.coverage, 2), -PREFERRED.index(answer.source))
            if best is None or rank > best[0]:
                best = rank, Chosen(figure=figure, by_gpu=by_gpu, lines=lines)
            continue
        why[answer.source] = failed
    return best[1] if best else Missing(joined(why) or NO_SOURCE)


def _shares(by_gpu: Mapping[int, WindowFigure], planned: int) -> dict[int, float]:
    """Return the share of the steady part for which each GPU counts.

    It is 1, also where samples are missing, unless there are more GPUs than planned: pods that are
    created anew may get others. Then each counts for its own time, and all together for the steady
    part.
    """
    covered = {i: of_gpu.coverage for i, of_gpu in by_gpu.items()}
    if len(by_gpu) <= planned:
        return dict.fromkeys(covered, 1.0)
    scale = max(1.0, planned / sum(covered.values()))
    return {i: coverage * scale for i, coverage in covered.items()}


def _energy_per_1000(
    measurement: Measurement, plan: RunPlan | PlannedGpus, figures: Mapping[str, GpuFigure]
) -> float | Missing:
    rate: float | None = getattr(
        measurement.throughput or measurement.unverified, measurement.estimator, None
    )
    steady = measurement.steady
    unknown = Missing(note("no-energy-per-1000"))
    if not rate or steady is None:
        return unknown
    if "energy" in figures:
        watts = figures["energy"].value / (steady.ended_at - steady.started_at)
    elif "power" in figures:
        watts = figures["power"].value * plan.world_size
    else:
        return unknown
    return 1000 * watts / rate


def preferred(fetched: Iterable[Fetched]) -> list[Fetched]:
    """Sort what sources had: the source that counts at a tie first."""
    return sorted(fetched, key=lambda answer: PREFERRED.index(answer.source))


def joined(why: Mapping[SourceName, Note]) -> Note | None:
    """Write the sources' sentences as one; what several say stands once. None if none says any."""
    sources: dict[Note, list[str]] = {}
    for source, said in why.items():
        sources.setdefault(said, []).append(TITLES[source])
    if len(sources) < 2:
        return next(iter(sources), None)
    parts = [note("of-sources", sources=tuple(names), why=said) for said, names in sources.items()]
    return functools.reduce(lambda one, other: note("two-sentences", one=one, other=other), parts)


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


# -- findings and bottleneck -----------------------------------------------------------------------
#
# Both use figures that cover at least half of the steady part.

COVERED = 0.5
"""Minimum coverage of the steady part for a finding or a bottleneck."""
THROTTLED_SHARE = 0.01
"""Minimum throttled share to report; less does not affect throughput."""
SLOW_CLOCK = 0.9
"""Minimum clock ÷ the GPUs' median; less exceeds chip variation."""
BUSY = 0.05
"""Utilization from which a GPU works for someone."""
ACTIVITY = ("gpu_utilization", "gr_engine_active", "sm_active", "tensor_active")
"""Metrics of which one at least is above 0 on a GPU that trains."""
NAMED = 3
"""GPUs that a sentence names."""
WAITING, IDLE = 0.1, 0.9
"""Minimum loader share and maximum GPU utilization of an input-bound run."""
LINK_BOUND = 0.5
"""Minimum share of the link's capacity; computation takes the rest."""
DRAM_BOUND = 0.8
POWER_BOUND = 0.97
"""Minimum share of the power limit."""
NVLINK_BYTES = 25e9
"""Per second, link and direction, from V100 on."""
PCIE_LANE_BYTES = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9}
"""Per second, lane and direction, by generation."""


def _findings(
    measurement: Measurement,
    plan: RunPlan | PlannedGpus,
    chosen: Mapping[str, Chosen],
    gpus: Sequence[Gpu],
    fetched: Sequence[Fetched],
) -> Iterator[Finding]:
    """Yield findings by the GPU metrics, at most one per id."""
    throttled = chosen.get("throttled")
    if throttled is not None:
        held = [i for i, of_gpu in throttled.by_gpu.items() if of_gpu.value >= THROTTLED_SHARE]
        if held:
            bits = functools.reduce(operator.or_, throttled.figure.codes)
            worst = max(throttled.by_gpu[i].value for i in held)
            said = note(
                "gpu-throttled",
                gpus=_names(gpus, held),
                why=and_list([cause for bit, cause in HELD_DOWN.items() if bit & bits]),
                share=f"{100 * worst:.1f} %",
            )
            yield rules.GPU_THROTTLED.finding(said, _evidence("throttled", throttled, held))
    clocks = chosen.get("sm_clock")
    by_gpu = clocks.by_gpu if clocks is not None else {}
    mhz = {i: of_gpu.value for i, of_gpu in by_gpu.items() if of_gpu.coverage >= COVERED}
    usual = statistics.median_high(mhz.values()) if mhz else 0.0
    slow = [i for i, clock in mhz.items() if clock < SLOW_CLOCK * usual]
    if clocks is not None and slow:
        said = note(
            "gpu-clocks",
            gpus=_names(gpus, slow),
            clock=f"{min(mhz[i] for i in slow):.0f} MHz",
            median=f"{usual:.0f} MHz",
        )
        yield rules.GPU_CLOCKS.finding(said, _evidence("sm_clock", clocks, slow))
    yield from _shared(chosen.get("processes"), gpus, fetched)
    xid = chosen.get("xid")
    if xid is not None and xid.figure.codes:
        where = [i for i, of_gpu in xid.by_gpu.items() if of_gpu.codes]
        said = note("xid-error", codes=tuple(xid.figure.codes), gpus=_names(gpus, where))
        yield rules.XID_ERROR.finding(said, _evidence("xid", xid, where))
    yield from _at_odds(measurement, plan, chosen, gpus)


def _shared(
    processes: Chosen | None, gpus: Sequence[Gpu], fetched: Sequence[Fetched]
) -> Iterator[Finding]:
    others = [(answer.source, shared) for answer in fetched for shared in answer.shared]
    if others:
        source, first = others[0]
        names = tuple(dict.fromkeys(shared.other for _, shared in others[:NAMED]))
        place = Place(file="gpu/fetched.json", line=1, text=f"{source}: {first.other}")
        said = note("gpu-shared", others=names, gpu=_gpu_name(first.gpu))
        yield rules.GPU_SHARED.finding(said, [place])
        return
    used = [i for i, of_gpu in processes.by_gpu.items() if of_gpu.value > 1] if processes else []
    if processes is not None and used:
        count = f"{processes.figure.value:.0f}"
        said = note("gpu-shared-processes", processes=count, gpus=_names(gpus, used))
        yield rules.GPU_SHARED.finding(said, _evidence("processes", processes, used))


def _at_odds(
    measurement: Measurement,
    plan: RunPlan | PlannedGpus,
    chosen: Mapping[str, Chosen],
    gpus: Sequence[Gpu],
) -> Iterator[Finding]:
    active: dict[int, list[tuple[float, str]]] = {}
    spans: dict[int, tuple[float, float]] = {}
    for name in ACTIVITY:
        for i, of_gpu in chosen[name].by_gpu.items() if name in chosen else ():
            if of_gpu.coverage >= COVERED:
                active.setdefault(i, []).append((of_gpu.value, name))
                spans[i] = of_gpu.span
    idle = [i for i, values in active.items() if max(values)[0] <= 0]
    busy = [i for i, values in active.items() if max(values)[0] >= BUSY]
    if idle and (measurement.throughput or measurement.unverified) and plan.preset != "smoke":
        name = active[idle[0]][0][1]
        said = note("metrics-at-odds-idle", gpus=_names(gpus, idle))
        yield rules.METRICS_AT_ODDS.finding(said, _evidence(name, chosen[name], idle))
        return
    at_once = _at_once([spans[i] for i in busy])
    if at_once > plan.world_size:
        name = active[busy[0]][0][1]
        said = note("metrics-at-odds-more-gpus", worked=at_once, planned=plan.world_size)
        yield rules.METRICS_AT_ODDS.finding(said, _evidence(name, chosen[name], busy))
        return
    logged = measurement.gpu_model
    for i, gpu in enumerate(gpus):
        if gpu.model and logged and not _same_model(gpu.model, logged):
            said = note("metrics-at-odds-model", gpu=_gpu_name(gpu), model=gpu.model, logged=logged)
            name = next(name for name in chosen if i in chosen[name].by_gpu)
            yield rules.METRICS_AT_ODDS.finding(said, _evidence(name, chosen[name], [i]))
            return


def _apart(
    plan: RunPlan | PlannedGpus,
    chosen: Mapping[str, Chosen],
    fetched: Sequence[Fetched],
    wanted: SeriesQuery,
) -> Iterator[Finding]:
    """Yield a finding if the clocks of Prometheus and of the lines differ.

    All GPUs are idle then at an edge of the steady part, in which they worked.
    """
    busy = chosen.get("gpu_utilization")
    if busy is None or busy.figure.source != "prometheus" or len(busy.lines) > plan.world_size:
        return
    series = next(answer.series for answer in fetched if answer.source == "prometheus")
    every = [
        gpu_series.idle_edges(series[line - 1], BUSY, wanted.start, wanted.end)
        for line in busy.lines.values()
    ]
    for place, idle in zip(("first", "last"), zip(*every, strict=True), strict=True):
        seconds = min(idle)
        if seconds > 0:
            duration = times.duration(seconds)
            said = note("clocks-apart-idle-last", duration=duration)
            if place == "first":
                said = note("clocks-apart-idle-first", duration=duration)
            where = _evidence("gpu_utilization", busy, [*busy.lines])
            yield rules.CLOCKS_APART.finding(said, where)
            return


def _at_once(spans: Sequence[tuple[float, float]]) -> int:
    """Return in how many spans the middle of one lies, at most: an exchange is no overlap."""
    middles = [(first + last) / 2 for first, last in spans]
    return max((sum(a <= at <= b for a, b in spans) for at in middles), default=0)


def _same_model(name: str, other: str) -> bool:
    """True if two names may be of one model.

    One may name its memory, or its part (MIG), too.
    """
    first, second = sorted(map(plain_name, (name, other)), key=len)
    return second.startswith(first)


def _judgement(
    measurement: Measurement, plan: RunPlan | PlannedGpus, figures: Mapping[str, GpuFigure]
) -> Note | None:
    """Return the bottleneck with its figures; None if unclear."""
    known = {name: figure.value for name, figure in figures.items() if figure.coverage >= COVERED}
    waiting = measurement.data_fraction
    busy = known.get("gpu_utilization")
    link = _busiest_link(measurement, known) if plan.world_size > 1 else None
    dram = known.get("dram_active", 0.0)
    watts = known.get("power")
    limit = _number(measurement, "power_limit_w")
    if waiting is not None and busy is not None and waiting >= WAITING and busy < IDLE:
        shares = {"busy": f"{100 * busy:.0f} %", "waiting": f"{100 * waiting:.0f} %"}
        return note("bound-input", **shares)
    if link is not None and link[1] >= LINK_BOUND:
        name, share, rate = link
        moved = {"rate": f"{rate / 1e9:.1f} GB/s", "share": f"{100 * share:.0f} %"}
        return note("bound-communication", link=name, **moved)
    if dram >= DRAM_BOUND:
        return note("bound-memory", share=f"{100 * dram:.0f} %")
    if watts is not None and limit and watts >= POWER_BOUND * limit:
        clock = known.get("sm_clock")
        most = _number(measurement, "clock_sm_max_mhz")
        drawn = {"power": f"{watts:.0f} W", "limit": f"{limit:.0f} W"}
        if clock and most:
            return note("bound-power-clock", clock=f"{clock:.0f}", most=f"{most:.0f}", **drawn)
        return note("bound-power", **drawn)
    return None


def _busiest_link(
    measurement: Measurement, known: Mapping[str, float]
) -> tuple[str, float, float] | None:
    """Return the busiest link, its utilization, and bytes/s of one direction."""
    links = _number(measurement, "nvlinks")
    generation = _number(measurement, "pcie_generation")
    width = _number(measurement, "pcie_width")
    lane = PCIE_LANE_BYTES.get(int(generation or 0))
    most = {"nvlink": (links or 0) * NVLINK_BYTES, "pcie": (lane or 0) * (width or 0)}
    rates = {
        name: max(known.get(f"{name}_transmitted", 0.0), known.get(f"{name}_received", 0.0))
        for name in most
    }
    shares = [
        ({"nvlink": "NVLink", "pcie": "PCIe"}[name], rates[name] / most[name], rates[name])
        for name in most
        if most[name]
    ]
    return max(shares, key=lambda link: link[1], default=None)


def _number(measurement: Measurement, name: str) -> float | None:
    try:
        return float(str(measurement.environment.get(name)))
    except ValueError:
        return None


def _gpu_name(gpu: Gpu) -> Note:
    """Name a GPU for people: ``GPU 3 of node-1``."""
    number = gpu.uuid or "?" if gpu.index is None else str(gpu.index)
    place = gpu.node or gpu.pod
    name = note("gpu-name", number=number)
    if place:
        name = note("gpu-name-of-place", number=number, place=place)
    return note("gpu-name-part", gpu=name, part=str(gpu.mig)) if gpu.mig else name


def _names(gpus: Sequence[Gpu], chosen: Collection[int]) -> Arg:
    shown = tuple(_gpu_name(gpus[i]) for i in sorted(chosen)[:NAMED])
    more = len(chosen) - NAMED
    return note("gpu-names-more", gpus=shown, more=more) if more > 0 else shown


def _evidence(name: str, metric: Chosen, chosen: Collection[int]) -> list[Place]:
    """Point at the series in the run's artifacts."""
    return [
        Place(
            file=f"gpu/{metric.figure.source}.jsonl",
            line=metric.lines[i],
            text=f"{name}: {metric.by_gpu[i].value:.6g} {metric.figure.unit}".strip(),
        )
        for i in sorted(chosen)
        if i in metric.lines
    ]
