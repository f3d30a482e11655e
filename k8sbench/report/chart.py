"""Charts as values, and their SVG: bars, and lines over two axes.

A page has the colours once (:func:`css`); :func:`document` makes a file of its own. A point tells
its figures where the pointer rests on it. The same chart gives the same text.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import msgspec

from k8sbench.model.plain_text import clean
from k8sbench.report.tables import folded

WIDTH = 480
"""Width of a chart, in pixels of letters that are twelve high."""
LINE = 16
"""Height of a line of text."""
LETTER = 6.8
"""Mean width of a letter."""
MOST_POINTS = 200
"""Maximum number of points of a drawn line."""
COLOURS: Mapping[str, tuple[str, str]] = {
    "text": ("#1b1f24", "#e6edf3"),
    "soft": ("#57606a", "#a2abb5"),
    "grid": ("#d0d7de", "#3d444d"),
    "fp32": ("#2f6ba8", "#6cb0f5"),
    "amp-fp16": ("#b3420f", "#f0883e"),
    "amp-bf16": ("#1a7f5a", "#4fc38a"),
    "other": ("#8250a8", "#c297ee"),
    "smoke": ("#9a9a9a", "#8b949e"),
    "slower": ("#a40e26", "#ff8e88"),
    "faster": ("#116329", "#56d364"),
}
"""Kind of thing → its colour on white and on black."""


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


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Points of one thing, by ``x``."""

    kind: str
    """Its colour, a key of :data:`COLOURS`."""
    points: tuple[Dot, ...]
    """One or more; a figure that is missing has none."""
    name: str = ""
    """Name in the legend; empty: none."""
    dashes: str = ""
    """Lengths of dashes and gaps; empty: drawn through."""
    shape: str = "dot"
    """Shape of a point: ``dot``, ``cross`` (and no line), or ``none``."""


class LineChart(msgspec.Struct, frozen=True, kw_only=True):
    """LineChart over two axes."""

    title: str
    lines: tuple[Trace, ...]
    across: str = ""
    """Title of the horizontal axis."""
    ticks: tuple[float, ...] | None = None
    """Ticks of both axes, on scales by powers of two; None: linear scales."""
    is_plain: bool = False
    """True if the horizontal axis has no figures."""
    from_zero: bool = False
    """True if the vertical axis begins at 0."""
    shade: tuple[float, float] | None = None
    """Part of the horizontal axis that is shaded."""
    width: int = WIDTH
    height: int = 200
    """Height between the axes' ends."""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One bar, with words above it."""

    label: str
    kind: str
    figure: Dot | None
    """Figure at the bar's end, ``x``; None: there are words alone."""
    marks: tuple[Dot, ...] = ()
    """Published figures, ``x``."""


class BarChart(msgspec.Struct, frozen=True, kw_only=True):
    """BarChart below each other."""

    title: str
    bars: tuple[Bar, ...]
    width: int = WIDTH


Chart = LineChart | BarChart


def css(*, is_dark: bool = False) -> str:
    """Write the rules for letters and lines, and for the colours."""
    rules = (
        f"svg{{font:12px system-ui,sans-serif;fill:currentColor;color:{COLOURS['text'][is_dark]}}}"
        "svg .l{fill:none;stroke:currentColor}svg .w{stroke-width:2}"
    )
    return rules + "".join(
        f"svg .{kind}{{color:{both[is_dark]}}}" for kind, both in COLOURS.items()
    )


def svg(chart: Chart) -> str:
    """Draw a chart for a page that has the colours."""
    drawn, height = _drawn(chart)
    root = _root(chart.width, height, chart.title)
    root.append(drawn)
    return ET.tostring(root, encoding="unicode")


def document(charts: Sequence[Chart]) -> bytes:
    """Draw charts below each other as an SVG file."""
    groups = []
    top = 0.0
    for chart in charts:
        group, height = _drawn(chart)
        group.set("transform", f"translate(0 {_n(top)})")
        groups.append(group)
        top += height + LINE
    width = max(chart.width for chart in charts)
    root = _root(width, top, charts[0].title)
    root.attrib |= {"xmlns": "http://www.w3.org/2000/svg", "width": str(1.5 * width)}
    ET.SubElement(root, "style").text = css()
    ET.SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": "#fff"})
    root.extend(groups)
    ET.indent(root)
    return f"{ET.tostring(root, encoding='unicode')}\n".encode()


def _root(width: float, height: float, title: str) -> ET.Element:
    return ET.Element(
        "svg",
        {
            "viewBox": f"0 0 {_n(width)} {_n(height)}",
            "role": "img",
            "aria-label": clean(title),
        },
    )


def _drawn(chart: Chart) -> tuple[ET.Element, float]:
    """Draw a chart below its title; return it with its height."""
    group = ET.Element("g")
    top = _text(group, 0, LINE - 4, chart.title, chart.width, weight="600")
    height = _bars(group, chart, top) if isinstance(chart, BarChart) else _lines(group, chart, top)
    return group, height


# BarChart


def _bars(group: ET.Element, chart: BarChart, top: float) -> float:
    """Draw bars from ``top`` on; return where they end."""
    figures = (bar.figure for bar in chart.bars)
    known = [end for one in figures if one for end in (one.x, one.high or 0.0)]
    known += [mark.x for bar in chart.bars for mark in bar.marks]
    room = (chart.width - 2) / max([*known, 1e-9])
    for bar in chart.bars:
        top = _text(group, 0, top + 4, bar.label, chart.width) - LINE + 5
        if bar.figure is None:
            top += LINE
            continue
        part = _titled(group, bar.figure.text, bar.kind)
        length = _n(bar.figure.x * room)
        ET.SubElement(part, "path", {"d": f"M0 {_n(top)}h{length}v10h-{length}z"})
        if bar.figure.low is not None and bar.figure.high is not None:
            low = _n(bar.figure.low * room)
            high = _n(bar.figure.high * room)
            _path(part, f"M{low} {_n(top + 2)}v6m0-3H{high}m0-3v6", "text")
        for mark in bar.marks:
            place = _titled(group, mark.text, "soft")
            _path(place, f"M{_n(mark.x * room)} {_n(top - 3)}v16", "text", is_wide=True)
        top += LINE + 10
    return top - 6


# LineChart


def _lines(group: ET.Element, chart: LineChart, top: float) -> float:
    """Draw lines, axes and legend from ``top`` on; return where they end."""
    points = [point for line in chart.lines for point in line.points]
    heights = [p.y for p in points]
    heights += [end for p in points for end in (p.low, p.high) if end is not None]
    across = _ticks([p.x for p in points], chart)
    ups = _ticks(heights, chart, is_up=True)
    left = 8 + LETTER * max(len(_figure(tick)) for tick in ups)
    right = chart.width - 10
    bottom = top + chart.height
    x = _scale([*across, *(p.x for p in points)], left, right, is_log=chart.ticks is not None)
    y = _scale([*ups, *heights], bottom, top + 4, is_log=chart.ticks is not None)
    if chart.shade is not None:
        first, last = map(x, chart.shade)
        box = {"d": f"M{_n(first)} {_n(top)}H{_n(last)}V{_n(bottom)}H{_n(first)}z"}
        ET.SubElement(group, "path", {**box, "class": "grid", "opacity": ".5"})
    _path(group, "".join(f"M{_n(left)} {_n(y(tick))}H{_n(right)}" for tick in ups), "grid")
    marks = ET.SubElement(group, "g", {"class": "soft"})
    for tick in ups:
        _label(marks, left - 4, y(tick) + 4, _figure(tick), "end")
    for tick in () if chart.is_plain else across:
        _label(marks, x(tick), bottom + LINE, _figure(tick), "middle")
    end = bottom + (6 if chart.is_plain else LINE + 6)
    if chart.across:
        _label(marks, (left + right) / 2, end + 10, chart.across, "middle")
        end += LINE
    for line in chart.lines:
        _line(group, line, x, y, (top, bottom))
    return _legend(group, chart, end) + 4


def _line(
    group: ET.Element,
    line: Trace,
    x: Callable[[float], float],
    y: Callable[[float], float],
    ends: tuple[float, float],
) -> None:
    part = ET.SubElement(group, "g", {"class": line.kind})
    drawn = _thinned(line.points)
    if line.shape != "cross":
        places = " ".join(f"{_n(x(point.x))} {_n(y(point.y))}" for point in drawn)
        _path(part, f"M{places}", dashes=line.dashes, is_wide=True)
    for point in drawn if line.shape != "none" else ():
        at = x(point.x)
        height = y(point.y)
        if point.step:
            _path(part, f"M{_n(at)} {_n(ends[0])}V{_n(ends[1])}", "soft", dashes="3 3")
            _label(part, at - 4, ends[0] + 10, point.step, "end", point.kind)
        mark = _titled(part, point.text, point.kind)
        if point.low is not None and point.high is not None:
            _path(mark, f"M{_n(at - 3)} {_n(y(point.low))}h6m-3 0V{_n(y(point.high))}m-3 0h6")
        if line.shape == "cross":
            _path(mark, f"M{_n(at - 4)} {_n(height - 4)}l8 8m0-8l-8 8", is_wide=True)
        else:
            ET.SubElement(mark, "circle", {"cx": _n(at), "cy": _n(height), "r": "3.5"})


def _legend(group: ET.Element, chart: LineChart, top: float) -> float:
    """Name the lines below the axis; return where the names end."""
    for line in chart.lines:
        if not line.name:
            continue
        part = ET.SubElement(group, "g", {"class": line.kind})
        middle = _n(top + 8)
        cross = f"M8 {_n(top + 4)}l8 8m0-8l-8 8"
        if line.shape == "cross":
            _path(part, cross, is_wide=True)
        else:
            _path(part, f"M0 {middle}h24", dashes=line.dashes, is_wide=True)
        top = _text(group, 30, top + 12, line.name, chart.width) - 10
    return top


def _ticks(values: Sequence[float], chart: LineChart, *, is_up: bool = False) -> list[float]:
    """Choose ticks: those of the chart, else round numbers around the values."""
    if chart.ticks is not None:
        return list(chart.ticks)
    low = min(values)
    high = max(values)
    if is_up and chart.from_zero:
        low = 0.0
    if high == low:
        low = low - (abs(low) * 0.01 or 1.0)
        high = high + (abs(high) * 0.01 or 1.0)
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    size = next(power * part for part in (1, 2, 5, 10) if power * part >= rough * 0.999)
    if not is_up:
        first = math.ceil(low / size)
        last = math.floor(high / size)
    else:
        first = math.floor(low / size)
        last = math.ceil(high / size)
    return [round(number * size, 12) for number in range(first, last + 1)]


def _scale(
    values: Sequence[float], start: float, end: float, *, is_log: bool
) -> Callable[[float], float]:
    """Map the values to the pixels from ``start`` to ``end``."""
    of: Callable[[float], float] = math.log2 if is_log else float
    low = of(min(values))
    high = of(max(values))
    return lambda value: start + (of(value) - low) * (end - start) / ((high - low) or 1.0)


def _thinned(points: Sequence[Dot]) -> Sequence[Dot]:
    """Keep the least and the most point of each part."""
    if len(points) <= MOST_POINTS:
        return points
    ends = [len(points) * 2 * n // MOST_POINTS for n in range(MOST_POINTS // 2 + 1)]
    parts = [range(first, last) for first, last in pairwise(ends)]
    kept = {
        place
        for part in parts
        for place in (min(part, key=lambda n: points[n].y), max(part, key=lambda n: points[n].y))
    }
    return [points[place] for place in sorted(kept)]


# Elements


def _titled(group: ET.Element, text: str, kind: str = "") -> ET.Element:
    """Add a part that shows words where the pointer rests on it."""
    part = ET.SubElement(group, "g", {"class": kind} if kind else {})
    if text:
        ET.SubElement(part, "title").text = clean(text)
    return part


def _path(
    group: ET.Element, d: str, kind: str = "", *, dashes: str = "", is_wide: bool = False
) -> None:
    """Draw a line; its classes are those of :func:`css`."""
    about = {"d": d, "class": " ".join(filter(None, ("l", "w" * is_wide, kind)))}
    ET.SubElement(group, "path", about | ({"stroke-dasharray": dashes} if dashes else {}))


def _label(group: ET.Element, x: float, y: float, text: str, anchor: str, kind: str = "") -> None:
    about = {"x": _n(x), "y": _n(y), "text-anchor": anchor} | ({"class": kind} if kind else {})
    ET.SubElement(group, "text", about).text = clean(text)


def _text(
    group: ET.Element, x: float, y: float, text: str, width: float, weight: str = ""
) -> float:
    """Write text from the base line ``y`` on; return the next."""
    about = {"font-weight": weight} if weight else {}
    letter = 1.2 * LETTER if weight else LETTER
    for line in folded(clean(text), int((width - x) / letter), breaking=True):
        ET.SubElement(group, "text", {"x": _n(x), "y": _n(y), **about}).text = line
        y += LINE
    return y


def _n(value: float) -> str:
    """Write a length to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def _figure(value: float) -> str:
    return f"{value:.10g}"
