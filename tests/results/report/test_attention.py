"""The cases that somebody should look at, and those that nobody needs to."""

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from k8sbench.model.compared import UnjudgedSets
from k8sbench.model.group import Group
from k8sbench.model.series import Alternation, Closed, Mark, Open
from k8sbench.results.groups import selection
from k8sbench.results.groups.selection import Wanted
from k8sbench.results.report import next_commands
from k8sbench.results.report.attention import ORDER, Finding, Noted, noted
from tests.results.groups import nights
from tests.results.groups.grouped import Grouped, newest_nights
from tests.results.groups.histories import FLAT
from tests.results.report import pages
from tests.results.report.factory import reject
from tests.results.said import text, texts


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


def short(listed: list[Noted]) -> list[tuple[str, str, str, str]]:
    return [
        (text(finding.label), one.series.group.key.case, one.set_name, finding.since)
        for one in listed
        for finding in one.findings
    ]


def only(listed: list[Noted]) -> Finding:
    """Return the only finding of the only case."""
    (one,) = listed
    (finding,) = one.findings
    return finding


def test_quiet_nights_have_no_finding() -> None:
    assert found(12, 5) == []


def test_a_fallen_case_stays_open_until_it_recovers() -> None:
    def fallen(back: int) -> list[tuple[str, ...]]:
        level = lambda night, case: 0.93 if case == 0 and 10 <= night < back else 1.0  # noqa: E731
        return [
            (one.set_name, finding.since, *texts(finding.words))
            for one in found(18, 3, level=level)
            for finding in one.findings
            if finding.kind == "open"
        ]

    assert fallen(99) == [("night-017", "night-010", "step")]
    assert fallen(13) == []


def test_a_step_upwards_is_listed_until_three_sets_are_of_the_new_level() -> None:
    def rise(night: int, case: int) -> float:
        return 1.06 if case == 0 and night >= 8 else 1.0

    words = {
        count: [
            texts(finding.words) for one in found(count, 3, level=rise) for finding in one.findings
        ]
        for count in (10, 11, 12)
    }
    assert words == {10: [("step",)], 11: [("step",)], 12: []}


@pytest.mark.parametrize("odd", [0.96, 1.04])
def test_a_case_that_is_back_after_one_night_has_not_changed(odd: float) -> None:
    def level(night: int, case: int) -> float:
        return odd if case == 0 and night == 10 else 1.0

    listed = found(12, 3, level=level)
    finding = only(listed)
    assert (finding.kind, listed[0].set_name, finding.since) == ("back", "night-011", "night-010")
    assert finding.change is None
    (words,) = finding.words
    assert "night-010" in texts([words])[0]
    assert finding.sides == ("night-009", "night-010")
    assert found(13, 3, level=level) == []


def test_two_sets_that_differ_without_a_mark_of_the_series_are_no_finding() -> None:
    rates = [*FLAT, *FLAT, 99.2]
    groups = [nights.night(n, "1x8", [rate]) for n, rate in enumerate(rates)]
    compared = newest_nights(groups)
    assert compared is not None
    assert [case.finding for case in compared.cases] == ["slower"]
    assert findings(groups) == []
    assert found(2, 3, level=lambda night, case: 1.0 - 0.1 * night * (case == 0)) == []


def test_a_missing_case_is_one_that_a_set_of_the_same_cases_lacks() -> None:
    def kept(night: int, case: int) -> bool:
        return case != 1 or night < 5

    assert ("missing", "2x8", "night-004", "night-005") in short(found(9, 3, kept=kept))


def test_a_case_that_is_open_and_missing_is_one_row_of_two_findings() -> None:
    def level(night: int, case: int) -> float:
        return 0.93 if case == 1 and night >= 8 else 1.0

    def kept(night: int, case: int) -> bool:
        return case != 1 or night < 14

    (one,) = found(15, 3, level=level, kept=kept)
    assert short([one]) == [
        ("open", "2x8", "night-013", "night-008"),
        ("missing", "2x8", "night-013", "night-014"),
    ]


def test_sets_of_other_cases_lack_nothing() -> None:
    assert found(8, 2, kept=lambda night, case: night % 2 == case) == []


def test_a_set_that_runs_may_still_have_the_case() -> None:
    made = nights.nights(random.Random(4), 6, cases=2, noise=0.001)
    open_run = without_figure(made[-2], "run-in-progress", verdict=None)
    assert findings([*made[:-2], open_run]) == []


def test_a_case_without_a_figure_says_since_when_and_why() -> None:
    listed = found(8, 2, lost=lambda night, case: case == 0 and night >= 6)
    assert short(listed) == [("rejected", "1x8", "night-007", "night-006")]
    assert only(listed).words == ("gpu-shared",)


def test_open_comes_first_then_changes_missing_invalid_and_back() -> None:
    made = pages.nightly(30, 7, change=pages.troubled)
    listed = noted(made.series, made.compared, made.results)
    kinds = [finding.kind for one in listed for finding in one.findings]
    assert kinds == ["open", "open", "changed", "missing", "invalid", "back"]
    assert kinds == sorted(kinds, key=lambda kind: ORDER[kind])


def marked(place: int = -1, *, of_series: Mapping[str, Any], **of_point: Any) -> list[Noted]:
    """Return the findings of a quiet case whose series and one set are marked by hand."""
    (one,) = pages.nightly(12, 1).series
    points = list(one.points)
    points[place] = msgspec.structs.replace(points[place], **of_point)
    one = msgspec.structs.replace(one, points=tuple(points), **of_series)
    return noted([one], None, [])


def test_an_alternating_case_is_one_row_with_its_two_levels() -> None:
    levels = Alternation(low=math.log(98.0), high=math.log(99.0))
    mark = Mark("once", -0.01, 0.001, "night-011")
    finding = only(marked(mark=mark, of_series={"alternating": levels}))
    assert (finding.kind, finding.change) == ("alternating", None)
    text = " ".join(texts(finding.words))
    assert [number in text for number in ("98.00", "99.00", "1.0 %")] == [True, True, True]


@pytest.mark.parametrize("by", ["recovery", "person"])
def test_what_a_set_closed_is_listed_with_when_and_by_whom_and_is_no_change(by: Any) -> None:
    closed = Closed(since="night-004", began=0.0, by=by, at=1_795_000_000.0)
    mark = Mark("step", 0.05, 0.001, "night-010")
    finding = only(marked(-2, mark=mark, closed=closed, of_series={}))
    assert (finding.kind, finding.since, finding.change) == ("closed", "night-004", None)
    assert "2026-11-18 11:06 UTC" in finding.words
    labels = {"recovery": "recovered", "person": "level accepted"}
    assert texts([finding.label]) == (labels[by],)
    assert marked(-4, closed=closed, of_series={}) == []


@pytest.mark.parametrize("has_other_range", [True, False])
def test_sets_that_are_not_judged_are_listed_with_the_command_that_fixes_another_range(
    *, has_other_range: bool
) -> None:
    (one,) = pages.nightly(12, 1).series
    groups = tuple(point.group for point in one.points[-3:])
    sets = UnjudgedSets(groups=groups, has_other_range=has_other_range)
    still = Open("step", -0.05, "night-005", 0.0)
    (found,) = marked(of_series={"unjudged": sets, "open": still})
    assert [(finding.kind, finding.since) for finding in found.findings] == [
        ("open", "night-005"),
        ("unjudged", "night-009"),
    ]
    commands = [*next_commands.of_noted(found)]
    accepting = next(place for place, text in enumerate(commands) if "--accept-level" in text)
    history = commands[accepting + 1]
    assert history.startswith("k8sbench history ")
    assert history.endswith(" --range") == has_other_range


def test_a_shared_change_says_how_many_cases_have_it_and_a_drift_its_course() -> None:
    still = Open("drift", -0.021, "night-005", 0.0)
    mark = Mark("drift", -0.021, 0.001, "night-005", together=6)
    finding = only(marked(mark=mark, of_series={"open": still}))
    assert texts(finding.words)[0] == "drift"
    assert "night-005 to night-011" in texts(finding.words)[1]
    assert "6" in texts(finding.words)[2]
    alone = only(marked(mark=mark._replace(together=0), of_series={"open": still}))
    assert len(alone.words) == 2


def test_the_sides_of_a_change_are_the_set_before_it_and_the_newest() -> None:
    still = Open("step", -0.05, "night-005", 0.0)
    assert only(marked(of_series={"open": still})).sides == ("night-004", "night-011")
    unknown = Open("step", -0.05, "night-a-year-ago", 0.0)
    assert only(marked(of_series={"open": unknown})).sides is None
