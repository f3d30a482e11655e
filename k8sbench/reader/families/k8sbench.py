"""Our own trainers' logs: ``K8SBENCH {json}`` lines. Whole job, data wait included.

The contract is ``k8sbench/trainers/parts/events.py``. Until 0.3 the trainers
printed lines in the shape of their benchmark's family beside these: they are ignored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from k8sbench.model import gpu_metrics
from k8sbench.model.sample import Evaluation, Fact, GpuSamples, Item, Mark, MarkKind, Record, Shape
from k8sbench.reader.family import MOST_ITERATIONS, Family, LineReader, LineRule, received_at, share
from k8sbench.reader.lines import CleanLine

OWN = "K8SBENCH {"
"""First characters of our own trainers' lines."""
_decode = msgspec.json.Decoder().decode
SHAPE = Shape(name="k8sbench", number="seconds", resolution=0.001, has_two_clocks=True)

_START_FACTS = (
    "impl",
    "benchmark",
    "variant",
    "framework",
    "framework_version",
    "run_id",
    "world_size",
    "batch_size_per_gpu",
    "unit",
    "precision",
    "amp_dtype",
    "precision_effective",
    "device",
    "data",
    "preset",
    "warmup",
    "iterations",
    "log_interval",
    "seed",
    "mode",
)
_SUMMARY_FACTS = (
    "parameters",
    "precision_effective",
    "sync_bn",
    "max_memory_mib",
    "head",
    "norm",
    "broken_samples",
    "ended_by",
)
_INPUTS = {"data": ("name", "digest", "train", "val"), "weights": ("file", "digest", "loaded")}
"""Events of what a run reads, and their fields: facts such as ``data.digest``."""
_FACT_OF_FIELD = {"world_size": "gpus", "batch_size_per_gpu": "batch_size"}
"""Field of an event → the fact, where the two names differ."""
_CLOCK = ("clock_sm_mhz", "throttle_reasons")
"""GPU state at the last step, per rank; rank 0's is in the summary."""
_GPU = ("pod", "node", "host", "gpu_model", "gpu_uuid")
"""Fields that identify a rank's GPU."""
_TIMES = ("mean", "median", "p95", "max")
_HAPPENED = ("restored", "failed", "part", "path", "why")
_WINDOW = ("first_step", "last_step", "seconds", "samples", "samples_per_second")


class _K8sbenchReader(LineReader):
    def rules(self) -> list[LineRule]:
        return [LineRule(OWN, _read)]


def _read(line: CleanLine) -> Iterator[Item]:
    # A line may hold several events, glued together; what the node put in front is the first's.
    before, *events = line.text.split(OWN)
    received = "" if before.strip() else line.received
    for printed in events:
        event = _decoded("{" + printed)
        if event is not None:
            part = line._replace(text=(OWN + printed).rstrip(), received=received)
            yield from _items(part, event)
        received = ""


def _decoded(text: str) -> dict[str, Any] | None:
    """The JSON object that ``text`` begins with; None for a torn one."""
    try:
        event = _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        try:
            event, _ = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            return None
    return event if isinstance(event, dict) else None


def _items(line: CleanLine, event: dict[str, Any]) -> Iterator[Item]:
    name = event.get("event")
    if name == "step":
        yield from _record(line, event)
        if event.get("evaluates"):
            yield _mark(line, event, "evaluates", ["step"])
    elif name == "start":
        if _number(event.get("rank")) is None:
            return
        yield _mark(line, event, "start", ["rank"])
        yield from _facts(line, event, _START_FACTS)
        yield from _facts(line, _object(event, "options"), prefix="option.")
    elif name == "environment":
        yield from _facts(line, event, event.keys() - {"event", "rank"})
        stated = _object(event, "arithmetic")
        yield from _facts(line, stated, ("by", "digest"), prefix="arithmetic.")
        yield from _facts(line, _object(stated, "types"), prefix="arithmetic.types.")
        if event.get("gpu_model") or event.get("node"):
            yield _mark(line, event, "gpu", ["rank"], _GPU)
    elif name == "gpu":
        samples = _gpu_samples(line, event)
        if samples is not None:
            yield samples
    elif name == "rank":
        times = event | _object(event, "step_seconds")
        yield _mark(line, times, "rank", ["rank", *_TIMES], ["host"])
    elif name == "begin":
        yield _mark(line, event, "begin", ["clock"], ["boot"])
    elif name == "evaluation":
        yield _mark(line, event, "evaluation", ["step"])
        yield from _evaluation(line, event)
    elif name in _INPUTS:
        yield from _facts(line, event, _INPUTS[name], prefix=f"{name}.")
    elif name in {"resume", "checkpoint", "broken"}:
        yield _mark(line, event, name, ["step"], _HAPPENED)
    elif name == "summary":
        yield from _facts(line, event, _SUMMARY_FACTS)
        # The environment event holds them, too: of a GPU that had not yet begun to work.
        yield from _facts(line, _object(event, "machine"), _CLOCK, prefix="at_end.")
        figures = event | _object(event, "window")
        numbers = ["steps", "final_loss", *_WINDOW]
        yield _mark(line, figures, "summary", numbers, ["status", "ended_by"])


def _record(line: CleanLine, event: dict[str, Any]) -> Iterator[Record]:
    step = _whole(event.get("step"))
    steps = _whole(event.get("steps"))
    seconds = _number(event.get("seconds"))
    if step is None or step < 1 or steps is None or not 1 <= steps <= step:
        return
    if seconds is None or not 0 < seconds < math.inf:
        return
    holds = event.get("holds")
    paused = _number(event.get("paused_seconds"))
    yield Record(
        line=line.number,
        text=line.text,
        source=line.source,
        shape=SHAPE,
        iteration=step,
        total=_whole(event.get("of")),
        steps=steps,
        seconds=seconds / steps,
        loss=_number(event.get("loss")),
        waiting=share(_number(event.get("data_seconds")), seconds),
        stamp=_number(event.get("time")),
        taken=received_at(line.received),
        memory_mib=_number(event.get("memory_mib")),
        holds=tuple(str(what) for what in holds) if isinstance(holds, list) else (),
        paused=paused if paused is not None and 0 < paused < math.inf else 0.0,
    )


def _evaluation(line: CleanLine, event: dict[str, Any]) -> Iterator[Evaluation]:
    """Its headline first, then its other figures; none that is no finite number."""
    headline = str(event.get("metric"))
    unit = event.get("unit")
    named: dict[str, Any] = {headline: None} | _object(event, "figures")
    figures = named | {headline: event.get("value")}
    for name, value in figures.items():
        number = _number(value)
        if number is None or not math.isfinite(number):
            continue
        yield Evaluation(
            line=line.number,
            text=line.text,
            source=line.source,
            metric=name,
            value=number,
            unit="%" if unit == "%" else "fraction" if unit == "fraction" else "unknown",
            stamp=_number(event.get("time")),
            step=_whole(event.get("step")),
            samples=_whole(event.get("samples")),
            of=_whole(event.get("of")),
            target=_number(event.get("target")) if name == headline else None,
            elapsed=_number(event.get("elapsed")),
        )


def _mark(
    line: CleanLine,
    event: dict[str, Any],
    kind: MarkKind,
    numbers: Iterable[str] = (),
    texts: Iterable[str] = (),
) -> Mark:
    """Numbers are None where they are none; texts are left out."""
    values: dict[str, float | str | None] = {name: _number(event.get(name)) for name in numbers}
    values |= {name: str(event[name]) for name in texts if event.get(name)}
    return line.mark(kind, values=values, stamp=_number(event.get("time")))


def _gpu_samples(line: CleanLine, event: dict[str, Any]) -> GpuSamples | None:
    rank = _whole(event.get("rank"))
    at = _numbers(event.get("at"))
    if rank is None or not at or None in at:
        return None
    values = {name: _numbers(event[name]) for name in event.keys() & gpu_metrics.BY_ID.keys()}
    return GpuSamples(
        line=line.number,
        text=line.text,
        source=line.source,
        rank=rank,
        every=_number(event.get("every")),
        at=tuple(moment for moment in at if moment is not None),
        values={name: numbers for name, numbers in values.items() if len(numbers) == len(at)},
    )


def _object(event: dict[str, Any], name: str) -> dict[str, Any]:
    value = event.get(name)
    return value if isinstance(value, dict) else {}


def _facts(
    line: CleanLine,
    event: Mapping[str, Any],
    names: Iterable[str] | None = None,
    prefix: str = "",
) -> Iterator[Fact]:
    """Yield facts of the named fields of an event; None: all fields."""
    for name in event if names is None else names:
        value = event.get(name)
        if isinstance(value, (str, int, float)):
            yield line.fact(prefix + _FACT_OF_FIELD.get(name, name), str(value))


def _number(value: object) -> float | None:
    """Read a number, or a string for one that JSON cannot hold."""
    if type(value) is float:
        return value  # as almost all are
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    return float(str(value)) if value in ("nan", "inf", "-inf") else None


def _numbers(value: object) -> tuple[float | None, ...]:
    """The finite numbers of a list, and None for the others."""
    numbers = map(_number, value) if isinstance(value, list) else ()
    return tuple(
        number if number is not None and math.isfinite(number) else None for number in numbers
    )


def _whole(value: object) -> int | None:
    if type(value) is not int:
        return None
    return value if abs(value) < MOST_ITERATIONS else None


FAMILY = Family(
    name="k8sbench",
    title="k8sbench's own trainers",
    framework=None,
    unit="samples/s",
    make_reader=_K8sbenchReader,
    is_always_candidate=True,
    states_plan=True,
    states_starts=True,
    states_training=True,
    facts_of_run=("run_id", "batch_size", "mode", "data.digest", "weights.digest"),
    stamps_utc=True,
    # On CPUs, in the tests of the trainers.
    tried_with={"paddle": ("2.6", "3.3")},
)
