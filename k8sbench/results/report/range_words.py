"""Words for the range of iterations over which runs of other lengths are compared."""

from __future__ import annotations

from collections.abc import Iterable

from k8sbench.messages import Note, note
from k8sbench.model.compared import Compared, Figures
from k8sbench.model.group import Group
from k8sbench.model.profile import IterationRange
from k8sbench.results.groups import ranges
from k8sbench.results.report import formats

NOTABLE = 0.001
"""Difference between a row's own figure and the one over the range from which both are shown."""


def iterations(over: IterationRange) -> Note:
    """Name a range: ``iterations 21 to 288``."""
    return note("range-iterations", first=over.begin + 1, last=over.end)


def mark(group: Group) -> Note | None:
    """Write how a row's figure stands to the range of its series; None if they agree."""
    if group.range is None or group.spread is None:
        return None
    if (why := unjudged(group, group.range)) is not None:
        return note("range-not-judged", why=why)
    in_range = group.row.in_range
    if in_range is None or abs(in_range / group.spread.median - 1) <= NOTABLE:
        return None
    return note("range-figure", rate=formats.rate(in_range), over=iterations(group.range))


def unjudged(group: Group, over: IterationRange) -> Note | None:
    """Write why a group has no figure over a range; None if it has one."""
    match ranges.obstacle(group, over):
        case None:
            return None
        case "too-short":
            most = max(run.covers(over) for run in ranges.progress_of(group))
            return note("range-too-short", most=most, length=over.length)
        case "schedule":
            return note("range-schedule", over=iterations(over))
        case "no-profile":
            return note("range-no-profile", over=iterations(over))


def compared(case: Compared) -> Note | None:
    """Write over which iterations a case is compared; None if over the runs' own windows."""
    if case.ratio is None or case.over is None:
        return None
    sides = (side for side in (case.a, case.b) if side is not None)
    runs = (run for side in sides for group in side.groups for run in ranges.progress_of(group))
    over = case.over
    if all(run.is_whole(over) for run in runs):
        return None
    return note("range-compared", over=iterations(over))


def without_ratio(case: Compared) -> Iterable[Note]:
    """Yield why sides have no figures over the range of a case; nothing if both have."""
    over = case.over
    if over is None:
        return
    for name, side in (("A", case.a), ("B", case.b)):
        for group in () if side is None else side.groups[-1:]:
            why = unjudged(group, over)
            if why is not None and "schedule" not in case.not_comparable:
                yield note("range-of-side", side=name, why=why)
    if "schedule" in case.not_comparable:
        instead = _to_target(case.a, case.b)
        yield note("range-no-ratio", over=iterations(over), instead=instead)


def _to_target(a: Figures | None, b: Figures | None) -> Note:
    """Name the time to a target, which is comparable whatever the schedule."""
    times = [side and side.groups[-1].time_to_train_s for side in (a, b)]
    if None in times:
        return note("compare-target")
    return note("compare-target-times", a=f"{times[0]:.0f}", b=f"{times[1]:.0f}")
