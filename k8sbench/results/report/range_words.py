"""Words for the range of iterations over which runs of other lengths are compared."""

from __future__ import annotations

from collections.abc import Iterable

from k8sbench.model.compared import Compared, Figures
from k8sbench.model.group import Group
from k8sbench.model.profile import IterationRange
from k8sbench.results.groups import ranges
from k8sbench.results.report import formats

NOTABLE = 0.001
"""Difference between a row's own figure and the one over the range from which both are shown."""


def iterations(over: IterationRange) -> str:
    """Write a range: ``iterations 21 to 288``."""
    return f"iterations {over.begin + 1} to {over.end}"


def mark(group: Group) -> str | None:
    """Write how a row's figure stands to the range of its series; None if they agree."""
    if group.range is None or group.spread is None:
        return None
    if (why := unjudged(group, group.range)) is not None:
        return f"not judged: {why}"
    in_range = group.row.in_range
    if in_range is None or abs(in_range / group.spread.median - 1) <= NOTABLE:
        return None
    return f"{formats.rate(in_range)} over {iterations(group.range)}"


def unjudged(group: Group, over: IterationRange) -> str | None:
    """Write why a group has no figure over a range; None if it has one."""
    match ranges.obstacle(group, over):
        case None:
            return None
        case "too-short":
            most = max(run.covers(over) for run in ranges.progress_of(group))
            return f"too short: {most} of {over.length} iterations"
        case "schedule":
            return (
                f"the speed changes within {iterations(over)}, and the planned lengths differ or"
                " are not stated"
            )
        case "no-profile":
            return (
                f"no profile gives the time of {iterations(over)} alone; `k8sbench store reindex"
                " --measure` adds profiles to runs of earlier releases"
            )


def compared(case: Compared) -> str | None:
    """Write over which iterations a case is compared; None if over the runs' own windows."""
    if case.ratio is None or case.over is None:
        return None
    sides = (side for side in (case.a, case.b) if side is not None)
    runs = (run for side in sides for group in side.groups for run in ranges.progress_of(group))
    over = case.over
    if all(run.is_whole(over) for run in runs):
        return None
    return f"A, B: over {iterations(over)}, not over each run's own window."


def without_ratio(case: Compared) -> Iterable[str]:
    """Yield why sides have no figures over the range of a case; nothing if both have."""
    over = case.over
    if over is None:
        return
    for name, side in (("A", case.a), ("B", case.b)):
        for group in () if side is None else side.groups[-1:]:
            why = unjudged(group, over)
            if why is not None and "schedule" not in case.not_comparable:
                yield f"{name}: {why}."
    if "schedule" in case.not_comparable:
        yield (
            f"The speed changes within {iterations(over)}, and the planned lengths differ or are"
            " not stated: equal iterations may not be equal work, so that there is no ratio."
            f" {_to_target(case.a, case.b)}"
        )


def _to_target(a: Figures | None, b: Figures | None) -> str:
    """Name the time to a target, which is comparable whatever the schedule."""
    times = [side and side.groups[-1].time_to_train_s for side in (a, b)]
    if None in times:
        return "Compare the time to a target."
    return f"Compare the time to the target: {times[0]:.0f} s in A, {times[1]:.0f} s in B."
