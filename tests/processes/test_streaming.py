"""A long log takes little memory; ``tests/bench/log_streaming.py`` measures a gigabyte."""

import json

import pytest

from tests.bench import log_streaming

pytestmark = pytest.mark.tier("linux")


@pytest.mark.parametrize(
    ("kind", "records", "growth"),
    [
        ("sparse", 18_000, 6),  # a twentieth of the lines are records
        ("dense", 390_000, 40),  # the median sorts the rates, at some 60 bytes each
        ("endless", 800, 6),
    ],
)
def test_a_log_of_60_mb_takes_little_more_memory_than_one_of_1_mb(
    kind: str, records: int, growth: float
) -> None:
    little, *_ = log_streaming.measure(kind, 1)
    memory, _, printed = log_streaming.measure(kind, 60)
    (found,) = json.loads(printed)
    assert found["records"] > records
    assert found["verdict"] == "valid"
    assert found["throughput"]["time_weighted"] > 0
    assert memory - little < growth
