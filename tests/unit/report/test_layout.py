"""What stands in the cells, and that nothing is ever 0 for "not measured"."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k8sbench.lifecycle.reporting import Report, Wanted, report
from k8sbench.model.counts import ABSENT
from k8sbench.model.finding import Finding
from k8sbench.model.measurement import DataSet
from k8sbench.model.phase import Phase
from k8sbench.model.plan import PlannedTraining
from k8sbench.model.run import Run
from k8sbench.model.sample import Place
from k8sbench.report import document, formats, group_words, layout
from k8sbench.report.tables import Cell, text
from tests.unit.report import example
from tests.unit.report.factory import accuracy, reject, repeats, run, smoke

GPU_TITLES = ("GPU busy", "tensor active", "peak memory", "power", "energy per 1,000", "throttled")


def rows(made: Report | list[Run], **options: Any) -> list[dict[str, Cell]]:
    shown = made if isinstance(made, Report) else report(made, Wanted(every=True))
    table = layout.tables(shown.results, shown.parities, **options)[0]
    titles = [column.title for column in table.columns]
    return [dict(zip(titles, row, strict=True)) for row in table.rows]


def only(one: Run | list[Run], **options: Any) -> dict[str, Cell]:
    (found,) = rows(one if isinstance(one, list) else [one], **options)
    return found


def test_the_runs_with_one_reason_are_counted_and_the_first_is_told() -> None:
    wrong = [{"reasons": (reject("gpu-count", f"{n} of 8."), reject("batch"))} for n in range(9)]
    found = only([run(None, repeat=n, measured=one) for n, one in enumerate(wrong, 1)])
    assert found["samples/s"] == Cell(
        ABSENT, ("gpu-count (9 runs): 0 of 8.", "batch (9 runs): It is wrong.")
    )


def in_layout(reported: str, **plan: Any) -> Run:
    return run(800.0, measured={"environment": {"option.channels_last": reported}}, **plan)


@pytest.mark.parametrize(
    ("one", "title", "shown"),
    [
        (run(800.0, preset="smoke"), "verdict", "valid; smoke"),
        (smoke(1.0, preset="full"), "verdict", "valid; CPU"),
        (
            run(800.0, data="synthetic-host", options={"workers": 8, "size": 64}),
            "verdict",
            "valid; data synthetic-host; workers 8",
        ),
        # A row in AMP names the layout that ran unless it was asked for.
        (in_layout("True", precision="amp"), "verdict", "valid; NHWC"),
        (in_layout("False", precision="amp"), "verdict", "valid; NCHW"),
        (run(800.0, precision="amp"), "verdict", "valid"),
        (in_layout("False", precision="fp32"), "verdict", "valid"),
        (
            in_layout("True", precision="amp", options={"channels-last": True}),
            "verdict",
            "valid; channels-last",
        ),
        (run(800.0), "precision", "fp32"),
        (run(800.0, precision="amp", amp_dtype="fp16"), "precision", "amp (fp16)"),
        (
            run(800.0, precision="amp", amp_dtype="bf16", measured={"precision_effective": "fp32"}),
            "precision",
            "amp (bf16), in effect fp32",
        ),
        (run(100.0, node="gpu-1"), "node", "gpu-1"),
    ],
)
def test_a_row_says_how_its_runs_ran(one: Run, title: str, shown: str) -> None:
    assert only(one)[title].text == shown


def test_a_rejected_group_has_its_ids_where_its_figure_would_be() -> None:
    bad = {"reasons": (reject("gpu-count", "4 GPUs, 8 were planned."), reject("batch"))}
    one = run(None, measured=bad)
    short, found = only(one), only(one, form="wide")
    assert found["verdict"].text == "rejected: batch, gpu-count"
    assert found["interval"].text == short["min–max"].text == ABSENT
    # Where room is short the ids stand in the notes alone.
    assert short["verdict"].text == "rejected"
    assert short["samples/s"] == found["samples/s"]
    assert [note.split(" ")[0] for note in short["samples/s"].notes] == ["gpu-count", "batch"]
    assert short["samples/s"].notes[0].endswith("4 GPUs, 8 were planned.")


def test_a_reason_in_full_names_its_first_evidence() -> None:
    places = tuple(Place(file="master-0.log", line=n) for n in (7, 8, 9))
    wrong = Finding(id="loss-nan", severity="reject", sentence="NaN.", evidence=places)
    made = report([run(None, measured={"reasons": (wrong,)})], Wanted())
    (text,) = group_words.reasons(made.results[0].group, "reject")
    assert text.endswith("NaN. See master-0.log:7 and 2 more.")


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"set_name": "set-b"}, "set"),
        ({"data": "pvc:imagenet"}, "data"),
        ({"options": {"channels_last": True}}, "options"),
        ({"backend": "local"}, "backend"),
        ({"trainers_digest": "f" * 64}, "program"),
        ({"node": "gpu-2"}, "node"),
    ],
)
def test_a_column_that_tells_two_rows_apart_appears_by_itself(
    fields: dict[str, Any], title: str
) -> None:
    assert title not in only(run(100.0))
    one, two = rows([run(100.0), run(100.0, **fields)])
    assert one[title].text != two[title].text
    others: dict[str, Any] = {"set_name": "b", "preset": "smoke", "mode": "train", "variant": "v"}
    others |= {"options": {"channels_last": True}, "data": "host:/data", "impl": "upstream"}
    shown = printed([run(1.0, backend="local"), *(run(1.0, **{n: v}) for n, v in others.items())])
    assert max(map(len, shown)) <= 80


def test_one_line_tells_what_the_intervals_do_not() -> None:
    def below(*rates: float) -> tuple[str, ...]:
        made = report(repeats(rates), Wanted(every=True))
        return layout.tables(made.results, made.parities, form="wide")[0].notes

    assert not any(layout.OF_ONE_SET in note for note in below(800.0))
    assert sum(layout.OF_ONE_SET in note for note in below(90.0, 91.0)) == 1


def printed(runs: list[Run], width: int | None = 80, **options: Any) -> list[str]:
    """What a terminal shows of the rows of some runs."""
    made = report(runs, Wanted(every=True))
    return text(layout.tables(made.results, made.parities, **options), width=width).splitlines()


def test_what_every_row_has_is_said_once_and_not_in_its_cells() -> None:
    shown = printed([smoke(1.0), smoke(2.0, replicas=4)])
    assert shown == [
        "benchmark: resnet50 · framework: pytorch · precision: fp32 · runs: 1/1",
        "CASE      samples/s   VERDICT",
        "2x1-cpu       1.000   valid; smoke (CPU)",
        "4x1-cpu       2.000   valid; smoke (CPU)",
        "",
        "smoke: all 2 rows; checks the path, not the speed",
        "MIN–MAX: all 2 rows; one run does not show the spread between runs",
        "median of the valid runs by time_weighted",
    ]


def test_rows_of_one_unit_have_it_in_the_heading_and_others_below_the_table() -> None:
    assert only(run(800.0))["samples/s"].text == "800.00"
    runs = [run(800.0), run(8.0, benchmark="deeplabv3p", unit="clips")]
    assert [row["throughput"].text for row in rows(runs)] == ["8.000", "800.00"]
    assert "THROUGHPUT: clips/s of deeplabv3p; samples/s of resnet50" in printed(runs)


TRAIN: dict[str, Any] = {
    "mode": "train",
    "data": "pvc:imagenet",
    "training": PlannedTraining(
        length=90,
        unit="epochs",
        evaluate_every=1,
        metric="top-1",
        target=75.9,
        stop_at_target=True,
    ),
}


def goal(**changes: Any) -> dict[str, Any]:
    """What a run of our trainers that reached its target measured."""
    return {
        "accuracy": accuracy(76.6),
        "time_to_train_s": 44338.456,
        "mode": "train",
        "target": 75.9,
        "ended_by": "target",
        "data_set": DataSet(name="imagenet", digest="d1", train=1_281_167, val=50_000),
    } | changes


def test_a_row_that_trains_has_its_time_its_accuracy_and_its_restarts() -> None:
    runs = [run(800.0, repeat=n, measured=goal(restarts=n), **TRAIN) for n in (1, 2)]
    found = only(runs)
    assert found["time to train (s)"].text == "44338.456"
    assert found["time to train (s)"].notes == (
        "2 of 2 runs reached the target of 75.9 %",
        "stopped at the target",
    )
    assert found["accuracy (%)"] == Cell("76.6 (top-1)", ("from scratch",))
    assert found["restarts"].text == "3"
    assert max(map(len, printed(runs))) <= 80


@pytest.mark.parametrize(
    ("target", "reason"),
    [(None, "the runs have no target accuracy"), (75.9, "no run reached its target accuracy")],
)
def test_a_row_without_a_time_to_train_says_why(target: float | None, reason: str) -> None:
    short = goal(target=target, time_to_train_s=None, accuracy=accuracy(60.0))
    for plan in (TRAIN, {}):  # one of a log that was imported
        found = only(run(800.0, measured=short, **plan))
        assert found["time to train (s)"] == Cell(ABSENT, (reason,))
        assert ("restarts" in found) == (plan is TRAIN)


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(st.none(), st.floats(0.001, 1e5), st.sampled_from(list(Phase))),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_whatever_the_runs_no_figure_is_ever_0_for_not_measured(
    kinds: list[Any], small: bool
) -> None:
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
            assert not re.match(r"[0.]+( |$)", cells[title].text)


def test_the_columns_of_the_flat_rows_are_the_same_without_any_row() -> None:
    made = example.made()
    fields = document.document(made.results, made.parities)["rows"][0]
    spread = {"by_estimator", "accuracy", "changed", "newer", "reasons", "members"}
    told = {"published", "missing", "notes", "marks", "judgements"}
    assert {*document.PLAIN} == fields.keys() - spread - told
    header, _ = document.flat(made.results)
    of_sources = {name for name in header if name.startswith(("published ", "deviation "))}
    assert document.flat([]) == ([name for name in header if name not in of_sources], [])


def with_gpu_metrics(*names: str, **missing: str) -> Run:
    """A run that has some of the figures of example.py."""
    metrics = example.gpu_metrics()
    kept = {name: metrics.figures[name] for name in names}
    metrics = msgspec.structs.replace(metrics, figures=kept, energy_per_1000_samples=None)
    why = {f"gpu_metrics.{name}": text for name, text in missing.items()}
    return run(800.0, case="1x8", measured={"gpu_metrics": metrics, "missing": why})


def test_a_gpu_metric_has_a_column_where_any_row_has_it() -> None:
    without = run(200.0, case="1x2", measured={"missing": {"gpu_metrics": "Nobody was asked."}})
    lacks = {"tensor_active": "Not given.", "throttled": "Not given."}
    found = rows([without, with_gpu_metrics("gpu_utilization", "power", **lacks)], form="wide")
    for row in found:
        assert [title for title in row if title in GPU_TITLES] == ["GPU busy", "power"]
    # What is not there is said once in a row, also of figures that have no column.
    assert found[0]["GPU busy"] == found[0]["power"] == Cell(ABSENT)
    assert found[0]["verdict"].notes == ("no GPU metrics: Nobody was asked.",)
    assert found[1]["power"] == Cell("182 W")
    assert "no tensor active, throttled: Not given." in found[1]["verdict"].notes


@pytest.mark.parametrize(
    ("written", "value", "text"),
    [
        (formats.rate, 11084.53, "11084.53"),
        (formats.rate, 12.3456, "12.35"),
        (formats.rate, 1.23456, "1.235"),
        (formats.rate, 0.012345, "0.0123"),
        (formats.rate, 0.0000312, "0.0000312"),
        (formats.ratio, 0.00123, "0.00123"),
        (formats.percent, 0.0000123, "0.0012 %"),
        (formats.plain, 1234567.0, "1230000"),
        (formats.signed_percent, -0.0123, "−1.2 %"),
        (formats.signed_percent, 0.0123, "+1.2 %"),
        (formats.signed_percent, -0.0001, "±0.0 %"),
    ],
)
def test_figures_keep_the_digits_that_tell_runs_apart_and_never_become_0(
    written: Callable[[float], str], value: float, text: str
) -> None:
    assert written(value) == text
