"""Worlds of nights whose changes are known, for simulations: made noise, and real runs drawn anew.

A world is cases × nights; a night of a case is the logarithms of its runs, empty if it is missing.
"""

import functools
import itertools
import math
import pathlib
import random
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

Nights = list[list[list[float]]]
Level = Callable[[int, int], float]
"""Change of the logarithm of a case in a night."""

DAYS = 0.003
"""Standard deviation between nights; that between the runs of a night is two thirds of it."""
UNLIKE = (0.0005, 0.01)
"""Cases that differ twenty-fold in noise, evenly in its logarithm."""
REAL = pathlib.Path(__file__).parent / "real_nights.txt"


class Noise(NamedTuple):
    """The noise of made cases."""

    days: float | tuple[float, float] = DAYS
    correlation: float = 0.0
    """Correlation of neighbouring nights."""
    heavy: bool = False
    """Student's t with three degrees of freedom in place of the normal distribution."""
    odd: float = 0.0
    """Share of runs that are 5 to 20 standard deviations off, four of five slower."""
    runs: int = 3


PLAIN = Noise()


def same(_case: int, _night: int) -> float:
    return 0.0


def step(size: float, at: int, *, until: int = 10**6, cases: int = 1) -> Level:
    """Return a level at which the first cases are slower for some nights."""
    return lambda case, night: size if case < cases and at <= night < until else 0.0


def slope(size: float, at: int, *, cases: int = 1) -> Level:
    """Return a level that falls by ``size`` each night after one."""
    return lambda case, night: size * max(0, night - at) if case < cases else 0.0


def walk(draw: random.Random, cases: int, nights: int, size: float) -> Level:
    """Return levels that wander: each night adds a step of its own to each case."""
    levels = [
        [*itertools.accumulate(draw.gauss(0, size) for _ in range(nights))] for _ in range(cases)
    ]
    return lambda case, night: levels[case][night]


def made(
    draw: random.Random, cases: int, nights: int, noise: Noise = PLAIN, level: Level = same
) -> Nights:
    """Make cases of normal or heavy noise."""
    heavy = _heavy if noise.heavy else _normal
    along = math.sqrt(1 - noise.correlation**2)
    world: Nights = []
    for case in range(cases):
        days = noise.days
        if isinstance(days, tuple):
            days = math.exp(draw.uniform(math.log(days[0]), math.log(days[1])))
        day = heavy(draw)
        case_nights = []
        for night in range(nights):
            runs = [day + 2 / 3 * heavy(draw) + _odd(draw, noise.odd) for _ in range(noise.runs)]
            case_nights.append([5 + days * run + level(case, night) for run in runs])
            day = noise.correlation * day + along * heavy(draw)
        world.append(case_nights)
    return world


def _normal(draw: random.Random) -> float:
    return draw.gauss(0, 1)


def _heavy(draw: random.Random) -> float:
    """Draw from Student's t with three degrees of freedom, scaled to a variance of 1."""
    return draw.gauss(0, 1) / math.sqrt(draw.gammavariate(1.5, 2))


def _odd(draw: random.Random, share: float) -> float:
    if not share or draw.random() >= share:
        return 0.0
    return draw.uniform(5, 20) * (-1 if draw.random() < 0.8 else 1)


# -- real runs -------------------------------------------------------------------------------------


@functools.cache
def real_runs() -> dict[tuple[str, str, int], list[float]]:
    """Return the logarithms of the speeds of equal runs, by folder, group and steps."""
    groups = {}
    for line in REAL.read_text().splitlines():
        name, _, times = line.partition(": ")
        if line.startswith("#") or "->" in line or not times:
            continue
        folder, group, steps = name.split(", ")
        groups[folder, group, int(steps)] = [math.log(int(steps) / int(ms)) for ms in times.split()]
    return groups


@functools.cache
def real_changes() -> list[tuple[list[float], list[float]]]:
    """Return the runs before and after each known change, both ways."""
    changes = []
    for line in REAL.read_text().splitlines():
        folder, _, sides = line.partition(": ")
        if line.startswith("#") or "->" not in line:
            continue
        before, after = (
            real_runs()[folder, group, int(steps)]
            for group, steps in (side.split(", ") for side in sides.split(" -> "))
        )
        changes += [(before, after), (after, before)]
    return changes


def size_of(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the size of a change, a share."""
    return abs(math.expm1(statistics.median(after) - statistics.median(before)))


def quiet_cases() -> list[list[float]]:
    """Return the runs of the cases that did not change: ten or more each."""
    return [runs for runs in real_runs().values() if len(runs) >= 10]


def real(draw: random.Random, cases: int, nights: int, *, runs: int = 1) -> Nights:
    """Draw nights of some real cases anew, from the runs of each with replacement."""
    chosen = draw.sample(quiet_cases(), cases)
    return [[draw.choices(case, k=runs) for _ in range(nights)] for case in chosen]


def real_in_turn(draw: random.Random, cases: int, nights: int = 10) -> Nights:
    """Play the runs of some real cases in any order, each run once."""
    return [
        [[run] for run in draw.sample(case, nights)] for case in draw.sample(quiet_cases(), cases)
    ]
