"""What a comparison says: in words and as data."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest

from k8sbench.model.compared import Comparison
from k8sbench.model.phase import Phase
from k8sbench.report import comparing, formats
from tests.unit.measure.test_compare import A, B, compared, new, old
from tests.unit.report.factory import run, smoke


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
    outcomes = {
        test.get("name"): next(part.tag for part in test) for test in suite.iter("testcase")
    }
    assert {name.split()[3]: kind for name, kind in outcomes.items() if name} == {
        "1x8": "failure",
        "1x1": "skipped",  # of two: the one in AMP, which A lacks, comes last
        "4x8": "skipped",
        "2x8": "skipped",
        "2x4": "error",
        "2x1-cpu": "skipped",
    }
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == [
        *("7", "1", "1", "4")
    ]
    (failure,) = suite.iter("failure")
    assert (failure.get("message") or "").startswith("REGRESSION: −9.9 % (p 0.008, 5+5)")
    assert suite.findtext("system-out") == comparing.summary(mixed)
    assert "resnet50 pytorch fp32 1x8 batch 128" in outcomes


def test_the_table_has_a_line_for_each_case_and_says_each_cause_once(mixed: Comparison) -> None:
    lines = comparing.text(mixed).splitlines()
    assert [line.split("  ")[-1] for line in lines[2:9]] == [
        "~",
        "REGRESSION",
        "not comparable",
        "undecided",
        "only in A",
        "not comparable",
        "only in B",
    ]
    assert re.sub(" +", " ", lines[3]) == (
        "resnet50 pytorch fp32 1x8 101.00 ± 0.8 % 91.00 ± 0.9 % −9.9 % 0.008 5+5 REGRESSION"
    )
    below = "\n".join(lines[10:])
    assert "resnet50 pytorch fp32 2x4: No figure in B: failed: run-failed." in below
    assert "fp32 2x8: 1+1 runs can show no change, however large; 4+4 can" in below
    assert "2x1-cpu: Not comparable: smoke, cpu." in below
    assert lines[-1] == (
        "1 of 7 cases slower by more than 3 %: resnet50 pytorch fp32 1x8, −9.9 % (p 0.008);"
        " 1 shows no change; 1 has too few runs to show a change; 1 has no figure on one side; 1 is"
        " not comparable; 2 have no counterpart."
    )
    assert max(map(len, lines[:-1])) <= comparing.WIDTH
    assert "\x00" not in comparing.text(mixed)
    assert comparing.markdown(mixed).startswith("**A: a   B: b**")


def test_a_cause_that_many_cases_have_is_one_line() -> None:
    cases = [f"{n}x8" for n in range(1, 16)]
    text = comparing.text(
        compared(
            [one for case in cases for one in old(A[:3], case=case)],
            [one for case in cases for one in new(B[:3], case=case)],
        )
    )
    assert text.count("can show no change") == 1
    assert text.endswith("\n15 of 15 cases have too few runs to show a change.\n")


def test_data_and_csv_have_the_same_figures(mixed: Comparison) -> None:
    document = json.loads(formats.json_text(comparing.document(mixed)))
    header, rows = comparing.flat(mixed)
    assert document["regressions"] == 1
    for case, row in zip(document["cases"], rows, strict=True):
        fields = dict(zip(header, row, strict=True))
        assert fields["name"] == case["name"]
        assert fields["ratio"] == case["ratio"]
        assert fields["b_n"] == (None if case["b"] is None else len(case["b"]["values"]))
        for name in ("ratio", "p"):
            assert (case[name] is None) == (name in case["missing"])
