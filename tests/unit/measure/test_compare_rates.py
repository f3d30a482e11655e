"""Simulated error rates of ``compare``, as in docs/compare.md.

A made change and noise alone, from fixed seeds. ``make golden`` updates the page's tables.
"""

import itertools
import random
from collections.abc import Sequence

import pytest

from k8sbench.measure.group import grouping
from k8sbench.measure.group.t_test import ALPHA
from k8sbench.model.compared import Compared
from k8sbench.model.group import Group
from tests import struct_docs
from tests.tiers import ROOT
from tests.unit.measure.grouped import newest_sets
from tests.unit.measure.nights import nights
from tests.unit.report.factory import START, repeats

PAGE = ROOT / "docs" / "compare.md"
CHANCE = 0.02
"""Distance that 200 comparisons may be from the true rate."""
DAYS = (0.0, 0.001, 0.003, 0.005)
"""Standard deviations of a set's level; within a set runs have 0.2 %."""


def found(cases: Sequence[Compared]) -> list[str]:
    """Return the cases that are called faster or slower."""
    return [case.group.key.case for case in cases if case.finding in ("faster", "slower")]


def newest(groups: Sequence[Group]) -> tuple[Compared, ...]:
    """Compare the newest two nights."""
    compared = newest_sets(groups)
    assert compared is not None
    return compared.cases


def rates(tries: int, sets: int, *, slower: float = 0.0, **fields: object) -> tuple[float, float]:
    """Return the shares of comparisons with a false and with the right verdict.

    ``sets`` counts the newest, in which the first case is slower.
    """
    draw, false, right = random.Random(sets), 0, 0

    def level(night: int, case: int) -> float:
        return 1 - slower if (night, case) == (sets - 1, 0) else 1.0

    for _ in range(tries):
        called = found(newest(nights(draw, sets, level=level, **fields)))  # type: ignore[arg-type]
        right += "1x8" in called
        false += any(case != "1x8" or not slower for case in called)
    return false / tries, right / tries


@pytest.mark.slow
@pytest.mark.parametrize("days", DAYS)
def test_where_there_is_history_at_most_5_percent_of_comparisons_alarm(days: float) -> None:
    for cases, sets in ((1, 5), (1, 9), (9, 5)):
        false, _ = rates(200 if cases == 1 else 60, sets, cases=cases, days=days)
        assert false <= ALPHA + CHANCE, (cases, sets)


def test_three_runs_on_each_side_find_changes_of_1_2_and_5_percent() -> None:
    assert rates(40, 9, slower=0.01, days=0.001)[1] >= 0.8
    assert rates(40, 9, slower=0.02, days=0.003)[1] >= 0.9
    assert rates(20, 9, slower=0.02, days=0.001, cases=9)[1] >= 0.9
    assert rates(20, 9, slower=0.05, days=0.003, cases=9)[1] == 1.0
    assert rates(40, 9, slower=0.05, days=0.005)[1] >= 0.95
    # Without history the floor decides.
    assert rates(40, 2, slower=0.02)[1] == rates(40, 2, slower=0.05, cases=9)[1] == 1.0


# -- the page -------------------------------------------------------------------------------------


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


@pytest.mark.soak
@pytest.mark.slow
def test_the_page_states_the_rates_of_comparisons_golden() -> None:
    lines = [
        "| cases | between sets | earlier sets | false verdict | −1 % | −2 % | −5 % found |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for cases, days, earlier in itertools.product((1, 9), DAYS, (1, 4, 8)):
        if earlier == 1 and days not in (0.0, 0.003):
            continue
        false, _ = rates(400, earlier + 1, cases=cases, days=days)
        assert earlier == 1 or false <= ALPHA + CHANCE
        right = [
            rates(100, earlier + 1, cases=cases, days=days, slower=slower)[1]
            for slower in (0.01, 0.02, 0.05)
        ]
        cells = [f"{100 * days:g} %", str(earlier), *map(percent, (false, *right))]
        lines.append(f"| {cases} | {' | '.join(cells)} |")
    struct_docs.assert_generated(PAGE, "rates", "\n".join(lines))


def test_the_newest_two_sets_share_a_case() -> None:
    draw = random.Random(7)
    groups = nights(draw, 2)
    (between,) = grouping.groups(repeats([5.0], set_name="other", benchmark="tsm", at=START + 5e4))
    compared = newest_sets([*groups, between])
    assert compared is not None
    assert (compared.a, compared.b) == ("night-000", "night-001")
    assert newest_sets([groups[0], between]) is None
    assert newest_sets([]) is None
