"""The newer side of a comparison against the newest baseline of each case."""

from collections.abc import Iterable

import pytest

from k8sbench.model.compared import SinceBaseline
from k8sbench.model.run import Baseline, Run, kept_run
from k8sbench.results.groups import comparison, since_baseline
from tests.results.groups.changed_sets import a_set
from tests.results.groups.grouped import grouped
from tests.results.groups.nights import DAY
from tests.results.groups.sides import side
from tests.results.report.factory import START


def night(number: int, *rates: float) -> list[Run]:
    """Return a set with three runs of each case."""
    return a_set(f"night-{number}", number * DAY, *((rate, {}) for rate in rates))


def baseline(name: str, runs: Iterable[Run], saved: int = 0) -> Baseline:
    return Baseline(
        name=name, saved_at=START + saved, of=(name,), runs=tuple(kept_run(one) for one in runs)
    )


def since(a: list[Run], b: list[Run], *kept: Baseline) -> list[SinceBaseline | None]:
    known = grouped([*a, *b])
    compared = comparison.compare(side("a", a), side("b", b), earlier=known)
    found = since_baseline.added(compared, kept, known)
    assert [case.a for case in found.cases] == [case.a for case in compared.cases]
    return [case.since_baseline for case in found.cases]


def names(found: Iterable[SinceBaseline | None]) -> list[str | None]:
    return [None if one is None else one.name for one in found]


def test_a_case_is_held_against_its_newest_baseline() -> None:
    first = baseline("first", night(1, 120, 100), saved=1)
    release = baseline("release", night(2, 100), saved=2)
    one, other = since(night(8, 98, 100), night(9, 97, 100), first, release)
    assert one is not None
    assert (one.name, one.finding) == ("release", "slower")
    assert one.ratio == pytest.approx(0.97)
    assert one.low is not None
    assert one.high is not None
    assert one.low < -0.03 < one.high < 0
    # The newer one lacks this case.
    assert other is not None
    assert (other.name, other.finding) == ("first", "no-difference")


def test_a_baseline_that_is_a_side_says_nothing_more() -> None:
    before = night(8, 98)
    after = night(9, 97)
    first = baseline("first", night(1, 100), saved=1)
    assert names(since(before, after, first)) == ["first"]
    for runs in (before, after):
        assert names(since(before, after, first, baseline("it", runs, saved=2)))[0] != "it"
    assert names(since(before, after, first, baseline("it", before, saved=2))) == [None]


def test_a_later_baseline_and_one_of_another_case_are_none() -> None:
    sides = night(8, 98), night(9, 97)
    assert names(since(*sides, baseline("later", night(12, 100)))) == [None]
    (_, other) = night(1, 100, 100)[:3], night(1, 100, 100)[3:]
    assert names(since(*sides, baseline("other", other))) == [None]
    assert names(since(*sides)) == [None]
