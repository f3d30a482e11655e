"""The limits that rules and their page state are the code's."""

from pathlib import Path

from k8sbench.model import rules
from k8sbench.reader.measuring import integrity, log_clock, rank_sums

PAGE = Path(__file__).parents[3] / "docs" / "reasons.md"


def test_the_limits_in_the_conditions_are_the_codes() -> None:
    def condition(name: str) -> str:
        return rules.ALL[name].condition

    fewest = f"Fewer than {rank_sums.FEWEST_RECORDS} training lines"
    assert condition("too-few-records").startswith(fewest)
    assert f"{100 * (1 - integrity.ENOUGH):.0f} %" in condition("too-few-iterations")
    assert f"{100 * integrity.OWN_SUMMARY:.1f} %" in condition("summary-mismatch")


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
    assert allowed("DeepLearningExamples") == dle.share
    assert allowed("our own trainers") == log_clock.OTHERS.share
