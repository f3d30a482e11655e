"""SVG of charts: lengths, scales, words, and the colours of a page."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

import pytest

from k8sbench.report import chart
from k8sbench.report.chart import Bar, BarChart, Dot, LineChart, Trace

TALL = LineChart(
    title="loss",
    lines=(Trace(kind="fp32", points=tuple(Dot(n, 5.0 + (n == 7001)) for n in range(10_000))),),
)
SPEEDUP = LineChart(
    title="speedup",
    lines=(
        Trace(
            kind="amp-fp16",
            name="ours",
            points=(Dot(1, 1), Dot(2, 2, "2x1: 2.00", low=1.9, high=2.1), Dot(8, 8)),
        ),
        Trace(kind="soft", name="theirs", shape="cross", points=(Dot(8, 7),)),
    ),
    across="GPUs",
    ticks=(1, 2, 4, 8),
)


def bar(value: float, *marks: float) -> Bar:
    figure = Dot(value, 0, f"{value} samples/s", low=0.9 * value, high=1.1 * value)
    published = tuple(Dot(mark, 0, "published") for mark in marks)
    return Bar(label=f"bar {value}", kind="fp32", figure=figure, marks=published)


def root(drawn: chart.Chart) -> ET.Element:
    return ET.fromstring(chart.svg(drawn))


def texts(of: ET.Element) -> list[str]:
    return [one.text or "" for one in of.iter("text")]


def circles(of: ET.Element) -> Iterator[tuple[float, float]]:
    return ((float(one.attrib["cx"]), float(one.attrib["cy"])) for one in of.iter("circle"))


def test_a_bar_is_as_long_as_its_figure_and_the_longest_end_fits() -> None:
    drawn = chart.svg(BarChart(title="throughput", bars=(bar(100.0), bar(50.0, 220.0))))
    lengths = [float(length) for length in re.findall(r"M0 \S+h([\d.]+)v10", drawn)]
    assert lengths[0] == pytest.approx(2 * lengths[1], abs=0.2)
    assert lengths[0] == pytest.approx(100 / 220 * (chart.WIDTH - 2), abs=0.1)
    assert "<title>100.0 samples/s</title>" in drawn


def test_a_bar_without_a_figure_has_its_words() -> None:
    drawn = root(BarChart(title="t", bars=(Bar(label="1x8: failed", kind="fp32", figure=None),)))
    assert texts(drawn) == ["t", "1x8: failed"]
    assert not list(drawn.iter("path"))


def test_equal_factors_are_equal_steps_of_a_scale_with_ticks() -> None:
    drawn = root(SPEEDUP)
    first, second, last = circles(drawn)
    assert second[0] - first[0] == pytest.approx((last[0] - second[0]) / 2, abs=0.2)
    assert first[1] - second[1] == pytest.approx((second[1] - last[1]) / 2, abs=0.2)
    assert texts(drawn)[-2:] == ["ours", "theirs"]
    assert "GPUs" in texts(drawn)


def test_a_point_has_its_interval_and_its_figures_in_words() -> None:
    drawn = chart.svg(SPEEDUP)
    assert "<title>2x1: 2.00</title>" in drawn
    _, (_, middle), _ = circles(root(SPEEDUP))
    found = re.search(r"h6m-3 0V([\d.]+)m-3 0h6", drawn)
    assert found is not None
    assert float(found[1]) < middle


def test_a_long_line_keeps_its_extremes() -> None:
    points = list(circles(root(TALL)))
    assert len(points) <= chart.MOST_POINTS
    assert len({height for _, height in points}) == 2


def test_round_ticks_include_the_figures() -> None:
    flat = LineChart(title="t", lines=(Trace(kind="fp32", points=(Dot(0, 99.4), Dot(1, 101.2))),))
    assert {"99", "99.5", "100", "101", "101.5"} <= set(texts(root(flat)))
    one = LineChart(title="t", lines=(Trace(kind="fp32", points=(Dot(0, 7.0),)),))
    assert len(texts(root(one))) > 2


def test_a_page_has_each_colour_twice_and_a_file_on_white() -> None:
    for kind, (light, dark) in chart.COLOURS.items():
        assert f".{kind}{{color:{light}}}" in chart.css()
        assert f".{kind}{{color:{dark}}}" in chart.css(is_dark=True)
    file = chart.document([SPEEDUP, TALL]).decode()
    assert chart.css() in file
    assert file.index("speedup") < file.index("loss")
    assert ET.fromstring(file).find("{*}rect") is not None
