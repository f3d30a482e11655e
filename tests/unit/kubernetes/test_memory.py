"""How much memory a followed job takes."""

from __future__ import annotations

from tests.bench import memory

MOST_BYTES = 32_000
"""Of a job of four pods. With the program's own 40 MB, 5,000 jobs then take less than 200 MB."""


def test_five_thousand_jobs_of_four_pods_fit_into_200_megabytes() -> None:
    assert memory.bytes_each(30) < MOST_BYTES
