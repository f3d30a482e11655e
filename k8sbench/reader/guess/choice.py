"""The way to read a training line that its numbers and stamps prove."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from k8sbench.model.plain_text import significant
from k8sbench.reader.guess.batches import count_samples, state_job
from k8sbench.reader.guess.line import Reading, TrainingLine
from k8sbench.reader.guess.proofs import Proof
from k8sbench.reader.guess.rates import (
    in_tokens,
    is_rate_column,
    is_time_of,
    products_of,
    rate_reading,
)
from k8sbench.reader.guess.times import bare_times, step_times, summed_times
from k8sbench.reader.guess.totals import elapsed_alone, total_of


def best(line: TrainingLine) -> Reading | None:
    """Return the reading that the line and its stamps prove, else the likeliest; None without."""
    times = list(step_times(line))
    bare = list(bare_times(line))
    columns = [column for column in line.columns if is_rate_column(column)]
    rates = [rate_reading(line, column, [*times, *bare]) for column in columns]
    exact = [time for time in bare if any(is_time_of(rate, time) for rate in rates)]
    found = [*times, *summed_times(line, times), *exact, *rates]
    if not found:
        found = list(elapsed_alone(line))
    if not found:
        return None
    chosen = max(found, key=lambda each: each.order)  # of equals the first
    if chosen.proof == Proof.CONTRADICTED and (totals := list(elapsed_alone(line))):
        chosen = max([chosen, *totals], key=lambda each: each.order)
    chosen = total_of(line, chosen) or chosen
    _count_as(chosen, rates)
    _say_rates(chosen, rates)
    count_samples(line, chosen)
    state_job(line, chosen)
    return chosen


def _count_as(reading: Reading, rates: Sequence[Reading]) -> None:
    """Let a time count what the rates beside it do: images, or tokens whose number is known."""
    if "rate" in reading.groups or reading.sample != "samples":
        return
    for rate in rates:
        products = products_of(rate, reading) if "step_seconds" in reading.groups else []
        usual = statistics.median(products) if products else 0.0
        facts = in_tokens(reading.facts, rate.sample, usual)
        known = facts.length or "tokens_per_step" in facts.numbers
        if rate.sample in {"images", "clips", "sequences"} or (rate.sample == "tokens" and known):
            reading.sample, reading.facts = rate.sample, facts
            return


def _say_rates(reading: Reading, rates: Sequence[Reading]) -> None:
    """Say why the rates beside a time are not taken."""
    for rate in rates:
        name = rate.groups["rate"].words or "the rate"
        if "rate" in reading.groups or "step_seconds" not in reading.groups:
            continue
        if not rate.exact:
            reading.of_averaging += f" Not taken: {name}, which × time is not constant."
        elif rate.product is not None and rate.proof == Proof.CONTRADICTED:
            product = significant(rate.product, 6)
            reading.of_averaging += f" Not taken: {name}, which × time is {product}."
