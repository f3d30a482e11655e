"""Warm-up of a log whose benchmark names none, and the run's planned iterations."""

from __future__ import annotations

from k8sbench.model.sample import Record
from k8sbench.reader.family import Family
from k8sbench.reader.measuring.stated_facts import StatedFacts

LONGEST_WARMUP = 0.25
"""Maximum share of planned iterations for a family's default warm-up."""


def usual_warmup(family: Family, facts: StatedFacts, first: Record) -> int:
    """Return the family's warm-up; of a short run not more than leaves something to measure."""
    every = facts.whole("log_interval") or 0
    total = first.total
    if total is None and 1 < first.iteration < every:
        total = first.iteration  # only the end of an epoch is printed before the interval's
    planned = planned_iterations(facts, total, by_epoch=first.shape.numbering != "run")
    usual = family.warmup
    return usual if planned is None else min(usual, int(planned * LONGEST_WARMUP))


def planned_iterations(facts: StatedFacts, total: int | None, *, by_epoch: bool) -> int | None:
    """Return the planned iterations of the run; None if not stated.

    ``total`` is what a line states: of the run, or with ``by_epoch`` of an epoch.
    """
    epochs = facts.whole("planned_epochs")
    logged = facts.whole("planned_iterations")
    if not by_epoch:
        return total or logged
    return logged if epochs is None or total is None else epochs * total
