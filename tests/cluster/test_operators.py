"""The operators of the test cluster, with objects as their own users write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster import fixture, operators
from tests.harness.cluster.bringup import Options
from tests.harness.cluster.cluster import Cluster, KubectlFailed
from tests.harness.cluster.jobs import train_job
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.queues import QUEUE, QUEUE_LABEL, queue_of

pytestmark = pytest.mark.soak
"""What k8sbench needs of them is seen by the tests of its own jobs."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give a cluster with both operators."""
    yield from fixture.with_operators(tmp_path_factory, Options(has_trainer=True))


def test_a_pod_that_is_deleted_fails_its_trainjob_and_is_not_replaced(namespace: Namespace) -> None:
    namespace.create(*train_job("lost", run_for=None))
    name = next(iter(namespace.wait_for_pods(2)))
    namespace.kubectl("delete", "pod", name, "--wait=false")
    namespace.wait("condition=Failed", "trainjob/lost")
    assert namespace.get("job", "lost-node-0")["status"]["failed"] >= 1


def test_without_v1_trainjobs_run_and_everything_ends_with_the_cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    options = Options(has_v1=False, has_trainer=True, has_kueue=True)
    started = fixture.with_operators(tmp_path_factory, options)
    own = next(started)
    assert isinstance(own, OwnCluster)
    processes = {state.name: state.pid for state in own.processes.list() if state.is_running}
    assert {*operators.NAMES} <= processes.keys()
    assert "training-operator" not in processes
    with pytest.raises(KubectlFailed, match="pytorchjobs"):
        own.get("pytorchjobs")
    namespace = Namespace.make(own, "alone")
    with queue_of(namespace, 8):
        namespace.create(*train_job("alone", gpus=4, labels={QUEUE_LABEL: QUEUE}))
        namespace.wait("condition=Complete", "trainjob/alone")
    assert list(started) == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in processes.values())
