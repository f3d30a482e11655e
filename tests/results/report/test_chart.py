"""SVG of charts: places, scales, words, one size of letters, and the colours of a page."""

import re
import xml.etree.ElementTree as ET

import msgspec
import pytest

from k8sbench.results.report import page as results_page
from k8sbench.results.report import svg
from k8sbench.results.report.chart import (
    Bar,
    BarChart,
    Chart,
    Dot,
    Event,
    Key,
    LineChart,
    Panel,
    Place,
    Tick,
    Trace,
)
from tests.results.report import pages, parsed


def one_panel(*points: Dot, **changes: object) -> LineChart:
    line = Trace(kind="fp32", points=points)
    return LineChart(title="t", panels=(Panel(lines=(line,)),), **changes)  # type: ignore[arg-type]


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


def file(drawn: Chart) -> ET.Element:
    return parsed.svg(svg.document([drawn]))


def page(drawn: LineChart) -> ET.Element:
    return parsed.svg(svg.element(drawn, svg.Axes()))


def texts(of: ET.Element) -> list[str]:
    return [one.text or "" for one in of.iter("text")]


def parts(of: ET.Element) -> dict[str, ET.Element]:
    """Return what tells its figures in words, by these."""
    return {one.findtext("title", ""): one for one in of.iter() if one.find("title") is not None}


def test_a_bar_is_as_long_as_its_figure_and_the_longest_end_fits() -> None:
    drawn = file(
        BarChart(title="throughput", bars=(bar(100.0), bar(50.0, 220.0)), mark="published")
    )
    found = parts(drawn)
    assert [*found] == ["100.0 samples/s", "50.0 samples/s", "published"]
    one, *interval = parsed.strokes(*found["100.0 samples/s"].iter("path"))
    other, *_ = parsed.strokes(*found["50.0 samples/s"].iter("path"))
    assert one.width == pytest.approx(2 * other.width, abs=0.2)
    assert one.width == pytest.approx(100 / 220 * (svg.WIDTH - 2), abs=0.1)
    assert [one.left, other.left] == [0, 0]
    # The interval has the scale of the bars, and so has what was published.
    ends = [each.left for each in interval if each.width == 0]
    assert ends == pytest.approx([0.9 * one.width, 1.1 * one.width], abs=0.1)
    (published,) = parsed.strokes(*found["published"].iter("path"))
    assert published.left == pytest.approx(svg.WIDTH - 2, abs=0.1)
    assert texts(drawn)[-1] == "published"


def test_a_bar_without_a_figure_has_its_words() -> None:
    drawn = file(BarChart(title="t", bars=(Bar(label="1x8: failed", kind="fp32", figure=None),)))
    assert texts(drawn) == ["t", "1x8: failed"]
    assert not list(drawn.iter("path"))


def test_points_stand_at_their_ticks_and_the_legend_names_lines() -> None:
    drawn = page(EFFICIENCY)
    (panel,) = parsed.panels(drawn)
    ours, theirs = panel.lines
    first, second, last = sorted(panel.points_of(ours))
    assert [first[0], second[0], last[0]] == pytest.approx([0, 1 / 3, 1], abs=1e-3)
    assert first[1] < second[1] < last[1]
    (tick,) = (one.attrib["x"] for one in drawn.iter("text") if one.text == "2")
    assert float(tick.removesuffix("%")) / 100 == pytest.approx(second[0], abs=1e-3)
    assert {"94 %", "100 %", "GPUs"} <= set(texts(drawn))
    assert texts(drawn)[-2:] == ["ours", "theirs"]
    assert [at for at, _ in panel.points_of(theirs)] == [1]


def test_a_point_has_its_interval_and_its_figures_in_words() -> None:
    (part,) = parts(page(EFFICIENCY)).items()
    assert part[0] == "2x1: 99 %"
    interval, dot = parsed.strokes(*part[1].iter("path"))
    assert (dot.width, dot.height, interval.width) == (0, 0, 0)
    assert dot.left == interval.left
    assert interval.top < dot.top < interval.top + interval.height


def test_panels_share_an_axis_and_a_line_ends_where_its_points_do() -> None:
    drawn = page(SETS)
    found = parsed.panels(drawn)
    assert [[at for at, _ in panel.points] for panel in found] == [[0, 0.5], [0.25, 0.3]]
    assert [panel.uprights for panel in found] == [[0.25, 0.255]] * 2
    # Numbers that would overlap are one; the legend of a file has both.
    axis = ["1–2", "11-18"]
    assert texts(drawn)[-2:] == axis
    legend = ["a set", "1", "image a → b", "2", "driver 1 → 2"]
    assert texts(file(SETS))[-7:] == [*axis, *legend]


def test_charts_of_a_page_share_their_places_and_places_what_their_names_begin_with() -> None:
    points = (Dot(0, 1, value="1.0"), Dot(10, 2, value="2.0"))
    other = (Dot(10, 3, value="3.0"),)
    panels = [Panel(lines=(Trace(kind="fp32", points=some),)) for some in (points, other)]
    places = (Place(0, "night-08", 120.0), Place(10, "night-09", None))
    chart = LineChart(title="t", panels=tuple(panels), ends=(0, 20), places=places)
    over_time = msgspec.structs.replace(chart, places=(Place(0, "a, b"),))
    axes = svg.Axes()
    root, *others = [parsed.svg(svg.element(one, axes)) for one in (chart, over_time, chart)]
    assert [one.attrib["data-at"] for one in (root, *others)] == ["0", "1", "0"]
    assert axes.text.splitlines() == ["2,night-0|0,0,8|500,,9", "0,a, b|0,,"]
    values = [line.attrib["data-v"] for panel in parsed.panels(root) for line in panel.lines]
    assert values == ["1.0|2.0", "|3.0"]
    attributes = {name for one in parsed.svg(svg.document([chart])).iter() for name in one.attrib}
    assert not {name for name in attributes if name.startswith("data-")}


def test_letters_have_one_size_at_every_width() -> None:
    for drawn in (EFFICIENCY, SETS):
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
        anchors = {text: group.get("text-anchor", "") for group in inner.iter() for text in group}
        for text in inner.iter("text"):
            at = text.attrib["x"]
            share = float(at.rstrip("%"))
            x = left + (share / 100 * (right - left) if at.endswith("%") else share)
            length = svg.LETTER * len(text.text or "")
            start = {"middle": 0.5, "end": 1.0}.get(text.get("text-anchor", anchors[text]), 0.0)
            assert x - start * length >= svg.MARGIN - 5
            assert x + (1 - start) * length <= width - 5
            assert float(inner.attrib["y"]) + float(text.attrib["y"]) < height - 5


@pytest.mark.parametrize(("distance", "numbers"), [(0.5, {"1–2"}), (6, {"1", "2"})])
def test_events_share_a_number_only_where_they_are_near(distance: float, numbers: set[str]) -> None:
    events = (Event(5, "a"), Event(5 + distance, "b"))
    panels = (Panel(lines=(Trace(kind="fp32", points=(Dot(0, 80), Dot(10, 90))),)),)
    drawn = page(LineChart(title="t", panels=panels, ends=(0, 20), events=events))
    assert {text for text in texts(drawn) if text in {"1", "2", "1–2"}} == numbers


def test_a_band_is_the_area_between_the_ends_of_intervals() -> None:
    ends = ((0.0, 10.0, 30.0), (1.0, 20.0, 40.0), (2.0, 10.0, 40.0))
    points = tuple(Dot(x, 25.0, low=low, high=high) for x, low, high in ends)
    band = Trace(kind="fp32", name="most", points=points, shape="band")
    drawn = page(LineChart(title="t", panels=(Panel(lines=(band,), from_zero=True),)))
    (panel,) = parsed.panels(drawn)
    (stroke,) = parsed.strokes(*panel.lines[0].iter("path"))
    width, _ = panel.size
    assert [round(x / width, 3) for x, _ in stroke.places] == [0, 0.5, 1, 1, 0.5, 0]
    highest, *_, lowest = sorted({y for _, y in stroke.places})
    assert [y for _, y in stroke.places].count(highest) == 2
    assert [y for _, y in stroke.places].count(lowest) == 2
    assert "most" in texts(drawn)


def test_round_ticks_include_the_figures() -> None:
    flat = one_panel(Dot(0, 99.4), Dot(1, 101.2))
    assert {"99", "99.5", "100", "101", "101.5"} <= set(texts(page(flat)))
    assert len(texts(page(one_panel(Dot(0, 7.0))))) > 2


def test_a_small_line_ends_where_its_points_do() -> None:
    root = parsed.svg(svg.sparkline("3 sets", [Dot(0, 1), Dot(1, 3), Dot(2, 2)], (0, 4), (0, 4)))
    assert root.attrib["aria-label"] == "3 sets"
    assert not texts(root)
    line, dot = parsed.strokes(*root.iter("path"))
    (x0, y0), (x1, y1), (x2, y2) = line.places
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    assert y2 == top + height / 2, "half of the scale that small lines share"
    assert x2 == left + width / 2, "half of its axis"
    assert x1 - x0 == x2 - x1 > 0
    assert y0 - y2 == y2 - y1 > 0, "up is more"
    assert dot.places[0] == (x2, y2)
    assert dot.width == dot.height == 0


def test_a_page_gives_a_small_line_its_size() -> None:
    root = parsed.svg(svg.sparkline("1 set", [Dot(0, 1)], (0, 4), (0, 2)))
    assert not {"width", "height"} & root.attrib.keys()
    styles = parsed.texts(parsed.tree(results_page.html(pages.page())).iter("style"))
    (rule, *_) = re.findall(rf"\.{root.attrib['class']} \{{([^}}]*)\}}", "".join(styles))
    assert {"width", "height"} <= set(re.findall(r"[\w-]+(?=:)", rule))


def colours(styles: str) -> dict[str, str]:
    """Return the colour of each class."""
    rules = re.findall(r"([^{}]*)\{([^{}]*)\}", styles)
    found = (
        (of.rpartition(".")[2].strip(), re.match(r"\s*color:\s*(#\w+)", rule)) for of, rule in rules
    )
    return {of: match[1] for of, match in found if match is not None}


def test_a_page_has_each_colour_twice_and_a_file_on_white() -> None:
    assert colours(svg.css()) == {kind: light for kind, (light, _) in svg.COLOURS.items()}
    assert colours(svg.css(is_dark=True)) == {kind: dark for kind, (_, dark) in svg.COLOURS.items()}
    made = parsed.svg(svg.document([EFFICIENCY, SETS]))
    assert colours(made.findtext("style", "")) == colours(svg.css())
    assert [text for text in texts(made) if text in ("efficiency", "sets")] == [
        "efficiency",
        "sets",
    ]
    ground = made.find("rect")
    assert ground is not None
    assert ground.attrib == {"width": "100%", "height": "100%", "fill": "#fff"}
