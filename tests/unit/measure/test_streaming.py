"""A long log takes little memory; ``tests/bench/log_streaming.py`` measures a gigabyte."""

from __future__ import annotations

import csv
import io

import pytest

from tests.bench import log_streaming

FLOOR = 45
"""MB that the interpreter and the program take before the first line, with room to spare."""


@pytest.mark.parametrize(
    ("kind", "megabytes", "records", "kept"),
    # A twentieth of the lines are records. Dense: eight bytes for each of 400,000 rates.
    [("sparse", 60, 18_000, 1), ("dense", 60, 390_000, 8)],
)
def test_memory_does_not_grow_with_the_log(
    kind: str, megabytes: int, records: int, kept: float
) -> None:
    memory, _, printed = log_streaming.measure(kind, megabytes)
    (row,) = csv.DictReader(io.StringIO(printed))
    assert int(row["records"]) > records
    assert memory < FLOOR + kept


@pytest.mark.parametrize("kind", log_streaming.KINDS)
def test_the_generated_logs_are_sound(kind: str) -> None:
    _, _, printed = log_streaming.measure(kind, 1)
    (row,) = csv.DictReader(io.StringIO(printed))
    assert float(row["time_weighted"] or "0") > 0 or kind == "sparse"
