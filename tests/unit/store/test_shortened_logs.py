"""Logs of which only the beginning and the end are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from k8sbench.store import log_archive


def line(number: int) -> str:
    return f"{log_archive.format_stamp(float(number)).decode()} step {number}\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "node-0.log"
    path.write_text("".join(map(line, range(1000, 2000))))
    return path


def test_a_long_log_keeps_whole_lines_of_both_ends(log: Path) -> None:
    cut = log_archive.shorten_log(log, 10_000)
    lines = log.read_text().splitlines(keepends=True)
    assert log.stat().st_size <= 10_000
    assert (lines[0], lines[-1]) == (line(1000), line(1999))
    numbers = [int(one.split()[-1]) for one in lines]
    (gap,) = [n for n in range(1, len(numbers)) if numbers[n] != numbers[n - 1] + 1]
    assert cut == (numbers[gap - 1], numbers[gap])
    assert lines == [line(number) for number in numbers]


def test_a_short_log_stays(log: Path) -> None:
    size = log.stat().st_size
    assert log_archive.shorten_log(log, size) is None
    assert log.stat().st_size == size
