"""TrainJobs on a cluster that has Kubeflow Trainer v2 alone."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import packaged
from tests.cluster.test_cluster_port import test_a_run_ends_whose_job_is_deleted_without_its_pods
from tests.cluster.test_every_write import test_a_killed_submit_repeated_makes_one_job
from tests.cluster.test_observe import Attempts, measurement
from tests.cluster.test_ownership import (
    test_a_job_is_collected_where_it_is_taken_over_and_nowhere_else,
)
from tests.cluster.test_restarts import test_a_restart_killed_before_creation_is_resumed
from tests.harness.cluster import fixture, operator_process, users, volumes
from tests.harness.cluster.bringup import Options
from tests.harness.cluster.jobs import ON_GPUS
from tests.harness.cluster.manifests import limit
from tests.harness.cluster.namespace import ENFORCED, Namespace
from tests.harness.cluster.nodes import RUN_FOR, log_text
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import Shell, until
from tests.tiers import ROOT

__all__ = [
    "test_a_job_is_collected_where_it_is_taken_over_and_nowhere_else",
    "test_a_killed_submit_repeated_makes_one_job",
    "test_a_restart_killed_before_creation_is_resumed",
    "test_a_run_ends_whose_job_is_deleted_without_its_pods",
]
"""Tests of PyTorchJobs that run here on TrainJobs.

A run with two objects, whose deletion cascades, may handle these faults differently.
"""
MADE = ("trainjobs", "trainingruntimes", "jobsets", "jobs", "pods")
"""All that there is of a run, beside the trainers."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """Yield a cluster with fake nodes, Trainer v2 and JobSet, without v1."""
    yield from fixture.with_operators(tmp_path_factory, Options(has_v1=False, has_trainer=True))


@pytest.fixture(scope="module")
def own_cluster(cluster: OwnCluster) -> OwnCluster:
    return cluster


@pytest.fixture
def own_shell(namespace: Namespace, user: Path, tmp_path: Path) -> Iterator[Shell]:
    """Give a user behind a proxy, which serves the logs of TrainJobs."""
    shell = Shell(namespace, user, tmp_path / "shell")
    with shell.behind_proxy():
        yield shell


@pytest.fixture
def shell(own_shell: Shell) -> Iterator[Shell]:
    with volumes.claimed_all(own_shell.namespace, "data", "checkpoints"):
        yield own_shell


@pytest.fixture
def trained(cluster: OwnCluster, tmp_path: Path) -> Iterator[Shell]:
    """Yield a user with role.yaml's permissions in a restricted namespace."""
    namespace = Namespace.make(cluster, "trained", {ENFORCED: "restricted"})
    yield Shell(namespace, namespace.user(tmp_path), tmp_path / "shell")
    namespace.delete()


def left(shell: Shell) -> list[str]:
    """Return what there is of any run."""
    return [each["metadata"]["name"] for each in shell.namespace.get(",".join(MADE))]


def test_a_run_reaches_its_end_and_leaves_nothing(trained: Shell) -> None:
    with trained.submitted("whole", "--keep") as submit:
        submit.until("Running: ")
        assert "jobs of Kubeflow Trainer v2" in submit.err
        (runtime,) = trained.namespace.get("trainingruntimes")
        (job,) = trained.namespace.get("trainjobs")
        assert runtime["metadata"]["name"] == job["spec"]["runtimeRef"]["name"]
        until(
            lambda: (
                [
                    owner["uid"]
                    for found in trained.namespace.get("trainingruntimes")
                    for owner in found["metadata"].get("ownerReferences", ())
                ]
                == [job["metadata"]["uid"]]
            ),
            "the job to own its runtime",
        )
        trained.finish("whole")
        submit.until("Succeeded: All 2 replicas succeeded.")
        submit.process.wait()
    phases = [one["phase"] for one in trained.json("status", "whole")["history"]]
    assert phases[0] == "Created"
    assert phases[-2:] == ["Running", "Succeeded"]
    trained.run("delete", "whole")
    until(lambda: not left(trained), "everything to be gone")


def test_training_that_begins_again_because_its_job_was_deleted_is_said(trained: Shell) -> None:
    with trained.submitted("again") as submit:
        submit.until("Running: ")
        before = {pod["metadata"]["uid"] for pod in trained.namespace.get("pods")}
        trained.namespace.kubectl("delete", "job", "again-node-0")
        until(
            lambda: (
                len(new := {pod["metadata"]["uid"] for pod in trained.namespace.get("pods")}) == 2
                and not new & before
            ),
            "new pods",
        )
        trained.finish("again")
        submit.until("Succeeded: ")
        submit.process.wait()
    status = trained.json("status", "again")
    assert "replica-replaced" in {one["cause_id"] for one in status["history"]}


RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainingRuntime",
    "metadata": {"name": "theirs", "labels": {"trainer.kubeflow.org/framework": "torch"}},
}
REPORTED = {
    "progressPercentage": 42,
    "estimatedRemainingSeconds": 600,
    "metrics": [{"name": "loss", "value": "2.5"}],
    "lastUpdatedTime": "2026-11-28T02:00:00Z",
}
"""Progress as a program reports it."""
TRAINER = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


def theirs(nodes: int, gpus: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a runtime and a TrainJob as somebody else would create them."""
    container = {
        "name": "node",
        "image": "example.invalid/trainer:1",
        "resources": {"limits": {"nvidia.com/gpu": gpus}},
    }
    pod = {"spec": {"containers": [container], **ON_GPUS}}
    template = {"metadata": {"labels": TRAINER}, "spec": {"template": pod}}
    jobs = [{"name": "node", "template": template}]
    runtime = {
        **RUNTIME,
        "spec": {
            "mlPolicy": {"numNodes": nodes, "torch": {}},
            "template": {"spec": {"replicatedJobs": jobs}},
        },
    }
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "theirs"}
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "llama"},
        "spec": {"runtimeRef": reference},
    }
    return runtime, job


def test_the_progress_that_a_program_reports_of_itself_is_shown(
    namespace: Namespace, tmp_path: Path
) -> None:
    made = users.make(namespace, tmp_path, "observer", sees_nodes=True, file=packaged.OBSERVER)
    observer = Shell(namespace, made, tmp_path / "observer")
    log = (ROOT / "tests" / "fixtures" / "logs" / "torchtitan.log").read_text()
    text = re.sub(r"(?m)^(\S+) \w+ F ", r"\1 ", log_text(log.splitlines())).encode()
    with observer.behind_proxy() as proxy:
        proxy.alter(r"/pods/llama-node-0-0-[a-z0-9]+/log\?(?!.*previous=true)", lambda _: text)
        namespace.create(*theirs(2, 4))
        with observer.started("observe", "trainjob/llama", "--precision", "bf16") as process:
            process.until("Running: All 2 replicas run")
            report = json.dumps({"status": {"trainerStatus": REPORTED}})
            patch = ("--subresource=status", "--type=merge", f"--patch={report}")
            namespace.kubectl("patch", "trainjob/llama", *patch)
            process.until("42 % done, 10m left, loss 2.5")
            of_job = "--selector=jobset.sigs.k8s.io/jobset-name=llama"
            namespace.kubectl("annotate", "pods", of_job, f"{RUN_FOR}=0s")
            process.ends(0)
        (row,) = observer.json("results")["rows"]
    assert (row["benchmark"], row["case"], row["backend"]) == ("llama", "2x4", "observed")
    assert row["throughput"] == pytest.approx(56_000)


def test_the_restarts_of_a_train_job_are_attempts_of_one_run(
    namespace: Namespace, tmp_path: Path
) -> None:
    made = users.make(namespace, tmp_path, "observer", sees_nodes=True, file=packaged.OBSERVER)
    observer = Shell(namespace, made, tmp_path / "observer")
    lines = (ROOT / "tests" / "fixtures" / "logs" / "torchtitan.log").read_text().splitlines()
    runtime, job = theirs(1, 8)
    runtime["spec"]["template"]["spec"]["failurePolicy"] = {"maxRestarts": 1}
    job["metadata"]["annotations"] = {"k8sbench.io/precision": "bf16"}
    (replicated,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    replicated["template"]["spec"]["backoffLimit"] = 0
    replicated["template"]["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    with observer.behind_proxy() as proxy:
        attempts = Attempts(namespace, proxy, "jobset.sigs.k8s.io/jobset-name=llama")
        namespace.create(runtime, job)
        with observer.started("observe", "trainjob/llama") as process:
            first = attempts.begins(lines[:9])
            process.until("Running: ")
            attempts.ends(first, 1)
            attempts.ends(attempts.begins(lines), 0)
            process.ends(0)
        late = Shell(namespace, Path(observer.environment["KUBECONFIG"]), tmp_path / "late")
        late.run("observe", "trainjob/llama")
        for shell in (observer, late):
            (row,) = shell.json("results")["rows"]
            assert (row["case"], row["state"]) == ("1x8", "valid")
            assert row["throughput"] == pytest.approx(56_000)
            assert measurement(shell)["restarts"] == 1
        named = [one for one in measurement(late)["reasons"] if one["id"] == "incomplete-log"]
        assert "node-0.attempt-1" in str(named), "its pods went with the restart"


def test_a_labelled_train_job_and_its_labelled_parts_are_one_run(
    namespace: Namespace, tmp_path: Path
) -> None:
    operator = operator_process.make(namespace, tmp_path / "machine")
    rules = ROOT / "charts" / "files" / "observe-rules.yaml"
    users.grant(namespace, "operator", "observe", yaml.safe_load(rules.read_text()))
    log = (ROOT / "tests" / "fixtures" / "logs" / "torchtitan.log").read_text()
    text = re.sub(r"(?m)^(\S+) \w+ F ", r"\1 ", log_text(log.splitlines())).encode()
    runtime, job = theirs(2, 4)
    job["metadata"]["labels"] = {"k8sbench.io/observe": "true"}
    job["metadata"]["annotations"] = {"k8sbench.io/precision": "bf16"}
    of_job = "--selector=jobset.sigs.k8s.io/jobset-name=llama"

    def runs() -> list[dict[str, Any]]:
        return list(operator.json("list", "--store=local"))

    with operator.behind_proxy() as proxy:
        proxy.alter(r"/pods/llama-node-0-0-[a-z0-9]+/log\?(?!.*previous=true)", lambda _: text)
        with operator.collecting("--observe") as running:
            namespace.create(runtime, job)
            running.until("Running: All 2 replicas run")
            for part in ("jobset/llama", "job/llama-node-0"):
                namespace.kubectl("label", part, "k8sbench.io/observe=true")
            running.until("JobSet llama is not observed")
            running.until("Job llama-node-0 is not observed")
            namespace.kubectl("annotate", "pods", of_job, f"{RUN_FOR}=0s")
            until(lambda: runs()[0]["phase"] == "Succeeded", "the end of the run")
            operator_process.end(running)
    (row,) = operator.json("results", "--store=local")["rows"]
    assert (row["benchmark"], row["case"], row["state"]) == ("llama", "2x4", "valid")
    assert len(runs()) == 1


def left_by_a_killed_submit(shell: Shell, run_id: str) -> None:
    """Kill a submit between creating its job's runtime and the job."""
    assert shell.proxy is not None
    with shell.proxy.drop("/trainjobs", method="POST") as lost, shell.submitted(run_id) as submit:
        lost.wait()
        submit.kill()
    assert len(shell.on_cluster("trainingruntimes")) == 1


def test_a_runtime_without_a_job_goes_with_its_run(own_shell: Shell) -> None:
    left_by_a_killed_submit(own_shell, "left")
    own_shell.limits = {"creation_settle": 2.0}
    own_shell.run("delete", "left")
    own_shell.until_nothing_is_left()
    assert own_shell.phase("left") == "Cancelled"


@pytest.mark.parametrize(
    "hard",
    [{"count/jobsets.jobset.x-k8s.io": "0"}, {"count/jobs.batch": "0"}, {"pods": "1"}],
    ids=lambda hard: next(iter(hard)),
)
def test_the_makers_warning_is_quoted(trained: Shell, hard: dict[str, str]) -> None:
    limit(trained.namespace, hard, "small")
    with trained.submitted("stuck") as submit:
        submit.until("quota small allows")
        submit.ends(3)
    status = trained.json("status", "stuck")
    assert "quota-exceeded" in {one["cause_id"] for one in status["history"]}
    assert ("the job needs 2 times" in submit.err) == (hard == {"pods": "1"})


def test_doctor_finds_the_cluster_ready(trained: Shell) -> None:
    document: dict[str, Any] = trained.json("doctor", "--replicas=2", "--gpus=1")
    levels = {check["id"]: check["level"] for check in document["checks"]}
    assert document["ready"]
    assert levels["job-kinds"] == levels["job-admission"] == levels["permissions"] == "ok"
    messages = " ".join(check["message"] for check in document["checks"])
    assert "A TrainJob of k8sbench is accepted." in messages
    assert "operator-init-container" not in levels
    document = trained.json("doctor", "--job-kind=v1", code=6)
    failed = {check["id"] for check in document["checks"] if check["level"] == "failure"}
    assert "job-kinds" in failed
