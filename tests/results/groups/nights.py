"""Sets of cases over many nights, made of figures alone, for simulations."""

import functools
import math
import random
from collections.abc import Callable, Sequence

import msgspec

from k8sbench.model.group import Group
from k8sbench.results.groups.group_figures import spread
from k8sbench.results.groups.grouping import groups
from tests.results.report.factory import START, repeats

DAY = 86400.0


@functools.cache
def _example(case: str) -> Group:
    (group,) = groups(repeats([1.0], case=case))
    return group


def night(number: int, case: str, rates: Sequence[float]) -> Group:
    """Return the group of a case in one night."""
    example, at = _example(case), START + DAY * number
    (member,) = example.members
    return msgspec.structs.replace(
        example,
        key=msgspec.structs.replace(example.key, set_name=f"night-{number:03}"),
        members=tuple(msgspec.structs.replace(member, rate=rate) for rate in rates),
        spread=spread(rates),
        began=(at, at),
    )


def nights(
    draw: random.Random,
    count: int,
    *,
    cases: int = 1,
    runs: int = 3,
    noise: float | Sequence[float] = 0.002,
    days: float = 0.0,
    level: Callable[[int, int], float] = lambda _night, _case: 1.0,
) -> list[Group]:
    """Return the groups of some nights.

    ``noise`` is the standard deviation from run to run, of all cases or of each; ``days`` that from
    night to night.
    """
    made = []
    for number in range(count):
        for case in range(cases):
            own = noise if isinstance(noise, float) else noise[case]
            mean = math.log(100 * level(number, case)) + draw.gauss(0, days)
            rates = [math.exp(mean + draw.gauss(0, own)) for _ in range(runs)]
            made.append(night(number, f"{case + 1}x8", rates))
    return made
