"""Cases that newer sets lack, ages of rows, and cases that are not measured any more."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from k8sbench.model.group import Result
from k8sbench.model.group_filter import GroupFilter
from k8sbench.model.phase import Phase
from k8sbench.model.pool import NodePool
from k8sbench.model.run import Run
from k8sbench.results.groups.selection import Report, Wanted
from k8sbench.results.report import document, layout
from k8sbench.results.report.attention import noted
from tests.results.groups.grouped import report
from tests.results.report.factory import START, run
from tests.results.said import text, texts

DAY = 86400.0
Fields = Mapping[str, Any]


def nightly(
    nights: Iterable[int], rate: float = 700.0, *, own: str = "", **fields: Any
) -> list[Run]:
    """Return a case in sets of some nights; ``own`` are the ends of names of sets of its own."""
    return [
        run(
            rate * (1 + (0.001, -0.001, 0.0005)[number % 3]),
            set_name=f"night-{number:02}{own}",
            at=START + DAY * number + (3600 if own else 0),
            **fields,
        )
        for number in nights
    ]


def lacking(made: Report) -> dict[str, str]:
    """Return the sets from which cases are missing, by their benchmark, pool and case."""
    return {
        " ".join((one.group.key.benchmark, one.group.key.pool, one.group.key.case)): (
            f"{one.missing_in.since} to {one.missing_in.set_name}"
        )
        for one in made.results
        if one.missing_in is not None
    }


STOPS: Mapping[str, Fields] = {
    "tsm v100-16gb 1x8": {"benchmark": "tsm"},
    "resnet50 b 1x8": {"pool": NodePool(name="b", gpus_per_node=8, gpu_model="B")},
    "resnet50 v100-16gb 4x8": {"case": "4x8"},
    # Nodes of another GPU model took the place of these in their pool.
    "resnet50 v100-16gb 1x8": {"measured": {"gpu_model": "A"}},
}
"""Benchmark, pool and case that stop → the fields of their runs."""


@pytest.mark.parametrize("stops", STOPS)
def test_what_stops_as_a_whole_is_missing_like_a_case(stops: str) -> None:
    made = report([*nightly(range(9)), *nightly(range(7), **STOPS[stops])], Wanted())
    assert lacking(made) == {stops: "night-07 to night-08"}
    assert made.results[0].missing_in is not None, "it stands first"


@pytest.mark.parametrize("stops", STOPS)
def test_in_sets_of_its_own_it_is_missing_a_night_later(stops: str) -> None:
    fields = STOPS[stops]
    for last, found in ((7, {}), (8, {stops: "night-07 to night-08"})):
        runs = [*nightly(range(last + 1)), *nightly(range(7), own="-own", **fields)]
        assert lacking(report(runs, Wanted())) == found


def test_a_case_of_its_own_sets_that_was_no_habit_is_not_missing() -> None:
    runs = [*nightly(range(30)), *nightly((1, 2, 3), own="-own", benchmark="tsm")]
    made = report(runs, Wanted())
    assert lacking(made) == {}
    assert len(made.results) == 2


def test_a_weekly_case_is_missing_when_its_week_is_over_and_leaves_after_five() -> None:
    def at(night: int) -> Report:
        weekly = nightly(range(0, 22, 7), case="4x8")
        return report([*nightly(range(night + 1)), *weekly], Wanted())

    assert lacking(at(27)) == {}
    assert lacking(at(28)) == {"resnet50 v100-16gb 4x8": "night-22 to night-28"}
    assert [one.group.key.case for one in at(55).results] == ["4x8", "1x8"]
    gone = at(56)
    assert [one.group.key.case for one in gone.results] == ["1x8"]
    assert [group.key.case for group in gone.retired] == ["4x8"]


def test_a_case_that_still_runs_is_not_missing() -> None:
    begun = run(None, set_name="night-01", case="4x8", at=START + DAY, phase=Phase.RUNNING)
    assert lacking(report([*nightly(range(4)), begun], Wanted())) == {}


def test_sets_of_one_day_do_not_end_a_case() -> None:
    early = [*nightly([0]), *nightly([0], case="4x8")]
    later = [one for n in range(9) for one in nightly([1], own=f"-{n}")]
    assert len(report([*early, *later], Wanted()).results) == 2


def test_what_was_asked_for_is_shown_however_old_it_is() -> None:
    runs = [*nightly(range(40)), *nightly(range(9), case="4x8")]
    made = report(runs, Wanted(chosen=GroupFilter(case="4x8")))
    (row,) = made.results
    assert made.retired == ()
    assert row.missing_in is not None
    assert row.missing_in.gone


def row_of(made: Report, case: str) -> Result:
    (found,) = (one for one in made.results if one.group.key.case == case)
    return found


def test_a_row_of_an_earlier_night_has_its_set_and_age() -> None:
    runs = [*nightly(range(9)), *nightly([5], own="-own", case="4x8")]
    made = report(runs, Wanted())
    assert row_of(made, "1x8").behind_s is None
    assert row_of(made, "4x8").behind_s == 3 * DAY - 3600
    (table,) = layout.tables([row_of(made, "4x8")], ())
    assert document.row(row_of(made, "4x8"))["behind_s"] == 3 * DAY - 3600
    cell = table.rows[0][-1]
    assert text(cell.text).endswith("; 2d23h older")
    assert any("night-05-own" in note for note in texts(cell.notes))


def dropped(stop: int) -> list[Run]:
    """Return a case that is 5 % slower from night 8 on, and is not measured from another one on."""
    case: Callable[..., list[Run]] = lambda nights, rate: nightly(nights, rate, case="4x8")  # noqa: E731
    return [*case(range(8), 700.0), *case(range(8, stop), 665.0)]


def test_an_open_case_that_is_not_measured_any_more_stays_as_one_finding() -> None:
    made = report([*nightly(range(40)), *dropped(12)], Wanted(), over_sets=True)
    assert made.retired == ()
    row = row_of(made, "4x8")
    assert row.missing_in is not None
    assert row.missing_in.gone
    (one,) = noted(made.series, made.compared, made.results)
    (finding,) = one.findings
    assert (text(finding.label), one.set_name) == ("not measured", "night-11")
    assert finding.since == "night-08"
    assert one.change == pytest.approx(-0.05, abs=0.002)
    # Until then it is open, and missing.
    made = report([*nightly(range(14)), *dropped(12)], Wanted(), over_sets=True)
    (one,) = noted(made.series, made.compared, made.results)
    assert [text(finding.label) for finding in one.findings] == ["open", "missing"]
