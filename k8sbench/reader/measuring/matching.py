"""Choice of the expectation that applies to a log, by its family and facts."""

from __future__ import annotations

from collections.abc import Sequence

from k8sbench.reader.family import Family
from k8sbench.reader.measuring.expectation import Expectation
from k8sbench.reader.measuring.stated_facts import StatedFacts


def choose_expectation(
    candidates: Sequence[Expectation],
    families: Sequence[Family],
    family: Family | None,
    facts: StatedFacts,
) -> Expectation:
    """Return the first candidate that fits; ``families`` are those of the candidates."""
    if family is not None and family.states_plan:
        frameworks = {None, facts.first("framework")}
        mine = (each for each in candidates if each.framework in frameworks)
        return next(mine, candidates[0])
    for expected, its_family in zip(candidates, families, strict=True):
        if family is not None and its_family.name == family.name:
            return expected
    return candidates[0]


def is_stated(expected: Expectation, family: Family | None, facts: StatedFacts) -> bool:
    """Return True if the log states the benchmark of a conditional expectation."""
    if family is not None and family.states_plan:
        stated = (facts.first("benchmark"), facts.first("variant"))
        return expected.if_stated and stated == (expected.benchmark, expected.variant)
    model = (facts.first("model") or "").lower()
    format_ = family and family.name
    is_named = expected.format == format_ and any(n in model for n in expected.logged_models)
    return expected.if_stated and is_named
