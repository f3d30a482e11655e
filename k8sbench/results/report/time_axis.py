"""One time axis for all cases of a benchmark: places, ticks, and what changed between sets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from k8sbench.messages import Lang
from k8sbench.model import times
from k8sbench.model.compared import CaseHistory, Point
from k8sbench.model.group import Group
from k8sbench.model.plain_text import short_digests
from k8sbench.model.series import DAY
from k8sbench.results.report import formats, words
from k8sbench.results.report.chart import Event, Tick

HOUR = 3600.0
STEPS = (
    *(60.0, 300.0, 900.0, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR),
    *(DAY, 2 * DAY, 5 * DAY, 10 * DAY, 20 * DAY, 60 * DAY, 120 * DAY, 365 * DAY),
)
"""Distances of ticks, seconds."""
MOST_TICKS = 5
"""Maximum number of ticks, so that their labels fit a phone."""
MOST_EVENTS = 9
"""Newest changes of the environment that are drawn."""
MOST_OF_NODES = 3
"""Maximum number of sets with other nodes that are drawn.

Where they come and go more often, they would hide the other changes.
"""
FACTS: Mapping[str, Callable[[Group], str | None]] = {
    "image": lambda group: group.key.image,
    "program": lambda group: group.program,
    "driver": lambda group: group.driver,
    "node": lambda group: ", ".join(group.nodes),
}
"""Name of a fact that may change between sets → its value."""


class TimeAxis(NamedTuple):
    """The time from the first to the last set of a benchmark."""

    begin: float
    end: float
    """Unix seconds."""
    order: Mapping[str, int] | None
    """Set → its number, where some logs have no dates; None: places are times."""

    @property
    def ends(self) -> tuple[float, float]:
        """Places of the first and the last set."""
        if self.order is None:
            return self.begin, self.end
        return 0, max(self.order.values())

    @property
    def ticks(self) -> tuple[Tick, ...]:
        """Labelled days or hours, in UTC."""
        if self.order is not None:
            return ()
        span = self.end - self.begin
        years = math.ceil(span / MOST_TICKS / STEPS[-1]) * STEPS[-1]
        step = next((one for one in STEPS if span / one <= MOST_TICKS), years)
        form = "%H:%M" if step < DAY else "%m-%d" if step < 60 * DAY else "%Y-%m"
        first = -(-self.begin // step)
        times = (step * (first + n) for n in range(int(self.end // step - first) + 1))
        return tuple(Tick(at, datetime.fromtimestamp(at, UTC).strftime(form)) for at in times)

    def title(self, lang: Lang) -> str:
        """Return the days of the axis."""
        if self.order is not None:
            return words.say(lang, "sets_in_order")
        return f"{formats.days((self.begin, self.end))} (UTC)"

    def place(self, point: Point) -> float:
        """Return the place of a set."""
        return point.at if self.order is None else self.order[point.group.key.set_name]


def dated(point: Point) -> str:
    """Write the name of a set, and when it began."""
    date = f" ({times.minute(point.at)})" if point.group.dates else ""
    return f"{point.group.key.set_name}{date}"


def time_axis(series: Sequence[CaseHistory]) -> TimeAxis:
    """Return the axis of the cases of a benchmark."""
    points = sorted((point for one in series for point in one.points), key=lambda point: point.at)
    order: dict[str, int] | None = None
    if any(point.group.dates is None for point in points):
        sets = dict.fromkeys(point.group.key.set_name for point in points)
        order = {name: number for number, name in enumerate(sets)}
    return TimeAxis(points[0].at, points[-1].at, order)


def events(
    series: Sequence[CaseHistory],
    axis: TimeAxis,
    lang: Lang = "en",
) -> tuple[Event, ...]:
    """Return where image, program, driver or nodes of a case are others than in its set before."""
    changes: dict[tuple[str, str], list[str]] = {}
    begins: dict[str, Point] = {}
    for one in series:
        last: dict[str, str] = {}
        for point in one.points:
            name = point.group.key.set_name
            begins[name] = min(begins.get(name, point), point, key=lambda one: one.at)
            for fact, value in _facts(point.group).items():
                if last.get(fact, value) != value:
                    change = short_digests(f"{last[fact]} → {value}")
                    named = f"{words.name_of_fact(lang, fact)} {change}"
                    changes.setdefault((name, fact), []).append(named)
                last[fact] = value
    if sum(fact == "node" for _, fact in changes) > MOST_OF_NODES:
        changes = {which: found for which, found in changes.items() if which[1] != "node"}
    made = []
    for (name, _), found in changes.items():
        first, *others = dict.fromkeys(found)
        more = f" (+ {len(others)})" if others else ""
        begin = begins[name]
        made.append(Event(axis.place(begin), f"{dated(begin)}: {first}{more}"))
    return tuple(sorted(made)[-MOST_EVENTS:])


def _facts(group: Group) -> dict[str, str]:
    """Return what is known of a group, by the names of :data:`FACTS`."""
    known = {fact: read(group) for fact, read in FACTS.items()}
    return {fact: value for fact, value in known.items() if value not in (None, "", "-", "unknown")}
