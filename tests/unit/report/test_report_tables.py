"""``-o report``: the published figures give the published tables of the five reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from k8sbench.lifecycle.reporting import Wanted, report
from k8sbench.model.run import Run
from k8sbench.report import report_tables
from tests.unit.report import example
from tests.unit.report.factory import V100_16, accuracy, run, smoke

CASES = {1: "1x1", 4: "1x4", 8: "1x8", 16: "2x8", 32: "4x8"}
AMP = {"precision": "amp", "amp_dtype": "fp16"}
PYTORCH = f"PyTorch ({run(1.0).plan.image})"


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


def shown(runs: list[Run], lang: str = "en") -> list[list[list[str]]]:
    """Each table: its headings, and its lines."""
    made = report_tables.tables(report(runs, Wanted(every=True)).results, lang)
    return [
        [[column.title for column in table.columns]]
        + [[cell.text for cell in row] for row in table.rows]
        for table in made
    ]


def test_deeplabv3p_on_pytorch_has_ai_ranks_columns_for_each_precision() -> None:
    of: dict[str, Any] = {"benchmark": "deeplabv3p"}
    fp32 = published({1: 4.073, 8: 29.74, 16: 49.23, 32: 81.01}, **of)
    amp = published({1: 8.33, 8: 58.2, 16: 103.2, 32: 182.07}, amp=True, **of)
    runs = [*fp32, *amp, trained(8, 78.5, 44338.456, **of), trained(32, 77.3, None, **of)]
    assert shown(runs, "zh") == [
        [
            ["卡数", "Time2Train(sec)", "吞吐(samples/sec)", "准确率(%)", "加速比"],
            ["1", "-", "4.073", "-", "-"],
            ["8", "-", "29.74", "-", "7.3"],
            ["16", "-", "49.23", "-", "12.09"],  # 12.1 in the report
            ["32", "-", "81.01", "-", "19.89"],  # 19.9
        ],
        [
            ["卡数", "Time2Train(sec)", "吞吐(samples/sec)", "准确率(%)", "加速比"],
            ["1", "-", "8.33", "-", "-"],
            ["8", "44338.456", "58.2", "78.5", "6.99"],  # 6.98, of figures before rounding
            ["16", "-", "103.2", "-", "12.39"],  # 12.36, which is not 103.2 / 8.33
            ["32", "-", "182.07", "77.3", "21.86"],
        ],
    ]
    heading = ["GPUs", "Time2Train (s)", "throughput (samples/s)", "accuracy (%)", "speedup"]
    assert [table[0] for table in shown(runs)] == [heading, heading]
    others = published({1: 9024.0}, benchmark="mine", unit="tokens")
    assert shown(others, "zh")[0][0][2] == "吞吐(tokens/s)"


def test_tsm_has_a_table_of_throughput_and_one_of_accuracy_with_the_empty_cells() -> None:
    of: dict[str, Any] = {"benchmark": "tsm", "batch_size": 16}
    runs = [*published({32: 1380.045}, amp=True, **of), trained(32, 71.199, None, **of)]
    assert shown(runs, "zh") == [
        [["卡数", "FP32", "AMP"], ["1", "-", "-"], ["8", "-", "-"], ["32", "-", "1380.045"]],
        [["卡数", "FP32", "AMP"], ["8", "-", "-"], ["32", "-", "71.199"]],
    ]


def test_deeplabv3p_on_paddle_stands_beside_pytorch() -> None:
    paddle: dict[str, Any] = {"benchmark": "deeplabv3p", "framework": "paddle"}
    runs = [
        *published({1: 6.3, 8: 46.0, 32: 176.0}, batch_size=2, **paddle),
        *published({1: 17.0, 8: 99.2, 32: 373.76}, batch_size=4, amp=True, **paddle),
        *published({1: 4.3, 8: 16.84}, batch_size=2, benchmark="deeplabv3p"),
        *published({1: 8.33}, batch_size=4, amp=True, benchmark="deeplabv3p"),
        *published({8: 40.0}, batch_size=2, amp=True, benchmark="deeplabv3p"),  # of another case
    ]
    assert shown(runs)[:3] == [
        [
            ["GPUs", "FP32(BS=2)", "AMP(BS=4)"],
            ["1", "6.3", "17"],
            ["8", "46", "99.2"],
            ["32", "176", "373.76"],
        ],
        [
            ["case", "PaddlePaddle", PYTORCH],
            ["GPU=1,BS=2", "6.3", "4.3"],
            ["GPU=8,BS=2", "46", "16.84"],
            ["GPU=32,BS=2", "176", "-"],
        ],
        [
            ["case", "PaddlePaddle", PYTORCH],
            ["GPU=1,BS=4", "17", "8.33"],
            ["GPU=8,BS=4", "99.2", "-"],
            ["GPU=32,BS=4", "373.76", "-"],
        ],
    ]


def test_resnet50_and_arcface_have_the_tables_of_dlperf() -> None:
    resnet50 = {
        1: (366.54, 366.27, 365.81, 366.14, 365.51),
        4: (1449.08, 1448.06, 1445.03, 1447.61, 1448.58),
        8: (2806.66, 2833.72, 2800.71, 2808.11, 2803.56),
    }
    assert shown(published(resnet50), "zh") == [
        [
            ["gpu_num_per_node", "batch_size_per_device", "samples/s(PyTorch)", "speedup"],
            ["1", "128", "366.14", "1.0"],
            ["4", "128", "1448.06", "3.95"],
            ["8", "128", "2806.66", "7.67"],  # 2802.14 and 7.65, with logs of side runs among them
        ]
    ]
    arcface = {1: 397.78, 4: 1539.66, 8: 2545.3, 16: 5953.84, 32: 11084.53}
    assert shown(published(arcface, benchmark="arcface", framework="paddle")) == [
        [
            ["node_num", "gpu_num", "samples/s", "speedup"],
            ["1", "1", "397.78", "1.0"],
            ["1", "4", "1539.66", "3.87"],
            ["1", "8", "2545.30", "6.4"],
            ["2", "16", "5953.84", "14.97"],
            ["4", "32", "11084.53", "27.87"],
        ]
    ]


def test_smoke_and_unsteady_runs_are_no_figures_of_a_report_and_are_named_with_the_reason() -> None:
    runs = [smoke(1.0), *published({1: (100.0, 115.0, 135.0)})]
    assert shown(runs) == []
    results = report(runs, Wanted(every=True)).results
    small, unsteady = report_tables.left_out(results)
    assert small.startswith("left out, smoke runs")
    assert unsteady.startswith("left out, rows that are not valid (unsteady): resnet50 pytorch 1x1")
    assert report_tables.left_out(report(published({1: 1.0}), Wanted(every=True)).results) == []


def test_gpu_models_have_tables_of_their_own() -> None:
    a100 = {"gpu_model": "A100"}
    runs = published({1: 100.0}) + published({1: 900.0}, set_name="b", measured=a100)
    made = report_tables.tables(report(runs, Wanted(every=True)).results)
    assert [(table.title or "").split(" · ")[-2] for table in made] == ["A100", V100_16]


def test_the_published_figure_stands_in_the_cell_where_it_is_asked_for() -> None:
    made = report_tables.tables(example.made().results)
    cells = [row[2].text for row in made[-1].rows]
    assert cells[0] == "366.14 (published 366.14, −0.1 % by timestamps)"
    assert cells[1] == "1448.06"
