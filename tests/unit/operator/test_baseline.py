"""Comparison of new sets with a baseline, in metrics and commands."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from k8sbench.app import comparisons, stores
from k8sbench.model.group import GroupFilter
from k8sbench.model.phase import Phase
from k8sbench.operator.controller import OperatorSettings, OperatorState
from k8sbench.operator.metrics import Metrics
from k8sbench.store.open_store import open_store
from tests.unit.command_line import Cli
from tests.unit.measure.sides import A, B, new, old
from tests.unit.operator.scraped import samples
from tests.unit.operator.served import Operator
from tests.unit.report.factory import START, repeats, run
from tests.unit.store.filled import put

RATIO, SEPARATED = "k8sbench_baseline_ratio", "k8sbench_baseline_separated"
CASE = ("resnet50", "1x8", "pytorch", "v100-16gb", "fp32", "full", "", "dle")
"""Values of the labels, by their names."""


def save(where: Path, name: str = "release", what: str = "old") -> None:
    comparisons.save_baseline(
        name, [what], str(where), lambda _: None, replace=True, at=time.time()
    )


@pytest.fixture
def where(tmp_path: Path) -> Path:
    """A store with the baseline of the set "old"."""
    put(tmp_path / "store", old(case="1x8"))
    save(tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def made(where: Path) -> Metrics:
    made = Metrics()
    settings = OperatorSettings(store=str(where), baseline="release")
    made.state = OperatorState(settings=settings, is_leader=True)
    return made


def test_the_newest_set_is_held_against_the_baseline(where: Path, made: Metrics) -> None:
    assert RATIO not in samples(made), "the baseline itself is no news"
    later = new(case="1x8")
    put(where, later)
    made.closed(later[-1])
    found = samples(made)
    assert found[RATIO] == {CASE: pytest.approx(91 / 101)}
    assert found[SEPARATED] == {CASE: 1.0}
    newest = repeats(A, set_name="newest", case="1x8", at=START + 2e6)
    put(where, newest)
    made.closed(newest[-1])
    found = samples(made)
    assert found[RATIO] == {CASE: 1.0}
    assert found[SEPARATED] == {CASE: 0.0}


def test_a_set_with_runs_that_go_on_waits_and_other_cases_have_no_series(
    where: Path, made: Metrics
) -> None:
    put(where, new(case="1x8", batch_size=64))
    put(where, new(case="2x8"))
    a100 = {"gpu_model": "NVIDIA A100-SXM4-40GB"}
    put(where, repeats(A, case="1x8", measured=a100, set_name="a100", at=START + 2e6))
    assert RATIO not in samples(made)
    put(where, new(case="1x8"))
    made.closed(run(1.0, case="1x8"))
    going_on = run(None, phase=Phase.RUNNING, set_name="newest", case="1x8", at=START + 2e6)
    put(where, [*repeats(A, set_name="newest", case="1x8", at=START + 2e6), going_on][1:])
    assert samples(made)[RATIO] == {CASE: pytest.approx(91 / 101)}


# Read from elsewhere


@pytest.fixture
def of_an_operator(where: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the commands find an operator with that store."""
    with open_store(str(where)) as store:
        monkeypatch.setattr(stores, "opened_operator", Operator(store).opened)
        yield


@pytest.mark.usefixtures("of_an_operator")
def test_the_nightly_command_of_the_chart_ends_with_7_for_a_regression(
    where: Path, cli: Cli
) -> None:
    put(where, [*new(B, case="1x8"), *repeats(A, set_name="fine", case="1x8", at=START + 2e6)])
    words = ["compare", "baseline:release", "--store=cluster", "--fail-on-regression=3%"]
    assert "REGRESSION" in cli(*words, "set:new", code=7).out
    cli(*words, "set:fine")
    assert cli("baseline", "list", "--store=cluster", "-o", "name").out == "release\n"
    assert cli("history", "resnet50", "--store=cluster", "-o", "csv").out.count("\n") == 4
    err = cli("baseline", "save", "x", "old", "--store=cluster", code=2).err
    assert "--store cluster is the operator's store" in err


# Open changes

OPEN = "k8sbench_open_change_ratio"


def test_a_drop_has_a_series_until_its_level_is_accepted(tmp_path: Path) -> None:
    where = tmp_path / "other"
    made = Metrics()
    made.state = OperatorState(settings=OperatorSettings(store=str(where)), is_leader=True)
    flat = [100.0, 100.3, 99.8, 100.1, 99.9, 100.2]
    for number, rate in enumerate([*flat, 95.0, 95.2]):
        runs = repeats([rate], case="1x8", set_name=f"n{number}", at=START + 86400.0 * number)
        put(where, runs)
        made.closed(runs[-1])
        assert (OPEN in samples(made)) == (number >= len(flat))
    assert samples(made)[OPEN] == {CASE: pytest.approx(0.95, abs=0.003)}
    chosen = GroupFilter(benchmark="resnet50")
    (level,) = comparisons.accept_levels(chosen, str(where), lambda _: None, at=time.time())
    assert level.set_name == "n7"
    made.closed(runs[-1])
    assert OPEN not in samples(made)


def test_a_drop_of_a_case_that_is_not_measured_any_more_has_no_series(tmp_path: Path) -> None:
    where = tmp_path / "other"
    made = Metrics()
    made.state = OperatorState(settings=OperatorSettings(store=str(where)), is_leader=True)

    def measure(night: int, case: str, rate: float) -> None:
        put(where, repeats([rate], case=case, set_name=f"n{night}", at=START + 86400.0 * night))

    for night, rate in enumerate([100.0, 100.3, 99.8, 100.1, 99.9, 95.0, 95.2]):
        measure(night, "1x8", rate)
        measure(night, "4x8", 100.0)
    for night in range(7, 12):
        measure(night, "4x8", 100.0)
        made.closed(run(100.0))
        assert (OPEN in samples(made)) == (night < 11)
    measure(12, "1x8", 95.1)
    made.closed(run(100.0))
    assert samples(made)[OPEN] == {CASE: pytest.approx(0.95, abs=0.003)}
