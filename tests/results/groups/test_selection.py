"""Selection of rows: by default the latest set of each case."""

import re
from typing import Any

import pytest

from k8sbench.model.group import MissingIn, Newer
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.results.groups.selection import Report, Wanted
from k8sbench.results.report import layout
from tests.results.groups.grouped import report
from tests.results.report.factory import START, reject, run
from tests.results.said import text, texts

DAY = 86400.0


def night(number: int, rate: float | None = 700.0, **fields: object) -> Run:
    digest = f"{number}" * 64  # the trainers change from night to night
    return run(
        rate,
        set_name=f"night-{number}",
        at=START + DAY * number,
        trainers_digest=digest,
        **fields,  # type: ignore[arg-type]
    )


def shown(made: Report) -> list[tuple[str, str]]:
    return [(result.group.key.set_name, result.group.key.case) for result in made.results]


NIGHTS = [night(1, case="1x1", rate=100.0), night(1), night(2), night(2, case="4x8", rate=2500.0)]


def test_since_shows_every_set_with_a_run_since_then_whole() -> None:
    late = run(701.0, set_name="night-1", at=START + 3 * DAY, repeat=2, trainers_digest="1" * 64)
    made = report([*NIGHTS, late], Wanted(since=START + 2.5 * DAY))
    assert shown(made) == [("night-1", "1x8")]
    assert made.results[0].group.counted == 2


def test_a_set_that_failed_does_not_hide_the_figure_of_the_one_before() -> None:
    made = report([night(1), night(2), night(3, None, phase=Phase.FAILED)], Wanted())
    assert shown(made) == [("night-2", "1x8")]
    assert made.results[0].newer == Newer(set_name="night-3", state="failed")
    (table,) = layout.tables(made.results, ())
    assert text(table.rows[0][-1].text) == "valid; newer failed"
    assert "newer: set night-3, failed, has no figure" in texts(table.rows[0][-1].notes)
    # A case of which no set has a figure has the row of its latest.
    made = report([night(n, None, phase=Phase.FAILED) for n in (1, 2)], Wanted())
    assert (shown(made), made.results[0].newer) == ([("night-2", "1x8")], None)


def test_a_row_says_since_when_its_case_is_slower() -> None:
    runs = [night(n, 100.0 + n % 3 / 10 if n < 9 else 93.0 + n % 3 / 10) for n in range(1, 15)]
    (result,) = report(runs, Wanted()).results
    assert result.changed is not None
    assert result.changed.since == "night-9"
    (table,) = layout.tables([result], ())
    assert re.fullmatch(r"valid ◀ −\d\.\d %", text(table.rows[0][-1].text))
    assert result.changed.of_set is None
    (steady,) = report(runs[:8], Wanted()).results
    assert steady.changed is None
    # The night after a fix is back at the former level, and the next one will confirm it.
    (back,) = report([*runs, night(15, 101.5)], Wanted()).results
    assert back.changed is not None
    assert back.changed.ratio < 0
    assert back.changed.of_set == pytest.approx(0.08, abs=0.015)
    (table,) = layout.tables([back], ())
    assert re.fullmatch(r"valid ◀ −\d\.\d %, this set \+\d\.\d %", text(table.rows[0][-1].text))


def test_a_rejected_newest_set_hides_no_open_change() -> None:
    runs = [night(n, 100.0 + n / 10 if n < 9 else 93.0 + n / 10) for n in range(1, 15)]
    rejected = night(
        15, None, measured={"verdict": "rejected", "reasons": (reject("beyond-peak"),)}
    )
    (result,) = report([*runs, rejected], Wanted()).results
    assert result.group.key.set_name == "night-15"
    assert result.changed is not None
    assert (result.changed.since, result.changed.ratio < 0) == ("night-9", True)
    (table,) = layout.tables([result], ())
    assert re.fullmatch(r"rejected ◀ −\d\.\d %", text(table.rows[0][-1].text))
    # An older one tells nothing of today.
    (old,) = report([*runs, rejected, night(16, 94.6)], Wanted(set_name="night-15")).results
    assert old.changed is None


def test_an_older_set_has_the_mark_that_later_sets_gave_it() -> None:
    runs = [night(n, 100.0 + n / 10 if n < 9 else 93.0 + n / 10) for n in range(1, 12)]
    (step,) = report(runs, Wanted(set_name="night-9")).results
    assert step.changed is not None
    assert step.changed.kind == "step"
    once = [night(n, 93.0 if n == 9 else 100.0 + n / 10) for n in range(1, 12)]
    (gone,) = report(once, Wanted(set_name="night-9")).results
    assert gone.changed is None


def test_a_row_says_that_its_case_is_back_after_one_night() -> None:
    runs = [night(n, 93.0 if n == 9 else 100.0 + n % 3 / 10) for n in range(1, 11)]
    (result,) = report(runs, Wanted()).results
    assert result.changed is not None
    assert (result.changed.kind, result.changed.since) == ("back", "night-9")
    assert result.changed.ratio == pytest.approx(-0.07, abs=0.01)
    (table,) = layout.tables([result], ())
    assert text(table.rows[0][-1].text).startswith("valid; ")
    assert table.rows[0][-1].notes


@pytest.mark.parametrize(
    ("sort", "cases"),
    [
        ("case", ["1x1 fp32", "1x8 fp32", "1x1 amp", "2x8 amp"]),
        ("throughput", ["1x8 fp32", "1x1 amp", "1x1 fp32", "2x8 amp"]),
        ("created", ["2x8 amp", "1x1 fp32", "1x1 amp", "1x8 fp32"]),
    ],
)
def test_rows_have_the_order_that_is_asked_for(sort: Any, cases: list[str]) -> None:
    amp: Any = {"precision": "amp", "amp_dtype": "fp16"}
    runs = [
        run(300.0, case="1x1", at=START + 2, **amp),
        run(None, case="2x8", at=START + 4, phase=Phase.FAILED, **amp),
        run(800.0, case="1x8", at=START + 1),
        run(100.0, case="1x1", at=START + 3),
    ]
    keys = [result.group.key for result in report(runs, Wanted(sort=sort)).results]
    assert [f"{key.case} {key.precision}" for key in keys] == cases


def test_the_newest_set_of_one_gpu_model_hides_no_other_model() -> None:
    models = ["Tesla V100-SXM2-32GB", "NVIDIA A100-SXM4-40GB"]
    runs = [
        night(number, case=case, measured={"gpu_model": model})
        for number, model in enumerate(models, 1)
        for case in ("1x1", "1x8")
    ]
    made = report(runs, Wanted())
    assert [result.group.key.gpu_model for result in made.results] == [*models[::-1], *models[::-1]]
    (table,) = layout.tables(made.results, ())
    place = [column.title for column in table.columns].index("GPU model")
    assert {row[place].text for row in table.rows} == {*models}


def test_a_case_that_the_newest_set_of_its_kind_lacks_comes_first_as_missing() -> None:
    nights_ = [
        night(number, case=case)
        for number in range(1, 4)
        for case in ("1x1", "1x8", "4x8")
        if (number, case) != (3, "4x8")
    ]
    made = report(nights_, Wanted())
    assert shown(made) == [("night-2", "4x8"), ("night-3", "1x1"), ("night-3", "1x8")]
    assert made.results[0].missing_in == MissingIn(
        since="night-3", set_name="night-3", sets=1, behind_s=DAY
    )
    (table,) = layout.tables(made.results, ())
    assert "missing in night-3" in text(table.rows[0][-1].text)


def test_a_case_that_five_newer_sets_lack_is_named_and_not_shown() -> None:
    early = [night(0, case="4x8"), night(0)]
    later = [night(number) for number in range(1, 6)]
    made = report([*early, *later], Wanted())
    assert shown(made) == [("night-5", "1x8")]
    assert [group.key.case for group in made.retired] == ["4x8"]
    assert shown(report([*early, *later[:4]], Wanted()))[0] == ("night-0", "4x8")
    assert report([*early, *later], Wanted(every=True)).retired == ()


def test_sets_of_single_cases_lack_nothing_of_each_other() -> None:
    runs = [night(1, case="1x1"), *(night(number) for number in range(2, 9))]
    made = report(runs, Wanted())
    assert shown(made) == [("night-1", "1x1"), ("night-8", "1x8")]
    assert [result.missing_in for result in made.results] == [None, None]
