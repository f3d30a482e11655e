"""Hugging Face's Trainer, whose last line has the run's rate.

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

from k8sbench.model.sample import Fact, Item, Mark
from k8sbench.parse.family import (
    MOST_EPOCHS,
    MOST_ITERATIONS,
    Family,
    LineReader,
    LineRule,
    MarkRule,
    rule,
)
from k8sbench.parse.lines import CleanLine

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
    "Total train batch size": "batch",
    "Gradient Accumulation steps": "accumulated",
    "Total optimization steps": "steps",
    "Continuing training from global step": "begun",
}
"""Beginning of a head's line → name of its number."""


class _Bar(NamedTuple):
    """Progress bar of an attempt."""

    first: int
    """The first number of done steps above 0."""
    elapsed: int
    """Seconds at that moment."""
    last: int


class _HfTrainerReader(LineReader):
    """Adds to the last line how many of the planned steps ran."""

    def __init__(self, family: Family) -> None:
        self._head: dict[str, int] = {}
        """Numbers of the latest attempt's head; empty without one."""
        self._bars: dict[int, _Bar] = {}
        """By the number of all steps."""
        super().__init__(family)

    def rules(self) -> list[LineRule]:
        (last,) = super().rules()

        def read(line: CleanLine) -> Iterator[Item]:
            for mark in last.read(line):
                assert isinstance(mark, Mark)
                yield msgspec.structs.replace(mark, values=mark.values | self._steps(mark))

        return [LineRule("it/s", self._bar), LineRule("s/it", self._bar), last._replace(read=read)]

    def facts(self, line: CleanLine) -> Iterator[Fact]:
        for fact in super().facts(line):
            if fact.name == "_begins":
                self._head = {"begun": 0}
                self._bars.clear()
            elif self._head:  # an evaluation before it has examples of its own
                number = int(fact.value.replace(",", ""))
                self._head[fact.name] = self._head.get(fact.name) or number
        yield from ()

    def _bar(self, line: CleanLine) -> Sequence[Item]:
        for match in _BAR.finditer(line.text):
            hours, minutes, seconds = (int(match[name] or 0) for name in _CLOCK)
            done, total = int(match["done"]), int(match["total"])
            bar = self._bars.get(total)
            if done == 0:
                self._bars.pop(total, None)
            elif bar is None or done < bar.last:
                self._bars[total] = _Bar(done, 3600 * hours + 60 * minutes + seconds, done)
            else:
                self._bars[total] = bar._replace(last=done)
        return ()

    def _steps(self, last: Mark) -> dict[str, float | str | None]:
        """Return planned steps, also by the last line's rate, and those that ran."""
        seconds = last.number("seconds") or 0.0
        by_rate = seconds * (last.number("steps_rate") or 0.0)
        by_rate = by_rate if 0 < by_rate < MOST_ITERATIONS else 0.0
        planned = self._head.get("steps") or round(by_rate)
        begun, ended = self._by_bar(planned, seconds)
        begun = self._head.get("begun", begun)
        ended = self._by_epochs(planned, last.number("epochs") or 0.0) or ended
        return {"by_rate": by_rate, "planned": float(planned), "ran": float(ended - begun)}

    def _by_bar(self, planned: int, seconds: float) -> tuple[int, int]:
        """Return the steps before the attempt and its last one, to about a second."""
        bar = self._bars.get(planned)
        if bar is None or not seconds > 0:
            return 0, planned
        in_time = (bar.last - bar.first + 1) / seconds * (bar.elapsed + 1)
        begun = bar.first - 1 if bar.first > 2 * in_time + 2 else 0
        # The last steps may be done when the bar is not yet drawn again.
        is_over = (planned - bar.last) * seconds <= bar.last - begun
        return begun, planned if is_over else bar.last

    def _by_epochs(self, planned: int, epochs: float) -> int | None:
        """Return the last step by the epochs that are done; None if not known."""
        examples, batch = self._head.get("examples"), self._head.get("batch")
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
        rule("Running training", _begins="True"),
        *(
            rule(text, rf"{text}[^=\d]*(?:= )?(?P<{name}>\d[\d,]{{0,24}})")
            for text, name in _HEAD.items()
        ),
    ),
    marks=(MarkRule("'train_samples_per_second'", "summary", _LAST),),
    make_reader=_HfTrainerReader,
)
