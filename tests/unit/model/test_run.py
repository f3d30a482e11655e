"""The error that stands for the end of a run."""

import pytest

from k8sbench.model.errors import BenchError, JobFailed, TimedOut, Unreachable
from k8sbench.model.phase import TIMEOUT, WAIT_TIMEOUT, Phase
from k8sbench.model.run import failure


@pytest.mark.parametrize(
    ("phase", "cause_id", "kind"),
    [
        (Phase.SUCCEEDED, None, None),
        (Phase.RUNNING, None, Unreachable),
        (Phase.FAILED, None, JobFailed),
        (Phase.FAILED, "out-of-memory", JobFailed),
        (Phase.FAILED, TIMEOUT, TimedOut),
        (Phase.FAILED, WAIT_TIMEOUT, TimedOut),
    ],
)
def test_a_run_that_a_limit_ended_is_no_failed_job(
    phase: Phase, cause_id: str | None, kind: type[BenchError] | None
) -> None:
    assert failure(phase, cause_id) is kind
