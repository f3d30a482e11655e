"""Lines are found in blocks as they would be one by one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from k8sbench.parse import lines as cleaning
from k8sbench.parse.families import FAMILIES, NAMES
from k8sbench.parse.family import EvaluationRule, MarkRule
from k8sbench.parse.lines import UniqueLines, ended
from k8sbench.parse.records import RecordRule
from tests.unit.measure.support import FIXTURES

pieces = st.lists(st.sampled_from(["ab", "b", "ca", "", "\n", "\r", "x\n", "ab\n", "c\r"]))
TEXTS = ("ab", "ca", "x")


def blocks(parts: Sequence[str], cuts: Sequence[int]) -> list[str]:
    """A text in blocks of whole lines."""
    lines = ended("".join(parts))
    places = sorted({0, len(lines), *(cut for cut in cuts if cut < len(lines))})
    return ["".join(lines[begin:end]) for begin, end in itertools.pairwise(places)]


def one_by_one(parts: Sequence[str]) -> list[tuple[int, str]]:
    lines = enumerate("".join(parts).split("\n"), 1)
    return [(number, piece) for number, line in lines for piece in line.split("\r") if piece]


@given(pieces, st.lists(st.integers(1, 9), max_size=3))
def test_all_lines_come_with_their_numbers(parts: list[str], cuts: list[int]) -> None:
    lines = UniqueLines(blocks(parts, cuts))
    assert list(lines) == one_by_one(parts)
    assert lines.empty == (not one_by_one(parts))


@given(pieces, st.lists(st.integers(1, 9), max_size=3), st.integers(0, 3))
def test_lines_are_found_by_texts(parts: list[str], cuts: list[int], first: int) -> None:
    lines = UniqueLines(blocks(parts, cuts))
    found = list(itertools.islice(lines, first))
    while lines.more():
        found += zip(*lines.holding(lines.present(TEXTS)), strict=True)
    all_lines = one_by_one(parts)
    rest = all_lines[first:]
    assert found == all_lines[:first] + [
        line for line in rest if any(text in line[1] for text in TEXTS)
    ]


@given(pieces, st.lists(st.integers(1, 9), max_size=3), st.integers(0, 3))
def test_lines_that_hold_a_text_come_in_turn_up_to_where_one_stops(
    parts: list[str], cuts: list[int], some: int
) -> None:
    """Of blocks with carriage returns all lines may come: what holds a text may be in pieces."""
    lines = UniqueLines(blocks(parts, cuts))
    found = list(itertools.islice(lines.in_turn(lambda: TEXTS), some))
    every = one_by_one(parts)
    at = every.index(found[-1]) + 1 if found and "\r" not in "".join(parts) else None
    if at is not None and len(set(every)) == len(every):
        assert found == [line for line in every[:at] if any(text in line[1] for text in TEXTS)]
        assert list(lines) == every[at:]
    whole = [*found, *lines.in_turn(lambda: TEXTS)]
    held = [line for line in every if any(text in line[1] for text in TEXTS)]
    assert at is not None or [line for line in whole if line in held] == held


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
def test_what_holds_a_text_once_it_is_cleaned_comes_in_turn(
    parts: list[str], cuts: list[int]
) -> None:
    lines = UniqueLines(blocks(parts, cuts)).in_turn(lambda: {"Epoch: [", "ab"})
    cleaned = [(number, text) for number, line in lines for _, text in cleaning.pieces(line)]
    wanted = [
        (number, text)
        for number, line in one_by_one(parts)
        for _, text in cleaning.pieces(line)
        if "Epoch: [" in text or "ab" in text
    ]
    assert [line for line in cleaned if "Epoch: [" in line[1] or "ab" in line[1]] == wanted


@pytest.mark.parametrize("prefix", ["", "\x1b[33m", "[1,0]<stdout>:", "10%\r"])
def test_lines_of_a_prologue_that_hold_none_of_the_texts_are_passed_over(prefix: str) -> None:
    block = "".join(f"{prefix}loaded 0x{number:x} of 7000\x1b[0m\n" for number in range(7000))
    lines = UniqueLines([block, f"{prefix}Epoch: [1]\n"])
    numbers = [number for number, line in lines.in_turn(lambda: {"Epoch: ["}) if line]
    assert set(numbers) == {7001}


@given(pieces)
def test_every_line_holds_the_empty_text(parts: list[str]) -> None:
    lines = UniqueLines(blocks(parts, []))
    found: list[tuple[int, str]] = []
    while lines.more():
        found += zip(*lines.holding(lines.present([""])), strict=True)
    assert found == one_by_one(parts)


def test_lines_are_split_with_their_ends() -> None:
    assert ended("a\n\nb\rc") == ["a\n", "\n", "b\r", "c"]


@pytest.mark.parametrize("family", NAMES)
def test_what_a_rule_matches_holds_the_texts_that_it_is_found_by(family: str) -> None:
    rules = FAMILIES[family]
    lines = [line for log in FIXTURES.iterdir() for line in log.read_text().split("\n")]
    all_rules: list[RecordRule | EvaluationRule | MarkRule]
    all_rules = [*rules.records, *rules.evaluations, *rules.marks]
    for rule in all_rules:
        pattern = rule.pattern or re.compile(re.escape(rule.needle))
        for line in filter(pattern.search, lines):
            assert rule.needle in line
            assert rule.found_by in line
