"""SVG of charts: places, scales, words, one size of letters, and the colours of a page."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

import pytest

from k8sbench.report import svg
from k8sbench.report.chart import (
    Bar,
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


def one_panel(*points: Dot, **changes: object) -> LineChart:
    line = Trace(kind="fp32", points=points)
    return LineChart(title="t", panels=(Panel(lines=(line,)),), **changes)  # type: ignore[arg-type]


TALL = one_panel(*(Dot(n, 5.0 + (n == 7001)) for n in range(10_000)))
EFFICIENCY = LineChart(
    title="efficiency",
    panels=(
        Panel(
            lines=(
                Trace(
                    kind="amp-fp16",
                    name="ours",
                    points=(Dot(0, 100), Dot(1, 99, "2x1: 99 %", low=98, high=99.5), Dot(3, 96)),
                ),
                Trace(kind="soft", name="theirs", shape="square", points=(Dot(3, 95),)),
            ),
            suffix=" %",
        ),
    ),
    across="GPUs",
    ticks=(Tick(0, "1"), Tick(1, "2"), Tick(3, "8")),
)
SETS = LineChart(
    title="sets",
    panels=(
        Panel(title="one", lines=(Trace(kind="fp32", points=(Dot(0, 1), Dot(10, 2))),), height=48),
        Panel(title="other", lines=(Trace(kind="fp32", points=(Dot(5, 80), Dot(6, 90))),)),
    ),
    ends=(0, 20),
    ticks=(Tick(5, "11-18"),),
    events=(Event(5, "image a → b"), Event(5.1, "driver 1 → 2")),
    keys=(Key("dot", "fp32", "a set"),),
)


def bar(value: float, *marks: float) -> Bar:
    figure = Dot(value, 0, f"{value} samples/s", low=0.9 * value, high=1.1 * value)
    published = tuple(Dot(mark, 0, "published") for mark in marks)
    return Bar(label=f"bar {value}", kind="fp32", figure=figure, marks=published)


RIGHT = svg.STRETCHED * svg.FINE
"""Right end of a line of a page."""


def file(drawn: Chart) -> ET.Element:
    return ET.fromstring(re.sub(r' xmlns="[^"]*"', "", svg.document([drawn]).decode()))


def page(drawn: LineChart) -> ET.Element:
    return ET.fromstring(svg.element(drawn))


def texts(of: ET.Element) -> list[str]:
    return [one.text or "" for one in of.iter("text")]


def marks(of: ET.Element, kind: str = "d") -> Iterator[tuple[float, float]]:
    """Yield the places of the points within their panels."""
    for panel in of.iter("svg"):
        for path in panel.iter("path") if "preserveAspectRatio" in panel.attrib else ():
            if kind in path.attrib.get("class", "").split():
                yield from places(path.attrib["d"])


def places(strokes: str) -> Iterator[tuple[float, float]]:
    x = y = 0.0
    for right, down, length in re.findall(r"m([-\d.]+?) ?(-?[\d.]+)v(-?[\d.]+)", strokes):
        x += float(right)
        y += float(down)
        yield x, y
        y += float(length)


def test_a_bar_is_as_long_as_its_figure_and_the_longest_end_fits() -> None:
    drawn = BarChart(title="throughput", bars=(bar(100.0), bar(50.0, 220.0)), mark="published")
    text = svg.document([drawn]).decode()
    lengths = [float(length) for length in re.findall(r"M0 \S+h([\d.]+)v10", text)]
    assert lengths[0] == pytest.approx(2 * lengths[1], abs=0.2)
    assert lengths[0] == pytest.approx(100 / 220 * (svg.WIDTH - 2), abs=0.1)
    assert "<title>100.0 samples/s</title>" in text
    assert texts(file(drawn))[-1] == "published"


def test_a_bar_without_a_figure_has_its_words() -> None:
    drawn = file(BarChart(title="t", bars=(Bar(label="1x8: failed", kind="fp32", figure=None),)))
    assert texts(drawn) == ["t", "1x8: failed"]
    assert not list(drawn.iter("path"))


def test_points_stand_at_their_ticks_and_the_legend_names_lines() -> None:
    drawn = page(EFFICIENCY)
    first, second, last = sorted(marks(drawn))
    assert (first[0], last[0]) == (0, RIGHT)
    assert second[0] == pytest.approx(RIGHT / 3, abs=1)
    assert first[1] < second[1] < last[1]
    assert [one.attrib["x"] for one in drawn.iter("text") if one.text == "2"] == ["33.3%"]
    assert {"94 %", "100 %", "GPUs"} <= set(texts(drawn))
    assert texts(drawn)[-2:] == ["ours", "theirs"]
    assert [at for at, _ in marks(drawn, "q")] == [RIGHT]


def test_a_point_has_its_interval_and_its_figures_in_words() -> None:
    drawn = page(EFFICIENCY)
    (part,) = [one for one in drawn.iter("g") if one.find("title") is not None]
    assert part.findtext("title") == "2x1: 99 %"
    ends, dot = (path.attrib["d"] for path in part.iter("path"))
    ((_, low),) = places(ends)
    ((_, middle),) = places(dot)
    length = float(ends.rpartition("v")[2])
    assert low > middle > low + length


def test_panels_share_an_axis_and_a_line_ends_where_its_points_do() -> None:
    drawn = page(SETS)
    one, other = (panel for panel in drawn.iter("svg") if "preserveAspectRatio" in panel.attrib)
    ends = [float(right) for right, _ in marks(drawn)]
    assert [end / RIGHT for end in ends] == [0, 0.5, 0.25, 0.3]
    for panel in (one, other):
        (events,) = (
            path.attrib["d"] for path in panel.iter("path") if "soft" in path.attrib["class"]
        )
        assert [int(at) / RIGHT for at in re.findall(r"M(\d+) 0V", events)] == [0.25, 0.255]
    # Numbers that would overlap are one; the legend of a file has both.
    axis = ["1–2", "11-18"]
    assert texts(drawn)[-2:] == axis
    legend = ["a set", "1", "image a → b", "2", "driver 1 → 2"]
    assert texts(file(SETS))[-7:] == [*axis, *legend]


def test_letters_have_one_size_at_every_width() -> None:
    for drawn in (EFFICIENCY, SETS, TALL):
        root = page(drawn)
        assert "viewBox" not in root.attrib
        assert root.attrib["width"] == "100%"
        assert not [one for one in root.iter("text") if "font-size" in one.attrib]
        assert not [one for part in root.findall("svg") for one in part.iter("text")]


def test_a_file_has_margins() -> None:
    for drawn in (EFFICIENCY, SETS, one_panel(Dot(0, 123_456), Dot(1000, 223_456))):
        root = file(drawn)
        *_, width, height = map(float, root.attrib["viewBox"].split())
        (inner,) = root.findall("svg")
        left = float(inner.attrib["x"])
        right = left + float(inner.attrib["width"])
        for text in inner.iter("text"):
            at = text.attrib["x"]
            share = float(at.rstrip("%"))
            x = left + (share / 100 * (right - left) if at.endswith("%") else share)
            length = svg.LETTER * len(text.text or "")
            start = {"middle": 0.5, "end": 1.0}.get(text.attrib.get("text-anchor", ""), 0.0)
            assert x - start * length >= svg.MARGIN - 5
            assert x + (1 - start) * length <= width - 5
            assert float(inner.attrib["y"]) + float(text.attrib["y"]) < height - 5


def test_a_long_line_keeps_its_extremes() -> None:
    points = list(marks(page(TALL)))
    assert len(points) <= svg.MOST_POINTS
    assert len({round(height) for _, height in points}) == 2


def test_round_ticks_include_the_figures() -> None:
    flat = one_panel(Dot(0, 99.4), Dot(1, 101.2))
    assert {"99", "99.5", "100", "101", "101.5"} <= set(texts(page(flat)))
    assert len(texts(page(one_panel(Dot(0, 7.0))))) > 2


def test_a_small_line_ends_where_its_points_do() -> None:
    root = ET.fromstring(svg.sparkline("3 sets", [Dot(0, 1), Dot(1, 3), Dot(2, 2)], (0, 4)))
    assert root.attrib["aria-label"] == "3 sets"
    assert not texts(root)
    line, dot = root.iter("path")
    assert line.attrib["d"] == "M0 24l30-24l30 12"
    assert [*places(dot.attrib["d"])] == [(60, 12)]
    assert root.attrib["class"] == "spark", "the page has its size"


def test_a_page_has_each_colour_twice_and_a_file_on_white() -> None:
    for kind, (light, dark) in svg.COLOURS.items():
        assert f".{kind}{{color:{light}}}" in svg.css()
        assert f".{kind}{{color:{dark}}}" in svg.css(is_dark=True)
    made = svg.document([EFFICIENCY, SETS]).decode()
    assert svg.css() in made
    assert made.index("efficiency") < made.index("sets")
    assert ET.fromstring(made).find("{*}rect") is not None
