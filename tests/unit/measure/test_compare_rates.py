"""Simulated error rates of ``compare`` and ``history``, as in docs/compare.md.

A true change and noise alone, from fixed seeds. ``make golden`` updates the page's tables.
"""

import math
import random
import statistics

import pytest

from k8sbench.measure.group import compare
from k8sbench.measure.group.compare import changes
from k8sbench.measure.group.permutation import ALPHA, TwoSides, adjusted
from tests import struct_docs
from tests.tiers import ROOT

PAGE = ROOT / "docs" / "compare.md"
LIMIT = 0.03
RUNS = (3, 5, 8)
NOISE = (0.005, 0.01, 0.02)
SETS, HISTORIES = 30, 300


def sides(draw: random.Random, runs: int, noise: float, slower: float) -> tuple[TwoSides, float]:
    """Return a case of ``runs`` per side and its ratio of medians."""
    a = [math.exp(draw.gauss(0, noise)) for _ in range(runs)]
    b = [(1 - slower) * math.exp(draw.gauss(0, noise)) for _ in range(runs)]
    return TwoSides(a, b), statistics.median(b) / statistics.median(a)


def tries_of(runs: int) -> int:
    """Return the number of simulations; eight runs take fifty times as long."""
    return 100 if runs == 8 else 500


def alarms(runs: int, noise: float, slower: float) -> float:
    """Return the share of single cases with a regression."""
    draw = random.Random(runs * 1000 + round(slower * 100))
    made = (sides(draw, runs, noise, slower) for _ in range(tries_of(runs)))
    return sum(compare.is_regression(ratio, test, LIMIT) for test, ratio in made) / tries_of(runs)


def called(cases: int, runs: int) -> list[float]:
    """Return shares of false alarms, and of detections per noise level.

    A false alarm is any unchanged case called faster or slower. A detection is a first case, slower
    by 5 %, called slower. False alarms do not depend on the noise, since the test of logarithms has
    no scale.
    """
    draw = random.Random(cases * 1000 + runs)
    counts = [0] * (1 + len(NOISE))
    for _ in range(tries_of(runs)):
        tests = [sides(draw, runs, 0.01, 0.0)[0] for _ in range(cases)]
        counts[0] += min(adjusted(tests)) <= ALPHA
        for place, noise in enumerate(NOISE, 1):
            slower, _ = sides(draw, runs, noise, 0.05)
            found = adjusted([slower, *tests[1:]])[0]
            counts[place] += found <= ALPHA and slower.direction < 0
    return [count / tries_of(runs) for count in counts]


def marked(
    noise: float, *, slower: float = 0.0, drift: float = 0.0, alike: float = 0.0
) -> tuple[float, float]:
    """Return shares of histories with a mark, and with one near the middle.

    Near means within one set. From the middle on they are slower; ``drift`` is that of a set,
    ``alike`` the correlation of neighbours.
    """
    draw, some, right = random.Random(12), 0, 0
    for _ in range(HISTORIES):
        values, off = [], draw.gauss(0, noise)
        for n in range(SETS):
            off = alike * off + math.sqrt(1 - alike**2) * draw.gauss(0, noise)
            level = (1 - slower if n >= SETS // 2 else 1.0) * (1 + drift * n)
            values.append(level * math.exp(off))
        marks = changes(values)
        some += bool(marks)
        right += any(abs(mark.place - SETS // 2) <= 1 for mark in marks)
    return some / HISTORIES, right / HISTORIES


def test_an_unchanged_case_fails_in_ci_at_most_once_in_20_and_5_percent_are_found() -> None:
    for runs in (4, 5):
        for noise in NOISE:
            assert alarms(runs, noise, 0.0) <= 0.05
    assert alarms(5, 0.01, 0.05) >= 0.95
    assert alarms(3, 0.005, 0.10) == 0.0, "three runs can show nothing"


@pytest.mark.soak
@pytest.mark.slow
def test_the_page_states_the_rates_of_comparisons_golden() -> None:
    lines = [
        "| cases | runs | false word | −5 % found | false alarm | −5 % alarms |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for cases in (1, 15):
        for runs in RUNS:
            alone, *right = called(cases, runs)
            assert alone <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / tries_of(runs))
            # A limit judges each case by itself.
            limits = (0.0, 0.05) if cases == 1 else ()
            cells = [right, *([alarms(runs, noise, s) for noise in NOISE] for s in limits)]
            words = [" / ".join(f"{100 * rate:.1f}" for rate in rates) for rates in cells]
            words += ["as above"] * (3 - len(words))
            lines.append(f"| {cases} | {runs} | {100 * alone:.1f} | {' | '.join(words)} |")
    struct_docs.assert_generated(PAGE, "rates", "\n".join(lines))


@pytest.mark.soak
@pytest.mark.slow
def test_the_page_states_the_rates_of_marked_changes_golden() -> None:
    lines = [
        "| set to set | noise alone | drift | alike | 5 % slower | 7 % slower |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for noise in (0.003, 0.01, 0.02):
        none = [{}, {"drift": 0.001}, {"alike": 0.5}]
        cells = [marked(noise, **odd)[0] for odd in none]
        assert cells[0] <= 0.03
        assert max(cells) <= 0.2
        cells += [marked(noise, slower=slower)[1] for slower in (0.05, 0.07)]
        assert cells[-1] > (0.95 if noise <= 0.01 else 0.6)
        lines.append(f"| {100 * noise:g} % | {' | '.join(f'{100 * c:.1f} %' for c in cells)} |")
    struct_docs.assert_generated(PAGE, "marks", "\n".join(lines))
