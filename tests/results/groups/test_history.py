"""Sets of a case over time, by the rule in docs/compare.md."""

from collections.abc import Sequence

import msgspec
import pytest

from k8sbench.messages import Note, note
from k8sbench.model.compared import CaseChange, CaseHistory
from k8sbench.model.group import GroupRow
from k8sbench.results.groups import history, selection
from k8sbench.results.groups.case_state import FEWEST
from k8sbench.results.groups.grouping import groups
from k8sbench.results.report import history as written
from tests.results.groups.grouped import Grouped, histories
from tests.results.groups.histories import FLAT, dropped, sets
from tests.results.groups.nights import night
from tests.results.report.factory import START, repeats
from tests.results.said import text


def judged(values: Sequence[float]) -> CaseHistory:
    (found,) = histories([night(n, "1x8", [value]) for n, value in enumerate(values)])
    return found


def changes(known: Grouped) -> list[CaseChange]:
    return history.CaseSets(known.rows, known).changes()


def marks(values: Sequence[float]) -> dict[int, float]:
    """Return the changes by place, in percent."""
    found = {n: point.mark for n, point in enumerate(judged(values).points)}
    return {n: round(100 * mark.change, 1) for n, mark in found.items() if mark is not None}


def steps(values: Sequence[float]) -> list[int]:
    return [n for n, kind in kinds(values).items() if kind == "step"]


def kinds(values: Sequence[float]) -> dict[int, str]:
    """Return the kinds of the marks by place."""
    found = {n: point.mark for n, point in enumerate(judged(values).points)}
    return {n: mark.kind for n, mark in found.items() if mark is not None}


@pytest.mark.parametrize(
    "values",
    [
        FLAT,
        [*FLAT, *FLAT],
        [*FLAT[:3], *dropped(0.5, 1)],  # three sets before it are too few
        [100.0] * 9,  # logs that print few digits
    ],
)
def test_nothing_is_marked_where_nothing_changed(values: list[float]) -> None:
    assert marks(values) == {}


def test_a_set_outside_the_prediction_interval_of_four_sets_is_marked_at_once() -> None:
    assert marks([*FLAT[:4], *dropped(0.05, 1)]) == {4: -5.0}
    assert steps([*FLAT[:4], *dropped(0.05, 1)]) == []
    assert marks([*FLAT[:4], 100.6]) == {}


def test_the_next_set_confirms_a_step_and_the_base_begins_again() -> None:
    values = [*FLAT, *dropped(0.05, 6), *FLAT]
    assert steps(values) == [10, 16]
    assert marks(values) == {10: pytest.approx(-5.0, abs=0.1), 16: pytest.approx(5.3, abs=0.3)}
    # The second step is held against the six sets since the first.
    assert steps([*FLAT, *dropped(0.05, 2), *FLAT[:2]]) == [10, 12]


def test_a_set_that_differs_alone_is_no_step_and_hides_no_later_one() -> None:
    values = [*FLAT, 60.0, *FLAT, *dropped(0.02, 4)]
    assert steps(values) == [21]
    assert marks(values) == {10: -40.0, 11: -40.0, 21: pytest.approx(-2.0, abs=0.3)}
    assert kinds(values) == {10: "once", 11: "back", 21: "step"}


def test_a_filter_of_the_output_changes_no_verdict() -> None:
    made = [
        night(n, f"{case}x8", [105.0 if (case, n) == (1, 12) else FLAT[(n + case) % 6]])
        for n in range(13)
        for case in range(1, 6)
    ]
    found = histories(made)
    marked = [one for one in found if any(point.mark for point in one.points)]
    assert [one.group.key.case for one in marked] == ["1x8"]
    known = Grouped(made)
    shown = selection.histories(known, [row for row in known.rows if row.case == "1x8"])
    assert [one.points for one in shown] == [one.points for one in marked]


def test_a_history_has_the_sets_in_the_order_of_their_begin_whatever_their_names() -> None:
    runs = [*sets([*FLAT, *dropped(0.05, 6)]), *repeats([7.0], set_name="a-first", at=START - 9e5)]
    (found,) = histories(groups(runs))
    assert [point.group.key.set_name for point in found.points][:2] == ["a-first", "n00"]


def test_a_history_has_a_set_of_a_clock_that_was_never_set() -> None:
    (found,) = histories(groups(repeats([7.0], at=-1.0)))
    assert [point.at for point in found.points] == [-1.0]


@pytest.mark.parametrize(
    ("later", "states"),
    [
        ([*dropped(0.03, 4), *dropped(0.06, 4)], ["open", "open"]),
        ([*dropped(0.03, 4), *FLAT, *dropped(0.06, 4)], ["open", "", "closed"]),
        ([*dropped(0.03, 4), *FLAT], ["", "closed"]),
    ],
    ids=["two drops", "a drop after a recovered one", "a recovered one"],
)
def test_each_drop_of_a_case_that_has_not_recovered_is_open(
    later: list[float], states: list[str]
) -> None:
    made = [night(n, "1x8", [value]) for n, value in enumerate([*FLAT, *later])]
    known = Grouped(made)
    found = changes(known)
    assert [written.state(one).partition(" ")[0] for one in found] == states
    # Each has the name of its case, without its set.
    names = {row[1].text for row in written.changes_table(found).rows}
    assert len(names) == 1


def test_a_drop_too_small_to_stay_open_is_neither_open_nor_closed() -> None:
    quiet = [100 + (value - 100) / 10 for value in FLAT]
    values = [*quiet, *(0.996 * value for value in quiet)]
    known = Grouped([night(n, "1x8", [value]) for n, value in enumerate(values)])
    (found,) = changes(known)
    assert (found.mark.kind, round(found.mark.change, 3), found.is_open) == ("step", -0.004, False)
    assert written.state(found) == ""


def test_a_change_names_the_gpu_model_of_its_case_where_others_have_another() -> None:
    made = [night(n, "1x8", [value]) for n, value in enumerate([*FLAT, *dropped(0.05, 3)])]
    known = Grouped(made)
    (alone,) = written.changes_table(changes(known)).rows
    model = made[0].key.gpu_model
    assert model not in text(alone[1].text)
    key = msgspec.structs.replace(made[0].key, gpu_model="A100")
    known = Grouped([*made, msgspec.structs.replace(made[0], key=key)])
    (row,) = written.changes_table(changes(known)).rows
    assert row[1].text == f"{alone[1].text} {model}"


def test_the_csv_of_changes_has_its_header_also_where_nothing_changed() -> None:
    made = [night(n, "1x8", [value]) for n, value in enumerate([*FLAT, *dropped(0.05, 3)])]
    known = Grouped(made)
    found = changes(known)
    (change,) = written.changes_document(found)["changes"]
    header, (row,) = written.flat_changes(found)
    assert header == [*change]
    assert dict(zip(header, row, strict=True)) == change | {"open": "true"}
    assert written.flat_changes([]) == (header, [])


def test_a_rejected_set_is_of_the_case_on_its_own_gpu_model() -> None:
    made = [night(n, "1x8", [100.0]) for n in range(3)]
    key = msgspec.structs.replace(made[0].key, gpu_model="A100")
    other = msgspec.structs.replace(made[0], key=key)

    def without_figure(at: int, model: str) -> GroupRow:
        key = msgspec.structs.replace(made[0].key, gpu_model=model, set_name=f"set-{at}")
        row = msgspec.structs.replace(made[0], key=key, spread=None).row
        return row._replace(began=row.began + at * 86400, ended=row.ended + at * 86400)

    rejected = without_figure(10, "A100")
    nameless = without_figure(11, "unknown")
    found = history.cases([*(one.row for one in (*made, other)), rejected, nameless])
    assert [{row.gpu_model for row in case} for case in found] == [
        {made[0].key.gpu_model, "unknown"},
        {"A100"},
    ]


def test_cases_without_enough_sets_are_not_said_to_be_unchanged() -> None:
    made = [night(n, "1x8", [value]) for n, value in enumerate(FLAT)]
    rows = [one.row for one in made]
    assert history.why_unchanged(rows) == note("no-case-changed")
    assert history.why_unchanged(rows[:5]) == note("no-case-changed")
    assert history.why_unchanged(rows[:4]) == unjudged(note("sets-before", number=3))
    young = night(2, "1x1", [50.0])
    failed = night(3, "1x8", [100.0]).row._replace(median=None)
    newest = note("sets-before-newest", number=2)
    assert history.why_unchanged([*rows[:3], failed]) == unjudged(newest)
    # Of two cases with too few sets, one is told of.
    before = note("sets-before", number=2)
    assert history.why_unchanged([*rows[:3], young.row]) == unjudged(before)


def unjudged(there: Note) -> Note:
    """The answer for cases with too few sets."""
    return note("no-case-judged", why=note("unjudged-few-sets", fewest=FEWEST, there=there))


def test_kinds_of_cases_that_are_not_judged_are_named_once_each() -> None:
    young = [night(n, "1x8", [100.0]).row for n in (1, 2)]
    smoke = [row._replace(measures="smoke", series=f"smoke-{n}") for n, row in enumerate(young)]
    why = history.why_unchanged([*young, *smoke]).args["why"]
    few = note("unjudged-few-sets", fewest=FEWEST, there=note("sets-before", number=1))
    assert why == note("and-then", first=few, then=note("unjudged-smoke"))
