"""The formulas of a measurement: of any family, their own numbers give their values."""

from __future__ import annotations

import re

import pytest

from k8sbench.measure.run import explaining, measuring
from k8sbench.measure.run.expectation import Expectation
from k8sbench.model.explanation import Formula
from k8sbench.parse.families import NAMES
from tests.unit.measure.support import FIXTURES, Lines, fixture, run

LOGS = sorted(path.name for path in FIXTURES.glob("*.log") if "worker" not in path.name)
ANY = [Expectation(format=name, gpus=2, batch_size=8, warmup=0) for name in NAMES]


def computed(formula: Formula) -> float:
    """What the numbers of a formula give."""
    text = formula.text
    if formula.estimator == "arithmetic":
        total, count = re.match(r"([\d.]+), the sum.* ÷ (\d+) =", text).groups()  # type: ignore[union-attr]
        return float(total) / int(count)
    numerator, _, rest = text.partition(" ÷ ")
    value = 1.0
    for factor in numerator.split(" × "):
        value *= float(re.match(r"[\d.]+", factor)[0])  # type: ignore[index]
    value /= float(re.match(r"[\d.]+", rest)[0])  # type: ignore[index]
    cards = re.search(r"summed\) × (\d+) GPUs", text)
    return value * int(cards[1]) if cards else value


@pytest.mark.parametrize("name", LOGS)
def test_the_numbers_of_every_formula_give_its_value(name: str) -> None:
    log = measuring.read([fixture(name)], ANY)
    found = explaining.formulas(measuring.of_log(log), log)
    assert found
    for each in found:
        if each.value is not None and each.estimator != "median":
            assert computed(each) == pytest.approx(each.value, rel=1e-4), each
        elif each.value is None:
            assert each.text.endswith(".")


def test_a_rate_without_a_batch_is_explained_by_the_records_alone() -> None:
    expected = Expectation(format="plsc", gpus=2, warmup=0)
    log = measuring.read([fixture("plsc_v1_four_workers.log")], expected)
    found = measuring.of_log(log)
    assert found.batch_size_per_gpu is None
    headline = explaining.formulas(found, log)[0]
    assert "each record's iterations ÷ its printed rate, summed" in headline.text
    assert computed(headline) == pytest.approx(headline.value, rel=1e-4)


def test_logs_that_give_other_figures_are_not_those_that_were_measured() -> None:
    expected = Expectation(format="mmseg", gpus=1, batch_size=4, warmup=0)

    def measured(seconds: float, records: int = 8) -> object:
        return measuring.measure([Lines(run([seconds] * records))], expected)

    one = measured(0.5)
    assert explaining.agrees(one, measured(0.5))  # type: ignore[arg-type]
    assert not explaining.agrees(one, measured(0.6))  # type: ignore[arg-type]
    assert not explaining.agrees(one, measured(0.5, 9))  # type: ignore[arg-type]
