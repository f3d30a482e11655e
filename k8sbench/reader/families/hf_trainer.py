"""Hugging Face's Trainer, whose last line has the run's rate; TRL and ms-swift are built on it.

A log without that line, of a run that goes on or was cut off, is measured by its progress bar: its
whole seconds are the time since the run began. The dictionaries of ms-swift state the same, as
``global_step/max_steps`` and ``elapsed_time``, and ``iteration`` of those of Megatron-SWIFT
(``swift/trainers/patcher.py`` and ``swift/megatron/callbacks/print.py`` at 3602360a, August 2026;
``swift/trainers/callback.py`` at 6c963d89, July 2024). Their ``train_speed`` is a mean since the
run began, which counts the steps before a resumption, too, in versions before 2026.

The program divides the samples (and steps) of the whole plan by the time since it began. After a
resume or an early stop fewer steps ran: the log states those elsewhere, if at all. A progress bar
counts them, and the last line has the epochs that are done, of examples and a batch that the head
states.

A step of a trainer that generates completions takes the batch of the head in these, while the
examples of the head, and with them the rate of the last line, are prompts, unless the plan is a
number of steps (``trl/trainer/grpo_trainer.py`` at f2cd5771, July 2026: ``RepeatSampler``).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from k8sbench.messages import note
from k8sbench.model.plain_text import significant
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
Q = "['\"]"
"""Quote: the console has Python's, and ms-swift's logging.jsonl those of JSON."""
_LAST = re.compile(
    rf"\{{(?=[^{{}}]*{Q}train_samples_per_second{Q}: {Q}?\d)"
    + "".join(
        rf"(?:(?=[^{{}}]*{Q}{key}{Q}: {Q}?(?P<{name}>[-+.\de]+))|)" for key, name in _KEYS.items()
    )
    + r"[^{}]*"
)
_BAR = re.compile(
    r"\| (?P<done>\d{1,12})/(?P<total>\d{1,12}) "
    r"\[(?:(?P<hours>\d{1,4}):)?(?P<minutes>\d\d):(?P<seconds>\d\d)<"
)
_DICTIONARY = re.compile(
    rf"\{{(?=[^{{}}]*{Q}(?:steps\[)?(?:global_step/max_steps|iteration)\]?{Q}: "
    rf"{Q}(?P<done>\d{{1,12}})/(?P<total>\d{{1,12}}){Q})"
    rf"(?=[^{{}}]*{Q}elapsed_time{Q}: {Q}(?:(?P<days>\d{{1,4}})d )?(?:(?P<hours>\d\d?)h )?"
    rf"(?:(?P<minutes>\d\d?)m )?(?P<seconds>\d\d?)s{Q})"
    rf"(?:(?=[^{{}}]*{Q}train_speed\((?P<unit>iter/s|s/it)\){Q}: (?P<speed>[-.\de]+))|)"
    r"[^{}]*"
)
_CLOCK = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
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
ROUNDED_SAMPLES = 0.05
"""Most of a step's samples that a rate may lack because of whole steps; else it is another one."""
_SHAPE = Shape(name="hf-trainer", number="seconds", begins_late=True)
_EVAL_RUNTIME = re.compile(rf"{Q}eval_runtime{Q}: {Q}?(?P<seconds>\d+(?:\.\d+)?)")
_COMPLETIONS = re.compile(rf"{Q}completions/\w+{Q}: ")
_LOSS_LINE = re.compile(rf"^\W*\{{{Q}loss{Q}: {Q}?(?P<loss>[-+.\de]+|nan){Q}?, ")


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
        self._generates = False
        """True if a line is of a trainer that generates completions."""
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
                yield from self._samples(mark, line)
                yield msgspec.structs.replace(mark, values=mark.values | values)

        # A later attempt has a head of its own, behind the records of the one before.
        heads = dict.fromkeys(fact.needle for fact in self._family.facts)
        return [
            *(LineRule(needle, self._read_head) for needle in heads),
            LineRule("'loss': ", self._read_loss),
            LineRule('"loss": ', self._read_loss),
            LineRule("eval_runtime", self._evaluated),
            LineRule("completions/", self._read_generation),
            LineRule("it/s", functools.partial(self._bar, _BAR)),
            LineRule("s/it", functools.partial(self._bar, _BAR)),
            LineRule("elapsed_time", functools.partial(self._bar, _DICTIONARY)),
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
                yield line.doubt(BATCH_DOUBT, note("batch-mismatch-shared-sequence"))
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

    def _read_generation(self, line: CleanLine) -> Sequence[Item]:
        self._generates |= _COMPLETIONS.search(line.text) is not None
        return ()

    def _bar(self, pattern: re.Pattern[str], line: CleanLine) -> Iterator[Item]:
        for match in pattern.finditer(line.text):
            clock = match.groupdict()
            elapsed = sum(each * int(clock.get(name) or 0) for name, each in _CLOCK.items())
            done = int(match["done"])
            total = int(match["total"])
            self._latest_total = total
            if pattern is _DICTIONARY:
                self._total = self._total or total
                yield from self._compare_speed(line, match, done, elapsed)
            if done and total == self._total:
                yield from self._record(line, match[0], done, elapsed)
            bar = self._bars.get(total)
            if done == 0:
                self._bars.pop(total, None)
            elif bar is None or done < bar.last:
                self._bars[total] = _Bar(done, elapsed, done, elapsed)
            else:
                self._bars[total] = bar._replace(last=done, ended=elapsed)

    def _compare_speed(
        self, line: CleanLine, match: re.Match[str], done: int, elapsed: int
    ) -> Iterator[Fact]:
        """Doubt a line whose speed, a mean since the run began, contradicts its time.

        A speed in seconds leaves out the steps before a resumption.
        """
        speed = number_in(match["speed"]) or 0.0
        if speed <= 0 or elapsed <= 0:
            return
        steps = elapsed * speed if match["unit"] == "iter/s" else elapsed / speed
        slack = ROUNDED_STEPS * done + done / elapsed + 1
        if steps > done + slack or (match["unit"] == "iter/s" and steps < done - slack):
            why = note("batch-mismatch-speed", steps=significant(steps, 4), done=done)
            yield line.doubt(BATCH_DOUBT, why)

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

    def _samples(self, last: Mark, line: CleanLine) -> Iterator[Fact]:
        """Doubt what the rate of the last line counts, if the head's batch is another number."""
        rate, seconds = last.number("whole_run_rate") or 0.0, last.number("seconds") or 0.0
        batch, steps = self._head.get("batch"), self._head.get("steps")
        if batch and steps and rate > 0 and seconds > 0:
            counted = rate * seconds / steps
            examples = self._head.get("examples", 0)
            lengths = self._steps_of_epoch()
            possible = [batch, *(examples / each for each in lengths)]
            slack = ROUNDED_STEPS + HALF_DIGIT / rate
            # A plan of a part of an epoch rounds its steps up, and not its samples.
            least = min(possible) * (1 - min(1 / steps if lengths else 0.0, ROUNDED_SAMPLES))
            if not least / (1 + slack) <= counted <= max(possible) * (1 + slack):
                why = note(
                    "batch-mismatch-last-line",
                    samples=significant(counted, 4),
                    batch=str(batch),
                )
                yield line.doubt(BATCH_DOUBT, why)
        elif self._generates:
            yield line.doubt(BATCH_DOUBT, note("batch-mismatch-completions"))

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

    def _steps_of_epoch(self) -> set[int]:
        """Return the possible steps of an epoch; none where the head does not tell."""
        examples, batch = self._head.get("examples"), self._head.get("batch")
        if not (examples and batch) or self._generates:
            return set()  # of examples that are prompts, and a batch of completions
        # Parts of batches and of accumulations are dropped or not, by settings and version.
        accumulated = max(self._head.get("accumulated", 1), 1)
        batches = {examples * accumulated // batch, -(-examples * accumulated // batch)}
        return {max(each, 1) for b in batches for each in (b // accumulated, -(-b // accumulated))}

    def _by_epochs(self, planned: int, epochs: float) -> int | None:
        """Return the last step by the epochs that are done; None if not known."""
        lengths = self._steps_of_epoch()
        in_epochs = self._head.get("epochs", 0)
        if not (lengths and 0 < epochs < MOST_EPOCHS and 0 < in_epochs < MOST_EPOCHS):
            return None  # a data set without a length has no epochs
        accumulated = max(self._head.get("accumulated", 1), 1)
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
            rule(text, rf"{text}[^=\d]{{0,100}}(?:= )?(?P<{name}>\d[\d,]{{0,24}})")
            for text, name in _HEAD.items()
        ),
    ),
    marks=(MarkRule("train_samples_per_second", "summary", _LAST),),
    shares_samples=True,
    summary="first",
    bar_seconds=SECONDS_APART,
    make_reader=_HfTrainerReader,
)
