"""Creating a run's objects: which failures leave it open, and which job is the same.

What a real API server does with lost answers, refusals and full quotas is in
``tests/cluster/test_faults_creating.py``.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import urllib3

from k8sbench.adapters.kubernetes import job_changes, ownership
from k8sbench.adapters.kubernetes.client import faults
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.errors import UsageError
from k8sbench.model.identity import NONCE_ANNOTATION
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
    assert job_changes._may_have_acted(fault) is may_have_acted


@pytest.mark.parametrize("of_other", ["theirs", None])
def test_a_job_that_another_record_has_asked_for_is_not_joined(of_other: str | None) -> None:
    wanted = plans.plan("2x1", run_id="mine")
    (*_, manifest), (*_, there) = plans.rendered(wanted), plans.rendered(wanted)
    manifest["metadata"]["annotations"][NONCE_ANNOTATION] = "ours"
    there["metadata"]["annotations"][NONCE_ANNOTATION] = "ours"
    job_changes._check_ours(manifest, there)
    there["metadata"]["annotations"][NONCE_ANNOTATION] = of_other
    with pytest.raises(UsageError, match="another k8sbench has asked for it"):
        job_changes._check_ours(manifest, there)


def test_an_attempt_waits_for_what_made_earlier_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    left: dict[str, list[Any]] = {"/apis/batch/v1/namespaces/team/jobs/mine-node-0": [None, {}]}
    api: Any = SimpleNamespace(
        place=SimpleNamespace(namespace="team"),
        find=lambda path, **_: left[path].pop(),
        list=lambda *_, **__: ([], ""),
        pause=id,
    )
    plan = plans.plan(run_id="mine", kind="TrainJob")
    run: Any = SimpleNamespace(run_id="mine", attempt=2, plan=plan)
    monkeypatch.setattr(ownership, "look_for", lambda *_: (None, None))
    assert not job_changes.clear(api, run, None, lambda: False)
    assert not any(left.values())
