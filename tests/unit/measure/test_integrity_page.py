"""The page on reasons and the table in the code say the same."""

from __future__ import annotations

from pathlib import Path

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
        assert action.endswith(".")


def test_the_limits_on_the_page_are_the_codes() -> None:
    from k8sbench.measure.run import integrity
    from k8sbench.parse.families import dle_resnet50, mmseg

    text = PAGE.read_text(encoding="utf-8")
    assert f"Fewer than {integrity.FEWEST_RECORDS} training lines" in text
    assert f"allows {1 - integrity.ENOUGH:.0%}".replace("%", " %") in text
    assert f"by {mmseg.BY_ITERATION.strays:.0%}".replace("%", " %") in text
    assert f"by {dle_resnet50.SHAPE.strays:.0%}".replace("%", " %") in text
    assert f"allows {integrity.OWN_SUMMARY:.1%}".replace("%", " %") in text
    assert "ten times slower" in text
    assert integrity.SLOW_TAIL == 10
