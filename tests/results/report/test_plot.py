"""Charts of results: what has a bar, a line, a colour and words."""

import random
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import msgspec

from k8sbench.model.group import Group
from k8sbench.model.measurement import MeasuredWindow
from k8sbench.model.profile import Curve
from k8sbench.results.groups.selection import Wanted
from k8sbench.results.report import plot, scaling_chart
from k8sbench.results.report.chart import Bar, BarChart, LineChart
from k8sbench.results.report.svg import document
from k8sbench.results.report.time_axis import time_axis
from tests.results.groups.grouped import histories, report
from tests.results.groups.nights import nights
from tests.results.report import example, pages
from tests.results.report.factory import START, run
from tests.unit import goldens
from tests.unit.presence import present


def bars(charts: list[BarChart]) -> list[Bar]:
    return [bar for one in charts for bar in one.bars]


def test_the_picture_shows_every_row_with_its_words() -> None:
    results = example.made().results
    drawn = ET.fromstring(document([*plot.bars(results), *scaling_chart.charts(results)]))
    text = " ".join(one.text or "" for one in drawn.findall(".//{*}text"))
    for words in (
        ": 2806.66 (5 of 8 runs); left out: gpu-count",
        "smoke (CPU): a functional test, not a speed measurement",
        "rejected: too-few-records",
        "failed: run-failed",
        "samples/s, median of runs by time_weighted",
        "resnet50 pytorch: scaling efficiency against one GPU",
        "95 % confidence interval",
    ):
        assert words in text


def test_a_row_without_a_figure_has_no_bar_and_a_published_figure_is_a_mark() -> None:
    results = example.made().results
    made = bars(plot.bars(results))
    assert [bar.figure is None for bar in made] == [r.group.spread is None for r in results]
    (full,) = [bar for bar in made if bar.label.startswith("1x8 pytorch fp32")]
    assert [mark.x for mark in full.marks] == [2802.14, 2900.0]
    assert full.figure is not None
    assert (full.figure.low, full.figure.high) != (None, None)


def test_a_label_has_the_words_that_tell_bars_apart() -> None:
    runs = [run(1.0, set_name=name, node="gpu-1") for name in ("monday", "tuesday")]
    runs.append(run(1.0, set_name="monday", node="gpu-2"))
    runs.append(run(1.0, set_name="monday", node="gpu-2", trainers_digest="f" * 64))
    results = report(runs, Wanted(every=True)).results
    labels = plot.labels([result.group for result in results])
    assert sorted(labels.values()) == [
        "1x8 pytorch fp32, batch 128 gpu-1 monday eeeeeeeeeeee",
        "1x8 pytorch fp32, batch 128 gpu-1 tuesday eeeeeeeeeeee",
        "1x8 pytorch fp32, batch 128 gpu-2 monday eeeeeeeeeeee",
        "1x8 pytorch fp32, batch 128 gpu-2 monday ffffffffffff",
    ]


def test_a_precision_has_one_colour_in_all_charts() -> None:
    amp: dict[str, Any] = {"precision": "amp", "amp_dtype": "fp16"}
    runs = [run(1.0, case="1x1"), run(7.0), run(2.0, case="1x1", **amp), run(14.0, **amp)]
    for some in (runs, runs[2:]):
        results = report(some, Wanted(every=True)).results
        panels = [panel for one in scaling_chart.charts(results) for panel in one.panels]
        kinds = {line.name: line.kind for panel in panels for line in panel.lines}
        assert kinds["amp (fp16) k8sbench, batch 128"] == "amp-fp16"
        assert kinds.get("fp32 k8sbench, batch 128", "fp32") == "fp32"
        assert {bar.kind for bar in bars(plot.bars(results))} == set(kinds.values()) - {"soft"}


def drawn(groups: list[Group], **changes: Any) -> LineChart:
    """Return the chart of all cases over their sets."""
    known = histories(groups)
    (one,) = plot.over_sets(known, time_axis(known), **changes)
    return one


def test_a_case_over_its_sets_shows_steps_and_sets_that_differ_once() -> None:
    levels = [1.0] * 9 + [0.932] * 5 + [0.99]
    groups = nights(
        random.Random(7), 15, noise=0.0005, days=0.001, level=lambda night, _: levels[night]
    )
    (panel,) = drawn(groups).panels
    (line,) = panel.lines
    steps = [(n, point.step) for n, point in enumerate(line.points) if point.step]
    assert steps == [(9, "−6.8 %")]
    assert [n for n, point in enumerate(line.points) if point.kind] == [9, 14]
    assert (line.points[9].kind, line.points[14].kind) == ("slower", "faster")
    assert line.points[9].text.startswith("night-009 (")
    assert all(point.low is not None for point in line.points)
    known = histories(groups[:1])
    assert plot.over_sets(known, time_axis(known)) == []


def test_the_set_after_one_that_differed_once_is_drawn_as_any_other() -> None:
    level = lambda night, _: 0.932 if night == 9 else 1.0  # noqa: E731
    groups = nights(random.Random(7), 11, noise=0.0005, days=0.001, level=level)
    (panel,) = drawn(groups).panels
    (line,) = panel.lines
    assert [(n, point.kind) for n, point in enumerate(line.points) if point.kind] == [(9, "soft")]


def test_the_legend_explains_what_is_drawn() -> None:
    calm = nights(random.Random(7), 8, noise=0.0005)
    assert [key.kind for key in drawn(calm).keys] == ["text", "soft"]
    fallen = nights(
        random.Random(7), 12, noise=0.0005, level=lambda night, _: 1.0 if night < 8 else 0.9
    )
    keys = [(key.shape, key.kind) for key in drawn(fallen).keys]
    assert keys == [
        *(("dot", "text"), ("interval", "soft")),
        *(("dot", "slower"), ("step", "text")),
    ]


def test_of_many_sets_only_changed_ones_tell_their_figures() -> None:
    levels = [1.0] * 9 + [0.932] * 5 + [0.99]
    groups = nights(
        random.Random(7), 15, noise=0.0005, days=0.001, level=lambda night, _: levels[night]
    )
    (panel,) = drawn(groups, has_words=False).panels
    (line,) = panel.lines
    assert [n for n, point in enumerate(line.points) if point.text] == [9, 14]


def test_efficiency_is_in_per_cent_of_the_speed_of_one_gpu() -> None:
    (one,) = scaling_chart.charts(example.made().results)
    (panel,) = one.panels
    ideal, ours, theirs = panel.lines
    assert [(tick.at, tick.label) for tick in one.ticks or ()] == [(0, "1"), (2, "4"), (3, "8")]
    assert {dot.y for dot in ideal.points} == {100}
    assert [round(dot.y, 1) for dot in ours.points] == [100.0, 98.9, 95.8]
    assert [dot.x for dot in theirs.points] == [0, 3]


def test_published_points_are_drawn_if_they_were_asked_for() -> None:
    for published, shapes in ((False, ["none", "dot"]), (True, ["none", "dot", "square"])):
        rows = report(example.runs(), Wanted(), find=example.find, published=published).results
        (one,) = scaling_chart.charts(rows)
        (panel,) = one.panels
        assert [line.shape for line in panel.lines] == shapes


def of_rates(rates: list[float], window: MeasuredWindow | None = None) -> LineChart:
    """Return the chart of a run whose lines have some rates, one for each iteration."""
    curve = Curve(iterations=tuple(range(1, len(rates) + 1)), rates=tuple(rates))
    measured = msgspec.structs.replace(present(pages.timeline().measured), window=window)
    (one,) = plot.over_time(plot.History(run_id="r", measured=measured, curve=curve), "r")
    return one


def test_of_many_lines_medians_are_drawn_with_a_band_of_most() -> None:
    """A fifth of the lines takes twice as long: no median is low, and the band shows it."""
    rates = [40.0 if n % 14 in (0, 5, 10) else 100.0 + n % 3 for n in range(3192)]
    one = of_rates(rates)
    band, medians = one.panels[0].lines
    assert (band.shape, medians.shape) == ("band", "none")
    assert len(medians.points) == plot.MEDIANS
    assert all(100 <= dot.y <= 102 for dot in medians.points)
    assert all((dot.low, dot.high) == (40, 102) for dot in band.points)
    assert "684 of 3192" in one.title
    of_window = of_rates(rates, MeasuredWindow(first_iteration=1, last_iteration=1400, seconds=1.0))
    assert "300 of 1400" in of_window.title


def test_few_lines_are_drawn_one_by_one_without_a_band() -> None:
    rates = [100.0 + n % 3 for n in range(plot.MOST_POINTS)]
    one = of_rates(rates)
    (line,) = one.panels[0].lines
    assert [dot.y for dot in line.points] == rates
    assert "of" not in one.title.split()


def test_a_restart_repeats_iterations_and_draws_no_line_backwards() -> None:
    iterations = (*range(500), *range(300, 800))
    curve = Curve(iterations=iterations, rates=(100.0,) * len(iterations))
    (one,) = plot.over_time(plot.History(run_id="r", curve=curve), "r")
    for line in one.panels[0].lines:
        places = [dot.x for dot in line.points]
        assert places == sorted(places)


def chart(one: LineChart) -> dict[str, Any]:
    """Return a chart's words, and its lines' first and last points and counts."""
    (panel,) = one.panels
    ticks = [tick.label for tick in one.ticks or ()]
    found: dict[str, Any] = {"x": one.across, "shaded": one.shade, "ticks": ticks}
    for number, line in enumerate(panel.lines):
        points = [[round(float(value), 3) for value in (p.x, p.y)] for p in line.points]
        name = f"{number} {line.name or '-'} ({line.kind})"
        found[name] = points if len(points) < 4 else [points[0], points[-1], len(points)]
    return found


def sets(count: int) -> list[LineChart]:
    """A curve is of one set; of many sets the newest are drawn."""
    runs = [
        run(rate, case=case, set_name=f"night-{number}", at=START + number)
        for number in range(count)
        for case, rate in (("1x1", 100.0), ("1x4", 380.0 - number), ("1x8", 720.0))
    ]
    return scaling_chart.charts(report(runs, Wanted(every=True)).results)


def measured_part(window: MeasuredWindow | None) -> list[LineChart]:
    """The shaded part is the measured window, not the planned one."""
    one = pages.timeline()
    measured = msgspec.structs.replace(present(one.measured), window=window)
    return plot.over_time(msgspec.structs.replace(one, measured=measured), "run-1")


def test_the_charts_are_golden() -> None:
    part = MeasuredWindow(first_iteration=601, last_iteration=1190, seconds=1.0)
    scenes = {
        "speedups": scaling_chart.charts(example.made().results),
        "one GPU": scaling_chart.charts(report([run(100.0, case="1x1")], Wanted()).results),
        "two sets": sets(2),
        "nine sets": sets(scaling_chart.NAMED + 1),
        "a part was measured": measured_part(part),
        "nothing was measured": measured_part(None),
    }
    rows = ((f"{name}: {one.title}", chart(one)) for name, some in scenes.items() for one in some)
    goldens.check(Path(__file__).parent / "golden" / "charts.txt", goldens.table(rows))
