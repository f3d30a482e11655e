"""Lines are found in blocks as they would be one by one."""

import itertools
import re
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from k8sbench.model.log_format import FAMILY_NAMES
from k8sbench.reader import lines as cleaning
from k8sbench.reader.families import FAMILIES
from k8sbench.reader.family import EvaluationRule, MarkRule, RecordRule
from k8sbench.reader.lines import OrderedLines, ended
from tests.reader.measuring.support import FIXTURES

parts_of_lines = st.lists(st.sampled_from(["ab", "b", "ca", "", "\n", "\r", "x\n", "ab\n", "c\r"]))
cuts_of_blocks = st.lists(st.integers(1, 9), max_size=3)
EVERY = frozenset({""})


def blocks(parts: Sequence[str], cuts: Sequence[int]) -> list[str]:
    """A text in blocks of whole lines."""
    lines = ended("".join(parts))
    places = sorted({0, len(lines), *(cut for cut in cuts if cut < len(lines))})
    return ["".join(lines[begin:end]) for begin, end in itertools.pairwise(places)]


def one_by_one(parts: Sequence[str]) -> list[tuple[int, str]]:
    """Return the non-empty pieces of a text with their line numbers."""
    lines = enumerate("".join(parts).split("\n"), 1)
    return [(number, piece) for number, line in lines for piece in line.split("\r") if piece]


def split(lines: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """The pieces of lines, which carriage returns separate."""
    return [(number, piece) for number, line in lines for piece in line.split("\r") if piece]


@given(parts_of_lines, cuts_of_blocks)
def test_all_lines_come_with_their_numbers(parts: list[str], cuts: list[int]) -> None:
    lines = OrderedLines(blocks(parts, cuts))
    assert split(lines.holding(EVERY)) == one_by_one(parts)
    assert lines.empty == (not one_by_one(parts))


CODES = [
    "Epoch: [3]",
    "Epo\x1b[1mch\x1b[0m: [4]",
    "Epoch",
    ": [",
    "[1,0]<stdout>:",
    "\x00",
    "\x1b[5d",
    "7 ab",
]
coded = st.lists(st.one_of(st.sampled_from(CODES), st.sampled_from(["\n", "\r", "\n", " "])))


@given(coded, st.lists(st.integers(1, 9), max_size=3))
@example(["\x1b[5d", "Epoch: [3]"], [])
def test_cleaned_lines_that_hold_a_text_are_found(parts: list[str], cuts: list[int]) -> None:
    def cleaned(lines: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
        read = [piece for number, line in lines for piece in cleaning.pieces(line, number)]
        return [
            (piece.number, piece.text)
            for piece in read
            if "Epoch: [" in piece.text or "ab" in piece.text
        ]

    wanted = frozenset({"Epoch: [", "ab"})
    found = OrderedLines(blocks(parts, cuts)).holding(wanted)
    assert cleaned(found) == cleaned(one_by_one(parts))


@pytest.mark.parametrize("prefix", ["", "\x1b[33m", "[1,0]<stdout>:", "10%\r"])
def test_lines_of_a_prologue_that_hold_none_of_the_texts_are_passed_over(prefix: str) -> None:
    block = "".join(f"{prefix}loaded 0x{number:x} of 7000\x1b[0m\n" for number in range(7000))
    wanted = frozenset({"Epoch: ["})
    lines = OrderedLines([block, f"{prefix}Epoch: [1]\n"])
    assert {number for number, _ in lines.holding(wanted)} == {7001}


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_what_a_rule_matches_holds_its_needle(family: str) -> None:
    rules = FAMILIES[family]
    lines = [line for log in FIXTURES.iterdir() for line in log.read_text().split("\n")]
    all_rules: list[RecordRule | EvaluationRule | MarkRule]
    all_rules = [*rules.records, *rules.evaluations, *rules.marks]
    for rule in all_rules:
        pattern = rule.pattern or re.compile(re.escape(rule.needle))
        for line in filter(pattern.search, lines):
            assert rule.needle in line
