"""The operators of the test cluster, with objects as their own users write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import fixture, operators
from tests.harness.cluster.bringup import Options
from tests.harness.cluster.cluster import Cluster, KubectlFailed
from tests.harness.cluster.jobs import pytorch_job, train_job
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import EXIT_CODE, RUN_FOR
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.queues import QUEUE, QUEUE_LABEL, queue_of, reason, waits

pytestmark = pytest.mark.soak
"""What k8sbench needs of them is seen by the tests of its own jobs."""
IN_QUEUE = {QUEUE_LABEL: QUEUE}
RELEASE = (f"{RUN_FOR}=0s", "--overwrite")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give a cluster with both operators and Kueue."""
    options = Options(has_trainer=True, has_kueue=True)
    yield from fixture.with_operators(tmp_path_factory, options)


def queued(name: str, kind: str, gpus: int = 8) -> tuple[dict[str, Any], ...]:
    """Make a job of two replicas in the queue, which runs until it is released."""
    if kind == "trainjob":
        return train_job(name, gpus=gpus, run_for=None, labels=IN_QUEUE)
    job = pytorch_job(name, gpus=gpus, run_for=None)
    job["metadata"]["labels"] = IN_QUEUE
    return (job,)


def test_a_trainjob_of_two_nodes_completes(namespace: Namespace) -> None:
    namespace.create(*train_job("done", run_for="1s"))
    namespace.wait("condition=Complete", "trainjob/done")
    pods = namespace.get("pods", "--selector=jobset.sigs.k8s.io/jobset-name=done")
    index = "batch.kubernetes.io/job-completion-index"
    assert {pod["metadata"]["labels"][index] for pod in pods} == {"0", "1"}
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded"}


def test_one_rank_of_a_trainjob_fails_as_its_annotations_say(namespace: Namespace) -> None:
    told = {f"{RUN_FOR}.node-1": "0s", f"{EXIT_CODE}.node-1": "3"}
    namespace.create(*train_job("bad", run_for=None, annotations=told))
    namespace.wait("condition=Failed", "trainjob/bad")
    (pod,) = namespace.get("pods", "--field-selector=status.phase=Failed")
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "1"
    (state,) = pod["status"]["containerStatuses"]
    assert state["state"]["terminated"]["exitCode"] == 3


def test_a_pod_that_is_deleted_fails_its_trainjob_and_is_not_replaced(namespace: Namespace) -> None:
    namespace.create(*train_job("lost", run_for=None))
    name = next(iter(namespace.wait_for_pods(2)))
    namespace.kubectl("delete", "pod", name, "--wait=false")
    namespace.wait("condition=Failed", "trainjob/lost")
    job = namespace.get("job", "lost-node-0")
    assert job["status"]["failed"] >= 1


@pytest.mark.parametrize("kind", ["pytorchjob", "trainjob"])
@pytest.mark.parametrize("first", ["pytorchjob", "trainjob"])
def test_a_job_waits_for_the_quota_until_the_one_before_it_ends(
    namespace: Namespace, first: str, kind: str
) -> None:
    with queue_of(namespace, 16):
        namespace.create(*queued("first", first))
        pods = namespace.wait_for_pods(2)
        namespace.create(*queued("second", kind))
        workload = namespace.until(
            lambda one: one["metadata"]["ownerReferences"][0]["name"] == "second" and waits(one),
            "workloads.v1beta2.kueue.x-k8s.io",
        )
        assert "insufficient unused quota for nvidia.com/gpu" in reason(workload)
        assert {pod["metadata"]["name"] for pod in namespace.get("pods")} == {*pods}
        namespace.kubectl("annotate", "pods", *pods, *RELEASE)
        namespace.until(
            lambda pod: (
                pod["metadata"]["name"].startswith("second") and pod["status"]["phase"] == "Running"
            ),
            "pods",
        )
        namespace.kubectl("delete", "pytorchjobs,trainjobs", "--all")


def test_a_job_without_a_queue_is_not_held(namespace: Namespace) -> None:
    namespace.create(pytorch_job("free", gpus=1))
    namespace.wait("condition=Succeeded", "pytorchjob/free")
    assert namespace.get("workloads") == []


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
        namespace.create(*train_job("alone", gpus=4, labels=IN_QUEUE))
        namespace.wait("condition=Complete", "trainjob/alone")
    assert list(started) == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in processes.values())
