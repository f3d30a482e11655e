"""A rank that is killed ends its job at once, under the launcher that its container runs.

The user sees which rank it was: in the last lines that are shown and in the sentence on the cause.
"""

from __future__ import annotations

import signal

import pytest

from tests.trainers.killed_ranks import a_killed_rank_ends_its_job

pytestmark = pytest.mark.tier("frameworks")


@pytest.mark.parametrize(
    ("framework", "number"),
    [
        ("pytorch", signal.SIGKILL),
        pytest.param("pytorch", signal.SIGTERM, marks=pytest.mark.soak),
        ("paddle", signal.SIGKILL),
    ],
)
def test_a_killed_rank_ends_the_job_and_is_named(framework: str, number: signal.Signals) -> None:
    a_killed_rank_ends_its_job(framework, "--device", "cpu", "--threads", "1", number=number)
