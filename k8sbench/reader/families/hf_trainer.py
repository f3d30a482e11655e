"""Hugging Face's Trainer, whose last line has the run's rate.

A log without that line, of a run that goes on or was cut off, is measured by its progress bar: its
whole seconds are the time since the run began.

The program divides the samples (and steps) of the whole plan by the time since it began. After a
resume or an early stop fewer steps ran: the log states those elsewhere, if at all. A progress bar
counts them, and the last line has the epochs that are done, of examples and a batch that the head
states.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from k8sbench.model.sample import Fact, Item, Mark, Record, Shape
from k8sbench.reader.family import (
    BATCH_DOUBT,
    BEGUN_AT,
    DATED,
    MOST_EPOCHS,
    MOST_ITERATIONS,
    UNENDED,
    Family,
    LineReader,
    LineRule,
    MarkRule,
    number_in,
    received_at,
    rule,
)
from k8sbench.reader.lines import CleanLine

_KEYS = {
    "train_samples_per_second": "whole_run_rate",
    "train_steps_per_second": "steps_rate",
    "train_runtime": "seconds",
    "train_loss": "final_loss",
    "epoch": "epochs",
}
_LAST = re.compile(
    r"\{(?=[^{}]*'train_samples_per_second': '?\d)"
    + "".join(rf"(?:(?=[^{{}}]*'{key}': '?(?P<{name}>[-+.\de]+))|)" for key, name in _KEYS.items())
    + r"[^{}]*"
)
_BAR = re.compile(
    r"\| (?P<done>\d{1,12})/(?P<total>\d{1,12}) "
    r"\[(?:(?P<hours>\d{1,4}):)?(?P<minutes>\d\d):(?P<seconds>\d\d)<"
)
_CLOCK = ("hours", "minutes", "seconds")
_HEAD = {
    "Num examples": "examples",
    "Num Epochs": "epochs",
    "Num epochs": "epochs",
    "Total train batch size": "batch",
    "Gradient Accumulation steps": "accumulated",
    "Total optimization steps": "steps",
    "Continuing training from global step": "begun",
}
"""Beginning of a head's line → name of its number."""


SECONDS_APART = 30
"""Least seconds between two bars that are records: a bar has whole seconds."""
HALF_DIGIT = 0.0005
"""Half of the last digit of the printed steps per second, which may be few …"""
ROUNDED_STEPS = 0.01
"""… and the relative error of the steps beside it: later versions round the time, too."""
SHARED = "Several GPUs share a sequence, which the program counts once for each of them."
_SHAPE = Shape(name="hf-trainer", number="seconds", begins_late=True)
_EVAL_RUNTIME = re.compile(r"'eval_runtime': '?(?P<seconds>\d+(?:\.\d+)?)")
_LOSS_LINE = re.compile(r"^\W*\{'loss': '?(?P<loss>[-+.\de]+|nan)'?, ")


def _whole(fact: Fact) -> int:
    return int(fact.value.replace(",", ""))


class _Bar(NamedTuple):
    """Progress bar of an attempt."""

    first: int
    """The first number of done steps above 0."""
    elapsed: int
    """Seconds at that moment."""
    last: int
    ended: int = 0
    """Seconds at the last one."""


class _HfTrainerReader(LineReader):
    """Adds to the last line how many of the planned steps ran."""

    def __init__(self, family: Family) -> None:
        self._head: dict[str, int] = {}
        """Numbers of the latest attempt's head; empty without one."""
        self._bars: dict[int, _Bar] = {}
        """By the number of all steps."""
        self._latest_total = 0
        """All steps of the bar drawn last."""
        self._total = 0
        """All steps of the training's bar, as the head or a line of a loss shows; 0 if unknown."""
        self._recorded: _Bar | None = None
        """The training's bar at the latest record, or where it was first seen."""
        self._loss: float | None = None
        self._has_records = False
        self._evaluating = 0.0
        """Seconds of evaluations since the latest record."""
        self._evaluated_in_all = 0.0
        """Seconds of the attempt's evaluations."""
        super().__init__(family)

    def rules(self) -> list[LineRule]:
        (last,) = super().rules()

        def read(line: CleanLine) -> Iterator[Item]:
            for mark in last.read(line):
                assert isinstance(mark, Mark)
                values = {"evaluated": self._evaluated_in_all, **self._steps(mark)}
                yield msgspec.structs.replace(mark, values=mark.values | values)

        # A later attempt has a head of its own, behind the records of the one before.
        heads = dict.fromkeys(fact.needle for fact in self._family.facts)
        return [
            *(LineRule(needle, self._read_head) for needle in heads),
            LineRule("'loss': ", self._read_loss),
            LineRule("'eval_runtime': ", self._evaluated),
            LineRule("it/s", self._bar),
            LineRule("s/it", self._bar),
            last._replace(read=read),
        ]

    def facts(self, line: CleanLine) -> Iterator[Fact]:
        """Facts in a line before the first record; :meth:`_read_head` reads the numbers."""
        for fact in super().facts(line):
            if fact.name == "steps" and self._head:
                yield line.fact(UNENDED, "True")
            elif fact.name == "batch" and self._head:
                yield line.fact("global_batch", str(_whole(fact)))
            elif fact.name == "_sharing" and _whole(fact) > 1:
                yield line.fact(BATCH_DOUBT, SHARED)
            elif fact.name == BEGUN_AT:
                yield fact

    def _read_head(self, line: CleanLine) -> Iterator[Item]:
        for fact in super().facts(line):
            if fact.name == "_begins":
                self._head = {"begun": 0}
                self._evaluated_in_all = 0.0
                self._bars.clear()
                self._total, self._recorded = 0, None
            # An evaluation before it has examples of its own.
            elif self._head and fact.name not in {"_sharing", BEGUN_AT}:
                self._head[fact.name] = self._head.get(fact.name) or _whole(fact)
                self._total = self._head.get("steps", 0)
                if fact.name == "begun" and self._has_records:
                    yield line.mark("resume", values={"step": float(_whole(fact))})

    def _read_loss(self, line: CleanLine) -> Sequence[Item]:
        match = _LOSS_LINE.search(line.text)
        if match is not None:
            self._loss = number_in(match["loss"])
            self._total = self._total or self._latest_total
        return ()

    def _evaluated(self, line: CleanLine) -> Iterator[Item]:
        """Leave the seconds of an evaluation, which the program states, out of the bar's."""
        for match in _EVAL_RUNTIME.finditer(line.text):
            seconds = number_in(match["seconds"]) or 0.0
            self._evaluating += seconds
            self._evaluated_in_all += seconds
            yield line.mark("evaluation", match[0])

    def _bar(self, line: CleanLine) -> Iterator[Item]:
        for match in _BAR.finditer(line.text):
            hours, minutes, seconds = (int(match[name] or 0) for name in _CLOCK)
            done = int(match["done"])
            total = int(match["total"])
            self._latest_total = total
            elapsed = 3600 * hours + 60 * minutes + seconds
            if done and total == self._total:
                yield from self._record(line, match[0], done, elapsed)
            bar = self._bars.get(total)
            if done == 0:
                self._bars.pop(total, None)
            elif bar is None or done < bar.last:
                self._bars[total] = _Bar(done, elapsed, done, elapsed)
            else:
                self._bars[total] = bar._replace(last=done, ended=elapsed)

    def _record(self, line: CleanLine, text: str, done: int, elapsed: int) -> Iterator[Record]:
        """Yield a record for the steps since the bar at the latest one."""
        before = self._recorded
        if before is None or done < before.last:
            self._recorded = _Bar(done, elapsed, done)
            if before is None:
                return
            steps = done
            time = max(elapsed, 1)
        else:
            steps = done - before.last
            time = elapsed - before.elapsed
            if steps == 0 or time - self._evaluating < SECONDS_APART:
                return
            self._recorded = before._replace(last=done, elapsed=elapsed)
        paused, self._evaluating = self._evaluating, 0.0
        self._has_records = True
        yield Record(
            line=line.number,
            taken=received_at(line.received) if line.received else None,
            text=text,
            source=line.source,
            shape=_SHAPE,
            iteration=done,
            total=self._total,
            seconds=(time - paused) / steps,
            steps=steps,
            paused=paused,
            loss=self._loss,
        )

    def _steps(self, last: Mark) -> dict[str, float | str | None]:
        """Return planned steps, also by the last line's rate, and those that ran."""
        seconds = last.number("seconds") or 0.0
        by_rate = seconds * (last.number("steps_rate") or 0.0)
        by_rate = by_rate if 0 < by_rate < MOST_ITERATIONS else 0.0
        slack = ROUNDED_STEPS * by_rate + HALF_DIGIT * seconds + 1
        planned = self._head.get("steps") or self._of_bar(by_rate, slack) or round(by_rate)
        begun, ended = self._by_bar(planned, seconds)
        begun = self._head.get("begun", begun)
        ended = self._by_epochs(planned, last.number("epochs") or 0.0) or ended
        numbers = {"by_rate": by_rate, "slack": slack, "planned": planned, "ran": ended - begun}
        return {name: float(number) for name, number in numbers.items()}

    def _of_bar(self, by_rate: float, slack: float) -> int | None:
        """Return the steps of the training's bar, or of one that time and rate come to."""
        totals = [self._total] if self._total else list(self._bars)
        near = [total for total in totals if by_rate and abs(total - by_rate) <= slack]
        return min(near, key=lambda total: abs(total - by_rate), default=None)

    def _by_bar(self, planned: int, seconds: float) -> tuple[int, int]:
        """Return the steps before the attempt and its last one, to about a second.

        The log may lack the bars of its beginning, or the last ones: their times show it.
        """
        bar = self._bars.get(planned)
        if bar is None or not (planned and seconds > 0):
            return 0, planned
        drawn = bar.last - bar.first
        pace = (bar.ended - bar.elapsed) / drawn if drawn else seconds / planned
        if pace <= 0:
            pace = seconds / (drawn + 1)
        in_time = (bar.elapsed + 1) / pace
        begun = bar.first - 1 if bar.first > 2 * in_time + 2 else 0
        could_end = bar.last + (seconds - bar.ended + 1) / pace
        return begun, planned if could_end >= planned else bar.last

    def _by_epochs(self, planned: int, epochs: float) -> int | None:
        """Return the last step by the epochs that are done; None if not known."""
        examples = self._head.get("examples")
        batch = self._head.get("batch")
        in_epochs = self._head.get("epochs", 0)
        if not (examples and batch and 0 < epochs < MOST_EPOCHS and 0 < in_epochs < MOST_EPOCHS):
            return None  # a data set without a length has no epochs
        # Parts of batches and of accumulations are dropped or not, by settings and version.
        accumulated = max(self._head.get("accumulated", 1), 1)
        batches = {examples * accumulated // batch, -(-examples * accumulated // batch)}
        lengths = {
            max(each, 1) for b in batches for each in (b // accumulated, -(-b // accumulated))
        }
        # Epochs may be rounded to two digits.
        slack = min(accumulated, 2) / 2
        if any(abs(epochs * each - planned) <= slack + 0.005 * each for each in lengths):
            return planned
        usual = planned / in_epochs
        return round(epochs * (usual if usual in lengths else max(lengths)))


FAMILY = Family(
    name="hf-trainer",
    title="Hugging Face's Trainer",
    framework="pytorch",
    unit="samples/s",
    facts=(
        rule("Running training", rf"(?:{DATED}\b.*?)?Running training", _begins="True"),
        # The arguments of ms-swift.
        rule("sequence_parallel_size", r"sequence_parallel_size[ =]+(?P<_sharing>\d+)"),
        *(
            rule(text, rf"{text}[^=\d]*(?:= )?(?P<{name}>\d[\d,]{{0,24}})")
            for text, name in _HEAD.items()
        ),
    ),
    marks=(MarkRule("'train_samples_per_second'", "summary", _LAST),),
    shares_samples=True,
    summary="first",
    bar_seconds=SECONDS_APART,
    make_reader=_HfTrainerReader,
)
