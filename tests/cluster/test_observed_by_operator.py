"""Labelled jobs of others: the operator observes them, and writes nothing to the cluster."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.cluster import audit, operator_process, pod_logs, users
from tests.harness.cluster.jobs import pytorch_job
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import EXIT_CODE, RUN_FOR, log_text
from tests.harness.cluster.operator_process import OperatorShell
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import Running, Shell, until
from tests.harness.credentials import written
from tests.tiers import ROOT

LINES = (ROOT / "tests" / "fixtures" / "logs" / "torchtitan.log").read_text().splitlines()
"""7,000 tokens/s on each of eight GPUs, as rank 0 prints it."""
OBSERVE = "k8sbench.io/observe"
LABELS = {OBSERVE: "true"}
STATED = {"k8sbench.io/precision": "bf16"}
RULES = ROOT / "charts" / "files" / "observe-rules.yaml"
ITS_OWN = {*audit.OF_AN_OPERATOR, "secrets"}
"""Resources that an operator writes: its token, too, where no Secret holds one yet."""


WITHOUT_RANKS = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "unranked", "labels": LABELS},
    "spec": {
        "completions": 2,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "node", "image": "example.invalid/trainer:1"}],
            }
        },
    },
}
"""A job that cannot be observed: its pods have no ranks."""


@pytest.fixture
def operator(own_shell: Shell, tmp_path: Path) -> OperatorShell:
    made = operator_process.make(own_shell.namespace, tmp_path / "machine")
    users.grant(own_shell.namespace, "operator", "observe", yaml.safe_load(RULES.read_text()))
    return made


@contextlib.contextmanager
def observing(operator: OperatorShell) -> Iterator[Running]:
    """Run an operator that observes, and end it as a kubelet does."""
    with operator.collecting("--observe") as running:
        yield running
        operator_process.end(running)


class Job:
    """A PyTorchJob of somebody else with a growing log."""

    def __init__(
        self,
        namespace: Namespace,
        folder: Path,
        name: str,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        policy: str = "Never",
        **pod: Any,
    ) -> None:
        self.namespace, self.name, self.log = namespace, name, folder / f"{name}.log"
        self.log.touch()
        other = folder / f"{name}-other.log"
        other.write_text(log_text(["joined"]))
        pods = {f"{name}-master-0": self.log, f"{name}-worker-0": other}
        pod_logs.serve_pods(namespace, pods)
        self.object = pytorch_job(name, workers=1, gpus=4, run_for=None, pod=pod)
        for role in self.object["spec"]["pytorchReplicaSpecs"].values():
            role["restartPolicy"] = policy
        self.object["metadata"] |= {
            "labels": LABELS if labels is None else labels,
            "annotations": STATED if annotations is None else annotations,
        }
        namespace.create(self.object)

    @property
    def uid(self) -> str:
        return str(self.namespace.get("pytorchjob", self.name)["metadata"]["uid"])

    def prints(self, lines: list[str]) -> None:
        with self.log.open("a") as file:
            file.write(log_text(lines))

    def finish(self) -> None:
        select = f"--selector=training.kubeflow.org/job-name={self.name}"
        self.namespace.kubectl("annotate", "pods", select, f"{RUN_FOR}=0s", "--overwrite")

    def delete(self) -> None:
        self.namespace.kubectl("delete", "pytorchjob", self.name)


def run_ids(operator: OperatorShell) -> list[str]:
    return operator.run("list", "--store=local", "-o", "name").out.split()


def until_recorded(operator: OperatorShell, count: int = 1) -> list[str]:
    until(lambda: len(run_ids(operator)) == count, f"{count} recorded runs")
    return run_ids(operator)


def status(operator: OperatorShell, run_id: str) -> dict[str, Any]:
    return dict(operator.json("status", run_id, "--store=local"))


def until_phase(operator: OperatorShell, run_id: str, *phases: str) -> dict[str, Any]:
    until(lambda: status(operator, run_id)["phase"] in phases, f"{run_id} {phases}")
    return status(operator, run_id)


def until_measured(operator: OperatorShell, run_id: str) -> dict[str, Any]:
    until(lambda: status(operator, run_id)["measurement"], f"a measurement of {run_id}")
    return until_phase(operator, run_id, "Succeeded")


def until_read(operator: OperatorShell, run_id: str, lines: list[str]) -> None:
    until(lambda: operator.archived(run_id, "master-0") == lines, f"{len(lines)} lines")


def rows(operator: OperatorShell) -> list[dict[str, Any]]:
    return list(operator.json("results", "--store=local")["rows"])


def test_labelled_jobs_are_measured_and_nothing_is_written(
    operator: OperatorShell, own_shell: Shell, own_cluster: OwnCluster, tmp_path: Path
) -> None:
    namespace = own_shell.namespace
    for name, labels in (("unlabelled", {}), ("otherwise", {OBSERVE: "yes"})):
        Job(namespace, tmp_path, name, labels)
    namespace.create(WITHOUT_RANKS)
    with observing(operator) as running:
        running.until("Job unranked is not observed")
        job = Job(namespace, tmp_path, "llama")
        (run_id,) = until_recorded(operator)
        until_phase(operator, run_id, "Running")
        job.prints(LINES)
        until_read(operator, run_id, LINES)
        job.finish()
        ended = until_measured(operator, run_id)
        running.until("measured ")
    assert run_ids(operator) == [run_id]
    assert ended["facts"]["job"]["name"] == "llama"
    (row,) = rows(operator)
    figures = (row["benchmark"], row["case"], row["backend"], row["state"])
    assert figures == ("llama", "2x4", "observed", "valid")
    assert row["throughput"] == pytest.approx(56_000)
    assert namespace.get("pytorchjob", "llama")["metadata"]["labels"] == LABELS
    user = users.account(namespace, "operator")
    asked = audit.asked(own_cluster.layout.audit_log, user)
    assert asked
    assert not audit.writes(asked, but=ITS_OWN)


def test_credentials_in_the_log_of_a_failed_job_are_not_shown(
    operator: OperatorShell, own_shell: Shell, tmp_path: Path
) -> None:
    credentials = written()
    first, second = (one.text for one in credentials[:2])
    last = f"RuntimeError: {first} is refused, and so is {second}"
    printed = [line for one in credentials for line in one.text.splitlines()]
    with observing(operator) as running:
        job = Job(own_shell.namespace, tmp_path, "llama")
        (run_id,) = until_recorded(operator)
        until_phase(operator, run_id, "Running")
        job.prints([*LINES, *printed, last])
        until_read(operator, run_id, [*LINES, *printed, last])
        select = "--selector=training.kubeflow.org/job-name=llama"
        end = (f"{RUN_FOR}=0s", f"{EXIT_CODE}=1")
        job.namespace.kubectl("annotate", "pods", select, *end, "--overwrite")
        until_phase(operator, run_id, "Failed")
        running.until("Failed: ")
    shown = {"the operator's log": running.out + running.err}
    for words in (("status", run_id), ("explain", run_id), ("logs", run_id), ("results", "--all")):
        ended = operator.run(*words, "--store=local")
        shown[words[0]] = ended.out + ended.err
    assert "password=*** " in shown["status"]
    secrets = [secret for one in credentials for secret in one.secrets]
    assert not {name for name, text in shown.items() if any(one in text for one in secrets)}


def test_one_that_is_killed_in_the_middle_goes_on_and_reads_each_line_once(
    operator: OperatorShell, own_shell: Shell, tmp_path: Path
) -> None:
    half = len(LINES) // 2
    with operator.collecting("--observe") as first:
        job = Job(own_shell.namespace, tmp_path, "llama")
        (run_id,) = until_recorded(operator)
        job.prints(LINES[:half])
        until_read(operator, run_id, LINES[:half])
        first.kill()
    job.prints(LINES[half:])
    with observing(operator):
        until_read(operator, run_id, LINES)
        job.finish()
        ended = until_measured(operator, run_id)
    assert operator.archived(run_id, "master-0") == LINES
    assert operator.archived(run_id, "worker-0") == ["joined"]
    assert ended["measurement"]["verdict"] == "valid", ended["measurement"]["reasons"]
    assert len(rows(operator)) == 1
    assert run_ids(operator) == [run_id]


@pytest.mark.parametrize("is_read", [True, False])
def test_a_pod_that_replaced_another_is_the_second_one_for_an_operator_started_since(
    operator: OperatorShell, own_shell: Shell, tmp_path: Path, is_read: bool
) -> None:
    namespace = own_shell.namespace
    third = len(LINES) // 3
    first, unread, second = LINES[:third], LINES[third : 2 * third], LINES[2 * third :]
    again = tmp_path / "again.log"
    again.touch()

    def reads_ended() -> list[bool]:
        pods = operator.store / "runs" / run_id / "log-pods.json"
        return [*json.loads(pods.read_text())["master-0"].values()]

    def replace(job: Job) -> None:
        # Before the new pod is there: a reader would take the first one's lines for its own.
        pod_logs.serve_again(namespace, "llama-master-0", again)
        namespace.kubectl("delete", "pod", "llama-master-0", "--force", "--grace-period=0")
        namespace.wait_for_pods(2)
        job.log = again

    with operator.collecting("--observe") as killed:
        job = Job(namespace, tmp_path, "llama", policy="OnFailure")
        (run_id,) = until_recorded(operator)
        job.prints(first)
        until_read(operator, run_id, first)
        if is_read:
            replace(job)
            until(lambda: reads_ended() == [True, False], "a record of both pods")
        killed.kill()
    if not is_read:
        job.prints(unread)
        replace(job)
    with observing(operator):
        job.prints(second)
        until(lambda: operator.archived(run_id, "master-0.pod-2") == second, "the second pod's log")
        job.finish()
        ended = until_measured(operator, run_id)
    assert operator.archived(run_id, "master-0") == first
    assert operator.archived(run_id, "master-0.pod-2") == second
    assert ended["measurement"]["restarts"] == 1
    gaps = operator.store / "runs" / run_id / "log-gaps.json"
    named = [gap["replica"] for gap in json.loads(gaps.read_text())] if gaps.exists() else []
    assert named == ([] if is_read else ["master-0"])


def test_a_deleted_job_is_lost_with_its_lines_and_one_of_its_name_is_another_run(
    operator: OperatorShell, own_shell: Shell, tmp_path: Path
) -> None:
    half = LINES[: len(LINES) // 2]
    with observing(operator):
        job = Job(own_shell.namespace, tmp_path, "llama")
        (first,) = until_recorded(operator)
        job.prints(half)
        until_read(operator, first, half)
        job.delete()
        lost = until_phase(operator, first, "Lost")
        assert operator.archived(first, "master-0") == half
        job.log = tmp_path / "again.log"
        job.log.touch()
        pod_logs.serve_again(own_shell.namespace, "llama-master-0", job.log)
        own_shell.namespace.create(job.object)
        (second,) = set(until_recorded(operator, 2)) - {first}
        job.prints(LINES)
        until_read(operator, second, LINES)
        job.finish()
        until_measured(operator, second)
    assert status(operator, first)["history"] == lost["history"]
    assert operator.archived(first, "master-0") == half
    assert {row["state"] for row in rows(operator)} >= {"valid"}
    assert len(run_ids(operator)) == 2


def test_a_job_that_ended_before_is_measured_once_by_all_operators(
    operator: OperatorShell, own_shell: Shell, tmp_path: Path
) -> None:
    job = Job(own_shell.namespace, tmp_path, "llama")
    own_shell.namespace.wait_for_pods(2)
    job.prints(LINES)
    job.finish()
    own_shell.namespace.wait("condition=Succeeded", "pytorchjob/llama")
    with observing(operator):
        (run_id,) = until_recorded(operator)
        ended = until_measured(operator, run_id)
    written = (operator.store / "runs" / run_id / "run.json").stat().st_mtime_ns
    with observing(operator):
        again = Job(own_shell.namespace, tmp_path, "mark")  # it has seen all when it sees this
        until_recorded(operator, 2)
        again.delete()
    assert (operator.store / "runs" / run_id / "run.json").stat().st_mtime_ns == written
    assert ended["measurement"]["verdict"] == "valid"


def test_a_label_makes_no_second_run_of_a_benchmark_of_ours(
    operator: OperatorShell, own_shell: Shell, tmp_path: Path
) -> None:
    logs = operator_process.given(own_shell, "r1")
    kind = own_shell.kind.singular
    with observing(operator):
        until(lambda: operator.archived("r1-1"), "lines of r1-1")
        own_shell.namespace.kubectl("label", kind, "r1-1", f"{OBSERVE}=true")
        Job(own_shell.namespace, tmp_path, "llama")
        until_recorded(operator, 2)
        logs.end()
        own_shell.finish("r1-1")
        operator_process.check_collected(operator, "r1-1", logs)
    observed = [one for one in run_ids(operator) if one.startswith("r1")]
    assert observed == ["r1-1"]


def test_a_fact_that_nothing_states_is_null_until_an_annotation_states_it(
    operator: OperatorShell, own_shell: Shell, tmp_path: Path
) -> None:
    with observing(operator):
        job = Job(own_shell.namespace, tmp_path, "llama", annotations={})
        (run_id,) = until_recorded(operator)
        job.prints(LINES)
        job.finish()
        assert until_measured(operator, run_id)["measurement"]["verdict"] == "valid"
        assert [row["precision"] for row in rows(operator)] == [None]
        for key, value in STATED.items():
            own_shell.namespace.kubectl("annotate", "pytorchjob", "llama", f"{key}={value}")
        until(lambda: [row["precision"] for row in rows(operator)] == ["amp"], "its precision")
        assert [row["state"] for row in rows(operator)] == ["valid"]
    assert run_ids(operator) == [run_id]
