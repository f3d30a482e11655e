"""Result logs of MLPerf Training: events of mlperf-logging, one JSON object a line.

Each submitter states its speed in another event: samples per second (``throughput``), seconds per
step (``train_step_time``), or the samples between the stamps of a block. The first of these that a
log has is read, that of a whole block before that of a step, and no other. What a number of an
event counts (steps, samples or epochs) differs too: the times of the first events tell.
"""

from __future__ import annotations

import datetime
import functools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from k8sbench.messages import note
from k8sbench.model.sample import Fact, Item, Record, Shape
from k8sbench.reader.family import (
    BEGUN_AT,
    TIME_DOUBT,
    Family,
    LineReader,
    LineRule,
    received_at,
    rule,
)
from k8sbench.reader.lines import CleanLine

_NEEDLE = ":::MLLOG"
_RATE = Shape(name="mlperf", number="rate", complete=False, resolution=0.001)
_RATE_BY_SAMPLES = msgspec.structs.replace(_RATE, counts_samples=True)
"""For a log that counts samples and does not state those of a step."""
_RATE_OF_ONE = msgspec.structs.replace(_RATE, name="mlperf of one GPU", per="card")
_SECONDS = msgspec.structs.replace(_RATE, name="mlperf by step", number="seconds")
_SAMPLES_COUNT = "samples_count"
_COUNTS = (_SAMPLES_COUNT, "step", "step_num", "epoch_num", "epoch_count")
"""Numbers of an event that count what was done, the best first."""
_RATES = ("throughput", "imgs_sec")
_STEP_TIMES = ("train_step_time", "train_step_timing in s", "train_step_timing")
_BEGINS = frozenset({"run_start", "block_start", "epoch_start"})
"""Begins of training; the time of evaluations behind them is left out."""
_ENDS = frozenset({"block_stop", "eval_start", "epoch_stop", "run_stop"})
"""Ends of blocks."""
_OTHER_UNITS = frozenset({"minigo"})
"""Benchmarks whose throughput is not of samples."""


RETINANET_SAMPLES = 1_170_301
"""Training samples of RetinaNet: OpenImages, by the rules of MLPerf Training v2.0 and later.

Its logs state an epoch's steps as ``train_samples``.
"""
ROUNDED = 0.02
"""Relative difference of an epoch's steps × batch and its samples."""
OF_ONE_GPU = 1.5
"""Least quotient of samples by time and a rate, from which on the rate is of one GPU."""
SAMPLES = 100_000
"""Fewer ``train_samples`` may be steps, or other samples."""
FAR_ABOVE = 3.0
"""Rate ÷ samples by the run's time, evaluations included, from which on the two contradict."""
SAME_TIME = 2.0
"""Largest quotient of the time that an event covers and that of its number, in a unit."""
FEWEST_MISFITS = 3
"""Events that show it: a first one holds a warm-up, one more the change from it."""
UNDECIDED = 2000
"""Step times that are kept until a block ends, whose own statement goes before theirs."""


class _Speed(NamedTuple):
    """Speed that an event states."""

    kind: tuple[object, ...]
    """Identity of events that say the same: its place in the program, and its numbers."""
    done: float | None
    """Amount done so far, in the event's own unit; None if not stated."""
    rate: float | None = None
    """Samples per second of the job."""
    seconds: float | None = None
    """Seconds of a step."""
    counts_samples: bool = False
    """True if ``done`` counts samples by its name."""
    passed: float | None = None
    """Seconds of training since it began or the event before; None if unknown."""
    evaluated: float = 0.0
    """Seconds of evaluations in that stretch."""
    at: float | None = None
    """Milliseconds at which it says so; None if unknown, or behind the run."""


_Said = tuple[CleanLine, _Speed]


class _MlperfReader(LineReader):
    def __init__(self, family: Family) -> None:
        self._kind: tuple[object, ...] | None = None
        """Events that state this log's speed; None so far."""
        self._undecided: list[_Said] = []
        self._block: tuple[float, float] | None = None
        """Samples and milliseconds at the begin of the current block."""
        self._ended = 0.0
        """Samples at the end of the latest block."""
        self._epoch: float | None = None
        """Milliseconds at the begin of the current epoch."""
        self._run: float | None = None
        """Milliseconds at the begin of the run."""
        self._epochs = 0
        """Epochs that have ended in it."""
        self._facts: dict[str, object] = {}
        """Values of events, by their keys."""
        self._job_rate: float | None = None
        """Samples of the latest epoch by its time; None if the log does not tell."""
        self._counted = 0.0
        """The latest event's count."""
        self._begin: float | None = None
        """Milliseconds at the latest begin of training."""
        self._latest: dict[tuple[object, ...], tuple[float, float]] = {}
        """Milliseconds of the latest event of each kind since then, and of evaluations by then."""
        self._evaluates: float | None = None
        """Milliseconds at the begin of the current evaluation."""
        self._evaluated = 0.0
        """Milliseconds of evaluations since the latest begin of training."""
        self._held = 0.0
        """Seconds of evaluations in the stretches of rates that hold them."""
        self._unit: float | None = None
        """Samples of one of what is counted; None so far."""
        self._is_counted = False
        """True if the unit is of a known kind, so that the events' times can contradict it."""
        self._misfits = 0
        """Events whose count is of no known kind, before one is."""
        self._runs = True
        """False behind the end of the run, where events repeat its figures at another time."""
        self._amount = 0.0
        """Amount of all records."""
        self._time = 0.0
        """Time of that amount, by the records."""
        super().__init__(family)

    def rules(self) -> list[LineRule]:
        return [LineRule(_NEEDLE, self._event)]

    def _event(self, line: CleanLine) -> Iterator[Item]:
        text = line.text
        try:
            event = json.loads(text[text.index("{", text.index(_NEEDLE)) :])
        except ValueError:
            return
        if not isinstance(event, dict) or not isinstance(event.get("metadata"), dict):
            return
        key = event.get("key")
        about = event["metadata"]
        at = _number(event.get("time_ms"))
        if key in {"submission_benchmark", "global_batch_size", "train_samples"}:
            self._facts[key] = event.get("value")
        elif key in {"eval_start", "eval_stop"}:
            yield line.mark("evaluation")
            self._evaluate(key, at)
        elif key == "run_start":
            self._begin_run(at)
        elif key == "run_stop":
            yield from self._run_end(line, at)
            self._runs = False
            if about.get("status") == "success":
                yield line.mark("finished")
        elif key == "epoch_start":
            self._epoch = at
        elif key == "epoch_stop":
            self._epochs += 1
            yield from self._epoch_end(line, at)
        if key in _BEGINS and at is not None:
            self._begin_training(at)
        benchmark = self._facts.get("submission_benchmark")
        for speed in () if benchmark in _OTHER_UNITS else _speeds(event, self._measure_block):
            yield from self._say((line, self._timed(speed, at)))
        if key in _ENDS:
            yield from self._decide()

    def _begin_run(self, at: float | None) -> None:
        """Begin a run; the lines of one that ended before count from its own begin."""
        self._run, self._epochs, self._runs = at, 0, True
        self._amount = self._time = self._counted = self._ended = 0.0
        self._block = None

    def _measure_block(
        self, key: object, samples: float | None, at: float | None
    ) -> Iterator[_Speed]:
        """Yield the samples of a block by its time."""
        if samples is None or at is None:
            return
        before = self._block
        # Some begin a block with its number of steps, or of its own samples.
        self._block = (max(samples, self._ended), at) if key == "block_start" else None
        if key == "block_stop":
            self._ended = max(samples, self._ended)
        if key == "block_stop" and before is not None and samples > before[0] and at > before[1]:
            rate = 1000 * (samples - before[0]) / (at - before[1])
            yield _Speed((key,), samples, rate=rate, counts_samples=True)

    def _timed(self, speed: _Speed, at: float | None) -> _Speed:
        """Add the time since training began or the event before."""
        since, before = self._latest.get(speed.kind, (self._begin, 0.0))
        if at is None:
            return speed
        speed = speed._replace(at=at if self._runs else None)
        self._latest[speed.kind] = (at, self._evaluated)
        if since is None:
            return speed
        evaluated = (self._evaluated - before) / 1000
        return speed._replace(passed=(at - since) / 1000 - evaluated, evaluated=evaluated)

    def _begin_training(self, at: float) -> None:
        self._begin = at
        self._evaluated = 0.0
        self._latest.clear()

    def _evaluate(self, key: str, at: float | None) -> None:
        """Begin or end an evaluation, whose time is no training."""
        begun, self._evaluates = self._evaluates, at if key == "eval_start" else None
        if key == "eval_stop" and at is not None:
            if begun is None:
                self._begin_training(at)
            else:
                self._evaluated += at - begun

    def _say(self, said: _Said) -> Iterator[Item]:
        """Yield a record, once it is known which events state the log's speed."""
        if self._kind is None:
            self._undecided.append(said)
            # Of the very first event in a log the time that it covers is not known.
            is_timed = said[1].passed is not None or said[1].counts_samples
            if (said[1].rate and is_timed) or len(self._undecided) == UNDECIDED:
                yield from self._decide()
        elif self._kind == said[1].kind:
            yield from self._record(*said)

    def _decide(self) -> Iterator[Item]:
        """Choose the events that state the log's speed: a rate, else the rarest, of blocks."""
        if self._kind is not None or not self._undecided:
            return
        kinds = [speed.kind for _, speed in self._undecided]
        _, best = min(
            self._undecided, key=lambda said: (said[1].rate is None, kinds.count(said[1].kind))
        )
        self._kind = best.kind
        chosen = [said for said in self._undecided if said[1].kind == self._kind]
        counted = 0.0
        for _, speed in chosen:
            self._learn_unit(speed, _added(speed.done, counted))
            counted = speed.done or 0.0
        for line, speed in chosen:
            yield from self._record(line, speed)
        self._undecided.clear()

    def _is_of_one(self, speed: _Speed) -> bool:
        """True if an event states the rate of one GPU."""
        return speed.rate is not None and (self._job_rate or 0.0) > OF_ONE_GPU * speed.rate

    def _samples_by_time(self, speed: _Speed) -> float | None:
        """Return the samples of an event by its speed and time; None if unknown."""
        rate = self._job_rate if self._is_of_one(speed) else speed.rate
        if rate is None and self._batch and speed.seconds:
            rate = self._batch / speed.seconds
        return rate * speed.passed if rate and speed.passed and speed.passed > 0 else None

    def _learn_unit(self, speed: _Speed, added: float | None) -> None:
        """Learn the samples of one of what the events count, where an event tells.

        Of samples, steps and epochs it is what comes nearest to the speed by the time. Where none
        comes near, as in a first block that holds the warm-up, a later event may tell.
        """
        if self._unit is not None:
            return
        if speed.counts_samples:
            self._unit, self._is_counted = 1.0, True
            return
        samples = self._samples_by_time(speed)
        if samples is None or added is None:
            return
        by_time = samples / added
        if speed.done is None:
            self._unit = by_time
            return
        stated = _number(self._facts.get("train_samples"))
        units = filter(None, (1.0, self._batch, self._samples_of_epoch(), stated))
        apart, unit = min((abs(math.log(unit / by_time)), unit) for unit in units)
        if apart < math.log(SAME_TIME):
            self._unit, self._is_counted = unit, True

    @property
    def _batch(self) -> float | None:
        return _number(self._facts.get("global_batch_size"))

    def _samples_of_epoch(self) -> float | None:
        """Return the samples of an epoch; None if unknown."""
        stated = _number(self._facts.get("train_samples")) or 0.0
        if math.isclose(stated * (self._batch or 0.0), RETINANET_SAMPLES, rel_tol=ROUNDED):
            return RETINANET_SAMPLES
        return stated if stated >= SAMPLES else None

    def _record(self, line: CleanLine, speed: _Speed) -> Iterator[Item]:
        # Some events have the count since the begin, others that of their block, or none.
        counted = _added(speed.done, self._counted)
        self._counted = speed.done or 0.0
        self._learn_unit(speed, counted)
        samples = counted * self._unit if counted is not None and self._unit else None
        holds = _holds_evaluations(speed, samples)
        if samples is None:
            samples = self._samples_by_time(speed)
            self._misfits += None not in {samples, counted, speed.at}
        added = counted or 1.0
        if samples is not None and (self._batch or not self._unit or counted is None):
            added = samples / (self._batch or 1.0)
        by_samples = self._unit == 1 and not self._batch
        before = round(self._amount)
        self._held += speed.evaluated if holds else 0.0
        self._amount += added
        self._time += added * (1 / speed.rate if speed.rate else speed.seconds or 1.0)
        mean = self._amount / self._time
        of_one = self._is_of_one(speed)
        rate = _RATE_OF_ONE if of_one else _RATE_BY_SAMPLES if by_samples else _RATE
        # Of one run all have one text: the last of them counts.
        whole = {
            "whole_run_rate": mean if speed.rate else None,
            "whole_run_seconds": None if speed.rate else 1 / mean,
            "per": "card" if of_one else "job",
            "of_lines": 1.0,
            "evaluated": self._held,
        }
        yield line.mark("summary", f"{_NEEDLE} throughput", whole)
        if self._misfits == FEWEST_MISFITS:
            position = f"{speed.done:g}"
            why = note("clock-mismatch-unknown-count", events=self._misfits, position=position)
            yield line.doubt(TIME_DOUBT, why)
            self._misfits += 1
        steps = max(round(self._amount) - before, 1)
        yield Record(
            line=line.number,
            taken=received_at(line.received) if line.received else None,
            text=line.text,
            source=line.source,
            shape=_SECONDS if speed.rate is None else rate,
            iteration=before + steps,
            steps=steps,
            rate=speed.rate,
            seconds=speed.seconds,
            # Mask R-CNN is evaluated beside the training: an evaluation's time is left in.
            stamp=speed.at / 1000 if speed.at is not None and self._is_counted else None,
            holds=("evaluation",) if holds else (),
        )

    def _epoch_end(self, line: CleanLine, at: float | None) -> Iterator[Item]:
        """Yield RetinaNet's samples by the time of an epoch.

        Most submitters state its samples per second of one GPU, some those of the job.
        """
        is_known = self._samples_of_epoch() == RETINANET_SAMPLES
        if is_known and at and self._epoch and at > self._epoch:
            self._job_rate = 1000 * RETINANET_SAMPLES / (at - self._epoch)
            yield line.mark("summary", f"{_NEEDLE} epoch", {"job_rate": self._job_rate})

    def _run_end(self, line: CleanLine, at: float | None) -> Iterator[Item]:
        """Yield the samples of all epochs by the run's time, where the rates are far above it.

        A program that does not wait for its GPUs prints the rate at which it hands out work.
        """
        each = _number(self._facts.get("train_samples")) or 0.0
        if not (self._time and at and self._run and at > self._run and each >= SAMPLES):
            return
        if not self._epochs:
            return  # a log of blocks states no epoch's end
        rate = 1000 * each * self._epochs / (at - self._run)
        if self._amount / self._time > FAR_ABOVE * rate:
            yield line.mark("summary", f"{_NEEDLE} run", {"job_rate": rate})


def _speeds(
    event: Mapping[str, Any], of_block: Callable[..., Iterator[_Speed]]
) -> Iterator[_Speed]:
    """Yield what an event says of the speed."""
    key = event.get("key")
    value = event.get("value")
    about = event["metadata"]
    counts = ((n, name) for name in _COUNTS if (n := _number(about.get(name))) is not None)
    count, name = next(counts, (None, ""))
    said = functools.partial(_Speed, done=count, counts_samples=name == _SAMPLES_COUNT)
    place = (key, about.get("file"), about.get("lineno"))
    if key in {"block_start", "block_stop"}:
        at = _number(event.get("time_ms"))
        yield from of_block(key, _number(about.get("samples_count")), at)
    elif key == "throughput" and (rate := _number(value)):
        yield said(place, rate=rate)
    elif key == "tracked_stats" and isinstance(value, dict):
        kind = (*place, *sorted(value))
        rate = next((r for name in _RATES if (r := _number(value.get(name)))), None)
        seconds = next((t for name in _STEP_TIMES if (t := _number(value.get(name)))), None)
        if rate or seconds:
            yield said(kind, rate=rate, seconds=seconds)


def _added(count: float | None, before: float) -> float | None:
    """Return what an event adds, given its count and the one before; 1 without a count.

    None where the first count is 0: it is of the begin of what the event ends.
    """
    if count == 0 and before == 0:
        return None
    count = count or 0.0
    return count - before if count > before else count or 1.0


def _holds_evaluations(speed: _Speed, samples: float | None) -> bool:
    """Return True if an event's rate is its samples by the time of evaluations, too."""
    passed, evaluated = speed.passed or 0.0, speed.evaluated
    if not (speed.rate and samples) or passed <= 0 or evaluated <= 0:
        return False
    by_all = speed.rate * (passed + evaluated) / samples
    return math.isclose(by_all, 1.0, rel_tol=min(ROUNDED, evaluated / passed / 2))


def _number(value: object) -> float | None:
    """Return a number, also the only one of a list; None for all else."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < math.inf else None


def _event_rule(key: str, name: str) -> Any:
    return rule(f'"{key}"', rf'"key": "{key}", "value": (?P<{name}>\d+)')


def _begun(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    if (start := stated.get("_run_start")) is not None:
        at = datetime.datetime.fromtimestamp(int(start.value) / 1000, datetime.UTC)
        yield start.like(BEGUN_AT, f"{at:%Y-%m-%d %H:%M:%S}")


FAMILY = Family(
    name="mlperf",
    title="MLPerf Training's result logs",
    framework=None,
    unit="samples/s",
    facts=(
        _event_rule("global_batch_size", "global_batch"),
        _event_rule("max_sequence_length", "sequence_length"),
        rule('"run_start"', r'"time_ms": (?P<_run_start>\d{1,14}),.*"key": "run_start"'),
    ),
    derive=_begun,
    warmup=1,
    shares_samples=True,
    summary="if-few",
    make_reader=_MlperfReader,
)
