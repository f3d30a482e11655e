"""Rates, and numbers of a log's text."""

import re
from typing import NamedTuple

SAMPLES = "samples/s"
TOKENS = "tokens/s"


class Rate(NamedTuple):
    """A right value and its unit."""

    value: float
    unit: str

    def __str__(self) -> str:
        """Text of a table."""
        return f"{self.value:.6g} {self.unit}"


def numbers(pattern: str, text: str) -> list[float]:
    """Return the first group of each match as a number."""
    return [float(match[1]) for match in re.finditer(pattern, text)]


def number(pattern: str, text: str) -> float:
    """Return the first group of the first match as a number."""
    return numbers(pattern, text)[0]
