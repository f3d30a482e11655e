"""The batch that a training line and the head of its log state."""

from __future__ import annotations

import re
import statistics

from k8sbench.model.plain_text import significant
from k8sbench.reader.guess import proofs
from k8sbench.reader.guess.facts import GuessedFacts
from k8sbench.reader.guess.line import SAME, Batch, Reading, TrainingLine, stamps_say
from k8sbench.reader.guess.proofs import Proof
from k8sbench.reader.guess.totals import noun_of, totals_so_far
from k8sbench.reader.number_columns import NumberColumn

_JOB_BATCH = re.compile(r"\b(?:global|total|effective)(?: train)? batch(?: size)?$|\bgbs$")


def count_samples(line: TrainingLine, reading: Reading) -> None:
    """Find steps that are numbered by samples: rate × seconds is what a line adds."""
    rate = reading.groups.get("rate")
    stamp = line.steps.stamp
    if rate is None or stamp is None or reading.sample == "tokens":
        return
    if reading.unit.split("/")[0].endswith("steps") or reading.facts.job_batch == 1:
        return
    scale = rate.unit.scale if rate.unit else 1.0
    seconds = [1 / max(value * scale, 1e-12) for value in rate.values]
    if proofs.by_stamps(line.steps, seconds) != Proof.PROVEN:
        return
    reading.counts_samples = True
    reading.proof = Proof.PROVEN
    reading.of_averaging = stamps_say(line, seconds, Proof.PROVEN)
    reading.of_scope = "Rate × seconds by the stamps is what a line adds to the step number."


def state_job(line: TrainingLine, reading: Reading) -> None:
    """Take the batch that the lines or the head state, the job's before one GPU's."""
    stated, each = _job_column(line, reading)
    if stated is not None:
        name = "all_samples" if stated in totals_so_far(line) else "step_samples"
        reading.groups.setdefault(name, stated)
        reading.facts = _without_weaker(reading.facts, each)
        if noun_of(stated) == "tokens":
            reading.states_tokens = True
    if "rate" not in reading.groups and reading.sample == "samples" and reading.states_tokens:
        reading.sample = "tokens"
    if reading.sample == "tokens" and "tokens_per_step" in reading.facts.numbers:
        reading.states_tokens = True
    of_lines = each if stated is not None else None
    reading.batch = _batch(reading, of_lines, stated)


def _job_column(line: TrainingLine, reading: Reading) -> tuple[NumberColumn | None, float | None]:
    """Return the column that states the samples of the job's steps, and those of one step."""
    if "all_samples" in reading.groups:
        column = reading.groups["all_samples"]
        return column, proofs.added(column, line.steps)
    every = list(totals_so_far(line))
    wanted = "tokens" if reading.sample == "tokens" else "samples"
    so_far = [each for each in every if noun_of(each) == wanted]
    if not so_far and "rate" not in reading.groups:
        so_far = [each for each in every if _is_news(each, line, reading)]
    if reading.counts_samples:
        return None, None
    if wanted == "samples":
        for column in line.columns:
            whole = all(re.fullmatch(r"[\d,]+(?:\.0*)?", text) for text in column.texts)
            if whole and min(column.values) >= 1 and _JOB_BATCH.search(column.words):
                return column, statistics.median(column.values)
    for column in so_far:
        return column, proofs.added(column, line.steps)
    return None, None


def _is_news(column: NumberColumn, line: TrainingLine, reading: Reading) -> bool:
    """True if a total is not what the log's batch and GPUs come to."""
    known = reading.facts.job_batch
    each = proofs.added(column, line.steps)
    length = reading.facts.length if noun_of(column) == "tokens" else 1
    return known is None or (each is not None and length is not None and each != known * length)


def _without_weaker(facts: GuessedFacts, each: float | None) -> GuessedFacts:
    """Drop the facts that the lines state better, or contradict."""
    facts = facts.without("global_batch", "tokens_per_step")
    gpus = facts.gpus
    if each and facts.batch and not facts.is_sure:
        facts = facts._replace(batch=None)
    own = facts.numbers.get("batch_size")
    if each and own and (gpus is None or own * gpus != round(each)):
        facts = facts.without("batch_size")
    return facts


def _batch(reading: Reading, of_lines: float | None, column: NumberColumn | None) -> Batch:
    """Return the batch to propose, and what states it."""
    facts = reading.facts
    length = reading.facts.length or 1
    job = of_lines
    why = (
        f"The lines state {significant(job, 10)} per step of the job ({column.words})."
        if column and job
        else ""
    )
    if job is None and (total := facts.numbers.get("global_batch")) is not None:
        job = total
        why = f"The log states {total} per step of the job."
    if job is None and (tokens := facts.numbers.get("tokens_per_step")) is not None:
        job = tokens / length
        why = f"The log states {tokens} tokens per step of the job."
    if column is not None and noun_of(column) == "tokens" and job is not None:
        if facts.length is None and facts.batch is not None:
            return Batch(facts.batch, None, why, "")
        job /= length
    if job is not None:
        gpus = facts.gpus or 0
        share = job / gpus if gpus else 0.0
        if share >= 1 and share == int(share):
            return Batch(int(share), job, why, "")
        several = " Several GPUs may share a sample." if gpus else ""
        of_all = f"; the log's {significant(job, 10)} is of all GPUs"
        return Batch(facts.batch or 1, job, f"{why}{several}", of_all)
    if facts.batch is not None:
        known = "--batch-size says" if facts.by_user else "The log states"
        known = known if facts.is_sure else "The log has, of a GPU or the job,"
        of_job = f"{facts.batch * facts.gpus} per step of the job" if facts.gpus else "× GPUs"
        parts = facts.numbers.get("accumulation", 1) if facts.by_user else 1
        of_parts = f" The log accumulates {parts} batches: give that of all." if parts > 1 else ""
        return Batch(facts.batch, None, f"{known} {facts.batch} per GPU, {of_job}.{of_parts}", "")
    amount = reading.product and reading.product / (length if reading.sample == "tokens" else 1)
    cards = 1 if reading.per == "card" else facts.gpus
    if amount and cards and reading.sample != "tokens":
        whole = round(amount / cards)
        if whole >= 1 and abs(amount / cards - whole) <= SAME * whole:
            why = f"Rate × time of a line is {significant(amount, 6)}: {whole} per GPU."
            return Batch(whole, None, why, "")
    unknown = "UNKNOWN: nothing in the log states it, and 1 stands only for a number."
    return Batch(1, None, f"{unknown} Write the batch per GPU.", "; 1 is no batch of this log")
