"""Rules are sentences, and the limits on the page are the code's."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from k8sbench.measure.group import rejections as group_rules
from k8sbench.measure.run import rules as run_rules
from k8sbench.measure.verdict import IntegrityRule

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
