"""Why a job ended: what the real operator, scheduler and controllers make of it.

Exit codes are kwok's word (``tests/harness/cluster/kwok/pod-finish.yaml``). What pods and
containers end by, and who deletes or evicts them, the node tier shows on kubelets.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from k8sbench.diagnose.job.state import JobState
from k8sbench.model.phase import Phase
from tests.harness.cluster.cluster import Cluster
from tests.harness.cluster.jobs import pytorch_job
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import EXIT_CODE, RUN_FOR
from tests.harness.cluster.readings import Follower, node_of_its_own, on_node, plan_of, pretend


def follow(namespace: Namespace, job: dict[str, Any]) -> Follower:
    namespace.create(job)
    return Follower(namespace, plan_of(job))


def running(namespace: Namespace, job: dict[str, Any]) -> Follower:
    """Create a job, and wait until all of it runs."""
    follower = follow(namespace, job)
    follower.until(lambda reading: reading.phase is Phase.RUNNING)
    return follower


def end(namespace: Namespace, *which: str) -> None:
    """Let pods that run come to their end."""
    namespace.kubectl("annotate", "pods", *which, "--overwrite", f"{RUN_FOR}=0s")


@pytest.fixture
def silent(cluster: Cluster, namespace: Namespace) -> Iterator[str]:
    """Give a node without a kubelet; its pods are removed afterwards, as nobody else would."""
    with node_of_its_own(cluster, f"silent-{namespace.name[-6:]}", kubelet=False) as name:
        yield name
        namespace.kubectl("delete", "pytorchjobs", "--all")
        namespace.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")


def stuck(namespace: Namespace, node: str) -> Follower:
    """Create a job whose pods seem to run, and stay when they are deleted: nobody ends them."""
    follower = follow(namespace, pytorch_job(gpus=1, run_for=None, pod=on_node(node)))
    follower.until(lambda reading: all(one.node == node for one in reading.replicas))
    runs = {
        "name": "pytorch",
        "image": "example.invalid/trainer:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"running": {"startedAt": "2026-11-20T08:15:00Z"}},
    }
    for name in follower.seen.pods:
        pretend(namespace, name, {"phase": "Running", "containerStatuses": [runs]})
    follower.until(lambda reading: reading.phase is Phase.RUNNING)
    return follower


# --- the program ---------------------------------------------------------------------------------


def test_the_replica_that_failed_is_named_with_its_exit_code(namespace: Namespace) -> None:
    asked = {f"{EXIT_CODE}.worker-1": "3"}
    follower = running(namespace, pytorch_job(workers=2, run_for=None, gpus=1, annotations=asked))
    end(namespace, "job-worker-1")
    reading = follower.until_final()
    assert (reading.phase, reading.cause_id) == (Phase.FAILED, "replica-failed")
    assert reading.cause == "worker-1 exited with code 3."
    # The operator lets the others run on.
    assert not reading.over
    assert [one.phase for one in reading.replicas] == [Phase.RUNNING] * 2 + [Phase.FAILED]
    end(namespace, "--all")
    assert follower.until(lambda reading: reading.over).cause == reading.cause


# --- the operator's limits -----------------------------------------------------------------------


def test_a_backoff_limit_deletes_pods_and_the_failure_is_still_named(namespace: Namespace) -> None:
    asked = {f"{EXIT_CODE}.worker-0": "3"}
    job = pytorch_job(gpus=1, run_for=None, annotations=asked)
    job["spec"]["runPolicy"]["backoffLimit"] = 0
    follower = running(namespace, job)
    end(namespace, "job-worker-0")
    reading = follower.until_final()
    assert (reading.phase, reading.cause_id) == (Phase.FAILED, "job-limit")
    # It may make them anew after that, and they run on: not this run's.
    assert follower.until(lambda reading: reading.over).phase is Phase.FAILED


def test_a_deadline_deletes_pods(namespace: Namespace) -> None:
    job = pytorch_job(gpus=1, run_for=None)
    job["spec"]["runPolicy"]["activeDeadlineSeconds"] = 1
    follower = follow(namespace, job)

    def struck(reading: JobState) -> bool:
        # The operator looks at the time only when something moves.
        moved = f"moved={time.monotonic()}"
        namespace.kubectl("annotate", "pytorchjob", "job", "--overwrite", moved)
        return reading.phase.final

    reading = follower.until(struck)
    assert (reading.phase, reading.cause_id) == (Phase.FAILED, "job-limit")


def test_a_replica_that_is_restarted_without_end_is_reported(namespace: Namespace) -> None:
    asked = {f"{EXIT_CODE}.worker-0": "137", f"{RUN_FOR}.worker-0": "0s"}
    job = pytorch_job(gpus=1, run_for=None, annotations=asked)
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode"
    reading = follow(namespace, job).until_cause("replica-replaced")
    assert not reading.phase.final
    assert reading.replicas[1].restarts >= 3


# --- from outside --------------------------------------------------------------------------------


def test_a_node_that_is_lost_takes_its_replica_along(
    cluster: Cluster, namespace: Namespace, silent: str
) -> None:
    follower = stuck(namespace, silent)
    # What the node controller does after a minute without a sign of the kubelet.
    cluster.kubectl("taint", "node", silent, "test-lost=now:NoExecute")
    # Its pods stay, as nobody ends them, and nobody can read their logs.
    reading = follower.until(lambda reading: reading.phase.final and reading.over)
    assert (reading.phase, reading.cause_id) == (Phase.FAILED, "node-lost")
    # The first by the clock, whose second may have begun between the two.
    assert re.search(rf"{silent} of (master|worker)-0 ", reading.cause)
    assert reading.replicas[0].detail == "its node does not answer"
