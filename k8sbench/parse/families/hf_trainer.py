"""Hugging Face's Trainer, whose last line has the run's rate.

The program divides the samples (and steps) of the whole plan by the time since it began. After a
resume or an early stop fewer steps ran: the head states those before a resume, and the last line
has the epochs that are done, of examples and a batch that the head states.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from k8sbench.model.sample import Fact, Item, Mark
from k8sbench.parse.family import (
    MOST_EPOCHS,
    Family,
    LineReader,
    LineRule,
    MarkRule,
    rule,
)
from k8sbench.parse.lines import CleanLine

_KEYS = {
    "train_samples_per_second": "whole_run_rate",
    "train_loss": "final_loss",
    "epoch": "epochs",
}
_LAST = re.compile(
    r"\{(?=[^{}]*'train_samples_per_second': '?\d)"
    + "".join(rf"(?:(?=[^{{}}]*'{key}': '?(?P<{name}>[-+.\de]+))|)" for key, name in _KEYS.items())
    + r"[^{}]*"
)
_HEAD = {
    "Num examples": "examples",
    "Num Epochs": "epochs",
    "Total train batch size": "batch",
    "Gradient Accumulation steps": "accumulated",
    "Total optimization steps": "steps",
    "Continuing training from global step": "begun",
}
"""Beginning of a head's line → name of its number."""


class _HfTrainerReader(LineReader):
    """Adds to the last line how many of the planned steps ran."""

    def __init__(self, family: Family) -> None:
        self._head: dict[str, int] = {}
        """Numbers of the latest attempt's head; empty without one."""
        super().__init__(family)

    def rules(self) -> list[LineRule]:
        (last,) = super().rules()

        def read(line: CleanLine) -> Iterator[Item]:
            for mark in last.read(line):
                assert isinstance(mark, Mark)
                yield msgspec.structs.replace(mark, values=mark.values | self._steps(mark))

        return [last._replace(read=read)]

    def facts(self, line: CleanLine) -> Iterator[Fact]:
        for fact in super().facts(line):
            if fact.name == "_begins":
                self._head = {"begun": 0}
            elif self._head:  # an evaluation before it has examples of its own
                number = int(fact.value.replace(",", ""))
                self._head[fact.name] = self._head.get(fact.name) or number
        yield from ()

    def _steps(self, last: Mark) -> dict[str, float | str | None]:
        """Return planned steps and those that ran; nothing without a head."""
        planned = self._head.get("steps")
        if planned is None:
            return {}
        ended = self._by_epochs(planned, last.number("epochs") or 0.0) or planned
        return {"planned": float(planned), "ran": float(ended - self._head["begun"])}

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
