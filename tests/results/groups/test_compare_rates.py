"""Simulated error rates of ``compare``, as in docs/compare.md.

The newest set of each case is compared with the one before, in made and in real worlds, from fixed
seeds. ``make golden`` updates the page's tables.
"""

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from k8sbench.model.compared import Compared
from k8sbench.model.group import Group
from tests import struct_docs
from tests.results.groups.grouped import newest_nights
from tests.results.groups.nights import night
from tests.results.groups.rates import Rate, share
from tests.results.groups.worlds import PLAIN, UNLIKE, Nights, Noise, made, real, step
from tests.tiers import ROOT

PAGE = ROOT / "docs" / "compare.md"
FIRST = "1x8"
"""The case that changes."""
SIZES = (0.01, 0.02, 0.05)

soak = [pytest.mark.soak, pytest.mark.slow]


class Sides(NamedTuple):
    """Cases whose newest set is compared, after some earlier ones."""

    name: str
    cases: int
    make: Noise | Callable[[random.Random, int], Nights]
    earlier: int
    """Earlier sets of each case."""
    false: Rate
    """Most comparisons with a verdict though nothing changed, per cent."""
    seen: tuple[float, float, float]
    """Least comparisons in which −1, −2 and −5 % of the first case are found, per cent."""


ODD = Noise(UNLIKE, heavy=True, odd=0.03, runs=1)
HALF = Noise(UNLIKE, correlation=0.5, heavy=True, odd=0.03)


def nine_real(draw: random.Random, count: int) -> Nights:
    return real(draw, 9, count)


COMPARED = (
    Sides("1 case", 1, PLAIN, 1, Rate(1, 1), (14, 80, 99)),
    Sides("1 case", 1, PLAIN, 4, Rate(2.3, 1), (37, 88, 100)),
    Sides("1 case", 1, PLAIN, 8, Rate(2, 1), (42, 97, 100)),
    Sides("9 cases", 9, PLAIN, 1, Rate(2, 1), (12, 80, 99)),
    Sides("9 cases", 9, PLAIN, 4, Rate(0, 0.5), (0, 10, 99)),
    Sides("9 cases", 9, PLAIN, 8, Rate(0, 0.5), (7, 78, 100)),
    Sides("9 unlike cases", 9, Noise(UNLIKE), 4, Rate(1, 1), (2, 43, 83)),
    Sides("9 unlike cases", 9, Noise(UNLIKE), 8, Rate(1, 1), (33, 65, 92)),
    Sides("9 unlike cases, heavy tails, odd runs, one run", 9, ODD, 4, Rate(14, 2), (3, 36, 74)),
    Sides("9 unlike cases, heavy tails, odd runs, one run", 9, ODD, 8, Rate(16, 2), (22, 46, 73)),
    Sides(
        "22 unlike cases, heavy tails, odd runs, correlation 0.5",
        22,
        HALF,
        8,
        Rate(7, 1.3),
        (28, 64, 90),
    ),
    Sides("9 real cases", 9, nine_real, 4, Rate(4.5, 1), (65, 94, 99)),
    Sides("9 real cases", 9, nine_real, 8, Rate(5, 1), (83, 95, 100)),
)
NAMES = [f"{sides.name}, {sides.earlier} earlier" for sides in COMPARED]


def verdicts(groups: Sequence[Group]) -> list[str]:
    """Compare the newest two nights; return the cases that are called faster or slower."""
    compared = newest_nights(groups)
    assert compared is not None
    return [case.group.key.case for case in compared.cases if is_verdict(case)]


def is_verdict(case: Compared) -> bool:
    return case.finding in ("faster", "slower")


def groups_of(world: Nights) -> list[Group]:
    """Return the groups of a world's nights."""
    return [
        night(number, f"{case + 1}x8", [math.exp(run) for run in runs])
        for case, of_case in enumerate(world)
        for number, runs in enumerate(of_case)
    ]


def world_of(sides: Sides, draw: random.Random, size: float = 0.0) -> Nights:
    """Draw the nights of some cases; in the newest one the first case is slower."""
    count = sides.earlier + 1
    if isinstance(sides.make, Noise):
        return made(draw, sides.cases, count, sides.make, step(-size, sides.earlier))
    world = sides.make(draw, count)
    world[0][-1] = [run - size for run in world[0][-1]]
    return world


def false_verdicts(sides: Sides, tries: int) -> Rate:
    draw = random.Random(f"{sides.name} {sides.earlier}")
    return share(bool(verdicts(groups_of(world_of(sides, draw)))) for _ in range(tries))


def verdicts_on(sides: Sides, size: float, tries: int) -> Rate:
    """Return how often a loss of the first case is called slower."""
    draw = random.Random(f"{sides.name} {sides.earlier} {size}")
    return share(FIRST in verdicts(groups_of(world_of(sides, draw, size))) for _ in range(tries))


@pytest.mark.slow
@pytest.mark.parametrize("sides", COMPARED, ids=NAMES)
def test_few_comparisons_have_a_verdict_where_nothing_changed(sides: Sides) -> None:
    assert not false_verdicts(sides, max(20, 200 // sides.cases)).exceeds(sides.false)


@pytest.mark.slow
@pytest.mark.parametrize("sides", COMPARED, ids=NAMES)
def test_most_losses_of_two_per_cent_have_a_verdict(sides: Sides) -> None:
    least = Rate(sides.seen[1], 2)
    assert not verdicts_on(sides, 0.02, max(12, 60 // sides.cases)).misses(least)


# -- the page -------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.slow
def test_the_page_states_the_rates_of_comparisons_golden() -> None:
    lines = [
        "| cases | earlier sets | false verdict, % | −1 % found | −2 % | −5 % |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for sides in COMPARED:
        false = false_verdicts(sides, 300)
        seen = [verdicts_on(sides, size, 100) for size in SIZES]
        assert not false.exceeds(sides.false)
        for rate, least in zip(seen, sides.seen, strict=True):
            assert not rate.misses(Rate(least, 2))
        cells = " | ".join(map(str, (false, *seen)))
        lines.append(f"| {sides.name} | {sides.earlier} | {cells} |")
    struct_docs.assert_generated(PAGE, "rates", "\n".join(lines))
