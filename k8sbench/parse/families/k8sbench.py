"""Our own trainers' logs: ``K8SBENCH {json}`` lines. Whole job, data wait included.

The contract is ``k8sbench/trainers/parts/events.py``. The trainers print lines in the shape of
their benchmark's family beside these; the start line decides, and those are then ignored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import msgspec

from k8sbench.model.sample import Fact, Item, Mark, Record, Shape
from k8sbench.parse.family import Family, Reader, share

PREFIX = "K8SBENCH {"
LARGEST = 10**12
"""No run has as many iterations; a larger number is a broken line."""
SHAPE = Shape(name="k8sbench", number="seconds", resolution=0.001)

_START_FACTS = {
    "impl": "impl",
    "benchmark": "benchmark",
    "variant": "variant",
    "framework": "framework",
    "framework_version": "framework_version",
    "run_id": "run_id",
    "world_size": "gpus",
    "batch_size_per_gpu": "batch_size",
    "unit": "unit",
    "precision": "precision",
    "amp_dtype": "amp_dtype",
    "precision_effective": "precision_effective",
    "device": "device",
    "data": "data",
    "preset": "preset",
    "warmup": "warmup",
    "iterations": "iterations",
    "log_interval": "log_interval",
    "seed": "seed",
}
"""Field of the start event → fact."""
_SUMMARY_FACTS = {
    "parameters": "parameters",
    "precision_effective": "precision_effective",
    "sync_bn": "sync_bn",
    "max_memory_mib": "max_memory_mib",
    "head": "head",
    "norm": "norm",
}

_CLOCK = ("clock_sm_mhz", "throttle_reasons")
"""What is told of a GPU as its last step ends, by each rank and in the summary by rank 0."""


class _Reader(Reader):
    def read(self, line: int, text: str, source: str) -> Iterator[Item]:
        at = text.find(PREFIX)
        while at >= 0:
            following = text.find(PREFIX, at + 1)
            piece = text[at : following if following >= 0 else len(text)]
            event = _decoded(piece[len(PREFIX) - 1 :])
            if event is not None:
                yield from _items(line, piece.rstrip(), source, event)
            at = following


def _decoded(text: str) -> dict[str, Any] | None:
    """The JSON object that ``text`` begins with; None for a torn one."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        try:
            found, _ = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            return None
    return found if isinstance(found, dict) else None


def _items(line: int, text: str, source: str, event: dict[str, Any]) -> Iterator[Item]:
    name = event.get("event")
    if name == "step":
        record = _record(line, text, source, event)
        if record is not None:
            yield record
    elif name == "start":
        rank = _number(event.get("rank"))
        if rank is None:
            return
        yield Mark(
            line=line,
            text=text,
            kind="start",
            source=source,
            values={"rank": rank},
            stamp=_number(event.get("time")),
        )
        yield from _facts(line, text, source, _START_FACTS, event)
        options = event.get("options")
        if isinstance(options, dict):
            for key, value in options.items():
                yield from _fact(line, text, source, f"option.{key}", value)
    elif name == "environment":
        yield from (
            fact
            for key, value in event.items()
            if key not in {"event", "rank"}
            for fact in _fact(line, text, source, key, value)
        )
    elif name == "rank":
        yield _rank(line, text, source, event)
    elif name == "summary":
        yield from _facts(line, text, source, _SUMMARY_FACTS, event)
        machine = event.get("machine")
        if isinstance(machine, dict):
            # The environment event told them, too: of a GPU that had not yet begun to work.
            for key in _CLOCK:
                yield from _fact(line, text, source, f"at_end.{key}", machine.get(key))
        yield _summary(line, text, source, event)


def _record(line: int, text: str, source: str, event: dict[str, Any]) -> Record | None:
    step, steps = _whole(event.get("step")), _whole(event.get("steps"))
    seconds = _number(event.get("seconds"))
    if step is None or step < 1 or steps is None or not 1 <= steps <= step:
        return None
    if seconds is None or not 0 < seconds < math.inf:
        return None
    holds = event.get("holds")
    return Record(
        line=line,
        text=text,
        source=source,
        shape=SHAPE,
        iteration=step,
        total=_whole(event.get("of")),
        steps=steps,
        seconds=seconds / steps,
        loss=_number(event.get("loss")),
        waiting=share(_number(event.get("data_seconds")), seconds),
        stamp=_number(event.get("time")),
        memory_mib=_number(event.get("memory_mib")),
        holds=tuple(str(what) for what in holds) if isinstance(holds, list) else (),
    )


def _rank(line: int, text: str, source: str, event: dict[str, Any]) -> Mark:
    seconds = event.get("step_seconds")
    values: dict[str, float | str | None] = {
        "rank": _number(event.get("rank")),
        "host": str(event["host"]) if isinstance(event.get("host"), str) else None,
    }
    if isinstance(seconds, dict):
        values |= {key: _number(seconds.get(key)) for key in ("mean", "median", "p95", "max")}
    values |= {key: _number(event[key]) for key in _CLOCK if key in event}
    return Mark(line=line, text=text, kind="rank", source=source, values=values)


def _summary(line: int, text: str, source: str, event: dict[str, Any]) -> Mark:
    window = event.get("window")
    values: dict[str, float | str | None] = {
        "status": str(event.get("status")),
        "steps": _number(event.get("steps")),
        "final_loss": _number(event.get("final_loss")),
    }
    if isinstance(window, dict):
        for key in ("first_step", "last_step", "seconds", "samples", "samples_per_second"):
            values[key] = _number(window.get(key))
    return Mark(line=line, text=text, kind="summary", source=source, values=values)


def _facts(
    line: int, text: str, source: str, names: dict[str, str], event: dict[str, Any]
) -> Iterator[Fact]:
    for key, name in names.items():
        yield from _fact(line, text, source, name, event.get(key))


def _fact(line: int, text: str, source: str, name: str, value: object) -> Iterator[Fact]:
    if isinstance(value, (str, int, float)):
        yield Fact(line=line, text=text, name=name, value=str(value), source=source)


def _number(value: object) -> float | None:
    """A number, or one of the strings that stand for what JSON has no word for."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if value in ("nan", "inf", "-inf"):
        return float(str(value))
    return None


def _whole(value: object) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST
    return value if isinstance(value, int) and fits else None


FAMILY = Family(
    name="k8sbench",
    title="k8sbench's own trainers",
    framework=None,
    unit="samples/s",
    needles=(PREFIX,),
    reader=_Reader,
)
