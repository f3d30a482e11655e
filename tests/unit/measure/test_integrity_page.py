"""The page on reasons and the table in the code say the same."""

from __future__ import annotations

from pathlib import Path

from k8sbench.measure.actions import ACTIONS, OF_GROUPS, OF_RUNS
from k8sbench.measure.group.grouping import REASONS
from k8sbench.measure.run import log_clock
from k8sbench.measure.run.reasons import RULES

PAGE = Path(__file__).parents[3] / "docs" / "integrity.md"


def rows() -> dict[str, list[str]]:
    """Id → the other cells of its row."""
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            found[cells[0].strip("`")] = cells[1:]
    return found


def test_every_reason_has_its_row_and_no_other_has() -> None:
    assert set(rows()) == set(RULES)


def test_each_row_has_the_codes_severity_a_meaning_and_an_action() -> None:
    for name, (severity, meaning, action) in rows().items():
        assert severity.partition("; ")[0] == RULES[name]
        assert meaning.endswith(".")
        assert action == OF_RUNS[name]


def test_every_reason_of_runs_and_of_groups_has_something_to_do() -> None:
    assert set(OF_RUNS) == set(RULES)
    assert set(OF_GROUPS) == set(REASONS)
    assert all(each.endswith(".") for each in ACTIONS.values())


def test_the_limits_on_the_page_are_the_codes() -> None:
    from k8sbench.measure.run import case, integrity, summaries

    text = PAGE.read_text(encoding="utf-8")
    assert f"Fewer than {case.FEWEST_RECORDS} training lines" in text
    assert f"allows {1 - integrity.ENOUGH:.0%}".replace("%", " %") in text
    assert f"allows {summaries.OWN_SUMMARY:.1%}".replace("%", " %") in text
    assert "ten times slower" in text
    assert summaries.SLOW_TAIL == 10


PROGRAMS = {
    "mmsegmentation": "mmseg",
    "PLSC v2.2": "plsc v2",
    "temporal-shift-module": "tsm",
    "PaddleClas": "paddleclas",
    "PaddleSeg": "paddleseg",
}


def test_the_tolerances_on_the_page_are_the_codes() -> None:
    cells = [line.strip("|").split("|") for line in PAGE.read_text(encoding="utf-8").splitlines()]
    found = {row[0].strip(): row[-1].strip() for row in cells if len(row) == 4}

    def allowed(program: str) -> float:
        (cell,) = (share for name, share in found.items() if name.startswith(program))
        return float(cell.removesuffix(" %")) / 100

    for program, name in PROGRAMS.items():
        assert allowed(program) == log_clock.TOLERANCES[name].share
    dle = log_clock.TOLERANCES["dle-resnet50"]
    assert allowed("DeepLearningExamples, the median") == dle.median
    assert allowed("DeepLearningExamples, all") == dle.share
    assert allowed("our own trainers") == log_clock.OTHERS.share
