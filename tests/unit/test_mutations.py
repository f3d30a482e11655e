"""The list of planted faults fits the product (``python -m tests.mutations`` plants them)."""

import collections

import pytest

from tests import mutations
from tests.mutations import Mutation
from tests.tiers import ROOT

LISTED = mutations.mutations(mutations.LIST.read_text())
LEAST = 200
"""The number of faults never falls."""
PACKAGES = {path.name for path in (ROOT / "k8sbench").iterdir() if (path / "__init__.py").exists()}
DATA = {"benchmarks"}


def test_each_fault_can_be_planted_at_one_place() -> None:
    for mutation in LISTED:
        source = (ROOT / mutation.file).read_text()
        assert mutation.planted(source) != source, mutation.key
    assert len({mutation.key for mutation in LISTED}) == len(LISTED) >= LEAST


def test_every_package_has_faults() -> None:
    counts = collections.Counter(mutation.file.split("/")[1] for mutation in LISTED)
    assert {name for name in PACKAGES - DATA if not counts[name]} == set()


@pytest.mark.parametrize("source", ["", "limit = 2\nlimit = 2\n"], ids=["nowhere", "twice"])
def test_a_text_that_does_not_stand_there_once_is_an_error(source: str) -> None:
    with pytest.raises(ValueError, match="stands there"):
        Mutation("some.py", "limit = 2", "limit = 4").planted(source)


def test_a_line_outside_functions_is_reached_by_those_that_name_what_it_defines() -> None:
    sources = {"a.py": "LIMIT = 2\n\ndef low(n):\n    return n < LIMIT\n", "b.py": "x = 1\n"}
    reached = mutations.Reached({("a.py", 4): {"by name"}, ("b.py", 1): {"elsewhere"}})
    assert reached.of_mutation(Mutation("a.py", "LIMIT = 2", "LIMIT = 3"), sources) == ["by name"]


def test_a_line_outside_functions_is_tried_by_its_users_then_namesakes_then_its_file() -> None:
    sources = {
        "a.py": "LIMIT = 2\n\ndef one():\n    return 1\n",
        "b.py": "import a\n\ndef low(n):\n    return n < a.LIMIT\n",
        "c.py": "LIMIT = 3\n\ndef high(n):\n    return n > LIMIT\n",
    }
    lines = {
        ("a.py", 4): {"of the file"},
        ("b.py", 3): {"user"},
        ("b.py", 4): {"user"},
        ("c.py", 4): {"namesake"},
    }
    fault = Mutation("a.py", "LIMIT = 2", "LIMIT = 4")
    found = mutations.Reached(lines).of_mutation(fault, sources)
    assert found == ["user", "namesake", "of the file"]


def test_unit_tests_that_reach_few_lines_come_first() -> None:
    sources = {"a.py": "def one():\n    return 1\n"}
    wide, narrow, played = "tests/unit/wide", "tests/reader/narrow", "tests/simulation/s"
    lines = {("a.py", 1): {wide}, ("a.py", 2): {narrow, wide, played}}
    found = mutations.Reached(lines).of_mutation(Mutation("a.py", "return 1", "return 2"), sources)
    assert found == [narrow, wide, played]
