"""The series of a case: marks, open changes, acceptance, and judging from a snapshot."""

import math
import random
import statistics
from collections.abc import Sequence
from typing import Any

import pytest

from k8sbench.measure.group import nights
from k8sbench.model.group import GroupRow
from k8sbench.model.series import DAY, Judged, Snapshot, night_of
from tests.unit.measure.nights import night

FLAT = [100.0, 100.3, 99.8, 100.1, 99.9, 100.2, 99.7, 100.4, 100.05, 99.95]


def rows(values: Sequence[float], case: str = "1x8", runs: int = 1) -> list[GroupRow]:
    return [night(n, case, [value] * runs).row for n, value in enumerate(values)]


def judged(values: Sequence[float], **fields: object) -> list[Judged]:
    made = rows(values)
    found = nights.judge(made, **fields)  # type: ignore[arg-type]
    return [found[row.group_id] for row in made]


def kinds(values: Sequence[float]) -> dict[int, str]:
    return {n: one.mark.kind for n, one in enumerate(judged(values)) if one.mark is not None}


def opened(values: Sequence[float], **fields: object) -> list[str | None]:
    """Return what is open with each set: the kind and the place of its begin."""
    found = [one.open for one in judged(values, **fields)]
    return [one and f"{one.kind} {int(one.since.removeprefix('night-'))}" for one in found]


def slower(share: float, sets: int) -> list[float]:
    return [(1 - share) * value for value in FLAT[:sets]]


def test_a_set_that_differs_is_unconfirmed_until_the_next_one_decides() -> None:
    assert kinds([*FLAT, 95.0]) == {10: "unconfirmed"}
    assert kinds([*FLAT, 95.0, 95.2]) == {10: "step"}
    assert kinds([*FLAT, 95.0, 100.1]) == {10: "once", 11: "back"}
    assert kinds([*FLAT, 95.0, 105.0, 100.1]) == {10: "once", 11: "once", 12: "back"}
    assert kinds([*FLAT, 95.0, 98.9, 100.1])[10] == "once", "nearer to the level than to the first"


def test_the_set_after_one_that_differed_has_its_change_and_its_name() -> None:
    odd, back = (one.mark for one in judged([*FLAT, 95.0, 100.1])[10:])
    assert odd is not None
    assert back == odd._replace(kind="back")
    assert odd.since == "night-010"
    assert odd.change == pytest.approx(-0.05, abs=0.002)


def test_two_sets_that_chance_explains_together_are_no_step() -> None:
    apart = next(
        share / 10_000
        for share in range(1, 200)
        if kinds([*FLAT, 100 * (1 - share / 10_000)]) == {10: "unconfirmed"}
    )
    weak = 100 * (1 - 0.35 * apart)
    assert kinds([*FLAT, 100 * (1 - apart), weak])[10] == "once"
    assert kinds([*FLAT, 100 * (1 - apart), 100 * (1 - apart)])[10] == "step"


def test_a_lasting_drop_is_a_step_with_five_nights_before_it() -> None:
    assert kinds([*FLAT[:5], *slower(0.02, 3)]) == {5: "step"}


def test_a_step_among_the_first_sets_is_found_when_there_are_seven() -> None:
    values = [*FLAT[:2], *slower(0.05, 5)]
    assert kinds(values[:6]) == {}
    assert kinds(values) == {2: "step"}


def test_a_drift_is_the_difference_of_the_last_sets_from_the_first() -> None:
    values = [0.999**n * value for n, value in enumerate([*FLAT, *FLAT[:4]])]
    marks = [one.mark for one in judged(values)]
    (mark,) = filter(None, marks)
    assert (mark.kind, mark.since) == ("drift", "night-000")
    logarithms = [math.log(value) for value in values]
    last = logarithms[: marks.index(mark) + 1][-3:]
    apart = statistics.fmean(last) - statistics.fmean(logarithms[:4])
    assert mark.change == pytest.approx(math.expm1(apart), rel=1e-6)
    assert set(opened(values)[marks.index(mark) :]) == {"drift 0"}


def test_a_single_odd_set_widens_the_spread_little_however_far_it_is() -> None:
    quiet = judged([*FLAT, *FLAT])[-1].expected
    odd = judged([*FLAT, 10.0, *FLAT[:9]])[-1].expected
    assert quiet is not None
    assert odd is not None
    assert quiet.variance < odd.variance < 4 * quiet.variance


# What is open


def test_a_drop_stays_open_until_the_case_recovers() -> None:
    values = [*FLAT, *slower(0.03, 4), *FLAT[:4]]
    found = opened(values)
    assert found[9] is None
    assert found[10:] == ["unconfirmed 10", *["step 10"] * 4, None, None, None]


def test_what_is_open_begins_with_the_first_of_several_drops() -> None:
    values = [*FLAT, *slower(0.03, 4), *slower(0.06, 4)]
    assert opened(values)[-1] == "step 10"
    last = judged(values)[-1].open
    assert last is not None
    assert last.change == pytest.approx(-0.06, abs=0.003)


def test_a_drop_below_half_a_per_cent_is_in_the_history_and_not_open() -> None:
    quiet = [100 + (value - 100) / 10 for value in FLAT]
    values = [*quiet, *(0.996 * value for value in quiet[:5])]
    assert kinds(values) == {10: "step"}
    assert opened(values) == [None] * 15


def test_a_drop_that_a_level_no_longer_shows_is_closed_by_the_set_that_joins_it() -> None:
    values = [*FLAT, *slower(0.009, 2), *slower(0.002, 6), *slower(0.03, 3)]
    assert opened(values)[10:] == [
        *("unconfirmed 10", "step 10", "step 10"),
        *[None] * 5,
        *("unconfirmed 18", "step 18", "step 18"),
    ]


def test_a_drop_that_fades_is_closed_for_good_and_a_later_one_adds_to_it() -> None:
    quiet = [100 + (value - 100) / 10 for value in FLAT]
    lows = [(0.006, 3), (0.003, 10), (0.006, 4)]
    values = [*quiet, *((1 - share) * value for share, sets in lows for value in quiet[:sets])]
    found = opened(values)
    assert found[10:] == ["unconfirmed 10", *["step 10"] * 3, *[None] * 10, *["step 23"] * 3]
    last = judged(values)[-1].open
    assert last is not None
    assert last.change == pytest.approx(-0.006, abs=0.0003), "against the first level"


def test_a_rise_is_never_open_and_a_fall_after_it_is() -> None:
    values = [*FLAT, *slower(-0.05, 5), *FLAT[:3]]
    assert kinds(values) == {10: "step", 15: "step"}
    assert opened(values) == [*[None] * 15, "unconfirmed 15", "step 15", "step 15"]


def test_a_level_of_few_sets_is_none_to_fall_from() -> None:
    values = [*FLAT, *slower(-0.012, 2), *FLAT]
    assert kinds(values) == {10: "step", 12: "step"}
    assert opened(values) == [*[None] * 12, "unconfirmed 12", *[None] * 9]


@pytest.mark.parametrize("place", [10, 12])
def test_an_accepted_level_closes_what_was_open_and_hides_no_later_drop(place: int) -> None:
    values = [*FLAT, *slower(0.03, 5), *slower(0.06, 3)]
    made = rows(values)
    accepted = {made[place].line: made[place].began}
    assert opened(values, accepted=accepted)[13:] == [
        *[None] * 2,
        "unconfirmed 15",
        *["step 15"] * 2,
    ]


# Nights


def test_sets_of_one_day_are_one_night_whatever_their_names() -> None:
    (one, two) = rows(FLAT[:2])
    early = one._replace(set_name="a", began=DAY * 100 + 60)
    late = two._replace(set_name="b", began=DAY * 101 - 60)
    next_day = two._replace(set_name="c", began=DAY * 101 + 60)
    found = nights.by_night([next_day, late, early])
    assert [[row.set_name for row in some] for some in found.values()] == [["a", "b"], ["c"]]


def test_a_set_that_runs_past_midnight_is_of_the_night_in_which_it_began() -> None:
    (one, two) = rows(FLAT[:2])
    begin = one._replace(set_name="a", began=DAY * 101 - 600)
    end = two._replace(set_name="a", group_id="other", began=DAY * 101 + 600)
    added = two._replace(set_name="a", group_id="added", began=DAY * 103)
    found = nights.by_night([begin, end, added])
    assert list(found) == [100, 103]


@pytest.mark.parametrize(
    ("name", "value"),
    [("median", None), ("measures", "cpu"), ("measures", "smoke"), ("in_progress", 1)],
)
def test_a_set_without_a_final_speed_is_no_part_of_a_series(name: str, value: Any) -> None:
    made = rows([*FLAT, 95.0])
    made[-1] = made[-1]._replace(**{name: value})
    assert made[-1].group_id not in nights.judge(made)


# Judging from a snapshot


def test_a_store_that_grows_is_judged_as_one_that_is_judged_anew() -> None:
    draw = random.Random(3)
    odd = {(2, 2), (2, 12), (3, 6)}
    made = [
        night(n, f"{case}x8", [100 * (1 - drop) + draw.gauss(0, 0.4)]).row
        for n in range(24)
        for case in range(1, 5)
        for drop in [0.03 if (case, n) in odd or (case == 1 and n >= 9) else 0.0]
    ]
    kept: dict[str, Judged] = {}
    snapshot = Snapshot()
    for n in range(len(made)):
        changed = night_of(made[n].began)
        played = nights.play(made[: n + 1], changed, snapshot)
        for group_id, mark in played.revised.items():
            if group_id in kept:
                kept[group_id] = kept[group_id]._replace(mark=mark)
        kept |= played.judged
        snapshot = played.snapshot
        assert kept == nights.judge(made[: n + 1])
    assert {one.mark.kind for one in kept.values() if one.mark} >= {"step", "once", "back"}


def test_a_change_of_an_earlier_night_is_judged_anew() -> None:
    made = rows([*FLAT, *slower(0.03, 3)])
    snapshot = nights.play(made, 0, Snapshot()).snapshot
    made[3] = made[3]._replace(median=50.0)
    again = nights.play(made, night_of(made[3].began), snapshot)
    assert again.judged == nights.judge(made)
