"""Properties of log families, which rules of measuring ask in place of a family's name."""

import ast
import pathlib
from typing import Any

import pytest

from k8sbench.model.log_format import FAMILY_NAMES
from k8sbench.model.measurement import Measurement
from k8sbench.model.sample import Shape
from k8sbench.reader import families, measuring
from k8sbench.reader.families import FAMILIES
from k8sbench.reader.family import Family, RecordRule, padded, rule
from tests.reader.measuring.support import ids, measured

PROGRAM = Family(
    name="invented",
    title="an invented program",
    framework=None,
    unit="samples/s",
    facts=(
        rule("plan: ", r"plan: warmup (?P<warmup>\d+), run (?P<run_id>\w+)"),
        rule("with ", r"with (?P<framework>\w+) (?P<framework_version>[\d.]+)"),
    ),
    late_facts=(rule("again: ", r"again: run (?P<run_id>\w+)"),),
    records=(
        RecordRule(
            " took ",
            padded(r"(?P<stamp>\S+ \S+) step (?P<iteration>\d+) took (?P<step_seconds>[\d.]+)"),
            Shape(name="invented", number="seconds", resolution=1.0),
        ),
    ),
)
LOG = [
    "plan: warmup 3, run a",
    "with paddle 9.0.1",
    *(f"2026-03-02 10:00:{step:02} step {step} took 1.0" for step in range(1, 41)),
    "again: run b",
]


def ask(question: str, found: Measurement) -> object:
    """The answer of a measurement to a question of these tests."""
    if question == "warm-up":
        return found.warmup_iterations
    if question == "steady":
        return found.steady is not None
    return question in ids(found)


@pytest.mark.parametrize(
    ("property_", "question", "without", "with_it"),
    [
        ({"states_plan": True}, "warm-up", 10, 3),
        ({"tried_with": {"paddle": ("9.1",)}}, "framework-untried", False, True),
        ({"tried_with": {"paddle": ("9.0",)}}, "framework-untried", False, False),
        ({"facts_of_run": ("run_id",)}, "two-runs", False, True),
        ({"stamps_utc": True}, "steady", False, True),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_a_new_family_states_its_properties_by_itself(
    property_: dict[str, Any],
    question: str,
    without: object,
    with_it: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = {name: getattr(PROGRAM, name) for name in Family.__struct_fields__}
    for family, answer in (
        (Family(**(fields | {"warmup": 10})), without),
        (Family(**(fields | {"warmup": 10} | property_)), with_it),
    ):
        monkeypatch.setitem(FAMILIES, "invented", family)
        found = measured(LOG, format="invented", warmup=None, batch_size=1)
        assert ask(question, found) == answer


def test_no_rule_of_measuring_knows_a_family_by_its_name() -> None:
    (folder,) = measuring.__path__
    for path in pathlib.Path(folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant):
                assert node.value not in FAMILY_NAMES, f"{path.name}:{node.lineno}"
            if isinstance(node, ast.ImportFrom):
                of_one = f"{families.__name__}."
                assert not (node.module or "").startswith(of_one), f"{path.name}:{node.lineno}"
