"""The profile of a run, from the sums of the rank that counts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from k8sbench.messages import note
from k8sbench.model.measurement import Profile
from k8sbench.model.missing import Missing
from k8sbench.reader.measuring import log_units
from k8sbench.reader.measuring.estimates import OF_WHOLE_RUN
from k8sbench.reader.measuring.log_statements import Case
from k8sbench.reader.measuring.log_units import NO_LENGTH
from k8sbench.reader.measuring.profile_sums import ProfilePoint, ProfileSums

NO_LINE = Missing(note("no-profile-line"))
NO_SECONDS = Missing(note("no-profile-batch"))
VARYING = Missing(note("no-profile-batch-changes"))
DIGITS = 12
"""Significant digits of the sums."""


def profile_of(case: Case) -> Profile | Missing:
    """Return the profile of a run."""
    rank, seconds = case.rank, case.seconds_per_unit
    if rank is None:
        return OF_WHOLE_RUN
    sums = rank.profile
    if seconds is None:
        return NO_SECONDS if log_units.conversion(case.log) else NO_LENGTH
    if rank.shape.is_rate and rank.tally.steps.vary:
        return VARYING
    points = sums.to_the_end
    if not points:
        return NO_LINE
    amounts = _amounts(case, sums, points)
    length = log_units.stated_length(case.log)
    samples = tokens = None
    if log_units.unit(case.log).startswith("tokens"):
        tokens = amounts
        samples = _scaled(amounts, None if length is None else 1 / length)
    else:
        samples = amounts
        tokens = _scaled(amounts, length)
    return Profile(
        points=tuple(point.point for point in points),
        iterations=tuple(_rounded(point.iterations) for point in points),
        seconds=tuple(_rounded(point.time * seconds) for point in points),
        samples=samples,
        tokens=tokens,
        losses=_losses(points),
    )


def _amounts(
    case: Case, sums: ProfileSums, points: Sequence[ProfilePoint]
) -> tuple[float, ...] | None:
    """Return what the job added up to each point, in the throughput's unit; None if unknown."""
    factor = log_units.conversion(case.log)
    if sums.states_samples and factor is not None:
        return tuple(_rounded(point.samples * factor) for point in points)
    if case.job_batch is None:
        return None
    return tuple(_rounded(point.iterations * case.job_batch) for point in points)


def _scaled(amounts: tuple[float, ...] | None, factor: float | None) -> tuple[float, ...] | None:
    if amounts is None or factor is None:
        return None
    return tuple(_rounded(amount * factor) for amount in amounts)


def _losses(points: Sequence[ProfilePoint]) -> tuple[float | None, ...] | None:
    """Return the loss at each point; None if no line prints one."""
    if all(point.loss is None for point in points):
        return None
    return tuple(
        point.loss if point.loss is not None and math.isfinite(point.loss) else None
        for point in points
    )


def _rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")
