"""Whatever a log holds, reading it ends and says at most what stands there."""

import math
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.model.log_format import FAMILY_NAMES
from k8sbench.model.sample import Record
from k8sbench.reader.families import FAMILIES
from k8sbench.reader.lines import pieces
from k8sbench.reader.reading import FamilyLog
from tests.reader.family_logs import ALL, JSON_LINES
from tests.reader.measuring.support import lines_of
from tests.reader.own_events import START, STEP, line
from tests.reader.support import ended
from tests.reader.test_torn_lines import LOGS

REAL = [*ALL.values(), *JSON_LINES.values(), line(START), line(STEP)]
mutated = st.builds(
    lambda text, cut, noise, end: text[:cut] + noise + text[end:],
    st.sampled_from(REAL),
    st.integers(0, 300),
    st.text(max_size=12),
    st.integers(0, 300),
)
anything = st.lists(st.one_of(st.text(), mutated, st.sampled_from(REAL)), max_size=12)


def sound(found: object) -> None:
    if not isinstance(found, Record):
        return
    assert 1 <= found.iteration <= 10**12
    decides = found.rate if found.shape.number == "rate" else found.seconds or found.mean_seconds
    assert decides is not None
    assert 0 < decides < math.inf
    assert found.waiting is None or 0 <= found.waiting <= 1
    assert found.steps is None or 1 <= found.steps <= found.iteration


@pytest.mark.parametrize("family", FAMILY_NAMES)
@given(lines=anything)
def test_any_lines_are_read_by_each_family(family: str, lines: list[str]) -> None:
    for found in FamilyLog(ended(lines), [FAMILIES[family]]):
        sound(found)


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize("family", ALL)
def test_numbers_longer_than_any_computer_counts_give_no_unsound_record(
    family: str, digits: int
) -> None:
    whole = ALL[family]
    for match in re.finditer(r"\d+", whole):
        swollen = whole[: match.start()] + "9" * digits + whole[match.end() :]
        for found in FamilyLog([swollen], [FAMILIES[family]]):
            sound(found)


@pytest.mark.parametrize("name", LOGS)
def test_a_log_with_such_a_number_in_a_line_is_read(name: str) -> None:
    family, text = LOGS[name]
    log = lines_of(name)
    number = next(number for number, whole in enumerate(log) if text in whole) + 1
    for match in re.finditer(r"\d+", log[number]):
        swollen = log[number][: match.start()] + "9" * 5000 + log[number][match.end() :]
        for found in FamilyLog(ended([*log[:number], swollen]), [FAMILIES[family]]):
            sound(found)


SHORT, LONG = 5_000, 40_000
"""Lengths of two lines, characters."""
STEEPEST = 3.0
"""Largest ratio of their times, in that of their lengths: 8, were the reading quadratic."""
FLOOR = 0.002
"""Seconds below which a time is noise."""


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_the_time_of_a_hostile_line_grows_with_its_length(family: str) -> None:
    """A line repeats a needle: each of them begins a search for what follows it."""

    def seconds(line: str) -> float:
        times = []
        for _ in range(2):
            began = time.process_time()
            list(FamilyLog([f"{line}\n"], [FAMILIES[family]]))
            times.append(time.process_time() - began)
        return min(times)

    reader = FAMILIES[family].reader()
    for needle in sorted({*reader.needles, *reader.head_needles}):
        for text in (needle, f"{needle} "):
            short, long = (seconds(text * (length // len(text))) for length in (SHORT, LONG))
            assert long <= STEEPEST * LONG / SHORT * max(short, FLOOR), needle


words = st.text(st.characters(codec="utf-8", exclude_characters="\x1b"))
printed = st.lists(st.sampled_from(["\x1b[31m", "\x1b[0m", "\r", "\x00", "[1,0]<stdout>:"]) | words)


@given(printed.map("".join))
def test_cleaning_adds_nothing_and_leaves_no_colours_and_controls(text: str) -> None:
    cleaned = [piece.text for piece in pieces(text)]
    rest = iter(text)
    assert all(char in rest for char in "".join(cleaned))
    assert not any(re.search(r"\x1b\[\d*m|[\r\x00]", piece) for piece in cleaned)


@given(
    st.text(st.characters(blacklist_characters="\r\x00\x1b[", blacklist_categories=("Cs", "Nd")))
)
def test_plain_text_is_left_alone(text: str) -> None:
    assert [piece.text for piece in pieces(text)] == [text]
