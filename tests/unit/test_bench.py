"""Checks of the benches, without the clusters that they need."""

import pytest

from tests.bench import observed_jobs

FIGURES = "\n 12.5 3.25 80.0\n"


def test_a_bench_refuses_the_log_of_an_operator_of_which_a_part_has_died() -> None:
    observed_jobs.refuse_traceback(f"observes team-a{FIGURES}")
    died = f"{observed_jobs.TRACEBACK}:\n  File ...\nKeyError: 'items'\n"
    with pytest.raises(SystemExit, match="traceback") as refused:
        observed_jobs.refuse_traceback(f"observes team-a\n{died}{FIGURES}")
    assert "KeyError: 'items'" in str(refused.value)
