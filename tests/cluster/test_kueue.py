"""Runs in a queue of the real Kueue, of both operators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster import fixture
from tests.harness.cluster.bringup import Options
from tests.harness.cluster.cluster import Cluster
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.queues import (
    QUEUE,
    is_admitted,
    local_queue,
    priorities,
    queue_of,
)
from tests.harness.cluster.shell import ENDLESS, Shell, until

KINDS = pytest.mark.parametrize("kind", ["v1", "trainjob"])
IN_QUEUE = f"--queue={QUEUE}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Give a cluster with both operators and Kueue."""
    options = Options(has_trainer=True, has_kueue=True)
    yield from fixture.with_operators(tmp_path_factory, options)


def detached(shell: Shell, run_id: str, kind: str, *words: str) -> None:
    shell.submit(run_id, ENDLESS, "--detach", f"--job-kind={kind}", *words)


@KINDS
def test_a_run_waits_with_kueues_reason_and_is_admitted_when_one_ends(
    own_shell: Shell, kind: str
) -> None:
    with queue_of(own_shell.namespace, 2):
        detached(own_shell, "first", kind, IN_QUEUE)
        own_shell.namespace.until(is_admitted, "workloads")
        with own_shell.submitted("second", IN_QUEUE, f"--job-kind={kind}") as submit:
            submit.until("insufficient unused quota for nvidia.com/gpu")
            assert own_shell.phase("second") == "Queued"
            own_shell.run("cancel", "first")
            submit.until("Running: All 2 replicas run.")
            own_shell.run("cancel", "second")
            submit.ends(3)


@KINDS
def test_a_run_that_is_preempted_says_so_and_goes_on_later(own_shell: Shell, kind: str) -> None:
    lower = {"withinClusterQueue": "LowerPriority"}
    with (
        queue_of(own_shell.namespace, 2, preemption=lower),
        priorities(own_shell.namespace, low=10, high=100),
        own_shell.submitted("run", IN_QUEUE, "--priority=low", f"--job-kind={kind}") as submit,
    ):
        submit.until("Running: All 2 replicas run.")
        detached(own_shell, "urgent", kind, IN_QUEUE, "--priority=high")
        submit.until("Kueue has stopped the job")
        own_shell.run("delete", "urgent")
        until(lambda: own_shell.phase("run") == "Running", "the run to run again")
        phases = [step["phase"] for step in own_shell.json("status", "run")["history"]]
        queued = len(phases) - 1 - phases[::-1].index("Queued")
        assert "Running" in phases[:queued]
        assert "Running" in phases[queued:]
        own_shell.run("cancel", "run")
        submit.ends(3)


@pytest.mark.parametrize(
    ("queue", "why"),
    [
        ("missing", "LocalQueue missing doesn't exist"),
        ("orphan", "ClusterQueue no-such-queue doesn't exist"),
        (QUEUE, "is inactive"),
    ],
)
@pytest.mark.parametrize("kind", [pytest.param("v1", marks=pytest.mark.soak), "trainjob"])
def test_a_queue_that_takes_nothing_is_named(
    own_shell: Shell, kind: str, queue: str, why: str
) -> None:
    with queue_of(own_shell.namespace, 2):
        held = '{"spec": {"stopPolicy": "Hold"}}'
        own_shell.namespace.kubectl("patch", "localqueue", QUEUE, "--type=merge", f"--patch={held}")
        own_shell.namespace.create(local_queue("orphan", "no-such-queue"))
        with own_shell.submitted("run", f"--queue={queue}", f"--job-kind={kind}") as submit:
            submit.until(why)
            end = own_shell.json("status", "run")["history"][-1]
            assert (end["phase"], end["cause_id"]) == ("Queued", "queue-unusable")
            own_shell.run("cancel", "run")
            submit.ends(3)


@KINDS
def test_a_job_that_can_never_fit_is_named(own_shell: Shell, kind: str) -> None:
    with (
        queue_of(own_shell.namespace, 1),
        own_shell.submitted("run", IN_QUEUE, f"--job-kind={kind}") as submit,
    ):
        submit.until("maximum capacity (1)")
        end = own_shell.json("status", "run")["history"][-1]
        assert (end["phase"], end["cause_id"]) == ("Queued", "queue-too-small")
        own_shell.run("cancel", "run")
        submit.ends(3)


OTHER_NODES = {"nvidia.com/gpu.product": "NVIDIA-H100"}


def test_a_queue_of_other_nodes_than_the_pools_is_refused_before_anything_is_created(
    own_shell: Shell,
) -> None:
    with queue_of(own_shell.namespace, 8, OTHER_NODES):
        err = own_shell.submit("run", IN_QUEUE, ENDLESS, code=6).err
        assert "nvidia.com/gpu.product=NVIDIA-H100" in err
        assert own_shell.on_cluster("pytorchjobs,configmaps") == []
        assert own_shell.json("list") == []
        checks = own_shell.json("doctor", IN_QUEUE, ENDLESS, code=6)["checks"]
        assert {one["id"] for one in checks if one["level"] == "failure"} == {"queue-nodes"}


@KINDS
def test_a_queue_of_other_nodes_is_named_later_to_users_who_may_not_read_flavors(
    namespace: Namespace, tmp_path: Path, kind: str
) -> None:
    shell = Shell(namespace, namespace.user(tmp_path, sees_nodes=False), tmp_path / "shell")
    with (
        queue_of(namespace, 8, OTHER_NODES),
        shell.submitted("run", IN_QUEUE, f"--job-kind={kind}") as submit,
    ):
        submit.until("match node affinity")
        end = shell.json("status", "run")["history"][-1]
        assert (end["phase"], end["cause_id"]) == ("Queued", "queue-other-nodes")
        shell.run("cancel", "run")
        submit.ends(3)
