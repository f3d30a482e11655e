"""Totals in a training line: time since the start, samples so far."""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Iterator, Sequence

from k8sbench.reader.guess import proofs
from k8sbench.reader.guess.line import Reading, TrainingLine, declared_unit, scale_of, unit_says
from k8sbench.reader.guess.rates import known_scopes
from k8sbench.reader.number_columns import Kind, NumberColumn

_ELAPSED = re.compile(
    r"\b(?:elapsed|total time|train time|training time|time total|wall(?: time| clock)?|runtime"
    r"|time elapsed|time so far)\b"
)


_SO_FAR = re.compile(
    r"\b(?:consumed|seen|total|num|n|all|processed)(?: train)? (?P<noun>samples|tokens|images)\b"
    r"|\b(?P<after>samples|tokens|images) (?:seen|so far|consumed|processed)\b|\bsmpl$"
    r"|^(?:samples|tokens|images)$"
)


def _elapsed(line: TrainingLine) -> Iterator[NumberColumn]:
    """Yield the times since the program began, or since the steps were last counted from 1."""
    for column in (*line.durations, *line.columns):
        is_time = column in line.durations or column.kind in {Kind.OTHER, Kind.SECONDS}
        steps, values = (itertools.pairwise(each.values) for each in (line.steps.column, column))
        both = zip(steps, values, strict=True)
        if not is_time or any(a >= b and c < d for (a, b), (c, d) in both):
            continue
        if not _ELAPSED.search(column.words) and column.words != "time":
            continue
        if proofs.added(column, line.steps) is not None:
            yield column


def totals_so_far(line: TrainingLine) -> Iterator[NumberColumn]:
    """Yield the samples or tokens of the job so far."""
    for column in line.columns:
        if column.kind in {Kind.RATE, Kind.LOSS, Kind.OF} or not line.steps.goes_on:
            continue
        if column.behind[:1].isalpha() or not _SO_FAR.search(column.words):
            continue
        each = proofs.added(column, line.steps)
        if each is not None and each >= 1:
            yield column


def _total(line: TrainingLine, elapsed: NumberColumn, rank: tuple[int, ...], why: str) -> Reading:
    values = elapsed.values
    scale = scale_of(elapsed)
    seconds = [0.0] * len(values)
    for number, distance, _ in line.steps.pairs:
        seconds[number] = max(values[number] - values[number - 1], 0.0) * scale / distance
    proof = proofs.by_stamps(line.steps, seconds)
    return Reading(
        groups={"elapsed": elapsed},
        unit=declared_unit(elapsed),
        proof=proof,
        rank=rank,
        facts=line.facts,
        of_averaging=why,
        of_scope="A step's time is the whole job's, unless each GPU works for itself.",
        of_unit=unit_says(elapsed, proof),
    )


def elapsed_alone(line: TrainingLine) -> Iterator[Reading]:
    """Yield the totals of lines that state no other time."""
    for elapsed in _elapsed(line):
        back = sum(a >= b for a, b in itertools.pairwise(elapsed.values))
        anew = f", and begins anew in {back} of {len(line.lines)} lines" if back else ""
        why = f"{elapsed.words} grows with the steps{anew}."
        yield _total(line, elapsed, (0,), why)


def total_of(line: TrainingLine, reading: Reading) -> Reading | None:
    """Return the totals that a reading is the mean of; None if it is of an interval."""
    if not line.steps.goes_on or "added_seconds" in reading.groups or "steps" in reading.groups:
        return None
    rate = reading.groups.get("rate")
    time = reading.groups.get("step_seconds")
    for elapsed in _elapsed(line):
        if rate is not None:
            scale = rate.unit.scale if rate.unit else 1.0
            for samples in totals_so_far(line):
                if proofs.is_rate_of(rate, scale, samples, elapsed, scale_of(elapsed)):
                    if not (proofs.vary(rate.values) or _is_fine(line, elapsed)):
                        continue
                    mean = f"{samples.words} ÷ {elapsed.words}"
                    why = f"{rate.words} is {mean}: a mean since the start."
                    found = _total(line, elapsed, reading.rank, why)
                    found.groups["all_samples"] = samples
                    found.sample = (
                        noun_of(samples) if reading.sample == "samples" else reading.sample
                    )
                    found.states_tokens = found.sample == "tokens"
                    return found
        column = time if rate is None else rate
        if column is None:
            continue
        step_seconds = _step_seconds(reading, column)
        if step_seconds is None:
            continue
        slack = proofs.rounding(column)
        total = [value * scale_of(elapsed) for value in elapsed.values]
        if not proofs.is_mean_of(step_seconds, total, line.steps, slack):
            continue
        if _is_interval(line, step_seconds, total, slack) and not _is_fine(line, elapsed):
            continue
        why = f"{column.words} × steps is {elapsed.words}: a mean since the start."
        found = _total(line, elapsed, reading.rank, why)
        found.sample = reading.sample
        return found
    return None


def _step_seconds(reading: Reading, column: NumberColumn) -> list[float] | None:
    """Return the seconds of a step of each line; None if the batch is not known."""
    if column.kind != Kind.RATE:
        return [value * scale_of(column) for value in column.values]
    scale = column.unit.scale if column.unit else 1.0
    if min(column.values) <= 0:
        return None
    if reading.unit.split("/")[0].endswith("steps"):
        return [1 / (value * scale) for value in column.values]
    scopes = known_scopes(reading.facts, reading.sample)
    amount = scopes.card if reading.per == "card" else scopes.job
    return None if amount is None else [amount / (value * scale) for value in column.values]


def _is_interval(
    line: TrainingLine, step_seconds: Sequence[float], total: Sequence[float], slack: float
) -> bool:
    """True if a time is also what each line adds to the total."""
    pairs = line.steps.pairs
    near = sum(
        abs(step_seconds[n] * distance - (total[n] - total[n - 1]))
        <= (proofs.CLOSE + slack) * step_seconds[n] * distance
        for n, distance, _ in pairs
    )
    return near >= proofs.MOST * len(pairs)


def _is_fine(line: TrainingLine, elapsed: NumberColumn) -> bool:
    """True if a total's last digit does not matter from one line to the next."""
    values = elapsed.values
    added = [values[n] - values[n - 1] for n, _, _ in line.steps.pairs]
    digit = proofs.rounding(elapsed) * max(min(values), 1e-9)
    return bool(added) and digit <= proofs.CLOSE * statistics.median(added)


def noun_of(column: NumberColumn) -> str:
    """Return what a total counts: samples or tokens."""
    return "tokens" if "token" in column.words else "samples"
