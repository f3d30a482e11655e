"""Runs where both operators are, and in queues of the real Kueue."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench import observed_jobs
from tests.cluster.test_benchmark_objects import body, phases, serving, usual
from tests.cluster.test_scale import PRINTED, asked_by
from tests.harness.cluster import fixture, operator_process, pod_logs
from tests.harness.cluster.bringup import Options
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.queues import QUEUE, kueue, queue_of, stop
from tests.harness.cluster.shell import ENDLESS, Shell, until
from tests.harness.cluster.trainer_logs import TrainerLogs


@contextlib.contextmanager
def priorities(namespace: Namespace, **values: int) -> Iterator[None]:
    """Have WorkloadPriorityClasses of these names, for the whole cluster."""
    namespace.cluster.create(
        *(kueue("WorkloadPriorityClass", name, value=value) for name, value in values.items())
    )
    try:
        yield
    finally:
        namespace.cluster.kubectl("delete", "workloadpriorityclass", *values)


def is_admitted(workload: dict[str, Any]) -> bool:
    """Return True if Kueue admitted a workload."""
    found = workload.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Admitted" and one["status"] == "True" for one in found)


KINDS = pytest.mark.parametrize("kind", ["v1", "trainjob"])
IN_QUEUE = f"--queue={QUEUE}"
TRAINJOB = "--job-kind=trainjob"
GPU_NODES = "--selector=nvidia.com/gpu.present=true"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """Give a cluster with both operators and Kueue."""
    options = Options(has_trainer=True, has_kueue=True)
    yield from fixture.with_operators(tmp_path_factory, options)


def detached(shell: Shell, run_id: str, kind: str, *words: str) -> None:
    shell.submit(run_id, ENDLESS, "--detach", f"--job-kind={kind}", *words)


class Gate:
    """Schedules pods of a run only after their logs are set."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self._served = {"run-master-0"}
        """Pods with logs; the one of TrainerLogs' own."""
        self.close()

    def close(self) -> None:
        self.namespace.cluster.kubectl("cordon", GPU_NODES)

    def open(self) -> None:
        self.namespace.cluster.kubectl("uncordon", GPU_NODES)

    def release(self, file: Path) -> None:
        """Let the run's next pod print a file."""

        def pods() -> list[str]:
            found = self.namespace.get("pods", selector="k8sbench.io/run=run")
            waiting = (pod for pod in found if "nodeName" not in pod["spec"])
            return [pod["metadata"]["name"] for pod in waiting]

        until(pods, "the pod of run")
        if new := {*pods()} - self._served:
            pod_logs.serve_pods(self.namespace, dict.fromkeys(new, file))
            self._served |= new
        for pod in pods():
            pod_logs.serve_again(self.namespace, pod, file)
        self.open()


@contextlib.contextmanager
def held_back(namespace: Namespace) -> Iterator[Gate]:
    """Let no pod start that is not released."""
    gate = Gate(namespace)
    try:
        yield gate
    finally:
        gate.open()


@KINDS
def test_a_run_waits_with_kueues_reason_until_another_ends(own_shell: Shell, kind: str) -> None:
    with queue_of(own_shell.namespace, 2):
        detached(own_shell, "first", "v1", IN_QUEUE)
        own_shell.namespace.until(is_admitted, "workloads")
        with own_shell.submitted("second", IN_QUEUE, f"--job-kind={kind}") as submit:
            submit.until("insufficient unused quota for nvidia.com/gpu")
            assert own_shell.phase("second") == "Queued"
            there = own_shell.json("status", "second")["on_cluster"]
            assert "waits in queue team-queue, number 1 there: " in there["cause"]
            own_shell.run("cancel", "first")
            submit.until("Running: All 2 replicas run.")
            own_shell.run("cancel", "second")
            submit.ends(3)


@KINDS
def test_a_preempted_run_waits_and_its_last_attempt_counts(own_shell: Shell, kind: str) -> None:
    # kwok does not end the log of a pod that is gone: the stream is closed before the next begins.
    own_shell.limits = {"log_look": 0.05}
    lower = {"withinClusterQueue": "LowerPriority"}
    replica = {"v1": "master-0", "trainjob": "node-0"}[kind]
    logs = TrainerLogs(own_shell.namespace, "run", own_shell.folder, replicas=1, step_seconds=1.0)
    (file,) = logs.files.values()

    def printed() -> bool:
        return own_shell.archived("run", replica) == logs.expected["master-0"]

    asked = (IN_QUEUE, "--replicas=1", f"--job-kind={kind}")
    with (
        queue_of(own_shell.namespace, 2, preemption=lower),
        priorities(own_shell.namespace, high=100),
        held_back(own_shell.namespace) as gate,
        own_shell.submitted("run", *asked) as submit,
    ):
        gate.release(file)
        logs.begin()
        until(printed, "the first attempt's lines")
        gate.close()
        detached(own_shell, "urgent", kind, IN_QUEUE)
        job = {"v1": "pytorchjob/urgent", "trainjob": "trainjob/urgent"}[kind]
        own_shell.namespace.kubectl("label", job, "kueue.x-k8s.io/priority-class=high")
        submit.until("Kueue has stopped the job")
        (file,) = logs.again(step_seconds=0.5).files.values()
        own_shell.run("delete", "urgent")
        gate.release(file)
        logs.begin().end()
        until(printed, "both attempts' lines, the first one's before")
        own_shell.namespace.finish("run")
        submit.ends()
    history = own_shell.json("status", "run")["history"]
    causes = [step["cause_id"] for step in history]
    stopped = causes.index("queue-evicted")
    assert {"Running", "Queued"} <= {step["phase"] for step in history[: stopped + 1]}
    assert "Running" in {step["phase"] for step in history[stopped:]}
    (row,) = own_shell.json("results", "--set=run")["rows"]
    (member,) = row["members"]
    # Of the second attempt alone; the first one's steps took a second each.
    assert (row["state"], row["throughput"]) == ("valid", 8.0)
    assert [one["id"] for one in member["reasons"]] == ["restarted"]
    assert member["queued_s"] > 0
    assert row["queued_s"] == member["queued_s"]
    assert not (own_shell.store / "runs" / "run" / "log-gaps.json").exists()


def test_a_stopped_queue_is_named_and_a_drained_one_stops_the_run(own_shell: Shell) -> None:
    def ended(run_id: str) -> tuple[str, str]:
        latest = own_shell.json("status", run_id)["history"][-1]
        return latest["phase"], latest["cause_id"]

    with (
        queue_of(own_shell.namespace, 4) as name,
        own_shell.submitted("run", IN_QUEUE, TRAINJOB) as submit,
    ):
        submit.until("Running: All 2 replicas run.")
        stop(own_shell.namespace.cluster, name, "Hold")
        with own_shell.submitted("held", IN_QUEUE, TRAINJOB) as later:
            later.until(f"ClusterQueue {name} is inactive")
            assert ended("held") == ("Queued", "queue-unusable")
            own_shell.run("cancel", "held")
            later.ends(3)
        assert own_shell.phase("run") == "Running"
        stop(own_shell.namespace.cluster, name, "HoldAndDrain")
        submit.until("Queue team-queue does not take the job")
        assert ended("run") == ("Queued", "queue-unusable")
        checks = own_shell.json("doctor", IN_QUEUE, ENDLESS, code=6)["checks"]
        assert {one["id"] for one in checks if one["level"] == "failure"} == {"queue"}
        stop(own_shell.namespace.cluster, name, "None")
        until(lambda: own_shell.phase("run") == "Running", "the run to run again")
        own_shell.run("cancel", "run")
        submit.ends(3)


def test_a_job_that_is_admitted_and_not_resumed_is_said_so_gives_its_turn_back_and_can_be_cancelled(
    own_shell: Shell, tmp_path: Path
) -> None:
    namespace = own_shell.namespace
    operator = operator_process.make(namespace, tmp_path / "machine")
    waits = usual(set="s", parallel=1, queue=QUEUE, jobKind="trainjob")
    on_free_gpus = usual(set="s", parallel=1)

    def cause() -> str:
        return str(operator.json("status", "b-1")["history"][-1]["cause_id"])

    with queue_of(namespace, 2), serving(operator):
        namespace.create(body("a", **usual(queue=QUEUE)))
        until(lambda: phases(operator).get("a-1") == "Running", "a-1 to run")
        namespace.create(body("b", **waits))
        until(lambda: phases(operator).get("b-1") == "Queued", "b-1 in the queue")
        namespace.create(body("c", **on_free_gpus))
        until(lambda: "c-1" in phases(operator), "c-1")
        runtime = namespace.get("trainjob", "b-1")["spec"]["runtimeRef"]["name"]
        namespace.kubectl("delete", "trainingruntime", runtime)
        assert phases(operator)["c-1"] == "Created", "b-1 has its turn in the queue"
        own_shell.finish("a-1")
        until(lambda: cause() == "not-resumed", "the state of b-1")
        until(lambda: phases(operator)["c-1"] == "Running", "the turn of c-1")
        unwanted = '--patch={"spec": {"cancel": true}}'
        namespace.kubectl("patch", "benchmark", "b", "--type=merge", unwanted)
        namespace.wait("condition=Complete", "benchmark/b")
        until(lambda: own_shell.on_cluster("trainjobs") == [], "the deletion of b-1")
    assert phases(operator)["b-1"] == "Cancelled"


def test_a_run_that_waits_too_long_has_failed_and_its_job_is_gone(own_shell: Shell) -> None:
    asked = ("--queue=nosuch", "--wait-timeout=2s", "--keep")
    with own_shell.submitted("late", *asked) as submit:
        submit.ends(4)
    latest = own_shell.json("status", "late")["history"][-1]
    assert (latest["phase"], latest["cause_id"]) == ("Failed", "wait-timeout")
    assert own_shell.on_cluster() == []


OTHER_NODES = {"nvidia.com/gpu.product": "NVIDIA-H100"}


def test_a_queue_of_other_nodes_is_refused_before_creation(own_shell: Shell) -> None:
    with queue_of(own_shell.namespace, 8, OTHER_NODES):
        err = own_shell.submit("run", IN_QUEUE, ENDLESS, code=6).err
        assert "nvidia.com/gpu.product=NVIDIA-H100" in err
        assert own_shell.on_cluster("pytorchjobs,configmaps") == []
        assert own_shell.json("list") == []
        checks = own_shell.json("doctor", IN_QUEUE, ENDLESS, code=6)["checks"]
        assert {one["id"] for one in checks if one["level"] == "failure"} == {"queue-nodes"}


# --- jobs of others -----------------------------------------------------------------------------


@pytest.mark.usefixtures("more_nodes")
def test_labelled_jobs_of_all_shapes_share_watches_and_lose_no_line_unnamed(
    cluster: OwnCluster, tmp_path: Path
) -> None:
    observed_jobs.play(cluster, tmp_path, 2 * len(observed_jobs.SHAPES), [PRINTED])
    (namespace,) = {
        json.loads(path.read_text())["facts"]["job"]["namespace"]
        for path in tmp_path.glob("*/runs/*/run.json")
    }
    _, watches = asked_by(cluster.layout.audit_log, namespace)
    kinds_of_jobs, pods_and_events, of_operator = 5, 2, 4
    assert watches <= kinds_of_jobs + pods_and_events + of_operator


# --- without a queue ----------------------------------------------------------------------------
