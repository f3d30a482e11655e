"""Lengths of time: one parser and one table of units, wherever one is typed."""

import pytest

from k8sbench.model import times


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("1.5h", 5400.0),
        ("1h30m", 5400.0),
        ("3d", 3 * 86400.0),
        (" 2h ", 7200.0),
        ("0s", 0.0),
    ],
)
def test_a_length_is_numbers_with_units(text: str, seconds: float) -> None:
    assert times.parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "90", "h", "2x", "-2h", "1e3s", "2 h", "２h", "1.h", "9" * 400 + "d"]
)
def test_anything_else_is_none_and_a_unit_is_never_guessed(text: str) -> None:
    assert times.parse_duration(text) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "∞"),
        (0, "0s"),
        (0.44, "0.4s"),
        (9.96, "10s"),
        (59.6, "1m"),
        (75, "1m15s"),
        (3661, "1h1m"),
        (10**7, "115d17h"),
    ],
)
def test_lengths_of_time_are_written_in_two_units(seconds: float | None, text: str) -> None:
    assert times.duration(seconds) == text
