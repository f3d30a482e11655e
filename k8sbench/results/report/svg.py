"""Charts as SVG.

On a page a chart is as wide as its place, and its letters always have one size: lines are stretched
to the width, words are placed by shares of it. A page has the colours once (:func:`css`);
:func:`document` makes a file of its own. The same chart gives the same text.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple

import msgspec

from k8sbench.model.plain_text import clean
from k8sbench.results.report.chart import (
    BarChart,
    Chart,
    Dot,
    Event,
    Key,
    LineChart,
    Panel,
    Tick,
    Trace,
)
from k8sbench.results.report.tables import folded

WIDTH = 480
"""Width of a chart in a file, in pixels of letters that are twelve high."""
NARROWEST = 340
"""Width that a chart of a page has at least."""
GAP = 9
"""Distance of the panels, where the lowest figure of one stands above the title of the next."""
MARGIN = 12
"""Margin around the charts of a file."""
RIGHT = 20
"""Room for half of the last tick's label."""
STRETCHED = 400
"""Width of a line that is stretched to the width of its chart."""
FINE = 5
"""Units of such a line for each pixel: its places are short, as whole numbers."""
LINE = 16
"""Height of a line of text."""
LETTER = 6.8
"""Mean width of a letter."""
MOST_DOTS = 40
"""Maximum number of points of a line that are dots; of more only those that say something are."""
MARKS = {"dot": "d", "loose": "d", "square": "q", "stroke": "w"}
"""Shape of a point → its class, see :func:`css`."""
STROKE = 5
"""Half the length of an upright stroke."""
MIDDLES = {"loose": "h0", "square": "h0", "stroke": f"m0-{STROKE}v{2 * STROKE}"}
"""Shape of a point without a line → its sign in a legend."""
NEAR = 0.08
"""Distance of events that share a label, as a share of the width."""
APART = 0.15
"""Least distance of two labels at the top of a panel, as a share of its width."""
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


def css(*, is_dark: bool = False) -> str:
    """Write the rules for letters and lines, and for the colours."""
    rules = (
        f"svg{{font:12px system-ui,sans-serif;fill:currentColor;color:{COLOURS['text'][is_dark]};"
        "overflow:visible}svg path{vector-effect:non-scaling-stroke}"
        "svg .l{fill:none;stroke:currentColor}svg .w{stroke-width:2}"
        "svg .d{stroke-width:6;stroke-linecap:round}svg .q{stroke-width:7;stroke-linecap:square}"
        "svg .a{fill:currentColor;opacity:.3}svg .a.l{stroke-width:8}"
    )
    return rules + "".join(
        f"svg .{kind}{{color:{both[is_dark]}}}" for kind, both in COLOURS.items()
    )


class Axes:
    """Axes of the charts of a page: places of sets or iterations, which many charts share.

    The page's script reads them.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, chart: LineChart) -> int:
        """Return the number of a chart's axis."""
        return self._numbers.setdefault(_named_places(chart), len(self._numbers))

    @property
    def text(self) -> str:
        """All axes in the order of their numbers, one a line."""
        return "\n".join(self._numbers)


def element(chart: LineChart, axes: Axes) -> str:
    """Draw a chart for a page that has the colours; it is as wide as its place.

    Its legend names lines alone: words of keys and events are the page's, as are its ``axes``.
    """
    left = _left(chart)
    root = _root(chart.title)
    axis = _panels(root, chart, NARROWEST, _Lines(STRETCHED, FINE))
    height = _names(root, chart, axis, -left, NARROWEST) + 4
    padding = f"padding:0 {RIGHT}px 0 {_n(left)}px"
    root.attrib |= {"width": "100%", "height": _n(height), "style": padding}
    if chart.places:
        root.attrib["data-at"] = str(axes.number(chart))
    return ET.tostring(root, encoding="unicode")


def _named_places(chart: LineChart) -> str:
    """Write the places of a chart: ``first minute,begin of all names|x,minutes,end of name|…``.

    ``x`` is in thousandths of the width, minutes are since the first one, which is since 1970. A
    name may have commas.
    """
    letters = zip(*(place.name for place in chart.places), strict=False)
    shared = "".join(same[0] for same in takewhile(lambda same: len({*same}) == 1, letters))
    times = [place.time for place in chart.places if place.time is not None]
    begin = int(min(times, default=0.0) // 60)
    share = _plot_of(chart, _Lines(STRETCHED, FINE)).share
    written = [
        f"{round(1000 * share(place.at))},"
        + ("" if place.time is None else str(int(place.time // 60) - begin))
        + f",{place.name[len(shared) :]}"
        for place in chart.places
    ]
    return clean("|".join((f"{begin},{shared}", *written)))


def sparkline(
    title: str, points: Sequence[Dot], ends: tuple[float, float], heights: tuple[float, float]
) -> str:
    """Draw one or more points as a small line without words, the last as a dot.

    ``ends`` and ``heights`` are the ends of the axes.
    """
    root = _root(title)
    root.attrib |= {"viewBox": "-4 -4 128 32", "class": "spark"}
    x = _scale(ends, 0, 120)
    y = _scale(heights, 24, 0)
    places = [(round(x(point.x)), round(y(point.y))) for point in points]
    _path(root, _through(places), "soft")
    _path(root, _strokes([(*places[-1], 0)]), f"d {points[-1].kind}")
    return ET.tostring(root, encoding="unicode")


def sign(key: Key) -> str:
    """Draw the shape of a key alone, for a legend of several charts."""
    about = {"width": "24", "height": "16", "class": key.kind, "aria-hidden": "true"}
    root = ET.Element("svg", about)
    _key(root, key, 8)
    return ET.tostring(root, encoding="unicode")


def document(charts: Sequence[Chart]) -> bytes:
    """Draw charts below each other as an SVG file, with margins."""
    groups = []
    top = float(MARGIN)
    for chart in charts:
        group = ET.Element("svg", {"x": str(MARGIN), "y": _n(top), "width": str(WIDTH)})
        if isinstance(chart, BarChart):
            height = _bars(group, chart)
        else:
            left = _left(chart)
            inner = WIDTH - left - RIGHT
            group.attrib |= {"x": _n(MARGIN + left), "width": _n(inner)}
            # A file has no script that reads places.
            drawn = msgspec.structs.replace(chart, places=())
            axis = _panels(group, drawn, WIDTH, _Lines(inner, 1))
            height = _legend(group, drawn, axis, -left, WIDTH) + 4
        groups.append(group)
        top += height + LINE
    width = WIDTH + 2 * MARGIN
    height = top - LINE + MARGIN
    root = _root(charts[0].title)
    root.attrib |= {"viewBox": f"0 0 {width} {_n(height)}", "width": _n(1.5 * width)}
    root.attrib |= {"xmlns": "http://www.w3.org/2000/svg"}
    ET.SubElement(root, "style").text = css()
    ET.SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": "#fff"})
    root.extend(groups)
    ET.indent(root)
    return f"{ET.tostring(root, encoding='unicode')}\n".encode()


def _root(title: str) -> ET.Element:
    return ET.Element("svg", {"role": "img", "aria-label": clean(title)})


# BarChart


def _bars(group: ET.Element, chart: BarChart) -> float:
    """Draw bars below their title; return where they end."""
    top = _text(group, 0, LINE - 4, chart.title, WIDTH, weight="600")
    figures = (bar.figure for bar in chart.bars)
    known = [end for one in figures if one for end in (one.x, one.high or 0.0)]
    known += [mark.x for bar in chart.bars for mark in bar.marks]
    room = (WIDTH - 2) / max([*known, 1e-9])
    for bar in chart.bars:
        top = _text(group, 0, top + 4, bar.label, WIDTH) - LINE + 5
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
            _path(place, f"M{_n(mark.x * room)} {_n(top - 3)}v16", "w text")
        top += LINE + 10
    for words, sign in ((chart.interval, "M0 {}v6m0-3h24m0-3v6"), (chart.mark, "M12 {}v12")):
        if words:
            up = 5 if words == chart.interval else 8
            _path(group, sign.format(_n(top - up)), "text" if up == 5 else "w text")
            top = _text(group, 30, top + 2, words, WIDTH)
    return top - 6


# LineChart


class _Lines(NamedTuple):
    """Units in which lines are drawn."""

    width: float
    """Pixels from the left to the right."""
    units: int
    """Units for each pixel; where there are several, places are whole numbers."""

    def place(self, pixels: float) -> float:
        """Return a place in units."""
        return pixels if self.units == 1 else round(pixels * self.units)


class _Plot(NamedTuple):
    """Places within a chart, whose left end is 0."""

    lines: _Lines
    share: Callable[[float], float]
    """Maps ``x`` to a share of the width."""

    def x(self, value: float) -> float:
        """Return the place in a line."""
        return self.lines.place(self.share(value) * self.lines.width)

    def percent(self, value: float) -> str:
        """Return the place of words."""
        return f"{_n(100 * self.share(value))}%"


def _left(chart: LineChart) -> float:
    """Return the room that the figures of the vertical axes take."""
    figures = [_figure(tick, panel) for panel in chart.panels for tick in _ups(panel)]
    return 8 + LETTER * max(map(len, figures))


def _panels(root: ET.Element, chart: LineChart, width: float, drawn: _Lines) -> float:
    """Draw panels and their axis; return where the legend begins."""
    left = _left(chart)
    ticks = _ticks(chart)
    plot = _plot_of(chart, drawn)
    top = _text(root, -left, LINE - 4, chart.title, width, weight="600") - LINE + 4
    for panel in chart.panels:
        if panel.title:
            top = _text(root, -left, top + 12, panel.title, width) - LINE
        top += 6
        _panel(root, panel, chart, plot, top)
        top += panel.height + GAP
    marks = _soft(root, "middle")
    for near in _near(chart.events, plot):
        numbers = "–".join(dict.fromkeys((str(near[0] + 1), str(near[-1] + 1))))
        middle = sum(plot.share(chart.events[place].at) for place in near) / len(near)
        _label(marks, f"{_n(100 * middle)}%", top + 8, numbers)
    top += 12 * bool(chart.events)
    for tick in ticks:
        _label(marks, plot.percent(tick.at), top + 12, tick.label)
    top += LINE * bool(ticks)
    if chart.across:
        _label(marks, "50%", top + 12, chart.across)
        top += LINE
    return top + 4


def _ends(chart: LineChart) -> tuple[float, float]:
    """Return the ends of the horizontal axis."""
    every = [dot.x for panel in chart.panels for line in panel.lines for dot in line.points]
    return chart.ends or (min(every), max(every))


def _ticks(chart: LineChart) -> Sequence[Tick]:
    """Return the ticks of the horizontal axis."""
    if chart.ticks is not None:
        return chart.ticks
    return [Tick(at, _number(at)) for at in _round(*_ends(chart), 4, is_within=True)]


def _plot_of(chart: LineChart, drawn: _Lines) -> _Plot:
    """Return where the places of a chart are in its lines."""
    return _Plot(drawn, _scale([*_ends(chart), *(tick.at for tick in _ticks(chart))], 0, 1))


def _near(events: Sequence[Event], plot: _Plot) -> list[list[int]]:
    """Put the events together whose numbers would overlap."""
    found: list[list[int]] = []
    for place, event in enumerate(events):
        if found and plot.share(event.at) - plot.share(events[found[-1][0]].at) < NEAR:
            found[-1].append(place)
        else:
            found.append([place])
    return found


def _panel(root: ET.Element, panel: Panel, chart: LineChart, plot: _Plot, top: float) -> None:
    """Draw the lines of a panel, and what goes through all of them."""
    ups = _ups(panel)
    scale = _scale([*ups, *_heights(panel)], panel.height, 4)
    place_of = plot.lines.place
    right = _n(place_of(plot.lines.width))
    bottom = _n(place_of(panel.height))
    box = {"viewBox": f"0 0 {right} {bottom}", "preserveAspectRatio": "none"}
    place = {"y": _n(top), "width": "100%", "height": str(panel.height)}
    lines = ET.SubElement(root, "svg", box | place)
    if chart.shade is not None:
        first, last = (_n(plot.x(end)) for end in chart.shade)
        about = {"d": f"M{first} 0H{last}V{bottom}H{first}z", "class": "grid"}
        ET.SubElement(lines, "path", about | {"opacity": ".5"})
    _path(lines, "".join(f"M0 {_n(place_of(scale(tick)))}H{right}" for tick in ups), "grid")
    if chart.events:
        ats = dict.fromkeys(_n(plot.x(event.at)) for event in chart.events)
        _path(lines, "".join(f"M{at} 0V{bottom}" for at in ats), "soft")
    marks = _soft(root, "end")
    for tick in ups:
        _label(marks, "-4", top + scale(tick) + 4, _figure(tick, panel))
    for line in panel.lines:
        part = _line(lines, line, plot, scale)
        if chart.places and any(dot.value for dot in line.points):
            values: dict[float, list[str]] = {}
            for dot in line.points:
                values.setdefault(dot.x, []).append(dot.value)
            told = ("; ".join(values.get(place.at, ())) for place in chart.places)
            part.attrib["data-v"] = clean("|".join(told))
    labelled = -1.0
    for dot in (dot for line in panel.lines for dot in line.points if dot.step):
        share = plot.share(dot.x)
        _path(lines, f"M{_n(plot.x(dot.x))} 0V{bottom}", dot.kind, dashes="3 3")
        if share - labelled > APART:
            anchor, shift = ("end", -4) if share > APART else ("start", 4)
            _label(root, plot.percent(dot.x), top + 10, dot.step, anchor, dot.kind, shift=shift)
            labelled = share


def _line(
    lines: ET.Element, line: Trace, plot: _Plot, scale: Callable[[float], float]
) -> ET.Element:
    """Draw the points of a line; those that say something are parts of their own."""

    def y(value: float) -> float:
        return plot.lines.place(scale(value))

    part = ET.SubElement(lines, "g", {"class": line.kind})
    drawn = line.points
    if line.shape == "band":
        edge = [(plot.x(dot.x), y(dot.y if dot.high is None else dot.high)) for dot in drawn]
        edge += [(plot.x(dot.x), y(dot.y if dot.low is None else dot.low)) for dot in drawn[::-1]]
        ET.SubElement(part, "path", {"d": f"{_through(edge)}z", "class": "a"})
        return part
    if line.shape in ("dot", "none"):
        _path(part, _through([(plot.x(dot.x), y(dot.y)) for dot in drawn]), "w", dashes=line.dashes)
    if line.shape == "none":
        return part
    mark = MARKS[line.shape]
    half = plot.lines.place(STROKE) if line.shape == "stroke" else 0.0
    has_dots = line.shape != "dot" or len(drawn) <= MOST_DOTS
    plain = [dot for dot in drawn if not (dot.text or dot.kind)]
    parts = [([dot], _titled(part, dot.text, dot.kind)) for dot in drawn if dot.text or dot.kind]
    for dots, group in [*([(plain, part)] if plain else []), *parts]:
        ends = [
            (plot.x(dot.x), y(dot.low), y(dot.high) - y(dot.low))
            for dot in dots
            if dot.low is not None and dot.high is not None
        ]
        if ends:
            _path(group, _strokes(ends))
        if dots is plain and not has_dots:
            continue
        # A stroke without a length has the shape of its ends.
        middles = [(plot.x(dot.x), y(dot.y) - half, 2 * half) for dot in dots]
        _path(group, _strokes(middles), mark)
    return part


def _through(places: Sequence[tuple[float, float]]) -> str:
    """Write a line through places, each relative to the one before: half as long."""
    tenths = [(round(10 * x), round(10 * y)) for x, y in places]
    first, *others = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise([(0, 0), *tenths])]
    begin = f"M{_n(first[0] / 10)} {_n(first[1] / 10)}"
    return begin + "".join(
        f"l{_n(x / 10)} {_n(y / 10)}".replace(" -", "-") if y else f"h{_n(x / 10)}"
        for x, y in others
    )


def _strokes(places: Sequence[tuple[float, float, float]]) -> str:
    """Write upright strokes: the place of each, and its length downwards."""
    made = []
    at = (0, 0)
    for x, y, length in places:
        to = (round(10 * x), round(10 * y))
        move = f"{_n((to[0] - at[0]) / 10)} {_n((to[1] - at[1]) / 10)}".replace(" -", "-")
        down = round(10 * length)
        made.append(f"m{move}v{_n(down / 10)}")
        at = (to[0], to[1] + down)
    return "".join(made)


def _names(root: ET.Element, chart: LineChart, top: float, left: float, width: float) -> float:
    """Name the lines below the axis; return where the words end."""
    for line in (line for panel in chart.panels for line in panel.lines if line.name):
        place = f"{12 if line.shape in MIDDLES else 0} {_n(top + 8)}"
        shape = MIDDLES.get(line.shape, "h24")
        classed = {**MARKS, "dot": "w", "band": "a"}.get(line.shape, "w")
        part = ET.SubElement(root, "svg", {"x": _n(left), "class": line.kind})
        _path(part, f"M{place}{shape}", classed, dashes=line.dashes)
        top = _text(root, left + 30, top + 12, line.name, width + left) - 12
    return top


def _legend(root: ET.Element, chart: LineChart, top: float, left: float, width: float) -> float:
    """Explain lines, shapes and events below the axis; return where the words end."""
    top = _names(root, chart, top, left, width)
    for key in chart.keys:
        part = ET.SubElement(root, "svg", {"x": _n(left), "class": key.kind})
        _key(part, key, top + 8)
        top = _text(root, left + 30, top + 12, key.text, width + left) - 12
    for number, event in enumerate(chart.events, 1):
        _label(root, _n(left + 12), top + 12, str(number), "middle", "soft")
        top = _text(root, left + 30, top + 12, event.text, width + left) - 12
    return top


def _key(part: ET.Element, key: Key, middle: float) -> None:
    """Draw the shape of a key around a height."""
    shape = "h0" if key.shape == "dot" else "m0-6v12"
    dashes = "3 3" if key.shape == "step" else ""
    _path(part, f"M12 {_n(middle)}{shape}", "d" if key.shape == "dot" else "", dashes=dashes)


def _heights(panel: Panel) -> list[float]:
    """Return the figures of a panel and the ends of their intervals."""
    dots = [dot for line in panel.lines for dot in line.points]
    ends = (end for dot in dots for end in (dot.low, dot.high) if end is not None)
    return [*(dot.y for dot in dots), *ends]


def _ups(panel: Panel) -> list[float]:
    """Choose the ticks of a vertical axis, a line of text or more apart."""
    heights = _heights(panel)
    low = 0.0 if panel.from_zero else min(heights)
    return _round(low, max(heights), max(1, min(4, panel.height // 22)), is_within=False)


def _round(low: float, high: float, count: int, *, is_within: bool) -> list[float]:
    """Return about ``count`` steps of round numbers, within the ends or around them."""
    if high == low:
        low = low - (abs(low) * 0.01 or 1.0)
        high = high + (abs(high) * 0.01 or 1.0)
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    size = next(power * part for part in (1, 2, 5, 10) if power * part >= rough * 0.999)
    if is_within:
        first = math.ceil(low / size)
        last = math.floor(high / size)
    else:
        first = math.floor(low / size)
        last = math.ceil(high / size)
    return [round(number * size, 12) for number in range(first, last + 1)]


def _scale(values: Sequence[float], start: float, end: float) -> Callable[[float], float]:
    """Map the values to the places from ``start`` to ``end``; equal ones to the middle."""
    low = min(values, default=0.0)
    high = max(values, default=0.0)
    if low == high:
        return lambda _: (start + end) / 2
    return lambda value: start + (value - low) * (end - start) / (high - low)


# Elements


def _titled(group: ET.Element, text: str, kind: str = "") -> ET.Element:
    """Add a part that shows words where the pointer rests on it."""
    part = ET.SubElement(group, "g", {"class": kind} if kind else {})
    if text:
        ET.SubElement(part, "title").text = clean(text)
    return part


def _path(group: ET.Element, d: str, kind: str = "", *, dashes: str = "") -> None:
    """Draw a line; its classes are those of :func:`css`."""
    about = {"d": d, "class": f"l {kind}".strip()}
    ET.SubElement(group, "path", about | ({"stroke-dasharray": dashes} if dashes else {}))


def _soft(root: ET.Element, anchor: str) -> ET.Element:
    """Begin a group of soft words with one anchor."""
    return ET.SubElement(root, "g", {"class": "soft", "text-anchor": anchor})


def _label(
    group: ET.Element,
    x: str,
    y: float,
    text: str,
    anchor: str = "",
    kind: str = "",
    *,
    shift: int = 0,
) -> None:
    """Write words at a place; ``shift`` moves them to the right, in pixels.

    Without an anchor they have that of their group.
    """
    about = {"x": x, "y": _n(y)}
    about |= {"text-anchor": anchor} if anchor else {}
    about |= {"class": kind} if kind else {}
    about |= {"dx": str(shift)} if shift else {}
    ET.SubElement(group, "text", about).text = clean(text)


def _text(
    group: ET.Element, x: float, y: float, text: str, width: float, weight: str = ""
) -> float:
    """Write text from the base line ``y`` on; return the next."""
    about = {"font-weight": weight} if weight else {}
    letter = 1.2 * LETTER if weight else LETTER
    for line in folded(clean(text), int((width - max(x, 0)) / letter), breaking=True):
        ET.SubElement(group, "text", {"x": _n(x), "y": _n(y), **about}).text = line
        y += LINE
    return y


def _n(value: float) -> str:
    """Write a length to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def _number(value: float) -> str:
    return f"{value:.10g}"


def _figure(value: float, panel: Panel) -> str:
    return f"{_number(value)}{panel.suffix}"
