"""Comparing two sides: matching cases, missing ratios and regressions."""

import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.model.compared import Compared
from k8sbench.model.group import Group
from k8sbench.model.run import Run
from k8sbench.results.groups.grouping import groups
from tests.results.groups.grouped import newest_nights
from tests.results.groups.nights import night
from tests.results.groups.sides import NOT_COMPARABLE, A, compared, new, old
from tests.results.report.factory import START, V100_16, V100_32, repeats, run
from tests.results.said import texts
from tests.unit.presence import present


def only(a: Iterable[Run], b: Iterable[Run], limit: float | None = None, **fields: Any) -> Compared:
    (case,) = compared(a, b, limit, **fields).cases
    return case


def earlier(*levels: float, **fields: Any) -> list[Group]:
    """Return sets of three runs before those of ``old``, with 0.1 % between runs."""
    runs = [
        one
        for n, level in enumerate(levels)
        for one in repeats(
            [level, level * 1.001, level * 0.999],
            set_name=f"earlier-{n}",
            at=START - 1e6 + 1e5 * n,
            **fields,
        )
    ]
    return groups(runs)


# What runs show


def test_three_runs_on_each_side_decide() -> None:
    found = only(old((57.65, 57.77, 57.88)), new((53.98, 54.09, 54.20)))
    assert found.finding == "slower"
    change = [present(found.low), present(found.ratio) - 1, present(found.high)]
    assert change == pytest.approx([-0.0775, -0.0637, -0.0496], abs=1e-4)
    assert present(found.least) == pytest.approx(0.0148, abs=1e-4), "the floor, downwards"


@pytest.mark.parametrize(
    ("a", "b", "finding"),
    [
        ((100.0, 100.0, 100.0), (97.0, 97.0, 97.0), "slower"),  # no spread at all
        ((100.0, 100.0, 100.0), (100.0, 100.0, 100.0), "no-difference"),
        ((100.0, 100.0, 100.0), (100.01, 100.01, 100.01), "no-difference"),
        ((100.0, 100.2, 99.8), (97.0, 97.2, 80.0), "no-difference"),  # an outlier decides nothing
        ((100.0, 100.2, 99.8, 100.1, 80.0), (100.0, 100.2, 99.9), "no-difference"),
        ((100.0, 100.2), (97.0, 97.2, 96.8, 97.1, 97.0), "slower"),  # two against five
        ((100.0, 100.2), (97.0, 97.2), "slower"),
        ((100.0, 103.0), (97.0, 99.5), "no-difference"),
        ((100.0,), (90.0, 90.1, 90.2), "undecided"),
        ((100.0, 100.1, 100.2), (90.0,), "undecided"),
    ],
)
def test_few_runs_show_what_they_can(
    a: tuple[float, ...], b: tuple[float, ...], finding: str
) -> None:
    found = only(old(a), new(b))
    assert found.finding == finding
    assert (found.p is None) == (found.low is None) == (finding == "undecided")
    if found.p is not None:
        assert present(found.low) <= present(found.ratio) - 1 <= present(found.high)
    mirrored = {"slower": "faster"}.get(finding, finding)
    assert only(old(b), new(a)).finding == mirrored


def test_a_change_below_the_floor_is_none_where_earlier_sets_are_missing() -> None:
    a, b = (100.0, 100.05, 99.95), (99.3, 99.35, 99.25)
    assert only(old(a), new(b)).finding == "no-difference"
    assert only(old(a), new(b), floor=0.005).finding == "slower"
    # Four sets that differ by 0.1 % show that 0.7 % is more than sets vary.
    few, enough = (earlier(*[100.0, 100.1, 99.9, 100.0][:count]) for count in (2, 4))
    assert only(old(a), new(b), among=few).earlier_sets is None
    found = only(old(a), new(b), among=enough)
    assert (found.finding, found.earlier_sets) == ("slower", 5), "A is an earlier set, too"
    assert present(found.least) < 0.007


def test_sets_that_differ_from_day_to_day_show_less_than_their_runs() -> None:
    a, b = (100.0, 100.05, 99.95), (97.0, 97.05, 96.95)
    assert only(old(a), new(b)).finding == "slower"
    days = earlier(100.0, 103.0, 98.0, 101.0, 97.5)
    found = only(old(a), new(b), 0.02, among=days)
    assert (found.finding, found.regression) == ("no-difference", False)
    assert present(found.least) > 0.05
    assert only(old(a), new((80.0, 80.1, 79.9)), 0.02, among=days).regression
    # Sets of other cases, later ones and those of the new side itself say nothing.
    others = [*earlier(100.0, 103.0, 98.0, 101.0, case="4x8"), *groups(new(b))]
    assert only(old(a), new(b), among=others).earlier_sets is None


@pytest.mark.parametrize("odd", [96.0, 104.0])
def test_a_case_is_back_whose_older_side_differed_once(odd: float) -> None:
    days = earlier(100.0, 100.1, 99.9, 100.0, 100.1)
    a, b = ((rate, rate * 1.001, rate * 0.999) for rate in (odd, 100.0))
    found = only(old(a), new(b), 0.02, among=days)
    assert (found.finding, found.regression) == ("back", False)
    assert present(found.ratio) == pytest.approx(100 / odd, abs=0.001)
    assert present(found.odd).since == "old"
    assert present(found.odd).change == pytest.approx(odd / 100 - 1, abs=0.001)
    # Whichever side is given first.
    found = only(new(b), old(a), 0.02, among=days)
    assert (found.finding, found.regression) == ("back", False)


def test_a_case_that_changed_after_one_odd_set_is_not_back() -> None:
    days = earlier(100.0, 100.1, 99.9, 100.0, 100.1)
    odd, low = ((rate, rate * 1.001, rate * 0.999) for rate in (104.0, 95.0))
    flat = groups(repeats((100.0, 100.1, 99.9), set_name="flat", at=START + 1e5))
    lower = groups(repeats(low, set_name="lower", at=START + 2e5))
    found = only(old(odd), new(low), 0.02, among=[*days, *flat, *lower])
    assert (found.finding, found.regression, found.odd) == ("slower", True, None)
    # Nor is one whose newer set is odd, too.
    after = groups(repeats((100.0, 100.1, 99.9), set_name="after", at=START + 2e6))
    found = only(old(odd), new(low), 0.02, among=[*days, *flat, *after])
    assert (found.finding, found.odd) == ("slower", None)


def test_what_one_case_shows_alone_many_cases_may_not_show_together() -> None:
    near = (98.0, 98.7, 99.3, 99.8, 101.2)
    assert only(old(), new(near), 0.01).regression
    cases = [f"1x{n}" for n in range(1, 40)]
    many = compared(
        [one for case in cases for one in old(case=case)],
        [one for case in cases for one in new(near if case == "1x3" else A, case=case)],
        0.01,
    )
    (case,) = (case for case in many.cases if case.group.key.case == "1x3")
    assert (case.finding, case.regression) == ("no-difference", False)
    assert present(case.p) <= 0.05 < present(case.p_adjusted)
    assert present(case.low) < 0 < present(case.high), "its interval is that of its verdict"


@given(
    changes=st.lists(st.floats(-0.06, 0.06), min_size=1, max_size=6),
    noise=st.sampled_from([0.0, 0.001, 0.004, 0.02]),
    days=st.sampled_from([None, 0.001, 0.005]),
    seed=st.integers(0, 2**32),
)
def test_an_interval_holds_0_exactly_where_no_change_is_shown(
    changes: list[float], noise: float, days: float | None, seed: int
) -> None:
    draw = random.Random(seed)
    a: list[Run] = []
    b: list[Run] = []
    among: list[Group] = []
    for number, change in enumerate(changes, 1):
        case = f"1x{number}"
        if days is not None:
            among += earlier(*[100.0 * (1 + draw.gauss(0, days)) for _ in range(5)], case=case)
        a += old([100.0 * (1 + draw.gauss(0, noise)) for _ in range(3)], case=case)
        b += new([100.0 * (1 + change + draw.gauss(0, noise)) for _ in range(3)], case=case)
    found = compared(a, b, among=among).cases
    assert len(found) == len(changes)
    for one in found:
        holds_0 = present(one.low) < 0 < present(one.high)
        assert holds_0 == (one.finding == "no-difference")


def test_cases_meet_their_like_and_what_has_none_says_so() -> None:
    a = [*old(case="1x8"), *old(case="1x1"), *old(case="1x8", precision="amp", amp_dtype="fp16")]
    b = [*new(case="1x8"), *new(case="2x8")]
    found = {(one.group.key.case, one.group.key.precision): one for one in compared(a, b).cases}
    assert found["1x8", "fp32"].ratio is not None
    assert found["1x1", "fp32"].b is None
    assert found["1x8", "amp"].b is None
    assert found["2x8", "fp32"].a is None
    assert {one.finding for one in found.values()} == {"slower", "one-side"}


def test_a_case_without_a_namespace_meets_its_like_in_each() -> None:
    mine = [*new(namespace="team-a"), *new(namespace="team-b")]
    cases = compared(old(), mine).cases
    assert [case.b and case.b.groups[-1].key.namespace for case in cases] == ["team-a", "team-b"]
    assert {case.finding for case in cases} == {"slower"}
    # A case that differs in more than the nearest one is no counterpart.
    mine = [*new(namespace="team-a"), *new(namespace="team-b", batch_size=64)]
    found = {case.group.key.namespace: case.finding for case in compared(old(), mine).cases}
    assert found == {"team-a": "slower", "team-b": "one-side"}
    (other,) = compared(old(namespace="team-c"), new(namespace="team-a")).cases
    assert texts(other.notes) == ("namespace: team-c in A, team-a in B",)


def test_logs_without_a_batch_have_no_ratio() -> None:
    (case,) = compared(
        old(backend="imported", batch_size=0), new(backend="imported", batch_size=0)
    ).cases
    assert (case.ratio, case.not_comparable) == (None, ("batch",))


def test_a_case_meets_the_one_on_its_gpu_model() -> None:
    def on(model: str) -> dict[str, Any]:
        return {"backend": "imported", "measured": {"gpu_model": model}}

    fleet = [*old(**on(V100_16)), *old(**on(V100_32))]
    first, second = compared(fleet, new(**on(V100_32))).cases
    assert (first.group.key.gpu_model, first.finding) == (V100_16, "one-side")
    assert (second.group.key.gpu_model, second.finding) == (V100_32, "slower")


def test_a_rejected_case_meets_the_one_on_its_gpu_model() -> None:
    def on(model: str, **measured: Any) -> dict[str, Any]:
        return {"backend": "imported", "measured": {"gpu_model": model, **measured}}

    fleet = [*old(**on(V100_16)), *old(**on(V100_32))]
    rejected = new((90.0,), **on(V100_16, verdict="rejected"))
    first, second = compared(fleet, [*rejected, *new(**on(V100_32))]).cases
    assert first.not_comparable == ("no-figure",)
    assert second.finding == "slower"


def test_what_is_open_of_a_case_is_told_also_where_a_side_has_no_figure() -> None:
    among = earlier(100.0, 100.1, 99.9, 100.0, 95.0, 95.1)
    rejected = run(set_name="other", at=START + 5e5, measured={"verdict": "rejected"})
    for a, b in ((old((95.0,)), [rejected]), ([rejected], new((95.0,)))):
        found = only(a, b, among=among)
        assert found.ratio is None
        assert found.open is not None
        assert (found.open.since, found.open.kind) == ("earlier-4", "step")


@pytest.mark.parametrize(
    ("unlike", "fields"),
    [
        ("batch", {"batch_size": 96}),
        ("precision", {"measured": {"precision_effective": "amp", "amp_dtype": "fp16"}}),
        ("device", {"measured": {"gpu_model": V100_32.replace("V100", "A100")}}),
        ("device", {"measured": {"gpu_model": None}}),
        ("model", {"measured": {"parameters": 30_000_000}}),
        ("cpu", {"device": "cpu", "measured": {"device": "cpu"}}),
    ],
)
def test_unequal_things_have_no_ratio(unlike: str, fields: dict[str, Any]) -> None:
    found = only(old(), new(**fields))
    assert (found.ratio, found.p, found.regression) == (None, None, False)
    assert {unlike} <= {*found.not_comparable} <= {*NOT_COMPARABLE}


def test_several_sets_of_a_side_count_as_so_many_sets_and_not_as_their_runs() -> None:
    def nights(first: int, level: float) -> list[Run]:
        return [
            one
            for n in range(first, first + 4)
            for rate in [level + 3 * (n % 2)]
            for one in repeats([rate, rate + 0.1], set_name=f"n{n}", at=START + 1e5 * n)
        ]

    assert only(nights(0, 100.0), nights(10, 80.0), 0.03).regression
    # Runs alone would show it: 8 of each side, 0.1 apart within the sets.
    found = only(nights(0, 100.0), nights(10, 98.0))
    assert (found.finding, found.earlier_sets) == ("no-difference", 4)
    one = present(only(nights(0, 100.0), new()).a)
    assert (len(one.values), one.sets) == (8, ("n0", "n1", "n2", "n3"))


def test_a_set_of_the_new_level_is_no_set_of_the_level_before_a_change() -> None:
    rates = [100.0, 100.3, 99.8, 100.1, 99.9, 100.2, 95.0, 95.1]
    made = [night(n, "1x8", [rate]) for n, rate in enumerate(rates)]
    newest = newest_nights(made)
    assert newest is not None
    (case,) = newest.cases
    assert (case.finding, case.earlier_sets) == ("no-difference", 7)
    assert present(case.low) < 0 < present(case.high)
    before = newest_nights(made[:-1])
    assert before is not None
    assert [case.finding for case in before.cases] == ["slower"]


@pytest.mark.parametrize("b", [99.2, 100.0, 100.8])
@pytest.mark.parametrize("is_swapped", [False, True])
def test_the_change_lies_in_its_interval_though_a_is_far_from_its_level(
    b: float, *, is_swapped: bool
) -> None:
    days = earlier(*[100 + 0.1 * (-1) ** n * (1 + n % 3 / 4) for n in range(25)])
    for a in (99.32, 99.36, 99.6):
        first, second = old((a, a * 1.001, a * 0.999)), new((b, b * 1.001, b * 0.999))
        if is_swapped:
            first, second = second, first
        found = only(first, second, among=days)
        assert present(found.low) <= present(found.ratio) - 1 <= present(found.high)
