"""Rates in a training line, beside its times, the batch and the stamps."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from k8sbench.model.notation import Unit
from k8sbench.model.plain_text import significant
from k8sbench.reader.guess import expressions, proofs
from k8sbench.reader.guess.facts import GuessedFacts
from k8sbench.reader.guess.line import (
    SAME,
    Reading,
    TrainingLine,
    averaging_of,
    rank_of,
    scale_of,
    stamps_say,
    unit_says,
)
from k8sbench.reader.guess.proofs import Proof
from k8sbench.reader.guess.times import WEAK
from k8sbench.reader.number_columns import Kind, NumberColumn

ABOUT = 0.25

"""Relative difference of a smoothed rate × time and the batch."""


_TOKENS = (("tps", "tokens"), ("wps", "tokens"), ("tgs", "tokens"), ("ups", "steps"))

"""Parts of labels → noun."""


def is_rate_column(column: NumberColumn) -> bool:
    """True if the numbers may be a rate."""
    values = column.values
    return column.kind == Kind.RATE and min(values) >= 0 and max(values) > 0


def rate_reading(line: TrainingLine, column: NumberColumn, times: Sequence[Reading]) -> Reading:
    """Read a rate, beside the times of a step."""
    unit, sample = _rate_unit(column)
    is_card = bool(column.unit and column.unit.per_card) or _is_per_card(line, column)
    scale = column.unit.scale if column.unit else 1.0
    values = [max(value * scale, 1e-12) for value in column.values]
    reading = Reading(
        groups={"rate": column},
        unit=unit,
        sample=sample,
        per="card" if is_card else "job",
        averaged=averaging_of(column),
        rank=(*rank_of(column), not is_card),
        facts=line.facts,
        of_unit=unit_says(column, Proof.UNKNOWN),
    )
    if unit.split("/")[0].endswith("steps"):
        seconds = [1 / value for value in values]
        reading.per = "job"
        reading.proof = proofs.by_stamps(line.steps, seconds)
        reading.of_averaging = stamps_say(line, seconds, reading.proof)
        reading.of_scope = "All GPUs do the same steps."
        return reading
    _beside_times(reading, times)
    if reading.proof == Proof.UNKNOWN:
        _beside_stamps(line, reading, values)
    return reading


class _Scopes(NamedTuple):
    """Amount that a step adds, in the rate's unit; None if unknown."""

    job: float | None
    card: float | None
    gpus: int | None

    def matching(self, amount: float, slack: float, wanted: str) -> str | None:
        """Return whose batch an amount is, ``wanted`` first; None if nobody's, empty if unknown."""
        if self.job is None and self.card is None:
            return ""
        known = {"job": self.job, "card": self.card}
        fits = [n for n, v in known.items() if v and abs(amount / v - 1) <= SAME + slack]
        if fits:
            return wanted if wanted in fits else fits[0]
        # How many GPUs the job had is not known: a whole multiple of the batch of one is its batch.
        if self.gpus is None and (self.job is None) != (self.card is None):
            share = amount / self.card if self.card else (self.job or 0.0) / amount
            if share > 1 and abs(share - round(share)) <= (SAME + slack) * share:
                return "job" if self.card else "card"
        return None


def known_scopes(facts: GuessedFacts, sample: str) -> _Scopes:
    """Return the known batches of the job and of one GPU, counted as ``sample``."""
    job, card, length = facts.job_batch, facts.batch, 1
    if sample == "tokens":
        length = facts.length or 0
        job = facts.numbers.get("tokens_per_step") or (job and job * length) or None
        card = (card and card * length) or None
    return _Scopes(job or None, card or None, facts.gpus)


def _beside_times(reading: Reading, times: Sequence[Reading]) -> None:
    """Hold a rate against the times of a step beside it."""
    rate = reading.groups["rate"]
    for time in times:
        column = time.groups["step_seconds"]
        slack = proofs.rounding(rate) + proofs.rounding(column)
        usual = proofs.constant(products_of(reading, time), slack)
        if usual is None or "steps" in time.groups:
            continue
        reading.product, reading.proof = usual, time.proof
        product = significant(usual, 7)
        reading.of_averaging = f"Rate × {column.words or 'time'} is {product} in the lines."
        facts = in_tokens(reading.facts, reading.sample, usual)
        whose = known_scopes(facts, reading.sample).matching(usual, slack, reading.per)
        if whose is None:
            reading.proof = Proof.CONTRADICTED
            return
        if whose:
            reading.facts, reading.per = facts, whose
            of = "the job's batch" if whose == "job" else "the batch of one GPU"
            reading.of_scope = f"Rate × time is {product}, {of}."
        if reading.per == "card":
            reading.groups["step_seconds"] = column
        return
    reading.exact = not any(time.rank != WEAK or is_time_of(reading, time) for time in times)


def in_tokens(facts: GuessedFacts, sample: str, usual: float) -> GuessedFacts:
    """Take the job's stated batch as tokens, if rate × time says so."""
    total = facts.numbers.get("global_batch")
    if sample != "tokens" or total is None or not 0.5 < usual / total < 2:
        return facts
    expression = facts.expressions["global_batch"].replace("<global_batch>", "<tokens_per_step>")
    found = facts.without("global_batch")
    batch = (
        found.batch if found.is_sure and total != (found.batch or 0) * (facts.gpus or 0) else None
    )
    return found._replace(
        expressions=found.expressions | {"tokens_per_step": expression},
        numbers=found.numbers | {"tokens_per_step": total},
        batch=batch,
    )


def _beside_stamps(line: TrainingLine, reading: Reading, values: Sequence[float]) -> None:
    """Hold a rate and the known batch against the stamps."""
    scopes = known_scopes(reading.facts, reading.sample)
    known = {name: v for name, v in (("job", scopes.job), ("card", scopes.card)) if v}
    tried = {
        name: proofs.by_stamps(line.steps, [amount / value for value in values])
        for name, amount in known.items()
    }
    proven = [name for name, proof in tried.items() if proof == Proof.PROVEN]
    if proven:
        reading.per = reading.per if reading.per in proven else proven[0]
        reading.proof = Proof.PROVEN
        seconds = [known[reading.per] / value for value in values]
        reading.of_averaging = stamps_say(line, seconds, Proof.PROVEN)
        reading.of_scope = f"By the stamps, with {significant(known[reading.per], 6)} per step."
    elif tried and (scopes.gpus is not None or scopes.job is not None):
        reading.proof = max(tried.values())
        if reading.proof == Proof.CONTRADICTED:
            reading.of_averaging = "The time stamps contradict it, with the batch below."


_CARD = re.compile(
    r"(?:per|/)[_ -]?(?:gpu|device|card|rank|npu|chip)|\b(?:tgs|ips)\b", re.IGNORECASE
)


_JOB = re.compile(r"\b(?:global|total|overall|aggregated?)\b")


def _is_per_card(line: TrainingLine, column: NumberColumn) -> bool:
    """True for rates of one GPU: torchtitan's and Paddle's labels do not name it."""
    if _CARD.search(column.label):
        return True
    if re.search(r"\blocal\b", column.words):
        rates = [each for each in line.columns if is_rate_column(each)]
        return any(_JOB.search(each.words) for each in rates)
    return "tps" in column.label and "mfu" in line.lines[0]


def _rate_unit(column: NumberColumn) -> tuple[str, str]:
    """Return the declared unit of a rate and the benchmark's."""
    found = column.unit or Unit(1.0, "")
    noun = found.noun if found.kind else ""
    noun = noun or next((noun for name, noun in _TOKENS if name in column.label), "samples")
    # A group includes the K of its number, which may become M.
    scale = found.per_second if expressions.many(column) else found.scale
    return str(Unit(scale, noun)), "samples" if noun == "steps" else noun


def products_of(rate: Reading, time: Reading) -> list[float]:
    """Return rate × time of each line."""
    speed = rate.groups["rate"]
    column = time.groups["step_seconds"]
    scale = (speed.unit.scale if speed.unit else 1.0) * scale_of(column)
    return [v * t * scale for v, t in zip(speed.values, column.values, strict=True)]


def is_time_of(rate: Reading, time: Reading) -> bool:
    """True if rate × a time without a label is about the known batch."""
    usual = statistics.median(products_of(rate, time))
    scopes = known_scopes(in_tokens(rate.facts, rate.sample, usual), rate.sample)
    known = [amount for amount in (scopes.job, scopes.card) if amount]
    return any(abs(usual / amount - 1) <= ABOUT for amount in known)
