"""The limits that rules and their page state are the code's."""

from pathlib import Path

from k8sbench.model import rules
from k8sbench.model.sample import TOLERANCE
from k8sbench.reader.families import FAMILIES
from k8sbench.reader.families.k8sbench import SHAPE
from k8sbench.reader.measuring import integrity, rank_sums

PAGE = Path(__file__).parents[3] / "docs" / "reasons.md"


def test_the_limits_in_the_conditions_are_the_codes() -> None:
    def condition(name: str) -> str:
        return rules.ALL[name].condition

    fewest = f"Fewer than {rank_sums.FEWEST_RECORDS} training lines"
    assert condition("too-few-records").startswith(fewest)
    assert f"{100 * (1 - integrity.ENOUGH):.0f} %" in condition("too-few-iterations")
    assert f"{100 * SHAPE.summary_tolerance:.1f} %" in condition("summary-mismatch")


PROGRAMS = {
    "DeepLearningExamples": "dle-resnet50",
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

    shapes = {rule.shape.name: rule.shape for f in FAMILIES.values() for rule in f.records}
    for program, name in PROGRAMS.items():
        assert allowed(program) == shapes[name].tolerance
    assert allowed("our own trainers") == TOLERANCE
