"""The range of a series: which sets fix it, what they cover, and what is compared over it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest

from k8sbench.messages import note
from k8sbench.model.group import Group, GroupRow
from k8sbench.model.measurement import Profile
from k8sbench.model.plan import WHOLE_LOG, PlannedWindow
from k8sbench.model.profile import next_point
from k8sbench.model.run import Run
from k8sbench.results.groups import comparison, grouping, history, ranges
from k8sbench.results.groups.case_state import FEWEST
from k8sbench.results.groups.sides import Side
from k8sbench.results.report import range_words
from tests.results.groups.grouped import Grouped
from tests.results.groups.sides import compared
from tests.results.report.factory import START, run
from tests.results.said import texts
from tests.unit.presence import present

DAY = 86400


def profile(end: int, samples: float, seconds: float = 0.5) -> Profile:
    """Return the profile of a run of equal steps."""
    points = [1]
    while (point := next_point(points[-1])) < end:
        points.append(point)
    points.append(end)
    return Profile(
        points=tuple(points),
        iterations=tuple(map(float, points)),
        seconds=tuple(seconds * point for point in points),
        samples=tuple(samples * point for point in points),
    )


def ended(
    end: int,
    night: int = 0,
    *,
    samples: float = 1024,
    seconds: float = 0.5,
    planned: int | None = 1000,
    measured: dict[str, Any] | None = None,
    **fields: Any,
) -> Run:
    """Return a run of somebody else's program that ended after so many iterations."""
    window = PlannedWindow(
        warmup=20, iterations=end - 20, log_interval=1, min_steady_seconds=0.0, rule=WHOLE_LOG
    )
    stated = {} if planned is None else {"planned_iterations": planned}
    found = {
        "iterations": end - 20,
        "profile": profile(end, samples, seconds),
        "environment": stated,
        **(measured or {}),
    }
    values = {"set_name": f"night-{night}", "backend": "imported", "fingerprint": None, **fields}
    return run(samples / seconds, at=START + night * DAY, window=window, measured=found, **values)


def groups(runs: Iterable[Run]) -> list[Group]:
    return sorted(grouping.groups(runs), key=lambda group: group.began)


def rows_of(lengths: Sequence[int]) -> list[GroupRow]:
    """Return a set a night, each with one run of such a length."""
    return [group.row for group in groups(ended(end, night) for night, end in enumerate(lengths))]


@pytest.mark.parametrize(
    ("lengths", "nights"),
    [
        ([300, 310, 290], None),
        ([300, 310, 290, 330, 320], [0, 1, 2, 3]),
        ([300, 60, 310, 290], None),
        ([300, 60, 310, 290, 330], [0, 2, 3, 4]),
        ([60, 60, 60, 300, 300], [0, 1, 2, 3]),
    ],
)
def test_the_first_four_sets_that_reach_half_of_the_median_length_fix_it(
    lengths: list[int], nights: list[int] | None
) -> None:
    due = ranges.due(rows_of(lengths), ())
    found = [[row.set_name for row in rows] for rows in due.values()]
    assert found == ([] if nights is None else [[f"night-{night}" for night in nights]])


def test_sets_that_are_not_judged_are_no_earlier_sets() -> None:
    rows = rows_of([300, 60, 60])
    short = [row._replace(range="20+268", in_range=None) for row in rows[1:]]
    judged = rows[0]._replace(began=rows[2].began + 1)
    found = [history.why_unchanged(some).args["why"] for some in ([*short, judged], rows)]
    assert found == [
        note("unjudged-few-sets", fewest=FEWEST, there=there)
        for there in (note("sets-before-judged", number=0), note("sets-before", number=2))
    ]


def test_a_range_that_is_fixed_is_not_due() -> None:
    rows = rows_of([300] * 5)
    assert ranges.due(rows, {rows[0].line}) == {}


def test_the_order_of_import_decides_nothing() -> None:
    rows = rows_of([300, 310, 290, 330, 250])
    assert ranges.due(rows[::-1], ()) == ranges.due(rows, ())


def test_sets_of_several_lengths_are_covered_to_a_point_that_all_share() -> None:
    over = ranges.covered(groups(ended(end, end) for end in (300, 290, 330)))
    assert over is not None
    assert (over.begin, over.end, over.planned) == (20, 288, "1000 iterations")


@pytest.mark.parametrize(("lengths", "end"), [((300, 290, 330), None), ((300, 300, 300), 300)])
def test_a_set_without_a_profile_fixes_no_range_with_sets_of_other_lengths(
    lengths: tuple[int, ...], end: int | None
) -> None:
    runs = [ended(length, night) for night, length in enumerate(lengths)]
    runs.append(ended(300, 9, measured={"profile": None}))
    over = ranges.fixed_by(groups(runs))
    assert (over and over.end) == end
    assert ranges.covered(groups(runs)) is not None


def test_one_short_run_of_a_set_shortens_no_range() -> None:
    runs = [ended(end, 0, repeat=n) for n, end in enumerate((300, 60, 310), 1)]
    over = ranges.covered(groups([*runs, ended(320, 1)]))
    assert over is not None
    assert over.end == 288


def test_the_runs_of_a_set_that_are_too_short_are_no_part_of_its_figure() -> None:
    runs = [ended(300, 0, repeat=1), ended(60, 0, repeat=2, seconds=0.52)]
    (group,) = groups(runs)
    over = ranges.covered(groups([ended(300, 1)]))
    assert over is not None
    assert group.rates_over(over) == [pytest.approx(2048)]


def test_a_length_is_no_part_of_the_key_and_former_ids_name_the_group() -> None:
    (group,) = groups([ended(300, 0, repeat=1), ended(310, 0, repeat=2)])
    formers = [group.key.former(window) for window in ("20+280", "20+290")]
    assert group.key.window == "-"
    assert group.row.former_id.split(",") == [former.id for former in formers]
    assert [line[0] for line in group.row.former_lines] == [former.series for former in formers]


def test_the_window_of_a_benchmark_stays_part_of_the_case() -> None:
    (group,) = groups([run(100.0)])
    assert (group.key.window, group.row.former_id, group.row.reaches) == ("20+100", "", None)


def test_planned_lengths_of_evaluated_runs_are_groups_of_one_series() -> None:
    key = groups([ended(300)])[0].key
    other = msgspec.structs.replace(key, training="90 epochs")
    assert other.id != key.id
    assert other.series == key.series
    assert not key.differs(other, "training")
    named = msgspec.structs.replace(key, window="20+100")
    assert named.series != msgspec.structs.replace(named, training="90 epochs").series


NO_BATCH: dict[str, Any] = {"batch_size": 0, "planned": None}


@pytest.mark.parametrize(("samples", "unlike"), [(1024, ()), (2048, ("batch",))])
def test_runs_that_consume_alike_need_no_stated_batch(
    samples: int, unlike: tuple[str, ...]
) -> None:
    (case,) = compared(
        [ended(300, 0, **NO_BATCH)], [ended(320, 1, samples=samples, **NO_BATCH)]
    ).cases
    assert case.not_comparable == unlike


def test_sides_of_one_plan_are_compared_whatever_other_sets_planned() -> None:
    def slower_at_the_end(night: int) -> Run:
        made = profile(300, 1024)
        later = tuple(s + max(0, p - 150) for p, s in zip(made.points, made.seconds, strict=True))
        return ended(300, night, measured={"profile": msgspec.structs.replace(made, seconds=later)})

    a, b = groups(slower_at_the_end(night) for night in (0, 1))
    fixed = ranges.covered(groups([ended(290, 2), ended(310, 3)]))
    assert fixed is not None
    of_others = msgspec.structs.replace(fixed, planned=None)
    sides = [msgspec.structs.replace(group, range=of_others) for group in (a, b)]
    assert sides[0].rates_over(of_others) == []
    over = ranges.shared(sides[:1], sides[1:])
    assert over is not None
    assert (over.end, len(sides[0].rates_over(over))) == (fixed.end, 1)


@pytest.mark.parametrize(
    ("planned", "forbidden"), [(1000, ()), (900, ("schedule",)), (None, ("schedule",))]
)
def test_runs_whose_batch_grows_are_compared_if_all_state_one_planned_length(
    planned: int | None, forbidden: tuple[str, ...]
) -> None:
    def grows(end: int, night: int, planned: int | None) -> Run:
        made = profile(end, 1024)
        more = tuple(1024.0 * (point + max(0, point - 150)) for point in made.points)
        measured = {"profile": msgspec.structs.replace(made, samples=more)}
        return ended(end, night, planned=planned, measured=measured)

    (case,) = compared([grows(300, 0, 1000)], [grows(310, 1, planned)]).cases
    assert case.not_comparable == forbidden
    assert (case.ratio is None) == bool(forbidden)
    words = " ".join(texts(range_words.without_ratio(case)))
    assert ("the planned lengths differ or are not stated" in words) == bool(forbidden)


REJECTED = {"verdict": "rejected", "throughput": None}


@pytest.mark.parametrize("hours", [-1, 1])
@pytest.mark.parametrize(
    ("end", "measured", "why", "has_range"),
    [
        (60, None, "too short", True),
        (300, REJECTED, "rejected", True),
        (300, REJECTED, "rejected", False),
    ],
)
def test_another_set_of_a_night_that_has_no_figure_is_left_out(
    hours: int, end: int, measured: dict[str, Any] | None, why: str, *, has_range: bool
) -> None:
    nights = groups(ended(300, n, seconds=0.5 + n / 10000) for n in range(6))
    now = ended(300, 6, seconds=0.55)
    other = ended(end, measured=measured, set_name="another")
    other = msgspec.structs.replace(other, created_at=now.created_at + 3600 * hours)
    over = ranges.covered(nights) if has_range else None
    *among, before = (msgspec.structs.replace(group, range=over) for group in nights)
    b = [msgspec.structs.replace(group, range=over) for group in groups([now, other])]
    sides = (Side(name="", groups=tuple(its), runs={}) for its in ([before], b))
    (case,) = comparison.compare(*sides, earlier=Grouped([*among, before, *b])).cases
    assert (case.finding, case.not_comparable) == ("slower", ())
    assert present(case.ratio) == pytest.approx(0.5005 / 0.55, rel=1e-6)
    assert case.left_out == (f"B: without another ({why}).",)
    assert present(case.b).sets == ("night-6",)
    assert case.over is not None


def test_sides_without_any_figure_over_the_range_say_why() -> None:
    over = ranges.covered(groups([ended(300)]))
    a, b, short = (
        msgspec.structs.replace(group, range=over)
        for group in groups([ended(300, 1), ended(60, 2), ended(50, 3)])
    )
    sides = (Side(name="", groups=its, runs={}) for its in ((a,), (b, short)))
    (case,) = comparison.compare(*sides).cases
    assert (case.ratio, case.not_comparable, case.left_out) == (None, ("too-short",), ())
    assert present(case.b).sets == ("night-2", "night-3")


def test_two_short_sets_of_one_length_are_compared_over_what_both_cover() -> None:
    nights = groups(ended(300, n, seconds=0.5 + n / 10000) for n in range(6))
    short = groups([ended(60, 6), ended(60, 7, seconds=0.55)])
    over = ranges.covered(nights)
    *among, a, b = (msgspec.structs.replace(group, range=over) for group in (*nights, *short))
    sides = (Side(name="", groups=(group,), runs={}) for group in (a, b))
    (case,) = comparison.compare(*sides, earlier=Grouped([*among, a, b])).cases
    assert (case.finding, case.not_comparable) == ("slower", ())
    assert present(case.ratio) == pytest.approx(0.5 / 0.55)
    assert present(case.over).text == "20+40 of 1000 iterations"
    assert present(case.low) <= present(case.ratio) - 1 <= present(case.high)
    # A short set beside one that is long enough is still too short.
    sides = (Side(name="", groups=(group,), runs={}) for group in (among[0], b))
    (case,) = comparison.compare(*sides).cases
    assert case.not_comparable == ("too-short",)


@pytest.mark.parametrize(
    ("later", "count", "has_other"),
    [
        ([300], 0, False),
        ([60], 1, False),
        ([60, 70], 2, False),
        ([60, 70, 60], 3, True),
        ([60, 300, 60, 70], 2, True),
        ([60, 70, 60, 300], 0, False),
    ],
)
def test_sets_are_unjudged_if_the_newest_ones_have_no_figure_over_the_range(
    later: list[int], count: int, *, has_other: bool
) -> None:
    fixed = groups(ended(300, night) for night in range(4))
    made = [*fixed, *groups(ended(end, 4 + night) for night, end in enumerate(later))]
    over = ranges.covered(fixed)
    found = ranges.unjudged(msgspec.structs.replace(group, range=over) for group in made)
    assert (len(found.groups) if found else 0) == count
    assert (found is not None and found.has_other_range) == has_other


def test_a_rejected_newest_set_does_not_judge_those_before() -> None:
    fixed = groups(ended(300, night) for night in range(4))
    later = groups([ended(60, 4), ended(60, 5, measured=REJECTED)])
    over = ranges.covered(fixed)
    made = [msgspec.structs.replace(group, range=over) for group in (*fixed, *later)]
    assert [group.key.set_name for group in present(ranges.unjudged(made)).groups] == ["night-4"]
    assert ranges.unjudged(groups(ended(60, night) for night in range(4))) is None
