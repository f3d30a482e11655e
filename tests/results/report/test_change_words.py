"""Words of changes: ``results``, ``compare`` and ``history`` have the same of the same mark."""

import datetime
import math
from collections.abc import Mapping

import pytest

from k8sbench.model.compared import Comparison
from k8sbench.model.group import Changed
from k8sbench.model.series import Alternation, Closed, Judged, Mark, Open
from k8sbench.results.groups import comparison, history, selection, sides
from k8sbench.results.groups.selection import Wanted
from k8sbench.results.report import comparing, group_words, layout, noted_tables
from k8sbench.results.report import history as written
from k8sbench.results.report.words import english
from tests.results.groups.grouped import Grouped
from tests.results.groups.nights import night

AT = datetime.datetime(2026, 11, 30, 2, 10, tzinfo=datetime.UTC).timestamp()
LEVELS = Alternation(math.log(100.0), math.log(101.0))


def known(judged: Mapping[str, Judged], cases: int = 1, count: int = 12) -> Grouped:
    """Return cases of some nights with what their series say of the sets that are named."""
    made = [
        night(n, f"{c}x8", [100.0 + 0.01 * n]) for n in range(count) for c in range(1, cases + 1)
    ]
    return Grouped(made, judged=judged)


def mark(kind: str, since: str, change: float = -0.021, together: int = 0) -> Mark:
    return Mark(kind, change, 0.001, since, together)  # type: ignore[arg-type]


def judged(
    own: Mark | None = None,
    still: Open | None = None,
    closed: Closed | None = None,
    alternating: Alternation | None = None,
) -> Judged:
    return Judged(own, still, None, closed, alternating)


def began(name: str) -> float:
    """Return the begin of a night."""
    return night(int(name.removeprefix("night-")), "1x8", [100.0]).began[0]


def still_open(kind: str, change: float, since: str) -> Open:
    return Open(kind, change, since, began(since))  # type: ignore[arg-type]


def closed_since(since: str, by: str, at: float) -> Closed:
    return Closed(since, began(since), by, at)  # type: ignore[arg-type]


def rows_of(groups: Grouped) -> list[list[str]]:
    """Return the rows of the list of changes."""
    sets = history.CaseSets(groups.rows, groups)
    table = written.changes_table(sets.changes(), sets.alternating())
    return [[english(cell.text) for cell in row] for row in table.rows]


def states_of(groups: Grouped) -> dict[str, str]:
    return {row[0]: row[-1] for row in rows_of(groups)}


def newest_two(groups: Grouped) -> Comparison:
    older, newer = (
        sides.Side(
            name=name,
            groups=tuple(groups.groups(row for row in groups.rows if row.set_name == name)),
            runs={},
        )
        for name in ("night-010", "night-011")
    )
    return history.with_marks(comparison.compare(older, newer, earlier=groups), groups)


# -- closed changes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("recovery", "closed 2026-11-30 02:10 UTC by recovery"),
        ("person", "closed 2026-11-30 02:10 UTC by a person"),
    ],
)
def test_a_closed_change_says_when_and_by_what(by: str, words: str) -> None:
    closed = closed_since("night-003", by, AT)
    groups = known(
        {"night-003": judged(mark("step", "night-003")), "night-007": judged(closed=closed)}
    )
    assert states_of(groups) == {"night-003": words}
    (change,) = written.changes_document(history.CaseSets(groups.rows, groups).changes())["changes"]
    assert (change["open"], change["closed_at"], change["closed_by"]) == (False, AT, by)
    header, (row,) = written.flat_changes(history.CaseSets(groups.rows, groups).changes())
    assert dict(zip(header, row, strict=True))["closed_by"] == by


def test_each_drop_is_closed_with_the_open_change_that_it_was_part_of() -> None:
    first = closed_since("night-002", "recovery", AT)
    second = closed_since("night-008", "person", AT + 86400)
    groups = known(
        {
            "night-001": judged(mark("step", "night-001", -0.03)),
            "night-002": judged(mark("step", "night-002")),
            "night-004": judged(mark("step", "night-004")),
            "night-005": judged(mark("step", "night-005", 0.05), closed=first),
            "night-008": judged(mark("step", "night-008")),
            "night-010": judged(closed=second),
        }
    )
    assert states_of(groups) == {
        "night-001": "closed",  # an older one, of which nothing says when
        "night-002": "closed 2026-11-30 02:10 UTC by recovery",
        "night-004": "closed 2026-11-30 02:10 UTC by recovery",
        "night-005": "",
        "night-008": "closed 2026-12-01 02:10 UTC by a person",
    }


def test_what_is_open_again_is_not_closed() -> None:
    still = still_open("step", -0.02, "night-008")
    groups = known(
        {
            "night-002": judged(mark("step", "night-002")),
            "night-005": judged(closed=closed_since("night-002", "recovery", AT)),
            "night-008": judged(mark("step", "night-008")),
            "night-011": judged(still=still),
        }
    )
    assert states_of(groups) == {
        "night-002": "closed 2026-11-30 02:10 UTC by recovery",
        "night-008": "open",
    }


# -- what several cases share ---------------------------------------------------------------------


def test_a_change_that_all_cases_share_is_one_row() -> None:
    shared = {
        "night-011": judged(
            mark("step", "night-011", together=3), still=still_open("step", -0.021, "night-011")
        )
    }
    groups = known(shared, cases=3)
    assert rows_of(groups) == [
        [
            *("night-011", "all 3 cases together", "−2.1 %"),
            *("night-011", "step", "open"),
        ]
    ]
    # Of some of them each has its row, which says so.
    some = [row for row in groups.rows if row.case != "1x8"]
    sets = history.CaseSets(some, groups)
    names = [english(row[1].text) for row in written.changes_table(sets.changes()).rows]
    assert len(names) == 2
    assert all(name.endswith(" (3 cases together)") for name in names)
    text = comparing.text(newest_two(groups))
    (line,) = [line for line in text.splitlines() if "together" in line]
    assert line.endswith(": −2.1 % since night-011, all 3 cases together.")


# -- a case that alternates -----------------------------------------------------------------------


def test_a_case_that_alternates_is_named_once_with_its_two_levels() -> None:
    flips = {
        f"night-{n:03}": judged(mark("step", f"night-{n:03}", 0.01 if n % 2 else -0.01))
        for n in range(4, 11)
    }
    long_ago = {"night-001": judged(mark("step", "night-001", -0.03))}
    words = "alternates between two levels, 1.0 % apart: 100.00 and 101.00 samples/s"
    groups = known(long_ago | flips | {"night-011": judged(alternating=LEVELS)})
    rows = rows_of(groups)
    assert [(row[0], row[3], row[4], row[5]) for row in rows] == [
        ("night-001", "night-001", "step", "closed"),
        ("–", "night-011", "alternating", words),
    ]
    # So it is after many nights.
    later = {f"night-{n:03}": judged(alternating=LEVELS) for n in range(11, 30)}
    assert [row[0] for row in rows_of(known(long_ago | flips | later, count=30))] == [
        *("night-001", "–")
    ]
    # While it does not alternate as of its newest set, its changes are listed.
    assert len(rows_of(known(flips))) == 7
    sets = history.CaseSets(groups.rows, groups)
    (one,) = written.changes_document([], sets.alternating())["alternating"]
    assert (one["case"], round(one["low"], 6), round(one["high"], 6)) == ("1x8", 100.0, 101.0)
    (series,) = selection.histories(groups, groups.rows)
    (table,) = written.tables([series])
    assert table.notes == (f"The case {words}.",)
    assert words in comparing.text(newest_two(groups))
    (result,) = selection.report(groups, Wanted()).results
    assert result.alternating == LEVELS
    shown = layout.tables([result], [], "table")
    assert f"{words}; see k8sbench history resnet50" in noted_tables.text(shown)
    assert "在两个水平之间交替，相差 1.0 %" in noted_tables.text(shown, lang="zh")


# -- a drift, and one mark for all answers --------------------------------------------------------


def test_a_drift_has_its_first_and_its_last_set() -> None:
    drift = mark("drift", "night-005")
    groups = known({"night-011": judged(drift, still=still_open("drift", -0.021, "night-005"))})
    words = "−2.1 % in the course of night-005 to night-011 (drift)"
    (series,) = selection.histories(groups, groups.rows)
    assert written.change(series.points[-1], series).text == f"◀ {words}"
    assert f": {words}" in comparing.text(newest_two(groups))
    (result,) = selection.report(groups, Wanted()).results
    shown = noted_tables.text(layout.tables([result], [], "table"))
    assert f"{words}; see k8sbench history" in shown


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (judged(mark("unconfirmed", "night-011")), "−2.1 % since night-011 (unconfirmed)"),
        (judged(mark("step", "night-010")), "−2.1 % since night-010"),
        (judged(mark("back", "night-010")), "back after one night (−2.1 % in night-010)"),
        (judged(still=still_open("step", -0.02, "night-003")), "−2.0 % since night-003"),
        (
            judged(mark("unconfirmed", "night-011", together=6)),
            "−2.1 % since night-011 (unconfirmed), all 6 cases together",
        ),
    ],
)
def test_compare_calls_the_mark_that_results_and_history_call(given: Judged, words: str) -> None:
    groups = known({"night-011": given})
    text = comparing.text(newest_two(groups))
    assert f": {words}" in text
    (result,) = selection.report(groups, Wanted()).results
    shown = noted_tables.text(layout.tables([result], [], "table"))
    assert f"{words}; see k8sbench history" in shown
    (case,) = newest_two(groups).cases
    assert case.changed == result.changed
    said = group_words.change(case.changed or Changed(kind="once", since="", ratio=0.0))
    assert english(said) == words


def test_equal_changes_of_several_cases_share_a_line() -> None:
    groups = known({"night-011": judged(mark("unconfirmed", "night-011"))}, cases=4)
    lines = [line for line in comparing.text(newest_two(groups)).splitlines() if "since" in line]
    assert len(lines) == 1
    assert lines[0].endswith(" and 1 more: −2.1 % since night-011 (unconfirmed).")


def test_times_have_a_zone() -> None:
    groups = known({})
    (table,) = written.tables(selection.histories(groups, groups.rows))
    assert [column.title for column in table.columns][:2] == ["set", "began (UTC)"]
