"""Creating a run's objects: which failures leave it open, and which job is the same.

What a real API server does with lost answers, refusals and full quotas is in
``tests/cluster/test_faults_creating.py``.
"""

from __future__ import annotations

from typing import Any

import pytest
import urllib3

from k8sbench.adapters.kubernetes import creating
from k8sbench.adapters.kubernetes.client import faults
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.errors import UsageError
from k8sbench.model.plan import RunPlan
from tests.unit.render import plans


def unsent() -> ApiFault:
    """Make the failure of a request for which there was no connection."""
    failure = ApiFault(None, "", "connection refused")
    failure.__cause__ = urllib3.exceptions.NewConnectionError(None, "refused")  # type: ignore[arg-type]
    return failure


@pytest.mark.parametrize(
    ("fault", "may_have_acted"),
    [
        (ApiFault(None, "", "it did not answer in time"), True),
        (ApiFault(500, "Forbidden", "etcdserver: request timed out"), True),
        (unsent(), False),
        (ApiFault(None, faults.CERTIFICATE, "its certificate: expired"), False),
        (ApiFault(429, "TooManyRequests", "too many requests"), False),
        (ApiFault(503, "", "no endpoints", retry_after=1.0), False),
        (ApiFault(403, "Forbidden", "denied the request: no"), False),
    ],
)
def test_a_request_may_have_been_carried_out_unless_the_server_says_otherwise(
    fault: ApiFault, may_have_acted: bool
) -> None:
    assert creating._may_have_acted(fault) is may_have_acted


def check_ours(wanted: RunPlan, **changes: Any) -> None:
    """Look for a job where there is that of another plan of the name."""
    (*_, manifest), (*_, there) = map(
        plans.rendered, (wanted, plans.plan("2x1", run_id=wanted.run_id, **changes))
    )
    creating._check_ours(wanted, manifest, dict(there))


def test_the_same_benchmark_s_file_may_lie_anywhere() -> None:
    wanted = plans.plan("2x1", run_id="mine", spec_source="/home/ann/mine.yaml")
    check_ours(wanted, spec_source="/ci/bench/mine.yaml")
    check_ours(wanted, spec_digest="e" * 64)
    with pytest.raises(UsageError, match=r"runs another plan \(other: batch_size\)"):
        check_ours(wanted, batch_size=7)
