"""Comparison of new sets with a baseline, in metrics and commands."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from k8sbench.app import comparisons, stores
from k8sbench.app.answers import StoresRead
from k8sbench.model.group_filter import GroupFilter
from k8sbench.model.phase import Phase
from k8sbench.model.series import Alternation, Judged, Open
from k8sbench.operator.controller import OperatorSettings, OperatorState
from k8sbench.operator.metrics import Metrics
from k8sbench.results.stored_groups import StoredGroups
from k8sbench.store.open_store import open_store
from tests.results.groups.sides import A, B, new, old
from tests.results.report.factory import START, repeats, run
from tests.unit.command_line import Cli
from tests.unit.operator.scraped import samples
from tests.unit.operator.served import Operator
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


# Changed cases

OPEN, UNCONFIRMED = "k8sbench_open_change_ratio", "k8sbench_unconfirmed_change_ratio"
ALTERNATING = "k8sbench_alternating_ratio"
FLAT = (100.0, 100.3, 99.8, 100.1, 99.9, 100.2)


@pytest.fixture
def of_nights(tmp_path: Path) -> Metrics:
    """The metrics of a store without a set."""
    made = Metrics()
    settings = OperatorSettings(store=str(tmp_path / "other"))
    made.state = OperatorState(settings=settings, is_leader=True)
    return made


def store_of(made: Metrics) -> Path:
    assert made.state is not None
    assert made.state.settings.store is not None
    return Path(made.state.settings.store)


def measure(made: Metrics, night: int, rate: float, case: str = "1x8") -> None:
    """Add a set of one run."""
    at = START + 86400.0 * night
    put(store_of(made), repeats([rate], case=case, set_name=f"n{night}", at=at))
    made.closed(run(rate, case=case))


def test_a_drop_is_open_once_a_second_set_confirms_it_until_its_level_is_accepted(
    of_nights: Metrics,
) -> None:
    first = len(FLAT)
    shown = []
    for night, rate in enumerate([*FLAT, 95.0, 95.2]):
        measure(of_nights, night, rate)
        shown += [(night, name) for name in (OPEN, UNCONFIRMED) if name in samples(of_nights)]
    assert shown == [(first, UNCONFIRMED), (first + 1, OPEN)]
    assert samples(of_nights)[OPEN] == {CASE: pytest.approx(0.95, abs=0.003)}
    chosen = GroupFilter(benchmark="resnet50")
    where = str(store_of(of_nights))
    (level,) = comparisons.accept_levels(
        chosen, StoresRead(where=where), lambda _: None, at=time.time()
    )
    assert level.set_name == "n7"
    of_nights.closed(run(95.0))
    assert not {OPEN, UNCONFIRMED} & samples(of_nights).keys()


def test_an_open_drop_does_not_end_by_waiting(of_nights: Metrics) -> None:
    for night, rate in enumerate([*FLAT, 95.0, 95.2]):
        measure(of_nights, night, rate)
        measure(of_nights, night, 100.0, "4x8")
    for night in range(8, 20):
        measure(of_nights, night, 100.0, "4x8")
    assert samples(of_nights)[OPEN] == {CASE: pytest.approx(0.95, abs=0.003)}


def test_a_case_that_alternates_is_no_open_change(of_nights: Metrics) -> None:
    low, high = (97.0, 97.1), (100.0, 100.1)
    for night, rate in enumerate([*FLAT, *low, *high, *low, *high]):
        measure(of_nights, night, rate)
    found = samples(of_nights)
    assert found[ALTERNATING] == {CASE: pytest.approx(0.97, abs=0.003)}
    assert not {OPEN, UNCONFIRMED} & found.keys()


@pytest.mark.parametrize(
    ("judged", "metric", "ratio"),
    [
        (Judged(None, Open("step", -0.05, "n2", START), None), OPEN, 0.95),
        (Judged(None, Open("drift", -0.02, "n2", START), None), OPEN, 0.98),
        (Judged(None, Open("unconfirmed", -0.05, "n5", START), None), UNCONFIRMED, 0.95),
        (
            Judged(None, None, None, alternating=Alternation(math.log(99.0), math.log(100.0))),
            ALTERNATING,
            0.99,
        ),
    ],
    ids=["step", "drift", "one set", "two levels"],
)
def test_each_kind_of_change_has_a_metric_of_its_own(
    of_nights: Metrics, monkeypatch: pytest.MonkeyPatch, judged: Judged, metric: str, ratio: float
) -> None:
    for night, rate in enumerate(FLAT):
        measure(of_nights, night, rate)
    monkeypatch.setattr(
        StoredGroups, "judged", lambda _, rows: {row.group_id: judged for row in rows}
    )
    found = samples(of_nights)
    assert {name: found.get(name) for name in (OPEN, UNCONFIRMED, ALTERNATING)} == {
        name: {CASE: pytest.approx(ratio)} if name == metric else None
        for name in (OPEN, UNCONFIRMED, ALTERNATING)
    }
