"""Sweeps over batch sizes: the fastest, and those that do not fit."""

from typing import Any

import pytest

from k8sbench.model.run import Run
from k8sbench.results.groups.grouping import groups
from k8sbench.results.groups.selection import Report, Wanted
from k8sbench.results.groups.speedup import results
from k8sbench.results.report import document, layout
from tests.results.groups.grouped import report
from tests.results.report.factory import V100_16, V100_32, out_of_memory, reject, run
from tests.results.said import texts


def size(batch: int, rate: float | None = None, **changes: Any) -> Run:
    """A run of one batch size; without a rate it does not fit."""
    if rate is None and "measured" not in changes:
        return out_of_memory(batch_size=batch, **changes)
    return run(rate, batch_size=batch, **changes)


REJECTED = {"verdict": "rejected", "reasons": (reject("beyond-peak"),)}


def repeats(batch: int, rate: float, **changes: Any) -> tuple[Run, Run]:
    """Two runs of a batch size, 0.1 % apart."""
    again = {**changes, "repeat": 2}
    return size(batch, rate, **changes), size(batch, 1.001 * rate, **again)


TOO_LARGE = size(256)
SWEEP = (*repeats(64, 700.0), *repeats(128, 900.0), TOO_LARGE)


def rows(*runs: Run) -> Report:
    return report(runs, Wanted(every=True))


def fastest(*runs: Run) -> list[int | float | None]:
    return [result.fastest_batch_size for result in rows(*runs).results]


def test_each_size_has_its_row_and_the_fastest_that_fits_is_named() -> None:
    made = rows(*SWEEP)
    found = [document.row(result) for result in made.results]
    assert [(row["batch_size_per_gpu"], row["state"], row["throughput"]) for row in found] == [
        (64, "valid", pytest.approx(700.35)),
        (128, "valid", pytest.approx(900.45)),
        (256, "out-of-memory", None),
    ]
    assert {row["fastest_batch_size"] for row in found} == {128}
    (reason,) = found[2]["members"][0]["reasons"]
    assert reason["id"] == "run-out-of-memory"
    assert "CUDA out of memory" in reason["message"]
    (table,) = layout.tables(made.results, made.parities)
    assert "fastest batch per GPU of resnet50 pytorch fp32 1x8: 128" in texts(table.notes)


@pytest.mark.parametrize(
    ("runs", "found"),
    [
        (repeats(64, 700.0), [None]),
        ((*repeats(64, 700.0), *repeats(128, 900.0)), [128, 128]),
        ((*repeats(64, 700.0), *repeats(128, 900.0, set_name="b")), [None, None]),
        (
            (*repeats(64, 700.0), *repeats(128, 900.0, options={"compile": True})),
            [None, None],
        ),
        ((size(64), size(128)), [None, None]),
        # Of a size that did not always fit the figure is no advice.
        ((*repeats(64, 700.0), size(128, 900.0), size(128, repeat=2)), [64, 64]),
        # Nothing was compared with it.
        ((*repeats(64, 700.0), size(128, 900.0, measured=REJECTED)), [None, None]),
        (
            (*repeats(64, 700.0, preset="smoke"), *repeats(128, 900.0, preset="smoke")),
            [None, None],
        ),
    ],
)
def test_only_sizes_of_one_set_that_differ_in_nothing_else_are_compared(
    runs: tuple[Run, ...], found: list[int | float | None]
) -> None:
    assert fastest(*runs) == found


@pytest.mark.parametrize(
    ("runs", "found"),
    [
        # One run a size has no spread, and 0.06 % is less than two days differ by.
        ((size(64, 700.0), size(128, 900.0)), None),
        ((*repeats(64, 899.5), *repeats(128, 900.0)), None),
        ((*repeats(64, 888.0), *repeats(128, 900.0)), None),
        ((*repeats(64, 880.0), *repeats(128, 900.0)), 128),
        # Fast beside 64, and no faster than 256.
        ((*repeats(64, 700.0), *repeats(128, 900.0), *repeats(256, 899.5)), None),
    ],
)
def test_a_size_is_the_fastest_where_a_comparison_would_call_it_faster_than_each_other(
    runs: tuple[Run, ...], found: int | None
) -> None:
    assert {*fastest(*runs)} == {found}


def test_each_gpu_model_has_a_sweep_of_its_own() -> None:
    def on(model: str, batch: int, rate: float) -> tuple[Run, Run]:
        return repeats(batch, rate, backend="imported", measured={"gpu_model": model})

    fleet = [*on(V100_16, 64, 700.0), *on(V100_16, 128, 600.0), *on(V100_32, 64, 800.0)]
    made = rows(*fleet, *on(V100_32, 128, 900.0), size(256, backend="imported")).results
    assert {(r.group.key.gpu_model, r.fastest_batch_size) for r in made[:-1]} == {
        (V100_16, 64),
        (V100_32, 128),
    }
    (table,) = layout.tables(made, ())
    assert f"fastest batch per GPU of resnet50 pytorch fp32 1x8 {V100_32}: 128" in texts(
        table.notes
    )


def test_a_speedup_is_that_over_one_gpu_with_the_same_batch() -> None:
    alone = (size(64, 100.0, case="1x1"), size(128, 120.0, case="1x1"))
    made = results(groups([*alone, *SWEEP]))
    found = {(r.group.key.case, r.group.key.batch_size): r.speedup.value for r in made}
    assert found["1x8", 64] == pytest.approx(7.0035)
    assert found["1x8", 128] == pytest.approx(7.50375)
    assert found["1x8", 256] is None
