"""Simulated error rates of the series of a case, as in docs/compare.md.

Made and real worlds are played night by night, and each night's marks are counted as they stood.
Each row has the rate that it must reach, with its standard error; so has each counted rate. The
tests play a part of a row and allow three standard errors of both. ``make golden`` plays all of it,
and updates the page's tables. Rates are kept, since both ask for the same.
"""

import functools
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from k8sbench.model.series import Open
from k8sbench.results.groups.case_state import FEWEST
from tests import struct_docs
from tests.results.groups.played import Store, night_of
from tests.results.groups.rates import Rate, rate, share
from tests.results.groups.worlds import (
    PLAIN,
    UNLIKE,
    Nights,
    Noise,
    made,
    real,
    real_changes,
    real_in_turn,
    size_of,
    slope,
    step,
    walk,
)
from tests.tiers import ROOT

PAGE = ROOT / "docs" / "compare.md"

soak = [pytest.mark.soak, pytest.mark.slow]
in_part_and_all = pytest.mark.parametrize("is_all", [False, pytest.param(True, marks=soak)])


def tries_of(tries: int, sets: int, is_all: bool) -> int:
    """Return how many histories of so many sets are played."""
    return tries if is_all else min(tries, max(2, 1500 // sets))


# -- nothing changed -------------------------------------------------------------------------------


class Chance(NamedTuple):
    """Rates of what is said where nothing changed for good."""

    marked: Rate
    """Nights with a mark of any case, per cent."""
    steps: Rate
    """Steps for 100 sets."""
    drifts: Rate
    """Drifts for 100 sets."""
    alternating: Rate
    """Cases and nights with two levels between which the case is said to alternate, per cent."""


class Quiet(NamedTuple):
    """Cases of which none changed for good."""

    name: str
    cases: int
    nights: int
    make: Noise | Callable[[random.Random], Nights]
    tries: int
    most: Chance
    begin: int = FEWEST
    """First night that counts."""
    own_sets: bool = False
    """True if each case of a night is a set of its own."""


def most(
    marked: float, marked_error: float, steps: float, steps_error: float, drifts: float = 0.07
) -> Chance:
    return Chance(
        Rate(marked, marked_error), Rate(steps, steps_error), Rate(drifts, 0.03), Rate(0.1, 0.05)
    )


def weekends(_case: int, night: int) -> float:
    return 0.005 if night % 7 > 4 else 0.0


def doubled(draw: random.Random, cases: int) -> Nights:
    """Make cases whose spread doubles after 30 nights."""
    return [
        [[5 + (run - 5) * (1 + (night >= 30)) for run in runs] for night, runs in enumerate(case)]
        for case in made(draw, cases, 60)
    ]


def with_gaps(draw: random.Random) -> Nights:
    """Make cases of which one is measured each third night, the others in nine of ten."""
    return [
        [
            runs if (night % 3 == 0 if case == 0 else draw.random() < 0.9) else []
            for night, runs in enumerate(nights)
        ]
        for case, nights in enumerate(made(draw, 6, 60))
    ]


def of_mixed_runs(draw: random.Random) -> Nights:
    """Make cases whose sets have one, three or five runs."""
    return [
        [runs[: draw.choice((1, 3, 3, 3, 5))] for runs in case]
        for case in made(draw, 6, 60, Noise(runs=5))
    ]


HOT = Noise(UNLIKE, heavy=True, odd=0.03)
"""Unlike cases with heavy tails and odd runs."""
ODD = Noise(heavy=True, odd=0.03, runs=1)
HALF = Noise(correlation=0.5)

QUIET = (
    Quiet("1 case", 1, 40, PLAIN, 300, most(0.3, 0.1, 0.1, 0.04, 0.12)),
    Quiet("1 case, correlation of nights 0.5", 1, 40, HALF, 300, most(1.2, 0.2, 1.0, 0.13, 0.12)),
    Quiet(
        "1 case, heavy tails, 3 % odd runs, one run",
        1,
        40,
        ODD,
        300,
        most(2.2, 0.2, 0.4, 0.06, 0.12),
    ),
    Quiet("6 cases", 6, 40, PLAIN, 60, most(0.5, 0.15, 0.04, 0.02)),
    Quiet(
        "6 unlike cases, heavy tails, odd runs, correlation 0.5, five runs",
        6,
        40,
        HOT._replace(correlation=0.5, runs=5),
        60,
        most(5.2, 0.6, 0.5, 0.07),
    ),
    Quiet("9 cases, correlation 0.5", 9, 40, HALF, 40, most(1.5, 0.3, 0.1, 0.03)),
    Quiet("9 unlike cases", 9, 40, Noise(UNLIKE), 40, most(0.5, 0.15, 0.04, 0.02)),
    Quiet(
        "9 unlike cases, heavy tails",
        9,
        40,
        Noise(UNLIKE, heavy=True),
        40,
        most(2.4, 0.4, 0.1, 0.03),
    ),
    Quiet(
        "22 unlike cases, heavy tails, odd runs, correlation 0.5",
        22,
        40,
        HOT._replace(correlation=0.5),
        25,
        most(5.1, 1.0, 0.1, 0.05),
    ),
    Quiet(
        "22 unlike cases, heavy tails, odd runs, one run",
        22,
        40,
        HOT._replace(runs=1),
        25,
        most(5.9, 0.8, 0.1, 0.03),
    ),
    Quiet(
        "1 real case, 10 nights",
        1,
        10,
        lambda draw: real_in_turn(draw, 1),
        600,
        most(2.2, 0.2, 0.1, 0.06),
    ),
    Quiet("9 real cases", 9, 30, lambda draw: real(draw, 9, 30), 50, most(2.2, 0.6, 0.1, 0.05)),
    Quiet(
        "9 real cases, three runs",
        9,
        30,
        lambda draw: real(draw, 9, 30, runs=3),
        50,
        most(2.2, 0.4, 0.1, 0.04),
    ),
    Quiet("22 real cases", 22, 40, lambda draw: real(draw, 22, 40), 25, most(4.2, 0.8, 0.1, 0.03)),
    Quiet(
        "9 real cases, 300 nights",
        9,
        300,
        lambda draw: real(draw, 9, 300),
        12,
        most(2.2, 0.4, 0.1, 0.03),
    ),
    Quiet("6 cases, 300 nights", 6, 300, PLAIN, 12, most(0.5, 0.15, 0.04, 0.02)),
    Quiet("6 cases, nights missing", 6, 60, with_gaps, 40, most(0.5, 0.15, 0.04, 0.02)),
    Quiet("6 cases, one to five runs", 6, 60, of_mixed_runs, 40, most(0.5, 0.15, 0.04, 0.02)),
    Quiet(
        "6 cases, weekends 0.5 % faster",
        6,
        60,
        lambda draw: made(draw, 6, 60, level=weekends),
        40,
        most(1.5, 0.3, 0.1, 0.03),
    ),
    Quiet(
        "1 case whose spread doubles",
        1,
        60,
        lambda draw: doubled(draw, 1),
        200,
        most(5.1, 0.3, 2.6, 0.2, 0.12),
        30,
    ),
    Quiet(
        "6 cases whose spread doubles",
        6,
        60,
        lambda draw: doubled(draw, 6),
        40,
        most(10.2, 0.8, 1.2, 0.1),
        30,
    ),
    Quiet(
        "40 jobs a night, each a set of its own, one run",
        40,
        40,
        Noise(runs=1),
        12,
        most(1.5, 0.4, 0.04, 0.02),
        own_sets=True,
    ),
)


@functools.cache
def by_chance(world: Quiet, tries: int) -> Chance:
    draw = random.Random(world.name)
    nights = world.nights - world.begin
    marked: list[float] = []
    changes: dict[str, list[float]] = {"step": [], "drift": []}
    alternating: list[float] = []
    for _ in range(tries):
        store = Store().play(nights_of(world, draw), own_sets=world.own_sets)
        said = [mark for mark in store.said if mark.night >= world.begin]
        shown = {mark.night for mark in said if mark.is_change or mark.kind == "unconfirmed"}
        marked.append(len(shown) / nights)
        for kind, shares in changes.items():
            # A drift that all cases share is said of each of them.
            shares.append(sum(mark.kind == kind for mark in said) / nights / world.cases)
        alternating.append(sum(map(len, store.alternating[world.begin :])) / nights / world.cases)
    sets = nights * world.cases
    return Chance(
        rate(marked, nights),
        *(rate(shares, sets) for shares in (*changes.values(), alternating)),
    )


def nights_of(world: Quiet, draw: random.Random) -> Nights:
    if isinstance(world.make, Noise):
        return made(draw, world.cases, world.nights, world.make)
    return world.make(draw)


@in_part_and_all
@pytest.mark.parametrize("world", QUIET, ids=[world.name for world in QUIET])
def test_few_nights_are_marked_where_nothing_changed(world: Quiet, is_all: bool) -> None:
    chance = by_chance(world, tries_of(world.tries, world.cases * world.nights, is_all))
    assert not chance.marked.exceeds(world.most.marked)
    assert not chance.steps.exceeds(world.most.steps)
    assert not chance.drifts.exceeds(world.most.drifts)
    # Some real programs do run at two speeds.
    alternating = Rate(2.5, 0.5) if "real" in world.name else world.most.alternating
    assert not chance.alternating.exceeds(alternating)


# -- steps -----------------------------------------------------------------------------------------


class Step(NamedTuple):
    """A lasting step after some nights, and how many histories must show it, per cent."""

    name: str
    nights: int
    """Nights before the step."""
    make: Callable[[random.Random], Nights]
    """Makes those nights and three slower ones; the first case changes."""
    first: float
    """Share that must be marked on the first night."""
    third: float
    """Share that must be a change by the third night."""
    once: float = 1
    """Most that may be called "once"."""


class Seen(NamedTuple):
    """Rates of a step."""

    first: Rate
    second: Rate
    third: Rate
    once: Rate


def made_step(
    size: float, cases: int, before: int, days: float = 0.003, slower: int = 1
) -> Callable[[random.Random], Nights]:
    level = step(size, before, cases=slower)
    return lambda draw: made(draw, cases, before + 3, Noise(days), level)


def real_step(small: bool) -> Callable[[random.Random], Nights]:
    """Return what draws a real change, of more than 1.1 % or a smaller one."""

    def make(draw: random.Random) -> Nights:
        sides = [sides for sides in real_changes() if (size_of(*sides) < 0.011) == small]
        before, after = draw.choice(sides)
        return [[[run] for run in [*draw.sample(before, 6), *draw.sample(after, 3)]]]

    return make


STEPS = (
    Step("−2 % in 1 of 6 cases", 5, made_step(-0.02, 6, 5), 6, 96),
    Step("−2 % in 1 of 6 cases", 10, made_step(-0.02, 6, 10), 67, 100),
    Step("−2 % in 1 of 6 cases", 20, made_step(-0.02, 6, 20), 90, 100),
    Step("−3 % in 1 of 6 cases", 20, made_step(-0.03, 6, 20), 99, 100),
    Step("−2 % in all 6 cases", 5, made_step(-0.02, 6, 5, slower=6), 100, 98),
    Step("−1 % in all 6 cases", 20, made_step(-0.01, 6, 20, slower=6), 92, 80, 5),
    Step("−1 % in 1 of 9 cases", 20, made_step(-0.01, 9, 20), 5, 77),
    Step("−2 %, 1 case", 5, made_step(-0.02, 1, 5), 25, 95),
    Step("−2 %, 1 case", 20, made_step(-0.02, 1, 20), 92, 100),
    Step("−2 %, 1 case, 0.5 % between sets", 10, made_step(-0.02, 1, 10, 0.005), 8, 83),
    Step("−2 %, 1 case, 0.5 % between sets", 20, made_step(-0.02, 1, 20, 0.005), 34, 94),
    Step("−2 %, 1 case, 0.5 % between sets", 40, made_step(-0.02, 1, 40, 0.005), 56, 96),
    Step("1.1 to 5.3 %, real runs", 6, real_step(small=False), 86, 100),
    Step("0.3 to 0.6 %, real runs", 6, real_step(small=True), 30, 62),
)
STEP_TRIES = 200


@functools.cache
def seen(change: Step, tries: int) -> Seen:
    draw = random.Random(f"{change.name} {change.nights}")
    before = change.nights
    first, second, third, once = [], [], [], []
    for _ in range(tries):
        said = [mark for mark in Store().play(change.make(draw)).said if mark.case == 0]
        confirmed = [
            mark.night for mark in said if mark.is_change and abs(mark.since - before) <= 1
        ]
        first.append(any(mark.night == mark.at == before for mark in said if mark.kind != "back"))
        second.append(min(confirmed, default=before + 3) <= before + 1)
        third.append(bool(confirmed))
        once.append(
            not confirmed and any(mark.kind == "once" and mark.at >= before for mark in said)
        )
    return Seen(share(first), share(second), share(third), share(once))


@in_part_and_all
@pytest.mark.parametrize("change", STEPS, ids=[f"{one.name}, {one.nights} before" for one in STEPS])
def test_a_lasting_step_is_confirmed_and_hardly_ever_called_once(
    change: Step, is_all: bool
) -> None:
    rates = seen(change, STEP_TRIES if is_all else 25)
    assert not rates.first.misses(Rate(change.first, 2.5))
    assert not rates.third.misses(Rate(change.third, 2))
    assert not rates.once.exceeds(Rate(change.once, 1))


def test_few_lasting_changes_of_all_cases_are_called_once() -> None:
    change = next(change for change in STEPS if change.once > 1)
    assert not seen(change, 80).once.exceeds(Rate(change.once, 1))


def test_a_step_is_hardly_ever_called_a_drift() -> None:
    draw = random.Random("step or drift")
    kinds = []
    for _ in range(40):
        said = Store().play(made(draw, 3, 26, level=step(-0.01, 20))).said
        kinds += [mark.kind for mark in said if mark.case == 0 and mark.is_change][:1]
    assert not share(kind == "drift" for kind in kinds).exceeds(Rate(2, 2))


@functools.cache
def bystanders(tries: int) -> Rate:
    """Return how often −1 % in four of six cases marks another one on its first night."""
    draw = random.Random("bystanders")
    level = step(-0.01, 20, cases=4)
    shares = []
    for _ in range(tries):
        said = Store().play(made(draw, 6, 21, level=level)).said
        shares.append(len({mark.case for mark in said if mark.night == 20 and mark.case >= 4}) / 2)
    return rate(shares, 2)


@in_part_and_all
def test_most_cases_together_seldom_mark_the_others(is_all: bool) -> None:
    assert not bystanders(300 if is_all else 25).exceeds(Rate(10, 2))


FOLLOWED_TRIES = 100


class Followed(NamedTuple):
    """Rates of a second step after one of −3 % or −2 %."""

    seen: Rate
    closed: Rate
    """Histories that have nothing open at the end."""


@functools.cache
def followed(second: float, gap: int, tries: int) -> Followed:
    draw = random.Random(f"{second} {gap}")
    first = step(-0.03 if second > 0 else -0.02, 8)
    later = step(second, 8 + gap)

    def level(case: int, night: int) -> float:
        return first(case, night) + later(case, night)

    shown, closed = [], []
    for _ in range(tries):
        store = Store().play(made(draw, 6, 18 + gap, level=level))
        shown.append(
            any(
                mark.case == 0 and mark.is_change and abs(mark.since - 8 - gap) <= 1
                for mark in store.said
            )
        )
        closed.append(0 not in store.open[-1])
    return Followed(share(shown), share(closed))


@in_part_and_all
def test_a_drop_that_is_rolled_back_is_closed_and_a_second_drop_is_seen(is_all: bool) -> None:
    tries = FOLLOWED_TRIES if is_all else 20
    for gap in (2, 3, 4):
        rates = followed(0.03, gap, tries)
        assert not rates.seen.misses(Rate(100, 1))
        assert not rates.closed.misses(Rate(97, 1))
    rates = followed(-0.02, 2, tries)
    assert not rates.seen.misses(Rate(95, 2))
    assert rates.closed.value == 0


EARLY = ((1, -0.05, 0), (2, -0.02, 25), (3, -0.02, 65), (3, -0.05, 78))
"""Nights before a step among the first ones, its size, and the least share that shows it.

Fewer than four nights are hardly a level: less is promised there.
"""


@functools.cache
def early(before: int, size: float, tries: int) -> Rate:
    """Return the share of histories in which a step among the first nights is seen by night 14."""
    draw = random.Random(f"{before} {size}")
    level = step(size, before)
    return share(
        any(
            mark.case == 0 and mark.is_change and abs(mark.since - before) <= 1
            for mark in Store().play(made(draw, 6, 14, level=level)).said
        )
        for _ in range(tries)
    )


@in_part_and_all
@pytest.mark.parametrize(("before", "size", "least"), EARLY)
def test_a_step_among_the_first_nights_is_seen(
    before: int, size: float, least: float, is_all: bool
) -> None:
    assert not early(before, size, 100 if is_all else 20).misses(Rate(least, 2))


def test_one_night_that_is_slower_is_called_once() -> None:
    draw = random.Random(1)
    level = step(-0.03, 20, until=21)
    rates = share(
        any(
            mark.at == 20 and mark.case == 0 and mark.kind == "once"
            for mark in Store().play(made(draw, 6, 23, level=level)).said
        )
        for _ in range(20)
    )
    assert not rates.misses(Rate(97, 2))


@functools.cache
def slow_nights(tries: int) -> tuple[Rate, Rate]:
    """Return how often two nights on which all cases are 2 % slower are seen, and stay open."""
    draw = random.Random("two nights")
    level = step(-0.02, 20, until=22, cases=6)
    shown, still = [], []
    for _ in range(tries):
        store = Store().play(made(draw, 6, 34, level=level))
        changed = {mark.case for mark in store.said if mark.is_change and abs(mark.since - 20) <= 1}
        shown.append(len(changed) / 6)
        still.append(len(store.open[-1]) / 6)
    return rate(shown, 6), rate(still, 6)


@in_part_and_all
def test_two_slow_nights_of_all_cases_are_seen_and_closed(is_all: bool) -> None:
    shown, still = slow_nights(60 if is_all else 6)
    assert not shown.misses(Rate(98, 1))
    assert not still.exceeds(Rate(2, 1))


# -- drifts ----------------------------------------------------------------------------------------


class Drift(NamedTuple):
    """A drift of each night after some, and how many histories must show it before −2.5 %."""

    size: float
    cases: int
    drifting: int
    nights: int
    """Nights before the drift."""
    tries: int
    least: Rate


DRIFTS = (
    Drift(-0.003, 1, 1, 0, 100, Rate(75, 4)),
    Drift(-0.003, 1, 1, 20, 100, Rate(95, 2)),
    Drift(-0.003, 6, 1, 0, 50, Rate(75, 5)),
    Drift(-0.003, 6, 1, 20, 50, Rate(95, 3)),
    Drift(-0.003, 6, 6, 0, 50, Rate(92, 4)),
    Drift(-0.003, 6, 6, 20, 50, Rate(94, 3)),
    Drift(-0.003, 20, 20, 0, 15, Rate(100, 3)),
    Drift(-0.003, 20, 20, 20, 15, Rate(100, 3)),
    Drift(-0.001, 1, 1, 0, 100, Rate(99, 1)),
    Drift(-0.001, 1, 1, 20, 100, Rate(99, 1)),
    Drift(-0.001, 6, 6, 0, 50, Rate(100, 1)),
    Drift(-0.001, 6, 6, 20, 50, Rate(100, 1)),
    Drift(-0.001, 20, 20, 0, 15, Rate(100, 3)),
    Drift(-0.001, 20, 20, 20, 15, Rate(100, 3)),
)


class Drifted(NamedTuple):
    """Rates of a drift."""

    seen: Rate
    """Open before −2.5 %."""
    begin: Rate
    """Open, and since a night at most five from its begin."""


@functools.cache
def drifted(drift: Drift, tries: int) -> Drifted:
    draw = random.Random(f"{drift[:4]}")
    begin = drift.nights
    level = slope(drift.size, begin, cases=drift.drifting)
    shown, near = [], []
    for _ in range(tries):
        store = Store().play(
            made(draw, drift.cases, begin + int(0.025 / -drift.size) + 1, level=level)
        )
        since = [night_of(opened[0].since) for opened in store.open if 0 in opened]
        since = [night for night in since if night >= begin - 5]
        shown.append(bool(since))
        near.append(bool(since) and abs(since[0] - begin) <= 5)
    return Drifted(share(shown), share(near))


@in_part_and_all
@pytest.mark.parametrize("drift", DRIFTS, ids=[str(drift[:4]) for drift in DRIFTS])
def test_a_drift_is_open_before_two_and_a_half_per_cent(drift: Drift, is_all: bool) -> None:
    nights = drift.nights + int(0.025 / -drift.size)
    tries = tries_of(drift.tries, drift.cases * nights, is_all)
    assert not drifted(drift, tries).seen.misses(drift.least)


def test_a_drift_that_no_case_shows_alone_is_said_of_most_of_them() -> None:
    draw = random.Random("together")
    level = slope(-0.001, 0, cases=6)
    together = share(
        any(
            mark.kind == "drift" and mark.together >= 5
            for mark in Store().play(made(draw, 6, 26, level=level)).said
        )
        for _ in range(10)
    )
    assert not together.misses(Rate(80, 5))


# -- what stays open -------------------------------------------------------------------------------


class Since(NamedTuple):
    """A drop after many nights without one."""

    size: float
    cases: int
    tries: int
    right: tuple[Rate, Rate]
    """Least share whose begin is right within one night, after 100 and after 300 nights."""


SINCE = (
    Since(-0.02, 1, 80, (Rate(100, 1), Rate(100, 1))),
    Since(-0.02, 3, 30, (Rate(100, 1), Rate(98, 2))),
    Since(-0.02, 6, 15, (Rate(100, 1), Rate(100, 1))),
    Since(-0.01, 1, 80, (Rate(93, 3), Rate(88, 4))),
    Since(-0.01, 3, 30, (Rate(95, 3), Rate(96, 2))),
    Since(-0.01, 6, 15, (Rate(97, 2), Rate(95, 3))),
)
LONG = (100, 300)


class Begins(NamedTuple):
    """Rates of what is open five nights after a drop of a case."""

    open: Rate
    right: Rate
    """Since the night of the drop, or the next one; of those that are open."""


@functools.cache
def begins(size: float, cases: int, tries: int, before: tuple[int, ...]) -> list[Begins]:
    """Return the rates after each number of nights; each case has its turn."""
    draw = random.Random(f"{size} {cases}")
    is_open: list[list[float]] = [[] for _ in before]
    right: list[list[float]] = [[] for _ in before]
    for _ in range(tries):
        world = made(draw, cases, before[-1] + 5)
        store = Store()
        for place, nights in enumerate(before):
            store.play(_cut(world, store.nights, nights))
            for case in range(cases):
                opened = _after_drop(store, world, case, size).get(case)
                is_open[place].append(opened is not None)
                if opened is not None:
                    right[place].append(abs(night_of(opened.since) - nights) <= 1)
    return [Begins(*map(share, rates)) for rates in zip(is_open, right, strict=True)]


def _after_drop(store: Store, world: Nights, case: int, size: float) -> dict[int, Open]:
    """Return what is open five nights after a drop of a case."""
    slower = [
        [[run + size * (number == case) for run in runs] for runs in nights]
        for number, nights in enumerate(_cut(world, store.nights, store.nights + 5))
    ]
    return store.copy().play(slower).open[-1]


def _cut(world: Nights, begin: int, end: int) -> Nights:
    return [nights[begin:end] for nights in world]


def test_what_is_open_after_100_nights_begins_with_the_step() -> None:
    for size, cases, right in ((-0.02, 1, 100), (-0.02, 3, 100), (-0.01, 3, 95)):
        (rates,) = begins(size, cases, 8 // cases, (100,))
        assert not rates.right.misses(Rate(right, 2))


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("since", SINCE, ids=[str(since[:2]) for since in SINCE])
def test_what_is_open_begins_with_the_step_and_not_with_chance_before_it(since: Since) -> None:
    for rates, least in zip(begins(*since[:3], LONG), since.right, strict=True):
        assert not rates.right.misses(least)


LASTING = ((-0.01, 1, 60, 97), (-0.01, 3, 60, 95), (-0.01, 6, 30, 100))
"""Size of a drop at night 20, cases, histories, least share that is open 200 nights later."""


@functools.cache
def lasting(size: float, cases: int, tries: int) -> Rate:
    draw = random.Random(f"{size} {cases}")
    return share(
        0 in Store().play(made(draw, cases, 221, level=step(size, 20))).open[-1]
        for _ in range(tries)
    )


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize(("size", "cases", "tries", "least"), LASTING)
def test_a_drop_that_lasts_stays_open(size: float, cases: int, tries: int, least: float) -> None:
    assert not lasting(size, cases, tries).misses(Rate(least, 2))


FALSE_OPEN = (
    ("3 cases", 3, PLAIN, 40, Rate(1, 0.5)),
    ("20 cases, correlation 0.5", 20, HALF, 12, Rate(15, 4)),
    ("20 cases, 1 % between sets", 20, Noise(0.01), 12, Rate(13, 4)),
)
"""Cases without a change, histories of 60 nights, and the most nights with a false open drop."""


@functools.cache
def false_open(name: str, cases: int, noise: Noise, tries: int) -> Rate:
    draw = random.Random(name)
    shares = []
    for _ in range(tries):
        store = Store().play(made(draw, cases, 60, noise))
        shares.append(sum(map(bool, store.open)) / 60)
    return rate(shares, 60)


@in_part_and_all
@pytest.mark.parametrize(("name", "cases", "noise", "tries", "most_open"), FALSE_OPEN)
def test_few_nights_have_a_false_open_drop(
    name: str, cases: int, noise: Noise, tries: int, most_open: Rate, is_all: bool
) -> None:
    tries = tries_of(tries, cases * 60, is_all)
    assert not false_open(name, cases, noise, tries).exceeds(most_open)


def wandering(cases: int, tries: int) -> Rate:
    """Return the share of nights with a mark where each case is a random walk of 0.3 % a night."""
    draw = random.Random(cases)
    shares = []
    for _ in range(tries):
        world = made(draw, cases, 60, level=walk(draw, cases, 60, 0.003))
        said = Store().play(world).said
        shares.append(len({mark.night for mark in said if mark.is_change}) / 60)
    return rate(shares, 60)


# -- the page --------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.slow
def test_the_page_states_what_is_found_golden() -> None:
    lines = [
        "| lasting step | nights before | first night, % | second night | third night | once |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {change.name} | {change.nights} | {cells(seen(change, STEP_TRIES))} |"
        for change in STEPS
    ]
    lines += ["", "| six cases, one changes | seen, % | nothing open later |", "|---|---:|---:|"]
    for words, second, gaps in (("rolled back", 0.03, (2, 3, 4)), ("again −2 %", -0.02, (2, 3))):
        first = "−3 %" if second > 0 else "−2 %"
        for gap in gaps:
            after = f"{first}, {words} after {gap} nights"
            lines.append(f"| {after} | {cells(followed(second, gap, FOLLOWED_TRIES))} |")
    shown, still = slow_nights(60)
    closed = Rate(100 - still.value, still.error)
    lines.append(f"| two nights, all cases 2 % slower | {cells((shown, closed))} |")
    for before, size, _ in EARLY:
        name = f"−{-100 * size:g} % from night {before + 1} of all, by night 14"
        lines.append(f"| {name} | {early(before, size, 100)} | |")
    lines += [
        "",
        "| drift | nights before | open before −2.5 %, % | since within five nights |",
        "|---|---:|---:|---:|",
    ]
    for drift in DRIFTS:
        some = "1 case" if drift.cases == 1 else f"{drift.drifting} of {drift.cases} cases"
        name = f"−{-100 * drift.size:g} % a night, {some}"
        lines.append(f"| {name} | {drift.nights} | {cells(drifted(drift, drift.tries))} |")
    lines += [
        "",
        "| one case | cases | nights before | open five nights later, % | since is right |",
        "|---|---:|---:|---:|---:|",
    ]
    for since in SINCE:
        for nights, rates in zip(LONG, begins(*since[:3], LONG), strict=True):
            name = f"−{-100 * since.size:g} %"
            lines.append(f"| {name} | {since.cases} | {nights} | {cells(rates)} |")
    lines += [
        "",
        "| drop of one case at night 20 | cases | open at night 220, % |",
        "|---|---:|---:|",
    ]
    for size, cases, tries, _ in LASTING:
        lines.append(f"| −{-100 * size:g} % | {cases} | {lasting(size, cases, tries)} |")
    struct_docs.assert_generated(PAGE, "series-found", "\n".join(lines))


@pytest.mark.soak
@pytest.mark.slow
def test_the_page_states_what_is_marked_by_chance_golden() -> None:
    lines = [
        "| nothing changed | nights with a mark, % | steps for 100 sets | drifts | alternating |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [f"| {world.name} | {cells(by_chance(world, world.tries))} |" for world in QUIET]
    lines += ["", "| nothing changed, 60 nights | nights with a false open drop, % |", "|---|---:|"]
    for name, cases, noise, tries, _ in FALSE_OPEN:
        lines.append(f"| {name} | {false_open(name, cases, noise, tries)} |")
    lines += ["", "| random walk of 0.3 % a night | nights with a new change, % |", "|---|---:|"]
    for cases, tries in ((1, 60), (6, 20)):
        name = "1 case" if cases == 1 else f"{cases} cases"
        lines.append(f"| {name} | {wandering(cases, tries)} |")
    struct_docs.assert_generated(PAGE, "series-chance", "\n".join(lines))


def cells(rates: Sequence[Rate]) -> str:
    return " | ".join(map(str, rates))
