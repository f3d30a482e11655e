"""``-o report``: the published figures give the published tables of the five reports."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from k8sbench.model.run import Run
from k8sbench.results.groups.selection import Wanted
from k8sbench.results.report import report_tables
from tests.results.groups.grouped import report
from tests.results.report.factory import START, accuracy, run, smoke
from tests.unit import goldens

CASES = {1: "1x1", 4: "1x4", 8: "1x8", 16: "2x8", 32: "4x8"}
AMP = {"precision": "amp", "amp_dtype": "fp16"}


def published(
    rates: Mapping[int, float | Sequence[float]], *, amp: bool = False, **plan: Any
) -> list[Run]:
    """Runs with the throughput that a report has, by number of GPUs."""
    plan = {"variant": "report", "unit": "samples", **plan, **(AMP if amp else {})}
    return [
        run(rate, case=CASES[gpus], repeat=number, **plan)
        for gpus, figures in rates.items()
        for number, rate in enumerate([figures] if isinstance(figures, float) else figures, 1)
    ]


def trained(gpus: int, best: float, seconds: float | None, **plan: Any) -> Run:
    """A run that reached an accuracy, in another set than those of throughput alone."""
    measured = {"accuracy": accuracy(best), "time_to_train_s": seconds}
    plan = {"variant": "report", "set_name": "trained", **AMP, **plan}
    return run(50.0, case=CASES[gpus], mode="train", measured=measured, **plan)


DEEPLAB: dict[str, Any] = {"benchmark": "deeplabv3p"}
PADDLE: dict[str, Any] = {"framework": "paddle", **DEEPLAB}
TSM: dict[str, Any] = {"benchmark": "tsm", "batch_size": 16}
REPORTS: dict[str, list[Run]] = {
    # The report's speedups are of figures before rounding: 12.1 and 19.9; in AMP 6.98 and 12.36.
    "DeepLabV3+ on PyTorch has AI-Rank's columns for each precision": [
        *published({1: 4.073, 8: 29.74, 16: 49.23, 32: 81.01}, **DEEPLAB),
        *published({1: 8.33, 8: 58.2, 16: 103.2, 32: 182.07}, amp=True, **DEEPLAB),
        *(trained(8, 78.5, 44338.456, **DEEPLAB), trained(32, 77.3, None, **DEEPLAB)),
    ],
    "TSM has a table of throughput and one of accuracy with the empty cells": [
        *published({32: 1380.045}, amp=True, **TSM),
        trained(32, 71.199, None, **TSM),
    ],
    "DeepLabV3+ on Paddle stands beside PyTorch": [
        *published({1: 6.3, 8: 46.0, 32: 176.0}, batch_size=2, **PADDLE),
        *published({1: 17.0, 8: 99.2, 32: 373.76}, batch_size=4, amp=True, **PADDLE),
        *published({1: 4.3, 8: 16.84}, batch_size=2, **DEEPLAB),
        *published({1: 8.33}, batch_size=4, amp=True, **DEEPLAB),
        *published({8: 40.0}, batch_size=2, amp=True, **DEEPLAB),  # of another case
    ],
    # The report has 2802.14 and 7.65 on 8 GPUs, with logs of side runs among them.
    "ResNet-50 has the table of dlperf": published(
        {
            1: (366.54, 366.27, 365.81, 366.14, 365.51),
            4: (1449.08, 1448.06, 1445.03, 1447.61, 1448.58),
            8: (2806.66, 2833.72, 2800.71, 2808.11, 2803.56),
        }
    ),
    "ArcFace has the table of dlperf": published(
        {1: 397.78, 4: 1539.66, 8: 2545.3, 16: 5953.84, 32: 11084.53},
        benchmark="arcface",
        framework="paddle",
    ),
    "another benchmark": published({1: 9024.0}, benchmark="mine", unit="tokens"),
}


def test_the_published_figures_give_the_published_tables_golden() -> None:
    """Titles stand in English and in Chinese; figures are the same in both."""
    parts = []
    for name, runs in REPORTS.items():
        results = report(runs, Wanted(every=True)).results
        parts.append(f"# {name}")
        for table, chinese in zip(
            *(report_tables.tables(results, lang) for lang in ("en", "zh")), strict=True
        ):
            assert chinese.rows == table.rows
            titles = ([column.title for column in one.columns] for one in (table, chinese))
            cells = ([cell.text for cell in row] for row in table.rows)
            parts += [" | ".join(row) for row in (*titles, *cells)] + [""]
    goldens.check(Path(__file__).parent / "golden" / "published.txt", "\n".join(parts))


def test_smoke_and_unsteady_runs_are_no_figures_of_a_report_and_are_named_with_the_reason() -> None:
    runs = [smoke(1.0), *published({1: (100.0, 115.0, 135.0)})]
    results = report(runs, Wanted(every=True)).results
    assert report_tables.tables(results) == []
    small, unsteady = report_tables.left_out(results)
    assert small.startswith("left out, functional tests: ")
    assert unsteady.startswith("left out, not valid: resnet50 pytorch fp32 1x1")
    assert report_tables.left_out(report(published({1: 1.0}), Wanted(every=True)).results) == []


def test_sets_have_tables_of_their_own_with_the_other_framework_of_their_set() -> None:
    runs = [
        one
        for name, factor in (("a", 1.0), ("b", 2.0))
        for plan in (PADDLE, DEEPLAB)
        for one in published({8: 40.0 * factor}, batch_size=2, set_name=name, **plan)
    ]
    made = report_tables.tables(report(runs, Wanted(every=True)).results)
    beside = {
        str(table.title).split(" · ")[-2]: [str(cell.text) for cell in row[1:]]
        for table in made
        for row in table.rows
        if row[0].text == "GPU=8,BS=2"
    }
    assert beside == {"a": ["40.00", "40.00"], "b": ["80.00", "80.00"]}


def test_another_benchmark_has_no_column_that_none_of_its_rows_fills() -> None:
    """Its row of one GPU has a speedup, as in all other tables."""
    runs = published({1: 1200.0, 8: 8800.0}, benchmark="mine", unit="images")
    (table,) = report_tables.tables(report(runs, Wanted(every=True)).results)
    assert [column.title for column in table.columns] == [
        "GPUs",
        "throughput (images/s)",
        "speedup",
    ]
    assert [row[-1].text for row in table.rows] == ["1.00", "7.33"]
    assert report_tables.NONE not in {cell.text for row in table.rows for cell in row}


def test_sets_of_one_and_eight_gpus_have_a_scaling_table_each_and_none_for_each_case() -> None:
    """The cases separate no two rows of one cell; the sets do."""
    runs = [
        one
        for name, factor in (("night-08", 1.0), ("night-12", 2.0))
        for one in published(
            {1: 100.0 * factor, 8: 700.0 * factor}, benchmark="mine", set_name=name
        )
    ]
    made = report_tables.tables(report(runs, Wanted(every=True)).results)
    lines = {
        str(table.title).split(" · ")[-2]: [row[0].text for row in table.rows] for table in made
    }
    assert lines == {"night-08": ["1", "8"], "night-12": ["1", "8"]}
    assert len(made) == len(lines)


def test_another_benchmark_has_a_table_for_each_batch_and_states_it_in_the_heading() -> None:
    """Rows of two batches share no table, also where they share no cell."""
    runs = [
        *published({1: 7001.66}, benchmark="mine", unit="tokens", batch_size=1),
        *published({1: 7100.0, 8: 55000.0}, benchmark="mine", unit="tokens", batch_size=4),
        *published({8: 58411.70}, benchmark="mine", unit="tokens", batch_size=2),
        *published({8: 99000.0}, benchmark="mine", unit="tokens", batch_size=2, amp=True),
    ]
    made = report_tables.tables(report(runs, Wanted(every=True)).results)
    titles = [str(table.title).rpartition(" · ") for table in made]
    assert len({title[0] for title in titles}) == 1
    assert [title[-1] for title in titles] == [
        "FP32(BS=1)",
        "FP32(BS=2)",
        "FP32(BS=4)",
        "AMP(BS=2)",
    ]
    assert [[[cell.text for cell in row[:2]] for row in table.rows] for table in made] == [
        [["1", "7001.66"]],
        [["8", "58411.70"]],
        [["1", "7100.00"], ["8", "55000.00"]],
        [["8", "99000.00"]],
    ]


def test_the_throughput_of_a_cell_is_not_that_of_a_newer_training() -> None:
    (speed,) = published({8: 58.2}, amp=True, **DEEPLAB)
    training = trained(8, 78.5, 44338.456, at=START + 86_400, **DEEPLAB)
    results = report([speed, training], Wanted()).results
    rows = report_tables.Rows(results, beside=(), gpus=(8,), lang="en")
    found = {one: rows.find(8, "amp", trained=one) for one in (False, True)}
    assert {one: row and row.group.facts.mode for one, row in found.items()} == {
        False: "throughput",
        True: "train",
    }
