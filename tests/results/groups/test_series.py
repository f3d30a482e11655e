"""The series of a case: marks, open changes, acceptance, and judging from a kept night."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from k8sbench.model.group import GroupRow
from k8sbench.model.series import DAY, Acceptance, Judged, Mark, NightState, night_of
from k8sbench.results.groups import nights
from tests.results.groups.nights import night

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


def test_a_step_is_found_from_four_sets_before_it_on() -> None:
    assert kinds([*FLAT[:4], *slower(0.05, 3)]) == {4: "step"}
    assert kinds([*FLAT[:3], *slower(0.05, 6)]) == {}, "too few to be a level"


def drifting(rate: float, noise: float, seed: int, sets: int = 30) -> list[float]:
    draw = random.Random(seed)
    return [100 * (1 - rate) ** n * (1 + draw.gauss(0, noise)) for n in range(sets)]


def test_a_slope_that_leaves_clearly_less_than_a_step_is_a_drift() -> None:
    marks = [mark for seed in range(10) for mark in marks_of(drifting(0.0006, 0.002, seed))]
    drifts = [mark for mark in marks if mark.kind == "drift"]
    assert len(drifts) >= 5
    assert all(mark.change <= -0.005 for mark in drifts), "a smaller one is no drift"
    assert all(mark.since != f"night-{29:03}" for mark in drifts)


def test_a_drift_that_all_cases_share_is_marked_in_all() -> None:
    made = [
        night(n, f"{case}x8", [value]).row
        for case in range(1, 7)
        for n, value in enumerate(drifting(0.001, 0.003, case, 26))
    ]
    marks = [one.mark for one in nights.judge(made).values() if one.mark is not None]
    assert {mark.together for mark in marks if mark.kind == "drift"} == {6}


def marks_of(values: Sequence[float]) -> list[Mark]:
    return [one.mark for one in judged(values) if one.mark is not None]


def test_a_single_odd_set_widens_the_spread_little_however_far_it_is() -> None:
    quiet = judged([*FLAT, *FLAT])[-1].expected
    odd = judged([*FLAT, 10.0, *FLAT[:9]])[-1].expected
    assert quiet is not None
    assert odd is not None
    assert quiet.variance < odd.variance < 6 * quiet.variance


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


def test_a_drop_of_which_over_half_has_come_back_is_closed() -> None:
    values = [*FLAT, *slower(0.012, 3), *slower(0.003, 8)]
    assert opened(values)[12] == "step 10"
    closed = [one.closed for one in judged(values)]
    (end,) = filter(None, closed)
    assert (end.since, end.by) == ("night-010", "recovery")
    assert opened(values)[closed.index(end) :] == [None] * (len(values) - closed.index(end))


def test_a_drop_that_fades_is_closed_for_good_and_a_later_one_adds_to_it() -> None:
    quiet = [100 + (value - 100) / 10 for value in FLAT]
    lows = [(0.0062, 3), (0.0045, 10), (0.008, 4)]
    values = [*quiet, *((1 - share) * value for share, sets in lows for value in quiet[:sets])]
    assert opened(values)[12] == "step 10"
    assert opened(values)[22] is None
    last = judged(values)[-1].open
    assert last is not None
    assert last.since == "night-023"
    assert last.change == pytest.approx(-0.008, abs=0.0003), "against the first level"


def test_a_rise_is_never_open_and_a_fall_after_it_is() -> None:
    values = [*FLAT, *slower(-0.05, 5), *FLAT[:3]]
    assert kinds(values) == {10: "step", 15: "step"}
    assert opened(values) == [*[None] * 15, "unconfirmed 15", "step 15", "step 15"]


def test_a_rise_takes_back_the_newest_drop() -> None:
    values = [*FLAT, *slower(0.03, 5), *slower(0.065, 5), *slower(0.03, 6)]
    assert opened(values)[19] == "step 15"
    assert opened(values)[-1] == "step 10"


def test_an_odd_first_night_of_a_change_is_no_change_back() -> None:
    quiet = [100 + (value - 100) / 10 for value in FLAT]
    drop = [*quiet, 95.0, *(0.98 * value for value in quiet[:6])]
    assert [mark.change < 0 for mark in marks_of(drop) if mark.kind in ("step", "drift")] == [True]
    rise = [*quiet, 104.0, *(1.01 * value for value in quiet[:6])]
    assert [mark.change > 0 for mark in marks_of(rise) if mark.kind in ("step", "drift")] == [True]
    assert opened(rise)[-1] is None


def test_an_odd_night_within_a_drop_leaves_it_open() -> None:
    values = [*FLAT, *slower(0.03, 2), 100.1, *slower(0.03, 8)]
    assert set(opened(values)[13:]) == {"step 10"}


def test_a_large_drop_of_a_case_that_alternates_is_open() -> None:
    flips = [value if n % 2 else 0.98 * value for n, value in enumerate([*FLAT, *FLAT])]
    low = [0.9 * value for value in flips[:8]]
    assert judged([*FLAT, *flips])[-1].alternating is not None
    last = judged([*FLAT, *flips, *low])[-1]
    assert last.alternating is None
    assert last.open is not None
    assert last.open.change == pytest.approx(-0.1, abs=0.02)


def test_a_level_that_is_accepted_while_unconfirmed_opens_nothing() -> None:
    values = [*FLAT, *slower(0.03, 2)]
    made = rows(values)
    accepted = {made[10].line: Acceptance(made[10].began, made[10].began + 60)}
    assert opened(values, accepted=accepted)[-1] is None


def test_a_level_of_few_sets_is_none_to_fall_from() -> None:
    values = [*FLAT, *slower(-0.03, 2), *FLAT]
    assert kinds(values) == {10: "step", 12: "step"}
    assert set(opened(values)[13:]) == {None}


# A case that alternates


def test_a_case_that_flips_alternates_and_nothing_of_it_is_open() -> None:
    odd = [value if n % 3 else 0.98 * value for n, value in enumerate(FLAT)]
    last = judged([*FLAT, *odd, *odd])[-1]
    assert last.alternating is not None
    assert last.alternating.high - last.alternating.low == pytest.approx(0.02, abs=0.003)
    assert last.open is None


def test_a_case_that_no_longer_flips_does_not_alternate() -> None:
    odd = [value if n % 3 else 0.98 * value for n, value in enumerate(FLAT)]
    assert judged([*FLAT, *odd, *odd, *FLAT, *FLAT])[-1].alternating is None


def test_a_case_that_stays_at_its_lower_level_has_fallen() -> None:
    odd = [value if n % 3 else 0.98 * value for n, value in enumerate(FLAT)]
    last = judged([*FLAT, *odd, *odd, *slower(0.02, 10), *slower(0.02, 10)])[-1]
    assert last.alternating is None
    assert last.open is not None
    assert last.open.change == pytest.approx(-0.02, abs=0.004)


def test_what_was_open_before_a_case_alternates_below_it_stays_open() -> None:
    low = slower(0.05, 10)
    odd = [value if n % 3 else 0.98 * value for n, value in enumerate(low)]
    last = judged([*FLAT, *low, *odd, *odd])[-1]
    assert last.alternating is not None
    assert last.open is not None
    assert last.open.since == "night-010"


def test_a_drop_that_is_rolled_back_once_is_no_alternation() -> None:
    values = [*FLAT, *slower(0.03, 3), *FLAT]
    assert all(one.alternating is None for one in judged(values))
    assert opened(values)[12] == "step 10"
    assert opened(values)[14:] == [None] * 9


@pytest.mark.parametrize("place", [10, 12])
def test_an_accepted_level_closes_what_was_open_and_hides_no_later_drop(place: int) -> None:
    values = [*FLAT, *slower(0.03, 5), *slower(0.06, 3)]
    made = rows(values)
    accepted = {made[place].line: Acceptance(made[place].began, at=7.0)}
    assert opened(values, accepted=accepted)[13:] == [
        *[None] * 2,
        "unconfirmed 15",
        *["step 15"] * 2,
    ]
    (closed,) = [one.closed for one in judged(values, accepted=accepted) if one.closed]
    assert (closed.since, closed.by, closed.at) == ("night-010", "person", 7.0)


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


# Judging from a night that is kept


class Cache:
    """Keeps nights as the index does."""

    def __init__(self) -> None:
        self.nights: list[NightState] = []
        self.judged: dict[str, Judged] = {}
        self.played: list[int] = []
        """Numbers of nights that were judged, by call."""

    def state(self, night: int) -> bytes | None:
        return next((kept.state for kept in self.nights if kept.night == night), None)

    def follow(self, rows: Sequence[GroupRow]) -> dict[str, Judged]:
        played = nights.play(rows, {}, self.nights, self.state)
        self.played.append(len(played.nights))
        kept = [night for night in self.nights if night.night <= played.after]
        self.nights = [*kept, *played.nights]
        for group_id, mark in played.revised.items():
            if group_id in self.judged:
                self.judged[group_id] = self.judged[group_id]._replace(mark=mark)
        self.judged |= played.judged
        ids = {row.group_id for row in rows}
        return {name: judged for name, judged in self.judged.items() if name in ids}


def of_several_cases(count: int = 24) -> list[list[GroupRow]]:
    """Return nights of four cases with odd sets, and with a step of the first."""
    draw = random.Random(3)
    odd = {(2, 6), (2, 12), (3, 8)}
    return [
        [
            night(n, f"{case}x8", [100 * (1 - drop) + draw.gauss(0, 0.2)]).row
            for case in range(1, 5)
            for drop in [0.04 if (case, n) in odd or (case == 1 and n >= 9) else 0.0]
        ]
        for n in range(count)
    ]


def test_a_store_that_grows_is_judged_as_one_that_is_judged_anew() -> None:
    cache = Cache()
    rows: list[GroupRow] = []
    for some in of_several_cases():
        rows += some
        assert cache.follow(rows) == nights.judge(rows)
        assert cache.follow(rows) == nights.judge(rows)
    assert set(cache.played[::2]) == {1}, "the new night alone"
    assert set(cache.played[1::2]) == {0}
    marks = {judged.mark.kind for judged in cache.judged.values() if judged.mark}
    assert marks >= {"step", "once", "back"}


def test_a_night_that_changes_or_goes_is_judged_anew() -> None:
    every = of_several_cases()
    rows = [row for some in every for row in some]
    cache = Cache()
    cache.follow(rows)
    changed = [row._replace(median=row.median and 0.9 * row.median) for row in every[11]]
    rows = [row for some in (*every[:11], changed, *every[12:]) for row in some]
    assert cache.follow(rows) == nights.judge(rows)
    without = [row for some in every[:11] for row in some]
    assert cache.follow(without) == nights.judge(without)
    assert cache.follow(rows) == nights.judge(rows)


def test_an_accepted_level_is_judged_from_its_night_on() -> None:
    rows = [row for some in of_several_cases() for row in some]
    digests = [
        {night.night: night.digest for night in nights.play(rows, accepted).nights}
        for accepted in ({}, {rows[0].line: Acceptance(rows[60].began, at=0.0)})
    ]
    same = [night for night in digests[0] if digests[0][night] == digests[1][night]]
    assert max(same) == night_of(rows[60].began) - 1
