"""A long time without an API server: nothing is lost, and nobody knocks all the while."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest

from k8sbench.model.phase import Phase
from tests.harness.cluster import following
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster

pytestmark = pytest.mark.soak

OUTAGE_SECONDS = 120.0


@pytest.mark.timeout(600)
def test_an_api_server_that_is_away_for_two_minutes_loses_nothing(
    own_cluster: OwnCluster, namespace: Namespace, user: Path
) -> None:
    with following.opened(user) as port:
        plan = port.submit(following.plan("4x1"), None)
        port.until_phase(plan, Phase.RUNNING)
        asked = port.cluster.api.sender.requests.total()
        with own_cluster.without("kube-apiserver"):
            back = time.monotonic() + OUTAGE_SECONDS
            port.until(lambda _: time.monotonic() > back, OUTAGE_SECONDS + 10)
        tries = port.cluster.api.sender.requests.total() - asked
        port.until(lambda port: len(port.notes()) > 1)
        namespace.finish(plan.run_id)
        # The cluster's own components knock as seldom by now.
        port.until(lambda port: port.is_over(plan), OUTAGE_SECONDS)
        assert port.end_of(plan).phase is Phase.SUCCEEDED
        names = ["master-0", "worker-0", "worker-1", "worker-2"]
        assert sorted(line.replica for line in port.lines(plan)) == names
        reported = [(one.phase, one.cause_id) for one in port.transitions(plan)]
        assert all(one != other for one, other in itertools.pairwise(reported))
    # Three watches and four logs, each at most every few seconds: the pauses grow to 15 s.
    assert tries < 200
