"""Similar training lines, and one way to read the time of their steps."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from k8sbench.model.notation import Unit
from k8sbench.reader.guess import proofs
from k8sbench.reader.guess.facts import GuessedFacts
from k8sbench.reader.guess.proofs import Proof, Steps
from k8sbench.reader.number_columns import LONGEST_TIME, Kind, NumberColumn

NOTHING = "Nothing in the log proves it."


SAME = 0.02

"""Greatest relative difference of rate × time and the batch, beyond their rounding."""


class TrainingLine(NamedTuple):
    """The numbers of similar training lines."""

    lines: tuple[str, ...]
    columns: tuple[NumberColumn, ...]
    durations: tuple[NumberColumn, ...]
    chosen: dict[str, NumberColumn]
    """Group → column: the step, its total and epoch, the loss."""
    steps: Steps
    facts: GuessedFacts
    varied: bool
    """True if the lines differ."""

    @property
    def every(self) -> int:
        """Steps from one line to the next, most often."""
        added = Counter(int(distance) for _, distance, _ in self.steps.pairs)
        return added.most_common(1)[0][0] if added else 1


class Batch(NamedTuple):
    """The proposed batch."""

    each: int
    """Samples per GPU and step; 1 where unknown."""
    job: float | None
    """Samples per step of the job; None if unknown."""
    why: str
    note: str

    @property
    def is_unknown(self) -> bool:
        """True if nothing states the batch, and the file has 1 in its place."""
        return self.each == 1 and self.job is None

    def per_step(self, gpus: int | None) -> float:
        """Samples of a step of the job, as the file and the user's GPUs give them."""
        return self.job or self.each * (gpus or 1)


class Reading(msgspec.Struct, kw_only=True):
    """One way to read the time of a step."""

    groups: dict[str, NumberColumn]
    unit: str
    """The declared unit."""
    sample: str = "samples"
    """The benchmark's unit."""
    per: str = "job"
    averaged: str = "interval"
    last: int = 0
    """Steps that a number averages, with ``last``."""
    proof: Proof = Proof.UNKNOWN
    """Comparison with the stamps, or with the batch."""
    exact: bool = True
    """False if a rate differs from the time beside it: it is smoothed."""
    rank: tuple[int, ...] = ()
    facts: GuessedFacts
    product: float | None = None
    """Rate × time of a line: samples (or tokens) of a step; None if not constant."""
    counts_samples: bool = False
    """True if the log's step numbers count samples."""
    states_tokens: bool = False
    """True if the log states the tokens of the job's steps."""
    of_averaging: str = NOTHING
    of_scope: str = NOTHING
    of_unit: str = NOTHING
    batch: Batch = Batch(1, None, NOTHING, "")

    @property
    def is_total(self) -> bool:
        """True if a line's time is what it adds to a total."""
        return "elapsed" in self.groups

    @property
    def order(self) -> tuple[object, ...]:
        """Order of preference."""
        return (self.proof, self.exact, self.rank)


def scale_of(column: NumberColumn) -> float:
    """Return the seconds in one unit of a time; 1 without a unit."""
    unit = column.time_unit
    return unit.scale if unit else 1.0


def declared_unit(column: NumberColumn) -> str:
    """Return the unit of a time as a file declares it."""
    return str(Unit(scale_of(column), "steps", is_time=True))


def is_step_time(line: TrainingLine, column: NumberColumn) -> bool:
    """True unless the numbers are totals, or the time of a whole line."""
    values = column.values
    scale = scale_of(column)
    if min(values) < 0 or max(values) <= 0:
        return False
    pairs = list(itertools.pairwise(values))
    grows = proofs.grows(values)  # a total, which each epoch or a resumed run may begin anew
    falls = all(a > b for a, b in pairs)
    moves = len(pairs) > 2 and (grows or falls) and max(values) > 1.5 * min(values)
    if (line.varied and moves) or max(values) * scale > LONGEST_TIME:
        return False
    stamp = line.steps.stamp
    passed = stamp.passed if stamp and len(stamp.seconds) == len(values) else 0.0
    # A line's whole time, by the clock: that of a step is not printed.
    whole = sum(values[1:]) * scale / passed if passed else 0.0
    return not (line.every > 1 and abs(whole - 1) < 0.1)


def averaging_of(column: NumberColumn) -> str:
    """Return what a number averages, by its form and label."""
    if column.begin >= 0 and _MEAN.match(column.behind) is not None:
        return "step"
    return "running" if "running" in column.label else "interval"


_SMOOTHED = re.compile(r"running|average|mean|overall|global_avg")


_MEAN = re.compile(r"\S{0,4} *\( *\d")

"""As many programs print a meter: that step, and the mean in brackets."""


def rank_of(column: NumberColumn) -> tuple[int, ...]:
    """Order of preference: samples of the job, then seconds, then steps."""
    label = column.label
    noun = column.unit.noun if column.unit else ""
    is_rate = column.kind == Kind.RATE
    known = (
        column.unit is not None
        or re.search(r"ips|qps|fps|tps|wps|tgs|sps|throughput", label) is not None
    )
    counts = is_rate and noun != "steps" and "ups" not in label
    about = 3 if counts and known else 2 if not is_rate else 1
    newest = re.search(r"last|max|min", label) is None
    is_job = not (column.unit and column.unit.per_card)
    return about, not _SMOOTHED.search(label), newest, is_job


def stamps_say(line: TrainingLine, seconds: Sequence[float], proof: Proof) -> str:
    """Say how the times of a step compare with the stamps."""
    if proof == Proof.UNKNOWN:
        return NOTHING
    pairs = line.steps.pairs
    printed = sum(seconds[n] * distance for n, distance, _ in pairs)
    passed = sum(each for _, _, each in pairs)
    verb = "prove" if proof == Proof.PROVEN else "contradict"
    return f"The time stamps {verb} it: {printed:.4g} s by the lines, {passed:.4g} s by the stamps."


def unit_says(column: NumberColumn, proof: Proof) -> str:
    """Say where a unit stands, and what proves it."""
    unit = column.time_unit if column.kind != Kind.RATE else column.unit
    by = "It stands beside the number" if unit else "None is printed"
    return f"{by}{', and the time stamps prove it' if proof == Proof.PROVEN else ''}."
