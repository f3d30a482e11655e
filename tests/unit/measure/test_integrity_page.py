"""Rule tables and limits on the pages come from the code."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from k8sbench.measure.group import rejections as group_rules
from k8sbench.measure.run import rules as run_rules
from k8sbench.measure.verdict import IntegrityRule
from tests import struct_docs

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "integrity.md"
TABLES = {"rules": (PAGE, run_rules), "groups": (DOCS / "results.md", group_rules)}


def table(module: ModuleType) -> str:
    """The rules of a module, as Markdown: rejections first, then by id."""
    rows = ["| id | severity | what it means | what to do |", "|---|---|---|---|"]
    conditions = struct_docs.constants(module)
    rules = {name: rule for name, rule in vars(module).items() if isinstance(rule, IntegrityRule)}
    for name, rule in sorted(rules.items(), key=lambda item: (item[1].severity, item[1].id)):
        rows.append(f"| `{rule.id}` | {rule.severity} | {conditions[name]} | {rule.action} |")
    return "\n".join(rows)


@pytest.mark.parametrize("name", TABLES)
def test_the_table_on_the_page_is_the_codes_golden(name: str) -> None:
    page, module = TABLES[name]
    struct_docs.assert_generated(page, name, table(module))


@pytest.mark.parametrize("module", [run_rules, group_rules])
def test_a_rule_has_a_condition_and_an_action_in_whole_sentences(module: ModuleType) -> None:
    conditions = struct_docs.constants(module)
    for name, rule in vars(module).items():
        if isinstance(rule, IntegrityRule):
            assert conditions[name].endswith(".")
            assert rule.action.endswith(".")
            assert rule.id == name.lower().replace("_", "-")


def test_no_reason_says_that_somebody_changed_a_log() -> None:
    sentences = Path(__file__).with_name("findings.txt").read_text(encoding="utf-8")
    actions = (rule.action for rules in (run_rules.ALL, group_rules.ALL) for rule in rules.values())
    for text in (sentences, *actions, PAGE.read_text(encoding="utf-8")):
        assert not re.search(r"\bedited|tamper|forge|fak(?:e|ing)", text)


PROGRAMS = {
    "mmsegmentation": "mmseg",
    "PLSC v2.2": "plsc v2",
    "temporal-shift-module": "tsm",
    "PaddleClas": "paddleclas",
    "PaddleSeg": "paddleseg",
}
