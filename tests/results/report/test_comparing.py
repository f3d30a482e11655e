"""A comparison in words and as data."""

import json
import random
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from k8sbench.model.compared import Comparison
from k8sbench.model.phase import Phase
from k8sbench.model.pool import NodePool
from k8sbench.results.groups import causes, comparison, history, sides
from k8sbench.results.groups.grouping import groups
from k8sbench.results.report import compared_data, compared_words, comparing, formats
from tests import struct_docs
from tests.results.groups.changed_sets import OLD, a_set, explained
from tests.results.groups.grouped import grouped
from tests.results.groups.histories import sets
from tests.results.groups.sides import A, B, compared, new, old
from tests.results.report import parsed
from tests.results.report.factory import START, V100_16, repeats, run, smoke
from tests.tiers import ROOT
from tests.unit import goldens


@pytest.fixture
def mixed() -> Comparison:
    """Return six cases: regression, equal, only in A, too few, failed, smoke."""
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


def test_a_comparison_in_words_is_golden(mixed: Comparison) -> None:
    """There is a line for each case, and each cause is said once."""
    cases = [f"{n}x8" for n in range(1, 4)]
    few = compared(
        [one for case in cases for one in old(A[:3], case=case)],
        [one for case in cases for one in new(B[:3], case=case)],
    )
    suite = ET.fromstring(compared_data.junit(mixed))
    ET.indent(suite)
    assert suite.findtext("system-out") == compared_words.summary(mixed)
    width = 100
    text = comparing.text(mixed, width=width)
    answer = compared_words.summary(mixed)
    assert comparing.text(mixed).splitlines()[1] == answer
    assert max(map(len, text.splitlines())) <= width
    assert comparing.markdown(mixed).startswith(f"A: a, B: b. {answer}")
    github = comparing.github(mixed)
    among = groups(sets([100.0, 100.1, 99.9, 100.0, 100.1]))
    odd = repeats((96.0, 96.1, 95.9), set_name="odd", at=START + 5e5)
    back = compared(odd, new((100.0, 100.1, 99.9)), 0.03, among=among)
    texts = [comparing.text(one, width=width) for one in (mixed, few, back)]
    parts = (*texts, github, ET.tostring(suite, "unicode") + "\n")
    goldens.check(Path(__file__).parent / "golden" / "comparing.txt", "\n".join(parts))


def test_of_several_gpu_models_a_case_names_its_own() -> None:
    one = NodePool(name="a", gpus_per_node=8, gpu_model="A")
    two = NodePool(name="b", gpus_per_node=8, gpu_model="B")
    mine = "resnet50 pytorch fp32 1x8"
    apart = compared([*old(pool=one), *old(case="1x1")], [*new(pool=one), *new(case="1x1")])
    assert compared_words.case_names(apart) == ["resnet50 pytorch fp32 1x1 " + V100_16, f"{mine} A"]
    across = compared(old(pool=one), new(pool=two))
    assert compared_words.case_names(across) == [f"{mine} A → B"]
    alone = compared(old(pool=one), new(pool=one))
    assert compared_words.case_names(alone) == [mine]
    among = [case.group for case in apart.cases]
    assert compared_words.case_names(alone, among) == [f"{mine} A"]


def test_of_a_pair_of_two_cases_the_name_has_both() -> None:
    across = compared(old(case="1x1"), new(case="1x8"))
    assert compared_words.case_names(across) == ["resnet50 pytorch fp32 1x1 → 1x8"]


def test_a_case_is_still_open_with_the_newer_side_whichever_it_is() -> None:
    nights = sets([100.0, 100.1, 99.9, 100.0, 95.0, 95.1, 95.2])
    among = groups(nights)

    def opened(*names: str) -> list[str]:
        a, b = ([one for one in nights if one.plan.set_name == name] for name in names)
        text = comparing.text(compared(a, b, among=among))
        return [line.partition(": ")[2] for line in text.splitlines() if "still open" in line]

    assert opened("n05", "n06") == ["−4.9 % since n04, still open with B."]
    assert opened("n06", "n05") == ["−4.9 % since n04, still open with A."]
    assert opened("n03", "n04") == opened("n04", "n03") == []


def test_in_a_pipe_no_column_of_a_comparison_is_dropped() -> None:
    pool = NodePool(name="a", gpus_per_node=8, gpu_model="of a long name " * 10)
    long = compared([*old(), *old(pool=pool)], [*new(), *new(pool=pool)])
    _, _, _, titles, *_ = comparing.text(long).splitlines()
    assert titles.split()[-3:] == ["CHANGE", "INTERVAL", "VERDICT"]
    narrow = comparing.text(long, width=100)
    assert "INTERVAL:" in narrow
    assert max(map(len, narrow.splitlines())) <= 100


CHANGES: list[tuple[float, dict[str, Any]]] = [
    (90, {"driver": "555", "kernel": "6.1", "node": "n9", "nccl": "2.27", "python": "3.12"}),
    (91, {"driver": "555", "kernel": "6.1", "node": "n9", "nccl": "2.27"}),
    (92, {"driver": "560", "kernel": "6.1", "cuda": "12.4"}),
    (100, {"cuda": "12.4"}),
    (110, {}),
    (100, {}),
]


def test_what_may_explain_changes_is_golden() -> None:
    """Facts of one line have the same cases; what unchanged cases have as well is last."""
    before = a_set("a", 0, *[(100, OLD | {"nccl": "2.26", "node": "n1"})] * len(CHANGES))
    last = a_set("night", 1e5, *[(100, OLD | {"nccl": "2.26", "node": "n1"})] * len(CHANGES))
    after = a_set("b", 2e5, *[(rate, OLD | new) for rate, new in CHANGES])
    two = explained(before, after)
    same_before = [(100, OLD | {"nccl": "2.26", "node": "n1"})] * len(CHANGES)
    nights = [a_set(f"night-{n}", 1e5 * (n - 5), *same_before) for n in range(5)]
    three = explained(before, after, [run for night in (*nights, last) for run in night])
    same = explained(before, a_set("b", 2e5, *[(100, OLD | {"driver": "555"})] * len(CHANGES)))
    nothing = explained(before[:3], a_set("b", 2e5, (90, OLD)))
    parts = [text[text.index("What ") :] for text in map(comparing.text, (two, three, same))]
    parts.append(comparing.text(nothing).splitlines()[-1] + "\n")
    shown = comparing.markdown(three)
    parts.append(shown[shown.index("What ") :])
    goldens.check(Path(__file__).parent / "golden" / "causes.txt", "\n".join(parts))
    assert "driver" in (parsed.tree(comparing.github(three)).text or ""), "it is not folded"
    # The document has all of it, by the names of the cases.
    (first, *_) = compared_data.document(three)["causes"]
    assert first["sets"] == ["night", "b"]
    assert first["unchanged"] == []
    assert set(first["cases"]) <= {case["name"] for case in compared_data.document(three)["cases"]}


def test_data_and_csv_have_the_same_figures(mixed: Comparison) -> None:
    document = json.loads(formats.json_text(compared_data.document(mixed)))
    header, rows = compared_data.flat(mixed)
    assert document["regressions"] == 1
    for case, row in zip(document["cases"], rows, strict=True):
        fields = dict(zip(header, row, strict=True))
        assert fields["name"] == case["name"]
        assert fields["ratio"] == case["ratio"]
        assert fields["b_n"] == (None if case["b"] is None else len(case["b"]["values"]))
        for name in ("ratio", "low", "high", "least", "p", "p_adjusted", "earlier_sets"):
            assert (case[name] is None) == (name in case["missing"])


LEVELS = {
    "deeplabv3p": {"1x1": 7.42, "1x8": 57.8, "4x8": 224.0},
    "resnet50": {"1x1": 802.0, "1x8": 6154.0, "4x8": 22550.0},
    "tsm": {"1x1": 51.5, "1x8": 391.0, "4x8": 1540.0},
}


def test_readme_and_the_page_show_what_compare_prints_golden() -> None:
    draw, runs = random.Random(2), []
    for night in range(11):
        for benchmark, case in ((name, case) for name in LEVELS for case in LEVELS[name]):
            slower = (night, benchmark, case) == (10, "deeplabv3p", "1x8")
            level = LEVELS[benchmark][case] * (0.936 if slower else 1.0) * draw.gauss(1, 0.002)
            runs += repeats(
                [level * draw.gauss(1, 0.002) for _ in range(3)],
                measured={"environment": {"driver": "570.86" if slower else "550.54"}},
                benchmark=benchmark,
                case=case,
                precision="amp",
                amp_dtype="fp16",
                set_name=f"night-{night:02}",
                at=START + 86400 * night,
            )
    known = grouped(runs)
    named = sides.known(known, ())
    a, b = (sides.named(name, named) for name in ("night-09", "night-10"))
    found = comparison.compare(a, b, earlier=known)
    found = causes.explained(history.with_marks(found, known), {}, known)
    printed = comparing.text(found, width=80)
    head, *_, causes_found = printed.strip().split("\n\n")
    begin = "```text\n$ k8sbench compare night-09 night-10\n"
    page = ROOT / "docs" / "compare.md"
    struct_docs.assert_generated(page, "compare", f"{begin}{printed.strip()}\n```")
    short = f"{begin}{head}\n…\n{causes_found}\n```"
    struct_docs.assert_generated(ROOT / "README.md", "compare", short)
