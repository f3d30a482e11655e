"""The formulas of a measurement: of any family, their own numbers give their values."""

import re

import pytest

from k8sbench.measure.run import measuring
from k8sbench.measure.run.expectation import Expectation
from k8sbench.parse.families import NAMES
from k8sbench.report import explanation
from k8sbench.report.explanation import Formula
from tests.unit.measure.support import FIXTURES, fixture

LOGS = sorted(path.name for path in FIXTURES.glob("*.log") if "worker" not in path.name)
ANY = [Expectation(format=name, gpus=2, batch_size=8, warmup=0) for name in NAMES]


def computed(formula: Formula) -> float:
    """Return a formula's value."""
    numerator, _, rest = formula.text.partition(" ÷ ")
    value = 1.0
    for factor in numerator.split(" × "):
        value *= float(re.match(r"[\d.]+", factor)[0])  # type: ignore[index]
    return value / float(re.match(r"[\d.]+", rest)[0])  # type: ignore[index]


@pytest.mark.parametrize("name", LOGS)
def test_the_numbers_of_the_headline_give_its_value(name: str) -> None:
    headline, *others = explanation.formulas(measuring.measure([fixture(name)], ANY))
    assert computed(headline) == pytest.approx(headline.value, rel=1e-4), headline
    for made in others:
        assert (made.value is None) == made.text.endswith(".")


def test_a_rate_without_a_batch_is_explained_by_the_records_alone() -> None:
    expected = Expectation(format="plsc", gpus=2, warmup=0)
    found = measuring.measure([fixture("plsc_v1_four_workers.log")], expected)
    assert found.batch_size_per_gpu is None
    headline, *_ = explanation.formulas(found)
    assert re.match(r"\d+ iterations over the time of \d+ records = ", headline.text)
