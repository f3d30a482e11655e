"""Simulated error rates of ``nodes``, as in docs/kubernetes.md.

Equal nodes and one slow node, from fixed seeds. ``make golden`` updates the page's table.
"""

import math
import random
import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import pytest

from k8sbench.results.groups.node_check import NodeFigures, check
from tests import struct_docs
from tests.tiers import ROOT

V100 = ("Tesla V100", "fp32", "time_weighted")
NOISE = 0.01
"""Relative standard deviation of all kinds of noise, above what the 0.5 % of the rule hides."""
Draw = Callable[[random.Random], float]


def none(_: random.Random) -> float:
    return 0.0


def normal(draw: random.Random) -> float:
    return draw.gauss(0, NOISE)


def of_heavy_tails(draw: random.Random) -> float:
    """Draw noise by Student's t with 3 degrees of freedom."""
    return NOISE * draw.gauss(0, 1) / math.sqrt(draw.gammavariate(1.5, 2))


class Noise(NamedTuple):
    """Noise between the nodes, which stays, and between the runs of a node."""

    nodes: Draw
    runs: Draw


KINDS = {
    "normal, between nodes": Noise(normal, none),
    "normal, between runs": Noise(none, normal),
    "t3, between runs": Noise(none, of_heavy_tails),
    "t3, between nodes": Noise(of_heavy_tails, none),
}
SWEEPS = {5: 4000, 8: 5000, 32: 1200, 64: 600, 256: 200}
"""Number of nodes → sweeps of each cell of the table."""
SLOW = (5, 8, 10)
"""Multiples of the noise by which a node is slower."""


class Rates(NamedTuple):
    """Shares of what simulated sweeps named."""

    alarms: float
    """Sweeps that name a healthy node."""
    found: float
    """Sweeps that name the slow node."""


def sweeps(count: int, times: int, noise: Noise, *, slow: float = 0.0) -> Rates:
    """Play sweeps over ``count`` nodes, the first slower than the others by ``slow``."""
    draw = random.Random(f"{count} {slow}")
    named = []
    for _ in range(times):
        levels = [1 + noise.nodes(draw) for _ in range(count)]
        levels[0] -= slow
        named.append(set(_named(levels, lambda: noise.runs(draw))))
    healthy = [places - {0} if slow else places for places in named]
    return Rates(
        alarms=sum(map(bool, healthy)) / times, found=sum(0 in places for places in named) / times
    )


def standard_error(rate: float, times: int) -> float:
    return math.sqrt(rate * (1 - rate) / times)


def _named(levels: list[float], noise: Callable[[], float]) -> Iterator[int]:
    """Yield the places of the nodes that a sweep names; suspects are measured again."""
    rows = [
        NodeFigures(node=str(place), throughput=level * (1 + noise()), alike=V100)
        for place, level in enumerate(levels)
    ]
    for name in check(rows).to_confirm:
        place = int(name)
        both = (rows[place].throughput or 0.0, levels[place] * (1 + noise()))
        again = {"throughput": statistics.median(both), "fastest": max(both)}
        rows[place] = msgspec.structs.replace(rows[place], **again)
    yield from map(int, check(rows).to_cordon)


@pytest.mark.parametrize("kind", ["normal, between runs", "t3, between runs"])
@pytest.mark.parametrize("count", [5, 16, 100])
def test_odd_runs_name_a_good_node_in_one_sweep_of_a_hundred(count: int, kind: str) -> None:
    """Two runs of one node are rarely odd, whatever their tails."""
    assert sweeps(count, 500, KINDS[kind]).alarms <= 0.01 + 3 * standard_error(0.01, 500)


def _promised(kind: str, count: int, slow: int) -> float | None:
    """Return the rate that the page promises; None without a promise."""
    if kind == "t3, between nodes" or count < 8:
        return None
    if slow == 0:
        return 0.01
    if kind == "t3, between runs" and count < 32:
        return 0.95 if slow == 10 else None
    return 0.99 if slow == 10 or (slow == 8 and count >= 32) else None


def test_the_page_states_the_rates_of_slow_nodes_golden() -> None:
    """Rates are what is promised, within three standard errors."""
    lines = [
        "| nodes | noise | a good node is named | found at 5 × the noise | at 8 × | at 10 × |",
        "|---:|---|---:|---:|---:|---:|",
    ]
    missed = []
    for count, most in SWEEPS.items():
        for kind, noise in KINDS.items():
            cells = []
            for slow in (0, *SLOW):
                times = most // 2 if slow else most
                rates = sweeps(count, times, noise, slow=slow * NOISE)
                rate = rates.found if slow else rates.alarms
                # As if one more sweep of each kind had been seen: none in 200 is not exactly 0.
                error = standard_error((rate * times + 1) / (times + 2), times)
                cells.append(f"{100 * rate:.1f} ± {100 * error:.1f} %")
                promised = _promised(kind, count, slow)
                if promised is not None:
                    worse = promised - rate if slow else rate - promised
                    if worse > 3 * standard_error(promised, times):
                        missed.append((count, kind, slow, rate))
            lines.append(f"| {count} | {kind} | {' | '.join(cells)} |")
    struct_docs.assert_generated(ROOT / "docs" / "kubernetes.md", "node-rates", "\n".join(lines))
    assert missed == []
