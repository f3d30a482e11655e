"""Logs of modded-nanogpt.

``train_time`` is the time of all steps since the timer began, which excludes evaluations;
``step_avg`` is that time by the steps. The timer begins anew after a few steps of warm-up.

A log begins with the program's source, which states the tokens of a step. Since November 2025 they
change by a schedule (``train_gpt.py`` at f411b3d3, August 2026, and the sources in the 74 groups of
logs in its ``records/track_1_short`` that have one). There are two forms:

- until January 2026 ``train_bs_schedule``, whose batches share the scheduled iterations evenly, and
  ``train_bs_extension`` for those after them (``get_bs``),
- since then a list of ``TrainingStage``, each with its batch and its share of the scheduled
  iterations, which are rounded (``TrainingSchedule``); the last one is for those after them.

A batch is loaded with the schedule of its own step, so that the tokens up to a step follow. Source
of any other form is not read, nor is one whose iterations are not those of the lines. What the
program prints on the console lacks the source.
"""

from __future__ import annotations

import bisect
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from k8sbench.messages import Note, note
from k8sbench.model.notation import Match
from k8sbench.model.sample import Fact, Item, Shape
from k8sbench.reader.family import (
    BATCH_DOUBT,
    Family,
    MarkRule,
    RecordRule,
    in_units,
    padded,
    positive,
    rule,
)
from k8sbench.reader.lines import CleanLine
from k8sbench.reader.totals import TotalsReader

_SHAPE = Shape(name="modded-nanogpt", number="seconds", begins_late=True)
_RECORD = padded(
    r"(?<!warmup_)\bstep:(?P<iteration>\d{1,12})/(?P<total>\d{1,12}) (?:\[\w+\] )?"
    r"(?:(?:train_)?loss:(?P<loss>[\d.]+|nan) )?(?:lr:\S+ )?"
    r"(?:train_time|t):(?P<elapsed>[\d.]+)(?P<time_unit>m?s)\b(?: step_avg:(?P<mean>[\d.]+)ms)?"
)
MOST_UNTIMED = 10
"""Most steps that ``step_avg`` leaves out: the timer of 2024 began anew behind them."""
ROUNDED = 0.01
"""Relative error of a quotient of printed times."""


def _convert(texts: dict[str, Any]) -> None:
    in_units(1e-3 if texts["time_unit"] == "ms" else 1.0, "elapsed")(texts)


_PRODUCT = r"\d{1,12}(?: ?\* ?\d{1,12}){0,9}"


def _product(text: str) -> int:
    """Work out a size that the source states as a product: ``8*64``."""
    return math.prod(map(int, re.findall(r"\d+", text)))


def _products(stated: Mapping[str, Fact]) -> Iterator[Fact]:
    """Yield the sizes that the source states as products."""
    facts = {
        "_batch": "global_batch",
        "_length": "sequence_length",
        "_tokens": "tokens_per_step",
    }
    for name, fact in facts.items():
        if name in stated and "_changes" not in stated:
            yield stated[name].like(fact, str(_product(stated[name].value)))
    if "_by_passes" in stated and "_passes" in stated:
        # A sequence for each GPU and pass: fewer GPUs take more passes.
        yield stated["_passes"].like("global_batch", stated["_passes"].value)


class Stage(NamedTuple):
    """A part of a schedule."""

    end: int
    """Its last iteration."""
    tokens: int
    """Tokens of each of its steps, of the job."""


def _stages(ends: Sequence[int], tokens: Sequence[int]) -> list[Stage]:
    """Return the stages of a schedule; those without an iteration are left out."""
    begins = (0, *ends)
    pairs = zip(itertools.pairwise(begins), tokens, strict=True)
    return [Stage(end, each) for (begin, end), each in pairs if end > begin]


class _ScheduleReader(TotalsReader):
    """Adds to each line the tokens of all steps so far, by the schedule in the source."""

    def __init__(self, family: Family) -> None:
        self._listed: list[dict[str, str]] = []
        """The source's list of stages: tokens of a step, and share of the scheduled iterations."""
        self._schedule: list[Stage] | None = None
        """None until the first training line; empty without one, or of an unknown form."""
        self._doubt: Note | None = None
        """Contradiction of a line with the schedule or itself, of which no fact says it yet."""
        self._is_doubted = False
        """True once a fact states it."""
        super().__init__(family)

    def facts(self, line: CleanLine) -> Iterator[Fact]:
        """Facts in a line before the first record, also those for :meth:`derived` alone."""
        facts = list(super().facts(line))
        values = {fact.name: fact.value for fact in facts}
        if "_stage" in values:
            self._listed.append(values)
        yield from facts

    def derived(self) -> Iterator[Fact]:
        """Yield the facts that follow from the complete head."""
        yield from super().derived()
        schedule = self._known_schedule()
        changes = self._stated.get("_changes")
        warms_up = self._stated.get("_warms_up_by_stage")
        if changes is None and warms_up is not None:
            yield warms_up.doubt(BATCH_DOUBT, note("batch-mismatch-schedule-elsewhere"))
        elif changes is not None and not schedule:
            yield changes.doubt(BATCH_DOUBT, note("batch-mismatch-schedule-unknown"))
        elif changes is not None:
            parts = [f"{stage.tokens} tokens to step {stage.end}" for stage in schedule]
            yield changes.like("batch_schedule", ", ".join(parts))

    def _known_schedule(self) -> list[Stage]:
        """Return the schedule, once the head is complete."""
        if self._schedule is None:
            self._schedule = self._read_schedule()
        return self._schedule

    def _read_schedule(self) -> list[Stage]:
        """Read the schedule in the source; empty without one, or of an unknown form."""
        if "_changes" not in self._stated:
            return []
        names = ("_scheduled", "_extension")
        numbers = [int(self._stated[name].value) for name in names if name in self._stated]
        if len(numbers) < len(names) or not numbers[0]:
            return []
        scheduled, extension = numbers
        total = scheduled + extension
        if "_evenly" in self._stated and {"_batches", "_batch_after"} <= self._stated.keys():
            batches = [_product(each) for each in self._stated["_batches"].value.split(",")]
            after = _product(self._stated["_batch_after"].value)
            steps = range(scheduled + 1)
            # As the program does it: the quotient is rounded to a float.
            ends = [
                bisect.bisect_left(
                    steps, part, key=lambda step: int(len(batches) * (step / scheduled))
                )
                for part in range(1, len(batches) + 1)
            ]
            return _stages([*ends, total], [*batches, after])
        if "_rounded" in self._stated and len(self._listed) > 1:
            shares = [
                float(stage.get("_share", 0)) / int(stage.get("_parts", 1))
                for stage in self._listed[:-1]
            ]
            ends = [round(part * scheduled) for part in itertools.accumulate(shares)]
            if all(shares) and ends[-1] == scheduled:
                tokens = [_product(stage["_stage"]) for stage in self._listed]
                return _stages([*ends, total], tokens)
        return []

    def totals(self, rule: RecordRule, line: CleanLine) -> Iterator[Item]:
        """Read the totals of a line."""
        yield from super().totals(rule, line)
        if self._doubt is not None:
            yield line.doubt(BATCH_DOUBT, self._doubt)
            self._doubt = None
            self._is_doubted = True

    def groups(self, rule: RecordRule, match: Match) -> dict[str, Any]:
        """Return the groups of a match, and the tokens of the steps up to its own."""
        texts = super().groups(rule, match)
        schedule = self._known_schedule()
        iteration = int(texts["iteration"])
        if schedule and int(texts["total"]) != schedule[-1].end:
            planned = schedule[-1].end
            stated = str(texts["total"])
            self._contradict(note("batch-mismatch-planned", steps=stated, planned=planned))
        elif schedule:
            texts["all_samples"] = _tokens_until(schedule, iteration)
        elapsed, mean = texts["elapsed"], positive(texts["mean"])
        steps = 1e3 * elapsed / mean if elapsed and mean else iteration
        slack = 1 + ROUNDED * iteration
        if not iteration - MOST_UNTIMED - slack <= steps <= iteration + slack:
            of_line = f"{steps:.0f}"
            self._contradict(note("batch-mismatch-mean", steps=of_line, iteration=iteration))
        return texts

    def _contradict(self, why: Note) -> None:
        if not self._is_doubted:
            self._doubt = why


def _tokens_until(schedule: Sequence[Stage], iteration: int) -> int:
    """Return the tokens of all steps up to an iteration."""
    tokens = begin = 0
    for stage in schedule:
        tokens += stage.tokens * (min(iteration, stage.end) - begin)
        begin = stage.end
        if iteration <= begin:
            break
    return tokens


FAMILY = Family(
    name="modded-nanogpt",
    title="modded-nanogpt",
    framework="pytorch",
    unit="tokens/s",
    facts=(
        rule("train_batch_tokens:", r"\btrain_batch_tokens:(?P<tokens_per_step>\d+)"),
        rule("train_seq_len:", r"\btrain_seq_len:(?P<sequence_length>\d+)"),
        rule("world_size:", r"^world_size:(?P<gpus>\d+)"),
        # The log begins with the program's source.
        rule(
            "batch size, in sequences, across all devices",
            rf"\bbatch_size : int = (?P<_batch>{_PRODUCT}) *# batch size, in sequences, across all",
        ),
        rule(
            "sequence length, in tokens",
            rf"\bsequence_length : int = (?P<_length>{_PRODUCT}) *# sequence length, in tokens",
        ),
        rule("seq_len = ", rf"^ *(?:train_)?seq_len = (?P<_length>{_PRODUCT}) *# FlexAttention"),
        # A sequence for each GPU, and no accumulation.
        rule("world_size * args.", r"world_size \* args\.(?:train_)?seq_len\b", batch_size="1"),
        rule("batch_size = ", rf"\bbatch_size = (?P<_tokens>{_PRODUCT}) *# batch size in tokens"),
        rule("train_batch_size: int", rf"train_batch_size: int = (?P<_tokens>{_PRODUCT})"),
        rule("args.train_seq_len, grad_accum_steps", _by_passes="True"),
        rule("grad_accum_steps = ", r"^grad_accum_steps = (?P<_passes>\d{1,4}) // world_size$"),
        rule("train_bs_schedule", _changes="True"),
        rule("class TrainingStage", _changes="True"),
        rule(
            "train_bs_schedule: tuple",
            rf"^ *train_bs_schedule: tuple = \((?P<_batches>{_PRODUCT}(?:, {_PRODUCT})*),?\)",
        ),
        rule(
            "train_bs_extension: int",
            rf"^ *train_bs_extension: int = (?P<_batch_after>{_PRODUCT})\b",
        ),
        rule(
            "num_scheduled_iterations: int",
            r"^ *num_scheduled_iterations: int = (?P<_scheduled>\d{1,9})\b",
        ),
        rule(
            "num_extension_iterations: int",
            r"^ *num_extension_iterations: int = (?P<_extension>\d{1,9})\b",
        ),
        rule(
            "TrainingStage(",
            r"^ *TrainingStage\((?:.{0,400}?\bduration=(?P<_share>\d{1,9}(?:\.\d{1,9})?)"
            rf"(?:/(?P<_parts>[1-9]\d{{0,3}}))?,)?.{{0,400}}?\bbatch_size=(?P<_stage>{_PRODUCT})[,)]",
        ),
        rule("bs_idx = int(len(args.train_bs_schedule) * x)", _evenly="True"),
        rule(
            "round(c * scheduled_iterations) for c in accumulate(s.duration for s in stages[:-1])",
            _rounded="True",
        ),
        rule(
            "Sampling steps [", r"^Sampling steps \[[\d, ]+\] for warmup", _warms_up_by_stage="True"
        ),
    ),
    derive=_products,
    records=(RecordRule("step:", _RECORD, _SHAPE, convert=_convert),),
    marks=(MarkRule("val_loss:", "evaluation"),),
    make_reader=_ScheduleReader,
)
