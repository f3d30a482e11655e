"""Charts as SVG within a page: lines over time or iterations, and bars with intervals.

The page's style sheet has the colours, so that a chart follows a dark screen and a print. Without
matplotlib, which a collector's image does not have; `.plot` draws pictures that stand alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

import msgspec

WIDTH, HEIGHT = 640, 220
LEFT, RIGHT, TOP, BOTTOM = 64, 40, 14, 48
"""Room for the larger letters that the style sheet takes on a phone, too."""
MOST_POINTS = 400
"""Of one line; of more, each stands for several."""
COLOURS = 8
"""Of lines; the page has ``.s0`` to ``.s7``."""
LABEL, BAR, GAP = 22, 14, 8
"""Heights of a bar's label, which stands above it, of the bar, and of what follows."""
WORDS = 190
"""Room for the words at the end of a bar."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line; a value that is not a number breaks it."""

    name: str
    points: tuple[tuple[float, float], ...]
    intervals: tuple[tuple[float, float, float], ...] = ()
    """At an x the least and the most."""
    dashed: bool = False
    dots: bool = False


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """Lines over one axis."""

    title: str
    x_title: str
    lines: tuple[Line, ...]
    shade: tuple[float, float] | None = None
    """A part of the x axis that is marked: the window."""
    marks: tuple[float, ...] = ()
    """Places on the x axis with a dashed line from top to bottom."""
    from_zero: bool = True


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One bar: a figure with its interval; without a figure only its words."""

    label: str
    words: str
    value: float | None
    low: float | None = None
    high: float | None = None
    hatched: bool = False


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers from at most ``low`` to at least ``high``."""
    if not high > low:
        high = low + (abs(low) or 1.0)
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def lines(chart: Chart) -> str:
    """Draw lines; the SVG's text says what it shows, for readers without eyes on it."""
    drawn = [msgspec.structs.replace(one, points=thinned(one.points)) for one in chart.lines]
    known = [point for one in drawn for point in one.points if math.isfinite(point[1])]
    if not known:
        return ""
    xs, ys = [x for x, _ in known], [y for _, y in known]
    ys += [end for one in drawn for _, *ends in one.intervals for end in ends]
    if chart.shade is not None:
        xs += chart.shade
    across = ticks(min(xs), max(xs), 8)
    up = ticks(0.0 if chart.from_zero and min(ys) > 0 else min(ys), max(ys))

    def x_at(value: float) -> float:
        return LEFT + (value - across[0]) / (across[-1] - across[0]) * (WIDTH - LEFT - RIGHT)

    def y_at(value: float) -> float:
        return HEIGHT - BOTTOM - (value - up[0]) / (up[-1] - up[0]) * (HEIGHT - TOP - BOTTOM)

    parts = []
    if chart.shade is not None:
        first, last = map(x_at, chart.shade)
        parts.append(
            f'<rect class="shade" x="{first:.1f}" y="{TOP}" width="{max(last - first, 1):.1f}"'
            f' height="{HEIGHT - TOP - BOTTOM}"/>'
        )
    for value in up:
        y = y_at(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT - 6, y + 4, _number(value, up), "end"))
    parts += [
        f'<path class="interval dashed" d="M{x_at(value):.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
        for value in chart.marks
        if across[0] <= value <= across[-1]
    ]
    below = HEIGHT - BOTTOM + 22
    parts += [_text(x_at(value), below, _number(value, across), "middle") for value in across]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 5, chart.x_title, "middle"))
    for number, line in enumerate(drawn):
        at = [(x_at(x), y_at(y) if math.isfinite(y) else math.nan) for x, y in line.points]
        style = f"line s{number % COLOURS}" + (" dashed" if line.dashed else "")
        parts.append(f'<path class="{style}" d="{_path(at)}"/>')
        ends = [(x_at(x), y_at(low), y_at(high)) for x, low, high in line.intervals]
        parts += [
            f'<path class="interval" d="M{x - 4:.1f} {low:.1f}h8M{x - 4:.1f} {high:.1f}h8'
            f'M{x:.1f} {low:.1f}V{high:.1f}"/>'
            for x, low, high in ends
        ]
        if line.dots or len(at) == 1:
            parts += [
                f'<circle class="dot s{number % COLOURS}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
                for x, y in at
                if math.isfinite(y)
            ]
    return _svg(chart.title, WIDTH, HEIGHT, parts)


def bars(title: str, rows: Sequence[Bar]) -> str:
    """Draw bars below each other, each with its label, its interval and its words."""
    most = max((max(one.value or 0.0, one.high or 0.0) for one in rows), default=0.0)
    room, height = WIDTH - WORDS, LABEL + BAR + GAP
    parts = []
    for number, one in enumerate(rows):
        top = number * height + LABEL
        middle = top + BAR / 2
        parts.append(_text(0, top - 6, one.label, "start"))
        end = 0.0
        if one.value is not None and most > 0:
            end = one.value / most * room
            kind = "bar hatched" if one.hatched else "bar"
            parts.append(f'<rect class="{kind}" x="0" y="{top}" width="{end:.1f}" height="{BAR}"/>')
            if one.low is not None and one.high is not None:
                low, high = (each / most * room for each in (one.low, one.high))
                ends = "".join(f"M{x:.1f} {middle - 4}V{middle + 4}" for x in (low, high))
                parts.append(f'<path class="interval" d="M{low:.1f} {middle}H{high:.1f}{ends}"/>')
                end = max(end, high)
        parts.append(_text(end + 6 if end else 0, middle + 5, one.words, "start"))
    return _svg(title, WIDTH, max(len(rows), 1) * height, parts)


def thinned(points: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Reduce a line to :data:`MOST_POINTS`: of each stretch its least and its most, in order."""
    points = tuple(points)
    if len(points) <= MOST_POINTS:
        return points
    size = math.ceil(len(points) / (MOST_POINTS // 2))
    found: list[tuple[float, float]] = []
    for begin in range(0, len(points), size):
        stretch = [each for each in points[begin : begin + size] if math.isfinite(each[1])]
        if not stretch:
            found.append((points[begin][0], math.nan))
            continue
        ends = {min(stretch, key=lambda each: each[1]), max(stretch, key=lambda each: each[1])}
        found += sorted(ends)
    return tuple(found)


def _path(points: Sequence[tuple[float, float]]) -> str:
    words, pen = [], "M"
    for x, y in points:
        if math.isfinite(y):
            words.append(f"{pen}{x:.1f} {y:.1f}")
            pen = "L"
        else:
            pen = "M"
    return "".join(words)


def _number(value: float, among: Sequence[float]) -> str:
    step = among[1] - among[0]
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:,.{digits}f}"


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(title: str, width: int, height: int, parts: Iterable[str]) -> str:
    name = escape(title, quote=True)
    head = f'<svg role="img" aria-label="{name}" viewBox="0 0 {width} {height}">'
    return head + "".join(parts) + "</svg>"
