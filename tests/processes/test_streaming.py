"""A long log takes little memory; ``tests/bench/log_streaming.py`` measures a gigabyte."""

import json

import pytest

from tests.bench import log_streaming

FLOOR = 45
"""Memory of interpreter and program before the first line, MB, generously."""


pytestmark = pytest.mark.tier("linux")


@pytest.mark.parametrize(
    ("kind", "megabytes", "records", "kept"),
    [
        ("sparse", 60, 18_000, 1),  # a twentieth of the lines are records
        ("dense", 60, 390_000, 8),  # eight bytes for each of 400,000 rates
        ("endless", 60, 800, 0),
    ],
)
def test_memory_does_not_grow_with_the_log(
    kind: str, megabytes: int, records: int, kept: float
) -> None:
    memory, _, printed = log_streaming.measure(kind, megabytes)
    (found,) = json.loads(printed)
    assert found["records"] > records
    assert found["verdict"] == "valid"
    assert found["throughput"]["time_weighted"] > 0
    assert memory < FLOOR + kept
