"""Scaling charts: which rows a line joins, and which are loose points."""

from typing import Any

from k8sbench.model.run import Run
from k8sbench.results.groups.selection import Wanted
from k8sbench.results.report import scaling_chart
from k8sbench.results.report.chart import Trace
from tests.results.groups.grouped import report
from tests.results.report.factory import START, run


def of_cases(cases: str, **fields: Any) -> list[Run]:
    """Return runs of one set; each case has nine tenths of the speed of one GPU for each GPU."""
    sizes = {case: [int(part) for part in case.split("x")] for case in cases.split()}
    return [
        run(100.0 if case == "1x1" else 90.0 * a * b, case=case, **fields)
        for case, (a, b) in sizes.items()
    ]


def drawn(runs: list[Run]) -> tuple[list[Trace], list[Trace]]:
    """Return lines and loose points of the only chart, without the ideal line."""
    (chart,) = scaling_chart.charts(report(runs, Wanted(every=True)).results)
    _, *traces = chart.panels[0].lines
    lines = [one for one in traces if one.shape == "dot"]
    return lines, [one for one in traces if one.shape == "loose"]


def cases_of(trace: Trace) -> list[str]:
    return [dot.text.partition(",")[0] for dot in trace.points]


def test_a_line_joins_one_number_of_gpus_per_node_and_what_fills_such_a_node() -> None:
    lines, loose = drawn(of_cases("1x1 1x2 1x4 1x8 2x8 4x8 2x4"))
    assert [cases_of(line) for line in lines] == [
        ["1x1", "1x2", "1x4", "1x8", "2x8", "4x8"],
        ["1x1", "1x2", "1x4", "2x4"],
    ]
    assert loose == []


def test_cases_of_equal_gpus_make_no_upright_line() -> None:
    lines, _ = drawn(of_cases("1x1 1x8 2x4 4x2 8x1"))
    assert len(lines) == 4
    for line in lines:
        places = [dot.x for dot in line.points]
        assert len(set(places)) == len(places)
    assert len({line.name for line in lines}) == 4


def test_one_number_of_gpus_per_node_needs_no_word() -> None:
    (alone,), _ = drawn(of_cases("1x1 1x8 2x8"))
    several, _ = drawn(of_cases("1x1 1x8 2x8 2x4"))
    assert [line.name.removeprefix(alone.name) != "" for line in several] == [True, True]


def test_rows_of_an_older_set_are_loose_points_that_name_it() -> None:
    older = of_cases("1x1 1x8 2x8", set_name="night-1", at=START)
    newer = of_cases("1x1 1x8", set_name="night-2", at=START + 86400)
    lines, loose = drawn([*older, *newer])
    assert [cases_of(line) for line in lines] == [["1x1", "1x8"]]
    assert [dot.text for line in lines for dot in line.points if "night-2" not in dot.text] == []
    (points,) = loose
    assert [cases_of(points), {"night-1" in dot.text for dot in points.points}] == [
        ["1x8", "2x8"],
        {True},
    ]


def test_a_row_without_others_to_join_has_no_line_and_no_name_of_one() -> None:
    older = of_cases("1x1", set_name="night-1", at=START)
    newer = of_cases("4x8", set_name="night-2", at=START + 86400)
    lines, loose = drawn([*older, *newer])
    assert lines == []
    assert [cases_of(points) for points in loose] == [["4x8"]]


def test_lines_of_two_programs_are_told_apart_by_what_differs_and_not_by_a_case() -> None:
    half = {"precision": "amp", "amp_dtype": "fp16"}
    lines, _ = drawn([*of_cases("1x1 1x8"), *of_cases("1x1 4x8", data="imagefolder", **half)])
    assert not [line.name for line in lines if "x8" in line.name or "x1" in line.name]
    assert len({line.name for line in lines}) == 2
