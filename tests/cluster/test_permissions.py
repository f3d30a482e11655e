"""The rules of ``k8sbench/role.yaml`` are enough, and what is missing is named."""

from __future__ import annotations

from pathlib import Path

from k8sbench.model.phase import Phase
from tests.harness.cluster import following
from tests.harness.cluster.namespace import Namespace


def test_a_job_is_not_over_before_its_pods_were_seen(namespace: Namespace, user: Path) -> None:
    with following.opened(user) as port:
        plan = port.submit(following.plan("2x1"))
        port.end_of(plan)
    allow = following.deny(namespace, "pods")
    with following.opened(user, longest_pause=0.5) as port:
        port.resume(plan)
        port.until(lambda port: any("may not list pods" in note for note in port.notes()))
        assert not port.is_over(plan)
        allow()
        assert port.end_of(plan).phase is Phase.SUCCEEDED
        assert {line.replica for line in port.lines(plan)} == {"master-0", "worker-0"}
