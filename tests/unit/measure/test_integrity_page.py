"""Rules are sentences, and the limits on the page are the code's."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from k8sbench.measure.group import rejections as group_rules
from k8sbench.model import rules as run_rules
from k8sbench.model.verdict import IntegrityRule
from k8sbench.reader.measuring import log_clock

PAGE = Path(__file__).parents[3] / "docs" / "reasons.md"


@pytest.mark.parametrize("module", [run_rules, group_rules])
def test_a_rule_has_a_condition_and_an_action_in_whole_sentences(module: ModuleType) -> None:
    for name, rule in vars(module).items():
        if isinstance(rule, IntegrityRule):
            assert rule.condition.endswith(".")
            assert rule.action.endswith(".")
            assert rule.id == name.lower().replace("_", "-")


def test_no_reason_says_that_somebody_changed_a_log() -> None:
    sentences = Path(__file__).with_name("findings.txt").read_text(encoding="utf-8")
    actions = (rule.action for rules in (run_rules.ALL, group_rules.ALL) for rule in rules.values())
    verdicts, *_ = PAGE.read_text(encoding="utf-8").split("## States of a job")
    for text in (sentences, *actions, verdicts):
        assert not re.search(r"\bedited|tamper|forge|fak(?:e|ing)", text)


def test_the_limits_in_the_conditions_are_the_codes() -> None:
    from k8sbench.reader.measuring import integrity, rank_sums

    def condition(name: str) -> str:
        return run_rules.ALL[name].condition

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
