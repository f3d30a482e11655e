"""Cells of the tables; a missing value is never 0."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k8sbench.model.measurement import DataSet
from k8sbench.model.phase import Phase
from k8sbench.model.plain_text import significant
from k8sbench.model.plan import PlannedTraining
from k8sbench.model.run import Run
from k8sbench.results.groups.selection import Report, Wanted
from k8sbench.results.report import document, formats, layout
from k8sbench.results.report.columns import Form
from k8sbench.results.report.noted_tables import Cell, text, written
from k8sbench.results.report.words import english
from tests.results.groups.grouped import report
from tests.results.report import example
from tests.results.report.factory import accuracy, reject, repeats, run, smoke
from tests.results.said import texts
from tests.unit import goldens


def rows(made: Report | list[Run], **options: Any) -> list[dict[str, Cell]]:
    shown = made if isinstance(made, Report) else report(made, Wanted(every=True))
    table = layout.tables(shown.results, shown.parities, **options)[0]
    titles = [column.title for column in written(table, "en").columns]
    return [dict(zip(titles, row, strict=True)) for row in table.rows]


def in_layout(reported: str, **plan: Any) -> Run:
    return run(800.0, measured={"environment": {"option.channels_last": reported}}, **plan)


def trained(**changes: Any) -> dict[str, Any]:
    """Return the measurement of our trainer's run that reached its target."""
    return {
        "accuracy": accuracy(76.6),
        "time_to_train_s": 44338.456,
        "mode": "train",
        "target": 75.9,
        "ended_by": "target",
        "data_set": DataSet(name="imagenet", digest="d1", train=1_281_167, val=50_000),
    } | changes


def with_gpu_metrics(*names: str, **missing: str) -> Run:
    """A run that has some of the figures of example.py."""
    metrics = example.gpu_metrics()
    kept = {name: metrics.figures[name] for name in names}
    metrics = msgspec.structs.replace(metrics, figures=kept, energy_per_1000_samples=None)
    why = {f"gpu_metrics.{name}": text for name, text in missing.items()}
    return run(800.0, case="1x8", measured={"gpu_metrics": metrics, "missing": why})


GOAL = PlannedTraining(
    length=90, unit="epochs", evaluate_every=1, metric="top-1", target=75.9, stop_at_target=True
)
TRAIN: dict[str, Any] = {"mode": "train", "data": "pvc:imagenet", "training": GOAL}
MISSED = trained(time_to_train_s=None, accuracy=accuracy(60.0))
WRONG = [{"reasons": (reject("gpu-count", f"{n} of 8."), reject("batch"))} for n in range(9)]
APART: dict[str, Any] = {
    "set_name": "set-b",
    "data": "pvc:imagenet",
    "options": {"channels_last": True},
    "backend": "local",
    "trainers_digest": "f" * 64,
    "node": "gpu-2",
    "impl": "upstream",
}
SCENES: dict[str, list[Run]] = {
    "one run": [run(800.0)],
    "the smoke preset": [run(800.0, preset="smoke")],
    "a CPU": [smoke(1.0, preset="full")],
    "other loaders": [run(800.0, data="synthetic-host", options={"workers": 8, "size": 64})],
    "AMP": [run(800.0, precision="amp", amp_dtype="fp16")],
    "AMP, NHWC ran": [in_layout("True", precision="amp")],
    "AMP, NCHW ran": [in_layout("False", precision="amp")],
    "NHWC that was asked for": [
        in_layout("True", precision="amp", options={"channels-last": True})
    ],
    "FP32, NCHW ran": [in_layout("False")],
    "AMP that was FP32": [run(800.0, precision="amp", measured={"precision_effective": "fp32"})],
    "three runs": repeats([90.0, 91.0, 92.5]),
    "one of two goes on": [run(800.0), run(None, repeat=2, phase=Phase.RUNNING)],
    "nine rejected": [run(None, repeat=n, measured=one) for n, one in enumerate(WRONG, 1)],
    "two units": [run(800.0), run(8.0, benchmark="deeplabv3p", unit="clips")],
    "trained": [run(800.0, repeat=n, measured=trained(restarts=n), **TRAIN) for n in (1, 2)],
    "trained, no target": [run(800.0, measured=MISSED | {"target": None}, **TRAIN)],
    "trained, target missed": [run(800.0, measured=MISSED, **TRAIN)],
    "an imported training": [run(800.0, measured=MISSED)],
    "GPU metrics of one row": [
        run(200.0, case="1x2", measured={"missing": {"gpu_metrics": "Nobody was asked."}}),
        with_gpu_metrics("gpu_utilization", "power", tensor_active="No.", throttled="No."),
    ],
    **{f"two of {name}": [run(1.0), run(1.0, **{name: other})] for name, other in APART.items()},
}


WIDE = ("one run", "nine rejected", "GPU metrics of one row")


def test_rows_of_two_namespaces_are_told_apart() -> None:
    names = ("team-a", "team-b")
    both = rows([run(800.0, namespace=name) for name in names])
    assert [row["namespace"].text for row in both] == [*names]
    (alone,) = rows([run(800.0, namespace="team-a")])
    assert "namespace" not in alone


def test_nothing_is_the_fastest_batch_of_runs_that_state_none() -> None:
    logs = [
        run(rate, repeat=n, backend="imported", batch_size=0) for n, rate in enumerate((8.0, 8.1))
    ]
    stated = repeats([4.0, 4.1, 4.2], backend="imported", batch_size=12)
    made = report([*logs, *stated], Wanted(every=True))
    assert {result.fastest_batch_size for result in made.results} == {None}


def test_the_cells_of_rows_are_golden() -> None:
    """Nothing is 0 for "not measured"; what is absent has its reason beside it."""
    found = {}
    wide = {f"wide, {name}": SCENES[name] for name in WIDE}
    for name, runs in (SCENES | wide).items():
        form: Form = "wide" if name in wide else "table"
        for number, row in enumerate(rows(runs, form=form), 1):
            cells = {title: " | ".join(texts((one.text, *one.notes))) for title, one in row.items()}
            found[f"{name} {number}"] = {
                title: re.sub(r"resnet50-\d{5}", "RUN", text) for title, text in cells.items()
            }
    goldens.check(Path(__file__).parent / "golden" / "cells.txt", goldens.table(found.items()))


def in_samples(*tokens: float | None, **plan: Any) -> list[Run]:
    """Runs of 400 samples/s that state their tokens per second."""
    return [
        run(400.0, repeat=n, measured={"tokens_per_second": each}, case="1x8", **plan)
        for n, each in enumerate(tokens, 1)
    ]


@pytest.mark.parametrize(
    ("runs", "cells"),
    [
        (in_samples(400 * 8192.0, 400 * 8192.0), ["409600.00"]),
        ([*in_samples(400 * 8192.0), *in_samples(None, set_name="set-b")], ["409600.00", "–"]),
        ([*in_samples(None), run(8.0, benchmark="gpt", unit="tokens")], ["–", "1.000"]),
        (
            [*in_samples(400 * 8192.0, 400 * 4096.0), run(8.0, benchmark="gpt", unit="tokens")],
            ["–", "1.000"],
        ),
        (in_samples(None), [None]),
    ],
)
def test_tokens_per_gpu_are_of_runs_that_agree_on_the_tokens_of_a_sample(
    runs: list[Run], cells: list[str | None]
) -> None:
    found = [row.get("tokens/s per GPU") for row in rows(runs, form="wide")]
    assert sorted(str(one and one.text) for one in found) == sorted(map(str, cells))
    assert all(one.notes for one in found if one and one.text == "–")


@pytest.mark.parametrize(
    "telling",
    [
        {"data": ("pvc:imagenet", "pvc:imagenet-2")},
        {"set_name": ("nightly-a", "nightly-b")},
        {"image": ("registry.example/team/pytorch:1", "registry.example/team/pytorch:2")},
    ],
)
@pytest.mark.parametrize("width", [40, 80])
def test_what_tells_rows_apart_is_there_at_any_width(
    telling: dict[str, tuple[str, str]], width: int
) -> None:
    of: dict[str, Any] = {"measured": trained(), **TRAIN}
    wide = run(8.0, benchmark="deeplabv3p", framework="paddle", case="4x8", **of)
    alike = [run(391.26, **(of | {n: v[place] for n, v in telling.items()})) for place in (0, 1)]
    shown = printed([*alike, wide], width)
    begin = next(n for n, line in enumerate(shown) if line.startswith("BENCHMARK"))
    lines = list(itertools.takewhile(bool, shown[begin:]))
    assert width < 80 or max(map(len, shown)) <= width
    for title, values in telling.items():
        begin = lines[0].index(title.removesuffix("_name").upper())
        end = lines[0].index("TIME")
        column = "".join(line[begin:end].split(" ")[0] for line in lines)
        assert all(value in column for value in values)


def test_rows_fit_80_columns() -> None:
    assert max(map(len, printed(SCENES["trained"]))) <= 80
    assert "throughput: clips/s of deeplabv3p; samples/s of resnet50" in printed(
        SCENES["two units"]
    )


def test_27_rows_of_many_kinds_in_80_columns_keep_spread_speedup_and_few_notes() -> None:
    shapes = [("fp32", case) for case in ("1x1", "1x4", "1x8", "2x8", "4x8")]
    shapes += [("amp", case) for case in ("1x1", "1x4", "1x8", "2x8")]
    programs = [("deeplabv3p", "paddle"), ("deeplabv3p", "pytorch"), ("resnet50", "pytorch")]
    runs = []
    for (benchmark, framework), (precision, case) in itertools.product(programs, shapes):
        of: dict[str, Any] = {"benchmark": benchmark, "framework": framework}
        runs += [run(rate, case=case, precision=precision, **of) for rate in (391.0, 392.0)]
        wrong = reject("gpu-count", f"{len(runs)} of 8.")
        runs.append(
            run(390.0, case=case, precision=precision, measured={"reasons": (wrong,)}, **of)
        )
    shown = printed(runs)
    head = next(line for line in shown if line.startswith("BENCHMARK"))
    assert head.split()[-3:] == ["±", "SPEEDUP", "VERDICT"]
    assert max(map(len, shown)) <= 80
    assert len([line for line in shown if re.match(r"\[\d+\] ", line)]) <= 11


def printed(runs: list[Run], width: int | None = 80, **options: Any) -> list[str]:
    """Return the lines of runs on a terminal."""
    made = report(runs, Wanted(every=True))
    return text(layout.tables(made.results, made.parities, **options), width=width).splitlines()


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(st.none(), st.floats(0.001, 1e5), st.sampled_from(list(Phase))),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_no_figure_is_ever_0_for_not_measured(kinds: list[Any], small: bool) -> None:
    build: Any = smoke if small else run
    runs = [
        build(None, repeat=n, phase=kind)
        if isinstance(kind, Phase)
        else build(kind, repeat=n, seconds=600.0)
        for n, kind in enumerate(kinds, 1)
    ]
    made = report(runs, Wanted())
    for row in document.document(made.results, made.parities)["rows"]:
        for name in ("throughput", "mean", "minimum", "maximum", "speedup", "interval_low"):
            assert row[name] is None or row[name] > 0
            assert (row[name] is None) == (name in row["missing"])
    figures = ("samples/s", "interval", "speedup", "efficiency", "mean", "TFLOP/s per GPU")
    for cells in rows(made, form="wide"):
        for title in figures:
            assert not re.match(r"[0.]+( |$)", english(cells[title].text))


@pytest.mark.parametrize(
    ("written", "value", "text"),
    [
        (formats.rate, 11084.53, "11084.53"),
        (formats.rate, 12.3456, "12.35"),
        (formats.rate, 1.23456, "1.235"),
        (formats.rate, 0.012345, "0.0123"),
        (formats.rate, 0.0000312, "0.0000312"),
        (formats.ratio, 0.00123, "0.00123"),
        (formats.percent, 0.0000123, "0.001 %"),
        # Beside a share with one decimal, no other has more digits.
        (formats.percent, 0.00011, "0.01 %"),
        (formats.percent, 0.0021, "0.2 %"),
        (significant, 1234567.0, "1230000"),
        (formats.signed_percent, -0.0123, "−1.2 %"),
        (formats.signed_percent, 0.0123, "+1.2 %"),
        (formats.signed_percent, -0.0001, "±0.0 %"),
    ],
)
def test_figures_keep_distinct(written: Callable[[float], str], value: float, text: str) -> None:
    assert written(value) == text
