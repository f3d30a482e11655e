"""What a comparison says: in words, as JUnit's XML, as data."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from k8sbench.model.compared import Comparison, Figures
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.report import comparing, formats, tables
from tests.unit.measure.test_compare import A, B, compared, new, old
from tests.unit.report.factory import run, smoke


def words(a: Iterable[Run], b: Iterable[Run], limit: float | None = None) -> str:
    (case,) = compared(a, b, limit).cases
    return comparing.words(case, limit)


def test_what_so_many_runs_show_is_said_with_what_they_cannot() -> None:
    assert words(old((100.0,)), new((50.0,))) == (
        "1 and 1 run cannot show a difference; 3 on each side are the fewest that can."
    )
    assert words(old(A), new(B), 0.03) == (
        "B is slower: p = 10.0 %. 3 and 3 runs cannot reach p ≤ 5 %; 4 on each side can. Slower by"
        " more than 3 %, and separated: a regression."
    )
    five = (100.0, 101.0, 102.0, 103.0, 104.0)
    assert words(old(five), new([0.9 * rate for rate in five])) == "B is slower: p = 0.8 %."
    told = words(old(A), new((99.0, 101.5, 103.0)))
    assert told.startswith("No difference is shown: p = ")
    assert told.endswith(" A slowdown of 2.9 % is within the interval.")


def test_what_is_beyond_the_limit_and_not_separated_asks_for_repeats() -> None:
    told = words(old(A[:2]), new(B[:2]), 0.03)
    assert "but not separated: no regression is shown. More repeats would decide." in told


def test_whose_gpu_is_not_known_is_said() -> None:
    unknown: dict[str, Any] = {"measured": {"gpu_model": None}}
    assert words(old(), new(**unknown)) == (
        "No ratio is given (device). The GPU model of B is not known; import takes --gpu-model."
    )
    assert "The GPU model of A and of B is not known" in words(old(**unknown), new(**unknown))
    other: dict[str, Any] = {"measured": {"gpu_model": "NVIDIA A100-SXM4-40GB"}}
    assert words(old(), new(**other)) == "No ratio is given (device)."


@pytest.fixture
def mixed() -> Comparison:
    """A regression, an equal case, one only in A, one of too few runs, one that failed, smoke."""
    amp = {"precision": "amp", "amp_dtype": "fp16"}
    a = [
        *old(A, case="1x8"),
        *old(A, case="1x1"),
        *old(A, case="4x8"),
        *old(A[:1], case="2x8"),
        *old(A, case="2x4"),
        smoke(3.0, set_name="old", variant="s\x00mall <&>"),
    ]
    b = [
        *new(B, case="1x8"),
        *new(A, case="1x1"),
        *new(B[:1], case="2x8"),
        run(None, set_name="new", case="2x4", phase=Phase.FAILED),
        smoke(3.0, set_name="new", variant="s\x00mall <&>"),
        *new(A, case="1x1", **amp),
    ]
    return compared(a, b, 0.03)


def test_junit_has_a_test_for_each_case(mixed: Comparison) -> None:
    suite = ET.fromstring(comparing.junit(mixed))
    outcomes = {test.get("name"): next(part.tag for part in test) for test in suite}
    assert {name.split()[0]: kind for name, kind in outcomes.items() if name} == {
        "1x8": "failure",
        "1x1": "skipped",  # of two: the one in AMP, which A lacks, comes last
        "4x8": "skipped",
        "2x8": "skipped",
        "2x4": "error",
        "2x1-cpu": "skipped",
    }
    passed = [test.get("name") for test in suite if [part.tag for part in test] == ["system-out"]]
    assert len(passed) == 1
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == [
        *("7", "1", "1", "4")
    ]
    (failure,) = suite.iter("failure")
    assert (failure.get("message") or "").startswith("−9.9 %: REGRESSION. B is slower: p = 10.0 %.")


def test_a_test_of_junit_has_the_same_name_whatever_else_is_compared(mixed: Comparison) -> None:
    def names(compared: Comparison) -> list[str | None]:
        return [test.get("name") for test in ET.fromstring(comparing.junit(compared))]

    (alone,) = names(compared(old(A, case="1x8"), new(B, case="1x8")))
    assert alone == "1x8 resnet50 pytorch fp32 batch 128"
    assert alone in names(mixed)


def test_the_table_says_it_in_a_word(mixed: Comparison) -> None:
    text = tables.text(comparing.tables(mixed))
    for told in (
        "A: a   B: b",
        "REGRESSION",
        "only in A",
        "only in B",
        "undecided",
        "not comparable: smoke, cpu",
        "~",
        "−9.9 %",
        "failed: run-failed",
    ):
        assert told in text
    assert "\x00" not in text
    assert tables.markdown(comparing.tables(mixed)).startswith("**A: a   B: b**")


def test_the_estimator_of_the_figures_is_named() -> None:
    assert "A, B: medians by time_weighted\n" in tables.text(
        comparing.tables(compared(old(), new()))
    )


def test_figures_by_several_estimators_name_each_their_own() -> None:
    found = compared([*old(case="1x1"), *old(case="1x8")], new(case="1x1"))
    cases = [
        one if one.b else msgspec.structs.replace(one, a=_by("median", one.a))
        for one in found.cases
    ]
    (table,) = comparing.tables(msgspec.structs.replace(found, cases=tuple(cases)))
    place = [column.title for column in table.columns].index("A")
    assert {row[0].text: row[place].notes for row in table.rows} == {
        "1x1": ("by time_weighted",),
        "1x8": ("by median",),
    }
    assert not table.notes


def _by(estimator: str, side: Figures | None) -> Figures:
    assert side is not None
    return msgspec.structs.replace(side, estimator=estimator)


def test_data_and_csv_have_the_same_figures(mixed: Comparison) -> None:
    document = json.loads(formats.json_text(comparing.document(mixed)))
    header, rows = comparing.flat(mixed)
    assert document["regressions"] == 1
    for case, row in zip(document["cases"], rows, strict=True):
        fields = dict(zip(header, row, strict=True))
        assert fields["name"] == case["name"]
        assert fields["ratio"] == case["ratio"]
        assert fields["words"] == case["words"]
        assert fields["b_n"] == (None if case["b"] is None else len(case["b"]["values"]))
        for name in ("ratio", "p"):
            assert (case[name] is None) == (name in case["missing"])
        assert (case["interval_low"] is None) == ("interval" in case["missing"])
