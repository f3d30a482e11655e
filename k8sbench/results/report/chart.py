"""Charts as values: bars, and panels of lines over one horizontal axis.

:mod:`.svg` draws them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec


class Dot(msgspec.Struct, frozen=True):
    """One figure of a chart."""

    x: float
    y: float
    text: str = ""
    """Words shown where the pointer rests on it."""
    low: float | None = None
    """Lower end of the interval of ``y``; None without one."""
    high: float | None = None
    kind: str = ""
    """Colour if not that of its line."""
    step: str = ""
    """Words beside a line through the point: the level changes here."""
    value: str = ""
    """Words that a page shows while the pointer is near, behind the name of its place."""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Points of one thing, by ``x``."""

    kind: str
    """Its colour, a key of :data:`.svg.COLOURS`."""
    points: tuple[Dot, ...]
    """One or more; a figure that is missing has none."""
    name: str = ""
    """Name in the legend; empty: none."""
    dashes: str = ""
    """Lengths of dashes and gaps; empty: drawn through."""
    shape: Literal["dot", "loose", "square", "stroke", "none", "band"] = "dot"
    """Shape of a point; loose dots, squares and upright strokes have no line.

    A band is the area between the ends of the points' intervals.
    """


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """Lines over a vertical axis of their own."""

    lines: tuple[Trace, ...]
    title: str = ""
    """Title; empty: that of the chart is enough."""
    suffix: str = ""
    """End of each figure of the vertical axis."""
    from_zero: bool = False
    """True if the vertical axis begins at 0."""
    height: int = 200


class Tick(NamedTuple):
    """A labelled place of the horizontal axis."""

    at: float
    label: str


class Place(NamedTuple):
    """A place of the horizontal axis that a page names while the pointer is near."""

    at: float
    name: str
    time: float | None = None
    """Unix seconds; None if the place is no time, or not known."""


class Event(NamedTuple):
    """A vertical line through all panels, with a number that the legend explains."""

    at: float
    text: str


class Key(NamedTuple):
    """A shape that the legend explains."""

    shape: Literal["dot", "interval", "step"]
    kind: str
    text: str


class LineChart(msgspec.Struct, frozen=True, kw_only=True):
    """Panels below each other over one horizontal axis."""

    title: str
    panels: tuple[Panel, ...]
    across: str = ""
    """Title of the horizontal axis."""
    ticks: tuple[Tick, ...] | None = None
    """Ticks of the horizontal axis; None: round numbers."""
    ends: tuple[float, float] | None = None
    """Ends of the horizontal axis; None: those of the points."""
    events: tuple[Event, ...] = ()
    """Oldest first."""
    keys: tuple[Key, ...] = ()
    """Shapes that the legend explains, besides the names of lines and the events."""
    places: tuple[Place, ...] = ()
    """Places of the points with a ``value``, from left to right."""
    shade: tuple[float, float] | None = None
    """Part of the horizontal axis that is shaded."""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One bar, with words above it."""

    label: str
    kind: str
    figure: Dot | None
    """Figure at the bar's end, ``x``; None: there are words alone."""
    marks: tuple[Dot, ...] = ()
    """Published figures, ``x``."""


class BarChart(msgspec.Struct, frozen=True, kw_only=True):
    """Bars below each other, in files alone."""

    title: str
    bars: tuple[Bar, ...]
    interval: str = ""
    """Words for the interval of a bar in the legend; empty: no bar has one."""
    mark: str = ""
    """Words for the marks in the legend; empty: there are none."""


Chart = LineChart | BarChart
