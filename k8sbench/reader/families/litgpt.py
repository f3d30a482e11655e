"""Logs of LitGPT, which was Lit-GPT until March 2024: pretraining and finetuning.

``iter`` counts micro steps, ``step`` optimizer steps; ``iter time`` is the time of that one micro
step of the job, without validations and checkpoints. A line of a micro step that ended in an
optimizer step says ``(step)`` or ``(optimizer.step)``. (From ``finetune/lora.py`` of commits
f63d81e4, of November 2023, to b1423fa9, ``pretrain/tinyllama.py`` of commits c81f7a9f to 2bfbb59f,
and ``litgpt/finetune/*.py`` and ``litgpt/pretrain.py`` of commits 0b58ae84 to 26857050.)

``log_interval`` counts micro steps when it finetunes, and optimizer steps when it pretrains. Where
micro steps are left out, the share of optimizer steps among the lines is not that among all steps.
A record is then of the micro steps up to an optimizer step: one with it, and the others at the mean
time of the lines without it. A pretraining prints micro steps with an optimizer step alone.

Two kinds of lines have a time that was taken before the program waited for the GPU: those of
Lit-GPT until 30 October 2023, and those of TinyLlama, whose remaining time is in hours
(``pretrain/tinyllama.py`` of commit 01c9c774 of jzhang38/TinyLlama). They are not measured. The
first count from 0, which the program did for one more week (up to commit f63d81e4).
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from k8sbench.messages import Note, note
from k8sbench.model.notation import Match
from k8sbench.model.sample import Fact, Item, Shape
from k8sbench.reader.family import (
    LOSS_NUMBER,
    STEPS_DOUBT,
    TIME_DOUBT,
    TIME_PROVED,
    FactRule,
    Family,
    LineReader,
    LineRule,
    MarkRule,
    RecordRule,
    amp,
    clock_seconds,
    number_in,
    padded,
    rule,
)
from k8sbench.reader.lines import CleanLine

_SHAPE = Shape(name="litgpt", number="seconds", complete=False, resolution=1.0)
_SAMPLED = msgspec.structs.replace(_SHAPE, averaged="step")
_RECORD = padded(
    r"(?:\bEpoch (?P<epoch>\d+) \| )?"
    r"\biter (?P<iteration>\d{1,12}) (?:\| )?step (?P<optimizer_steps>\d{1,12})"
    rf"(?:: loss {LOSS_NUMBER}, | \| loss train: {LOSS_NUMBER.replace('<loss>', '<train_loss>')}, "
    r"val: [^|]{1,32}\| )"
    r"iter time: (?P<step_seconds>\d{1,12}\.\d\d) ?ms,?"
    r"(?:(?P<with_optimizer> \((?:optimizer\.)?step\),?)|(?=\s*$)|(?= remaining time: ))"
    r"(?: remaining time: "
    r"(?:(?P<remaining>(?:\d{1,9} days?, )?\d{1,3}:\d\d:\d\d)|[\d.]+ (?P<hours>hours)))?"
)
_COUNT = r"[1-9]\d{0,11}"
_WHOLE_TIME = padded(r"Training [Tt]ime ?: (?P<seconds>\d+\.\d\d) ?s\b")
UNTIMED = note("clock-mismatch-untimed")
UNWEIGHED = note("clock-mismatch-unweighed")
FEWEST_ALONE = 3
"""Lines of optimizer steps in a row from which the others have none, and are not missing."""
MOST_CLAIMED = 1.05
"""Limit of the time that the lines claim for all micro steps ÷ the time that the program states."""
FEWEST = 10
SHORTEST = 60.0
"""Fewest records, and least seconds, that show it before the end of a run."""


class _Line(NamedTuple):
    """A training line."""

    line: CleanLine
    match: Match
    iteration: int
    seconds: float
    has_optimizer: bool


class _Claimed(NamedTuple):
    """Claims of the lines about micro steps, at a moment of the run."""

    iteration: int = 0
    records: int = 0
    seconds: float = 0.0
    """Sum of the records' seconds."""
    elapsed: float = 0.0

    def doubt(self, later: _Claimed) -> Note | None:
        """Return why the mean of the lines up to a later moment cannot be; None if it can."""
        iterations, passed = later.iteration - self.iteration, later.elapsed - self.elapsed
        mean = (later.seconds - self.seconds) / max(later.records - self.records, 1)
        if mean * iterations <= MOST_CLAIMED * passed:
            return None
        return note(
            "clock-mismatch-micro-steps",
            mean=f"{1000 * mean:.2f}",
            steps=iterations,
            passed=f"{passed:.2f}",
            each=f"{1000 * passed / max(iterations, 1):.2f}",
        )


class _Mean(NamedTuple):
    """The mean time of micro steps up to a line."""

    seconds: float
    steps: int | None
    """Those that lines state; None where the lines leave some out."""


class _MicroSteps:
    """Micro steps of a rank, as its lines tell them."""

    def __init__(self) -> None:
        self.first: _Line | None = None
        """The first line, until the second tells whether lines leave micro steps out."""
        self.latest: int | None = None
        """Iteration of the line before; None before the second."""
        self.accumulated = 0
        """Micro steps of an optimizer step; 0 while unknown."""
        self.counts_from_0 = False
        self.leaves_out = False
        """True if lines leave micro steps out."""
        self.alone = 0
        """Lines with an optimizer step since the latest one without."""
        self.steps_doubt: Note | None = None
        self.unproved: Note | None = None
        """Reason to take the lines for too slow, until another line bears them out."""
        self.time_doubt: Note | None = None
        self.stated: set[str] = set()
        """Names of the doubts that were stated."""
        self.others: list[float] = []
        """Seconds of the lines since the latest optimizer step."""
        self.claimed = _Claimed()
        """The claims of all records so far."""
        self.begun: _Claimed | None = None
        """The same at the first record of which the elapsed time is known."""

    def lines(self, new: _Line) -> list[_Line]:
        """Return the lines whose micro steps can be told now: none, two, or the new one."""
        if self.latest is not None:
            return [new]
        if self.first is None:
            self.first = new
            return []
        self.leaves_out = new.iteration != self.first.iteration + 1
        return [self.first, new]

    def count(self, new: _Line, optimizer_steps: int) -> None:
        """Work out the micro steps of an optimizer step, and the number of the first one."""
        self.counts_from_0 |= new.iteration == 0
        if new.has_optimizer and optimizer_steps:
            if (new.iteration + self.counts_from_0) % optimizer_steps == 0:
                self.accumulated = (new.iteration + self.counts_from_0) // optimizer_steps
            elif (new.iteration + 1) % optimizer_steps == 0:
                self.counts_from_0 = True

    def claim(self, iteration: int, seconds: float, elapsed: float | None) -> None:
        """Add a record, and compare the lines with the time that passed, where it is known."""
        _, records, before, _ = self.claimed
        self.claimed = _Claimed(iteration, records + 1, before + seconds, elapsed or 0.0)
        if elapsed is None or not self.leaves_out:
            return
        self.begun = begun = self.begun or self.claimed
        if records - begun.records >= FEWEST and elapsed - begun.elapsed >= SHORTEST:
            self.time_doubt = self.time_doubt or begun.doubt(self.claimed)

    def mean(self, new: _Line) -> _Mean | None:
        """Return the mean time of the micro steps up to a line; None if a later line tells it."""
        goes_on = self.latest is not None and new.iteration > self.latest
        follows = goes_on and new.iteration == (self.latest or 0) + 1
        if not (goes_on if self.leaves_out else follows):
            self.others.clear()
            self.alone = 0
        self.latest = new.iteration
        if not new.has_optimizer:
            self.others.append(new.seconds)
            return None
        others = tuple(self.others)
        self.others.clear()
        if not self.leaves_out:
            steps = len(others) + 1
            is_whole = steps == (self.accumulated or steps)
            return _Mean(math.fsum((*others, new.seconds)) / steps, steps) if is_whole else None
        self.alone = 0 if others else self.alone + 1
        if self.accumulated > 1 and others:
            self.steps_doubt = note("sampled-steps-weighed", steps=self.accumulated)
        elif self.accumulated > 1 and self.alone >= FEWEST_ALONE:
            self.steps_doubt = note("sampled-steps-one-kind", steps=self.accumulated)
            self.unproved = note("clock-mismatch-unproved", steps=self.accumulated)
        if not others or not self.accumulated:
            return _Mean(new.seconds, None)
        without = math.fsum(others) / len(others)
        total = new.seconds + (self.accumulated - 1) * without
        return _Mean(total / self.accumulated, None)


class _LitgptReader(LineReader):
    """Weighs micro steps with and without an optimizer step as all steps have them."""

    def __init__(self, family: Family) -> None:
        self._ranks: dict[str, _MicroSteps] = {}
        self._is_resumed = False
        """True if the time that the program states is of the iterations since a checkpoint."""
        super().__init__(family)

    def rules(self) -> list[LineRule]:
        _, *others = super().rules()
        (record,) = self._family.records
        return [
            LineRule(record.needle, lambda line: self._records(record, line)),
            LineRule("Training Time", self._whole_time),
            LineRule("Training time", self._whole_time),
            LineRule("Resuming training from ", self._resumes),
            *others,
        ]

    def _resumes(self, line: CleanLine) -> Iterator[Item]:
        self._is_resumed = True
        yield line.mark("restart")

    def _records(self, rule: RecordRule, line: CleanLine) -> Iterator[Item]:
        for match in rule.matches(line.text):
            texts = match.groupdict()
            new = _Line(
                line,
                match,
                int(texts["iteration"] or 0),
                float(texts["step_seconds"] or 0) / 1000,
                texts["with_optimizer"] is not None,
            )
            rank = self._ranks.setdefault(line.source, _MicroSteps())
            rank.count(new, int(texts["optimizer_steps"] or 0))
            for each in rank.lines(new):
                yield from self._record(rule, rank, each)

    def _record(self, rule: RecordRule, rank: _MicroSteps, new: _Line) -> Iterator[Item]:
        texts = new.match.groupdict()
        has_others = bool(rank.others)
        mean = rank.mean(new)
        if rank.counts_from_0 or texts["hours"]:
            rank.time_doubt = rank.time_doubt or UNTIMED
        elif rank.leaves_out and has_others and new.has_optimizer and not rank.accumulated:
            rank.time_doubt = rank.time_doubt or UNWEIGHED
        elif mean is None:
            return
        numbers = {
            "step_seconds": mean and mean.seconds,
            "loss": texts["loss"] or texts["train_loss"],
            "stamp": self._elapsed(new),
        }
        record = rule.build(new.line, new.match[0], texts | numbers, mean and mean.steps)
        if record is not None and record.iteration and mean is not None:
            rank.claim(new.iteration, mean.seconds, record.stamp)
            shape = _SAMPLED if mean.steps is None else _SHAPE
            yield msgspec.structs.replace(record, shape=shape)
        # The remaining time of a pretraining is a clock of its own.
        unproved = None if texts["remaining"] else rank.unproved
        time_doubt = rank.time_doubt or unproved
        for name, doubt in ((STEPS_DOUBT, rank.steps_doubt), (TIME_DOUBT, time_doubt)):
            if doubt and name not in rank.stated:
                rank.stated.add(name)
                yield new.line.doubt(name, doubt)

    def _elapsed(self, new: _Line) -> str | None:
        """Return the seconds since the run began, by the remaining time of a pretraining.

        That is the mean time of all micro steps so far, times those to come: known where the head
        tells how many there are, and to a second in the first half of the run.
        """
        remaining = clock_seconds(new.match.groupdict()["remaining"])
        if remaining is None or self._is_resumed:
            return None
        to_come = self._planned - new.iteration
        is_early = to_come >= max(new.iteration, 1)
        return str(remaining * new.iteration / to_come) if is_early else None

    @functools.cached_property
    def _planned(self) -> int:
        """Planned micro steps by the head, which is complete once a line is read; 0 if unknown."""
        facts = {fact.name: fact.value for fact in _derive(self._stated)}
        return int(facts.get("planned_iterations", 0))

    def _whole_time(self, line: CleanLine) -> Iterator[Item]:
        """Compare the time of the whole training with what the lines claim for its steps."""
        match = _WHOLE_TIME.search(line.text)
        rank = self._ranks.get(line.source)
        if match is None or rank is None or not rank.claimed.records:
            return
        yield line.mark("finished")
        whole = rank.claimed._replace(elapsed=float(match["seconds"]))
        if self._is_resumed:
            return
        if doubt := _Claimed().doubt(whole):
            yield line.doubt(TIME_DOUBT, doubt)
        elif not rank.time_doubt:
            yield line.fact(TIME_PROVED, match[0])


def _derive(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    """Derive the GPUs, the samples of a micro step of the job, and the tokens of a sample."""
    gpus, devices, batch = (stated.get(name) for name in ("gpus", "_devices", "micro_batch"))
    if gpus is None and devices is not None:
        nodes = int(stated["_nodes"].value) if "_nodes" in stated else 1
        gpus = devices.like("gpus", str(int(devices.value) * nodes))
        yield gpus
    if gpus is not None and batch is not None:
        yield batch.like("global_batch", str(int(batch.value) * int(gpus.value)))
    length, tokens = stated.get("_length"), stated.get("_tokens")
    # A finetuning pads a micro batch to its longest sequence.
    if "_pretrains" in stated and length is not None:
        yield length.like("sequence_length", length.value)
        if gpus is not None and batch is not None and tokens is not None:
            each = int(batch.value) * int(length.value)
            yield tokens.like(
                "planned_iterations", str(int(tokens.value) // int(gpus.value) // each)
            )


def _setting(name: str, group: str, value: str = _COUNT, **says: str) -> FactRule:
    """Match a value of the printed settings: ``'devices': 4``."""
    return rule(f"'{name}': ", rf"'{name}': '?(?P<{group}>{value})\b", **says)


FAMILY = Family(
    name="litgpt",
    title="LitGPT",
    framework="pytorch",
    unit="samples/s",
    facts=(
        rule(
            "Starting with ", rf"processes registered\. Starting with (?P<gpus>{_COUNT}) processes"
        ),
        _setting("devices", "_devices"),
        _setting("num_nodes", "_nodes"),
        rule("micro_batch_size", rf"\bmicro_batch_size(?:': |=)(?P<micro_batch>{_COUNT})\b"),
        _setting("max_seq_length", "_length"),
        _setting("max_tokens", "_tokens"),
        _setting("precision", "_bf16", r"bf16-(?:mixed|true)", **amp("bf16")),
        _setting("precision", "_fp16", r"16-(?:mixed|true)", **amp("fp16")),
        _setting("precision", "_fp32", "32-true", precision="fp32"),
        rule("'initial_checkpoint_dir': ", _pretrains="True"),
        rule("Total parameters: ", r"Total parameters: (?P<parameters>[\d,]+)"),
    ),
    derive=_derive,
    records=(
        RecordRule(
            "iter time: ",
            _RECORD,
            _SHAPE,
            stamp=number_in,
            begins=re.compile(r"\b(?:Epoch \d+ \| )?iter \d"),
        ),
    ),
    marks=(
        MarkRule(": val loss ", "evaluation"),
        MarkRule("Final evaluation | val loss", "evaluation"),
        MarkRule("Saving checkpoint to ", "checkpoint"),
    ),
    make_reader=_LitgptReader,
)
