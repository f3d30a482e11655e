"""Lengths of time: one parser and one table of units, wherever one is typed."""

from __future__ import annotations

import pytest

from k8sbench.runs import times


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("15m", 900.0),
        ("2h", 7200.0),
        ("1.5h", 5400.0),
        ("1h30m", 5400.0),
        ("3d", 3 * 86400.0),
        ("2w", 14 * 86400.0),
        (" 2h ", 7200.0),
        ("0s", 0.0),
    ],
)
def test_a_length_is_numbers_with_units(text: str, seconds: float) -> None:
    assert times.seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "90", "h", "2x", "-2h", "1e3s", "2 h", "２h", "1.h", "9" * 400 + "d", "tomorrow"]
)
def test_anything_else_is_none_and_a_unit_is_never_guessed(text: str) -> None:
    assert times.seconds(text) is None
