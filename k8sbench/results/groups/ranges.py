"""The range of iterations over which the sets of a case are compared.

A run of another program ends by time, by epoch or by a number of steps. Its length is no part of
its case; the series of the case has a range instead:

1. The range is fixed on the first night on which four sets reach half of the median length of all
   sets so far. Later and older sets do not change it.
2. It is what these four cover, after the largest of their warm-ups, down to a point that their
   profiles share. Sets of equal length are cut nowhere.
3. A longer run is cut. A run that covers less than half of the range is not judged.
4. Where the speed or the batch changes within the range, runs of another planned length are not
   judged either: their schedules may go by the share of the run. A range counts iterations there,
   too, not samples or tokens.

Before the range is fixed, two sides are compared over what both cover, and so are two that are both
too short for it.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from k8sbench.model.compared import UnjudgedSets
from k8sbench.model.group import Group, GroupRow
from k8sbench.model.profile import IterationRange, Progress
from k8sbench.model.series import Line
from k8sbench.results.groups import nights

FEWEST_SETS = 4
"""Sets that fix a range: as many as a series needs before it judges a set."""

EQUAL = 1.001
"""Largest ratio of two equal amounts."""

Obstacle = Literal["too-short", "schedule", "no-profile"]
"""Id of the reason why a run has no figure over a range."""


def due(rows: Iterable[GroupRow], fixed: Iterable[Line]) -> dict[Line, list[GroupRow]]:
    """Return the four sets of each case that fix its range; without cases in ``fixed``."""
    known = set(fixed)
    open_rows = [row for row in rows if row.reaches is not None and row.line not in known]
    sets: dict[Line, list[GroupRow]] = {}
    chosen: dict[Line, list[GroupRow]] = {}
    for night in nights.by_night(open_rows).values():
        for row in night:
            sets.setdefault(row.line, []).append(row)
        for line in {row.line for row in night} - chosen.keys():
            long_enough = _long_enough(sets[line])
            if len(long_enough) >= FEWEST_SETS:
                chosen[line] = long_enough[:FEWEST_SETS]
    return chosen


def newest(rows: Iterable[GroupRow]) -> dict[Line, list[GroupRow]]:
    """Return those of the newest four sets of each case that fix its range anew."""
    sets: dict[Line, list[GroupRow]] = {}
    for row in sorted(rows, key=lambda row: row.began):
        if row.reaches is not None and row.median is not None and not row.in_progress:
            sets.setdefault(row.line, []).append(row)
    enough = {line: its for line, its in sets.items() if len(its) >= FEWEST_SETS}
    return {line: _long_enough(its[-FEWEST_SETS:]) for line, its in enough.items()}


def _long_enough(rows: Sequence[GroupRow]) -> list[GroupRow]:
    """Return the sets that reach half of the median length, in their order."""
    half = statistics.median(row.reaches or 0 for row in rows) / 2
    return [row for row in rows if (row.reaches or 0) >= half]


def covered(groups: Iterable[Group]) -> IterationRange | None:
    """Return the range that all of some sets cover; None without one.

    A set covers what the middle one of its runs does.
    """
    by_set = [progress for group in groups if (progress := progress_of(group))]
    runs = [run for progress in by_set for run in progress]
    if not runs:
        return None
    begin = max(run.warmup for run in runs)
    end = min(statistics.median_low(run.end for run in progress) for progress in by_set)
    lengths = {(run.warmup, run.end) for run in runs}
    if len(lengths) > 1:
        begin, end = _at_points([run for run in runs if run.end >= end], begin, end)
    planned = _common_plan(runs)
    return IterationRange(begin=begin, end=end, planned=planned) if begin < end else None


def fixed_by(groups: Iterable[Group]) -> IterationRange | None:
    """Return the range of a series that some sets fix; None if they fix none as yet.

    Sets of several lengths of which only some have a profile fix none: the others may get theirs,
    and nothing tells where they could be cut.
    """
    groups = list(groups)
    runs = [run for group in groups for run in progress_of(group)]
    has_profile = {bool(run.points) for run in runs}
    if len({(run.warmup, run.end) for run in runs}) > 1 and len(has_profile) > 1:
        return None
    return covered(groups)


def _common_plan(runs: Iterable[Progress]) -> str | None:
    """Return the planned length that all runs state; None without one."""
    plans = {run.planned for run in runs}
    return plans.pop() if len(plans) == 1 else None


def _at_points(runs: Sequence[Progress], begin: int, end: int) -> tuple[int, int]:
    """Return the ends of a range, moved to points that the profiles of all runs share.

    Without such points they stay.
    """
    shared = set.intersection(*({*run.points} for run in runs))
    if begin:
        begin = min((point for point in shared if point >= begin), default=begin)
    return begin, max((point for point in shared if begin < point <= end), default=end)


def progress_of(group: Group) -> list[Progress]:
    """Return the progress of the counted runs of a group that have one."""
    return [member.progress for member in group.members if member.progress is not None]


def shared(a: Sequence[Group], b: Sequence[Group]) -> IterationRange | None:
    """Return the range of two sides of a case: of their series, else what both cover.

    What both cover is also compared if all sets are too short for the range of their series. The
    planned length is that of the two sides, whatever other sets of the series planned. None if a
    benchmark names the window of a run.
    """
    groups = [*a, *b]
    if not a or not b or not all(map(has_open_length, groups)):
        return None
    of_series = next((group.range for group in groups if group.range is not None), None)
    if of_series is None:
        return covered(groups)
    planned = _common_plan(run for group in groups for run in progress_of(group))
    over = msgspec.structs.replace(of_series, planned=planned)
    are_short = all(obstacle(group, over) == "too-short" for group in groups)
    return covered(groups) if are_short else over


def has_open_length(group: Group) -> bool:
    """True if all runs of a group that count may be of any length."""
    counted = [member for member in group.members if member.rate is not None]
    return bool(counted) and all(member.progress is not None for member in counted)


def consume_alike(groups: Iterable[Group], over: IterationRange) -> bool:
    """True if all runs of some groups consume the same samples or tokens in the range.

    So runs are compared whose batch grows by a schedule, and is stated nowhere.
    """
    amounts = [run.consumed(over) for group in groups for run in progress_of(group)]
    known = [amount for amount in amounts if amount is not None]
    return len(known) == len(amounts) > 0 and max(known) <= EQUAL * min(known)


def obstacle(group: Group, over: IterationRange) -> Obstacle | None:
    """Return why no run of a group has a figure over a range; None if a run has."""
    runs = progress_of(group)
    if not runs or group.rates_over(over):
        return None
    if all(run.is_too_short(over) for run in runs):
        return "too-short"
    return "schedule" if any(run.follows_other_schedule(over) for run in runs) else "no-profile"


def unjudged(groups: Iterable[Group]) -> UnjudgedSets | None:
    """Return the newest sets of a case that have no figure over its range; None if the newest has.

    ``groups`` are sets of one case, oldest first. Those without any figure are passed over.
    """
    known = [group for group in groups if group.spread is not None]
    newest_first = itertools.takewhile(_is_unjudged, reversed(known))
    found = tuple(newest_first)[::-1]
    if not found:
        return None
    of_rows = {group.row: group for group in known}
    anew = [fixed_by(of_rows[row] for row in rows) for rows in newest(of_rows).values()]
    has_other = any(over is not None and obstacle(found[-1], over) is None for over in anew)
    return UnjudgedSets(groups=found, has_other_range=has_other)


def _is_unjudged(group: Group) -> bool:
    return group.range is not None and obstacle(group, group.range) is not None


def judged(groups: Sequence[Group], over: IterationRange) -> Sequence[Group]:
    """Return the groups of a side that have a figure over a range; all of them if none has."""
    return [group for group in groups if group.rates_over(over)] or groups


def obstacles(groups: Iterable[Group], over: IterationRange) -> Mapping[Obstacle, Group]:
    """Return why groups have no figure over a range, each reason with the newest such group."""
    found = {obstacle(group, over): group for group in groups}
    return {why: group for why, group in found.items() if why is not None}
