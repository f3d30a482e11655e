"""The cases that somebody should look at, and those that nobody needs to."""

import random
from collections.abc import Callable

import msgspec
import pytest

from k8sbench.measure.group import selection
from k8sbench.measure.group.selection import Wanted
from k8sbench.model.group import Group
from k8sbench.report.attention import Noted, noted
from tests.unit.measure import nights
from tests.unit.measure.grouped import Grouped, newest_sets
from tests.unit.measure.histories import FLAT
from tests.unit.report import pages
from tests.unit.report.factory import reject


def found(
    count: int,
    cases: int,
    *,
    level: Callable[[int, int], float] = lambda _night, _case: 1.0,
    kept: Callable[[int, int], bool] = lambda _night, _case: True,
    lost: Callable[[int, int], bool] = lambda _night, _case: False,
) -> list[Noted]:
    """Return the findings of some nights; ``kept`` by the night and the case's number."""
    made = nights.nights(random.Random(4), count, cases=cases, noise=0.001, days=0.001, level=level)
    places = [(number // cases, number % cases) for number in range(len(made))]
    groups = [
        without_figure(group) if lost(*place) else group
        for place, group in zip(places, made, strict=True)
        if kept(*place)
    ]
    return findings(groups)


def findings(groups: list[Group]) -> list[Noted]:
    made = selection.report(Grouped(groups), Wanted(), over_sets=True)
    return noted(made.series, made.compared, made.results)


def without_figure(
    group: Group, reason: str = "gpu-shared", verdict: str | None = "rejected"
) -> Group:
    (member, *_) = group.members
    run = msgspec.structs.replace(member, rate=None, verdict=verdict, reasons=(reject(reason),))
    return msgspec.structs.replace(group, spread=None, members=(run,))


def short(findings: list[Noted]) -> list[tuple[str, str, str, str]]:
    return [(one.label, one.series.group.key.case, one.set_name, one.since) for one in findings]


def test_quiet_nights_have_no_finding() -> None:
    assert found(12, 5) == []


def test_a_fallen_case_stays_open_until_it_recovers() -> None:
    def fallen(back: int) -> list[tuple[str, str, str]]:
        level = lambda night, case: 0.93 if case == 0 and 10 <= night < back else 1.0  # noqa: E731
        noted_ = found(18, 3, level=level)
        return [(one.set_name, one.since, one.words) for one in noted_ if one.kind == "open"]

    assert fallen(99) == [("night-017", "night-010", "step")]
    assert fallen(13) == []


def test_a_confirmed_rise_is_reported_once() -> None:
    def rise(night: int, case: int) -> float:
        return 1.06 if case == 0 and night >= 8 else 1.0

    words = {count: [one.words for one in found(count, 3, level=rise)] for count in (9, 10, 11)}
    assert words == {9: ["unconfirmed"], 10: ["step"], 11: []}


@pytest.mark.parametrize("odd", [0.96, 1.04])
def test_a_case_that_is_back_after_one_night_has_not_changed(odd: float) -> None:
    def level(night: int, case: int) -> float:
        return odd if case == 0 and night == 10 else 1.0

    (one,) = found(12, 3, level=level)
    assert (one.kind, one.set_name, one.since) == ("back", "night-011", "night-010")
    assert one.change == pytest.approx(odd - 1, abs=0.005)
    assert found(13, 3, level=level) == []


def test_two_sets_that_differ_within_the_usual_spread_are_no_change() -> None:
    rates = [*FLAT, *FLAT, 100.55, 99.45]
    groups = [nights.night(n, "1x8", [rate]) for n, rate in enumerate(rates)]
    compared = newest_sets(groups)
    assert compared is not None
    assert [case.finding for case in compared.cases] == ["slower"]
    assert findings(groups) == []


def test_what_two_sets_alone_show_is_a_change() -> None:
    (one,) = found(2, 3, level=lambda night, case: 1.0 - 0.1 * night * (case == 0))
    assert (one.kind, one.words) == ("changed", "slower")
    assert one.compared is not None
    assert one.compared.low is not None


def test_a_missing_case_is_one_that_a_set_of_the_same_cases_lacks() -> None:
    def kept(night: int, case: int) -> bool:
        return case != 1 or night < 5

    (one,) = (one for one in found(9, 3, kept=kept) if one.kind != "back")
    assert short([one]) == [("missing", "2x8", "night-004", "night-005")]


def test_sets_of_other_cases_lack_nothing() -> None:
    assert found(8, 2, kept=lambda night, case: night % 2 == case) == []


def test_a_set_that_runs_may_still_have_the_case() -> None:
    made = nights.nights(random.Random(4), 6, cases=2, noise=0.001)
    open_run = without_figure(made[-2], "run-in-progress", verdict=None)
    assert findings([*made[:-2], open_run]) == []


def test_a_case_without_a_figure_says_since_when_and_why() -> None:
    (one,) = found(8, 2, lost=lambda night, case: case == 0 and night >= 6)
    assert short([one]) == [("rejected", "1x8", "night-007", "night-006")]
    assert one.words == "gpu-shared"


def test_open_comes_first_then_changes_missing_invalid_and_back() -> None:
    made = pages.nightly(30, 7, change=pages.troubled)
    kinds = [one.kind for one in noted(made.series, made.compared, made.results)]
    assert kinds == ["open", "open", "changed", "missing", "invalid", "back"]
