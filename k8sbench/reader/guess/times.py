"""Times of a step in a training line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from k8sbench.reader.guess import proofs
from k8sbench.reader.guess.line import (
    Reading,
    TrainingLine,
    averaging_of,
    declared_unit,
    is_step_time,
    rank_of,
    scale_of,
    stamps_say,
    unit_says,
)
from k8sbench.reader.guess.proofs import Proof
from k8sbench.reader.number_columns import Kind, NumberColumn

_COUNT_BEHIND = re.compile(r" ?(?:iter(?:ation)?s?|steps?|batch(?:es)?|its?)\b\)?", re.IGNORECASE)


_TIME_LABEL = re.compile(r"\b(?:time|took|cost|elapsed|duration|last|per)\b")


_MEAN_OF = re.compile(
    r"\b(?:avg|averaged?|mean)\b|\b(?:per|each) (?:step|iter(?:ation)?|it|batch)\b|/ ?(?:step|it)"
)
"""Words of a mean: a count beside it is that of the steps which one step's time is the mean of."""


_PART = re.compile(
    r"\b(?:upda?te?|upd|data|load\w*|train|forward|fwd|backward|bwd|optim\w*|step)\b"
)


_LEROBOT = ("updt s", "data s")

"""Times of a step that LeRobot prints apart, by their words."""


WEAK = (0,)

"""Rank of a time without a label."""


def step_times(line: TrainingLine) -> Iterator[Reading]:
    """Yield the columns that are times of a step."""
    counted = {id(time): (count, words) for count, time, words in _counted(line)}
    counts = {id(count) for count, _ in counted.values()}
    for column in line.columns:
        if id(column) in counts:
            continue
        if id(column) in counted:
            yield _counted_time(line, column, *counted[id(column)])
        elif column.kind == Kind.SECONDS and is_step_time(line, column):
            yield _time(line, column, None)


def _counted_time(
    line: TrainingLine, column: NumberColumn, count: NumberColumn, words: str
) -> Reading:
    """Read the time beside a count of steps: all of them take it, or each in the mean.

    The stamps decide; without them the words do.
    """
    total, mean = _time(line, column, count), _time(line, column, None)
    number = int(count.values[0])
    if number != line.every:
        mean.averaged, mean.last = "last", number
    is_mean = _is_mean(words)
    if total.proof != mean.proof and Proof.PROVEN in {total.proof, mean.proof}:
        is_mean = mean.proof == Proof.PROVEN
    chosen = mean if is_mean else total
    if chosen.proof != Proof.PROVEN:
        of = ("one step", f"{number} steps")
        by_words, other = of if is_mean else of[::-1]
        chosen.of_averaging += f" By its words the time is that of {by_words}; else of {other}."
    return chosen


def _is_mean(words: str) -> bool:
    return _MEAN_OF.search(re.sub(r"[_\s]+", " ", words).lower()) is not None


def _time(line: TrainingLine, column: NumberColumn, steps: NumberColumn | None) -> Reading:
    groups = {"step_seconds": column}
    of = 1.0
    if steps is not None:
        groups["steps"], of = steps, steps.values[0]
    seconds = [value * scale_of(column) / of for value in column.values]
    proof = proofs.by_stamps(line.steps, seconds)
    if steps is not None and proof == Proof.CONTRADICTED:
        proof = Proof.UNKNOWN  # it may be that of some of the work, and says of how many steps
    return Reading(
        groups=groups,
        unit=declared_unit(column),
        averaged=averaging_of(column),
        proof=proof,
        rank=rank_of(column),
        facts=line.facts,
        of_averaging=stamps_say(line, seconds, proof),
        of_scope="A step's time is the whole job's, unless each GPU works for itself.",
        of_unit=unit_says(column, proof),
    )


def _counted(line: TrainingLine) -> Iterator[tuple[NumberColumn, NumberColumn, str]]:
    """Yield a count of steps in a label, the time beside it, and the words of both.

    A time is that of so many steps, as in ``Time(100 iters): 0.5s``, or a mean over them.
    """
    columns = [each for each in line.columns if each.begin >= 0]
    for number, column in enumerate(columns):
        count = column.values[0]
        is_count = set(column.texts) == {column.texts[0]} and count.is_integer() and count > 1
        if not (is_count and _COUNT_BEHIND.match(column.behind)):
            continue
        before = columns[number - 1] if number else None
        if before is not None and before.time_unit:
            gap = _gap(before, column)
            words = f"{before.label} {gap}"
            is_all = count == line.every and re.search(r"(?:/|per) ?$|\b(?:for|in)\b", gap)
            if is_all or (re.search(r"\b(?:of|over|for|in)\b", gap) and _is_mean(words)):
                yield column, before, words  # 2.2s/10 iters, 0.5 s for 100 iters
                continue
        after = columns[number + 1] if number + 1 < len(columns) else None
        if after is not None and (_TIME_LABEL.search(column.words) or after.time_unit):
            gap = _gap(column, after)
            words = f"{column.label} {gap} {after.behind[:12] if after.time_unit else ''}"
            is_time = after.kind not in {Kind.LOSS, Kind.RATE} and "loss" not in column.words
            is_time = is_time and len(gap) <= 24 and _is_varied(after, line)
            if is_time and (count == line.every or _is_mean(words)):
                yield column, after, words


def _gap(one: NumberColumn, other: NumberColumn) -> str:
    return one.behind[: other.begin - one.end]


def _is_varied(column: NumberColumn, line: TrainingLine) -> bool:
    """True unless a column is the step again."""
    return column.values != line.steps.column.values


def summed_times(line: TrainingLine, times: Sequence[Reading]) -> Iterator[Reading]:
    """Yield two times of a step whose sum the stamps prove, or that a program is known to print."""
    parts = [each for each in line.columns if _is_part(line, each)]
    if any(each.proof == Proof.PROVEN for each in times):
        return
    for one, other in itertools.combinations(parts, 2):
        pairs = zip(one.values, other.values, strict=True)
        seconds = [a * scale_of(one) + b * scale_of(other) for a, b in pairs]
        proof = proofs.by_stamps(line.steps, seconds)
        if proof != Proof.PROVEN and (one.words, other.words) != _LEROBOT:
            continue
        yield Reading(
            groups={"step_seconds": one, "added_seconds": other},
            unit=declared_unit(one),
            proof=proof,
            rank=(2, 1, 1, 1),
            facts=line.facts,
            of_averaging=stamps_say(line, seconds, proof),
            of_scope="A step's time is the whole job's, unless each GPU works for itself.",
            of_unit=unit_says(one, proof),
        )


def _is_part(line: TrainingLine, column: NumberColumn) -> bool:
    """True if a column may be a part of a step's time."""
    is_named = column.kind == Kind.OTHER and _PART.search(column.words) is not None
    return (column.kind == Kind.SECONDS or is_named) and is_step_time(line, column)


def bare_times(line: TrainingLine) -> Iterator[Reading]:
    """Yield times without a label: ``| 1000.00 ms |``."""
    for column in line.columns:
        unit = column.time_unit if column.kind == Kind.BARE else None
        if unit is not None and is_step_time(line, column):
            reading = _time(line, column, None)
            reading.rank = WEAK
            yield reading
