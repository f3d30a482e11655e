"""Rules are sentences, and none accuses a person."""

import re
from types import ModuleType

import pytest

from k8sbench.model import rules as run_rules
from k8sbench.model.verdict import IntegrityRule
from k8sbench.results.groups import rejections as group_rules
from tests.tiers import ROOT

PAGE = ROOT / "docs" / "reasons.md"
SENTENCES = [
    ROOT / "tests" / "reader" / "measuring" / "findings.txt",
    ROOT / "tests" / "results" / "groups" / "findings.txt",
]


@pytest.mark.parametrize("module", [run_rules, group_rules])
def test_a_rule_has_a_condition_and_an_action_in_whole_sentences(module: ModuleType) -> None:
    for name, rule in vars(module).items():
        if isinstance(rule, IntegrityRule):
            assert rule.condition.endswith(".")
            assert rule.action.endswith(".")
            assert rule.id == name.lower().replace("_", "-")


def test_no_reason_says_that_somebody_changed_a_log() -> None:
    sentences = (file.read_text(encoding="utf-8") for file in SENTENCES)
    actions = (rule.action for rules in (run_rules.ALL, group_rules.ALL) for rule in rules.values())
    verdicts, *_ = PAGE.read_text(encoding="utf-8").split("## States of a job")
    for text in (*sentences, *actions, verdicts):
        assert not re.search(r"\bedited|tamper|forge|fak(?:e|ing)", text)
