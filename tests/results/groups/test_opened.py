"""Begins of open changes: what is held against what, and what may explain it."""

import random
from collections.abc import Mapping

import msgspec

from k8sbench.model.compared import OpenBegin
from k8sbench.model.group import Group
from k8sbench.results.groups import opened, selection
from tests.results.groups import nights
from tests.results.groups.grouped import Grouped
from tests.results.report.pages import RunsOf

Levels = Mapping[tuple[str, int], float]
"""Case and night from which its level is another → its share of the level before."""


def made(count: int, cases: int, levels: Levels) -> list[Group]:
    """Return nights of some cases; a case's driver is another from its change on."""

    def level(night: int, case: int) -> float:
        own = (at for at in levels.items() if at[0][0] == f"{case + 1}x8" and night >= at[0][1])
        return max(own, key=lambda one: one[0][1], default=(("", 0), 1.0))[1]

    return [
        msgspec.structs.replace(
            group,
            driver="550" if level(number // cases, number % cases) < 1 else "535",
            members=tuple(
                msgspec.structs.replace(one, run_id=f"{number}-{repeat}")
                for repeat, one in enumerate(group.members)
            ),
        )
        for number, group in enumerate(
            nights.nights(random.Random(7), count, cases=cases, noise=0.001, level=level)
        )
    ]


def begins(groups: list[Group]) -> list[OpenBegin]:
    known = Grouped(groups)
    known.runs = RunsOf(groups)
    return opened.begins(selection.histories(known, known.rows), known)


def sides(one: OpenBegin) -> dict[str, tuple[str, ...]]:
    """Return the sets of each case: the one before and the one that is looked at."""
    return {
        case.group.key.case: tuple(
            group.key.set_name for side in (case.a, case.b) if side for group in side.groups
        )
        for case in one.compared.cases
    }


def findings(one: OpenBegin) -> dict[str, str]:
    return {case.group.key.case: case.finding for case in one.compared.cases}


STEP = {("1x8", 20): 0.95, ("2x8", 20): 0.95}


def test_a_step_is_held_against_the_last_set_before_it_however_old() -> None:
    (one,) = begins(made(30, 5, STEP))
    assert (one.compared.a, one.compared.b) == ("night-019", "night-020")
    assert findings(one) == {
        **dict.fromkeys(("1x8", "2x8"), "slower"),
        **dict.fromkeys(("3x8", "4x8", "5x8"), "no-difference"),
    }
    (cause,) = one.compared.causes
    assert [(fact.name, fact.a, fact.b) for fact in cause.facts] == [("driver", "535", "550")]
    assert (cause.explains, len(cause.cases), cause.others) == ("slower", 2, ())


def test_a_case_that_lacks_the_night_before_is_held_against_its_own_last_set() -> None:
    groups = [
        group
        for group in made(30, 5, STEP)
        if (group.key.case, group.key.set_name) != ("2x8", "night-019")
    ]
    (one,) = begins(groups)
    assert one.compared.a == "night-019"
    assert sides(one)["2x8"] == ("night-018", "night-020")
    assert sides(one)["1x8"] == ("night-019", "night-020")


def test_the_newest_begin_stands_first_and_an_unconfirmed_one_counts() -> None:
    one, other = begins(made(30, 5, {("1x8", 20): 0.95, ("3x8", 29): 0.95}))
    assert (one.compared.a, one.compared.b) == ("night-028", "night-029")
    assert (other.compared.a, other.compared.b) == ("night-019", "night-020")
    assert findings(one)["3x8"] == "slower"
    assert findings(other)["3x8"] == "no-difference"


def test_each_drop_of_a_case_that_has_not_recovered_is_looked_at() -> None:
    found = begins(made(30, 5, {("1x8", 12): 0.95, ("1x8", 20): 0.9}))
    assert [one.compared.b for one in found] == ["night-020", "night-012"]
    assert [findings(one)["1x8"] for one in found] == ["slower", "slower"]


def test_a_case_that_changed_in_the_other_direction_is_no_case_without_a_change() -> None:
    (one,) = begins(made(30, 5, STEP | {("4x8", 20): 1.05}))
    assert "4x8" not in findings(one)


def test_what_has_recovered_or_drifts_a_little_each_night_has_no_begin() -> None:
    assert begins(made(30, 5, STEP | {("1x8", 24): 1.0, ("2x8", 24): 1.0})) == []
    known = Grouped(made(30, 5, STEP))
    drifting = [
        msgspec.structs.replace(one, open=one.open and one.open._replace(kind="drift"))
        for one in selection.histories(known, known.rows)
    ]
    assert opened.begins(drifting, known) == []


def test_many_cases_without_a_change_are_not_all_looked_at() -> None:
    count = opened.MOST_CASES + 12
    (one,) = begins(made(12, count, {("1x8", 9): 0.95}))
    assert list(findings(one).values()).count("no-difference") == opened.MOST_CASES
    assert one.left_out == count - 1 - opened.MOST_CASES
