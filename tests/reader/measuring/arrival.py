"""Logs whose lines have a time of arrival."""

import datetime
from collections.abc import Iterable, Sequence
from typing import Any

from k8sbench.model.log_format import LogFormat

BEGIN = datetime.datetime(2026, 3, 2, 10, tzinfo=datetime.UTC)
MINE = LogFormat(
    name="mine",
    unit="images",
    per="job",
    record=r"^step (?P<iteration>\d+) (?P<rate>\S+) img/s",
)
OWN: dict[str, Any] = {"format": MINE, "batch_size": 8}
OURS: dict[str, Any] = {"format": "k8sbench", "gpus": None, "batch_size": None}


def arrived(lines: Iterable[str], at: Sequence[float]) -> list[str]:
    """The lines behind the times at which they arrived, seconds after ten o'clock."""
    stamps = [(BEGIN + datetime.timedelta(seconds=each)).isoformat() for each in at]
    return [f"{stamp} {line}" for stamp, line in zip(stamps, lines, strict=True)]


def steps(count: int = 60, rate: float = 100.0) -> list[str]:
    """Lines of steps of 8, by default 0.08 s each."""
    return [f"step {number} {rate} img/s" for number in range(1, count + 1)]


def every(seconds: float, count: int = 60) -> list[float]:
    return [seconds * number for number in range(1, count + 1)]
