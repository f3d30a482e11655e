"""Jobs that a policy of the cluster refuses: of one Benchmark, or of a whole namespace."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.test_benchmark_objects import body, phases, serving, status, usual
from tests.harness.cluster import operator_process
from tests.harness.cluster.cluster import KubectlFailed
from tests.harness.cluster.manifests import refusing
from tests.harness.cluster.operator_process import OperatorShell
from tests.harness.cluster.shell import CASE, ENDLESS, Shell, until

pytestmark = pytest.mark.kubernetes("1.30")
NO_WORKERS = "!has(object.spec.pytorchReplicaSpecs.Worker)"
"""Rule that takes jobs of one replica, the plainest among them."""
WORKERS = "has(object.spec.pytorchReplicaSpecs.Worker)"
NOT_THIS = "!object.metadata.name.startsWith('denied')"
"""Rule that takes no job of one object, nor the plainest one of its name."""
MESSAGE = "no such jobs here"


@pytest.fixture
def operator(own_shell: Shell, tmp_path: Path) -> OperatorShell:
    operator = operator_process.make(own_shell.namespace, tmp_path / "machine")
    operator.limits = operator.limits | {"denied_job": 0.05}
    return operator


@contextlib.contextmanager
def denying(shell: Shell, rule: str, *case: str) -> Iterator[None]:
    """Refuse jobs unless a rule holds; begins when the API server refuses that of a case."""
    job = shell.run("render", *case, ENDLESS, "--run-id=denied-1").out

    def is_enforced() -> bool:
        try:
            shell.namespace.kubectl("create", "--dry-run=server", "--filename=-", given=job)
        except KubectlFailed as refused:
            return MESSAGE in str(refused)
        return False

    with refusing(shell.namespace, "CREATE", "pytorchjobs", rule, MESSAGE):
        until(is_enforced, "the policy")
        yield


@pytest.mark.parametrize("rule", [NO_WORKERS, NOT_THIS], ids=["a dry run", "other jobs"])
def test_a_job_that_a_policy_forbids_fails_and_others_go_on(
    own_shell: Shell, operator: OperatorShell, rule: str
) -> None:
    """The rules differ in what shows that the refusal is the job's."""
    namespace = own_shell.namespace
    numbers = itertools.count(1)
    others = ["other0"]

    def has_failed() -> bool:
        if rule == NOT_THIS and f"{others[-1]}-1" in own_shell.on_cluster():
            others.append(f"other{next(numbers)}")
            namespace.create(body(others[-1], **usual(replicas=1)))
        return phases(operator).get("denied-1") == "Failed"

    with denying(own_shell, rule, *CASE), serving(operator) as running:
        namespace.create(body("denied", **usual()))
        if rule == NOT_THIS:
            namespace.create(body(others[0], **usual(replicas=1)))
        until(has_failed, "the end of denied-1")
        end = operator.json("status", "denied-1")["history"][-1]
        assert end["cause_id"] == "job-denied"
        assert MESSAGE in end["cause"]
        until(lambda: status(namespace, "denied").get("phase") == "Failed", "the status")
        if rule == NO_WORKERS:
            assert " not ready: " not in running.err
        namespace.create(body("last", **usual(replicas=1)))
        until(lambda: "last-1" in own_shell.on_cluster(), "a job of the last object")


def test_a_policy_that_refuses_all_jobs_ends_no_run(
    own_shell: Shell, operator: OperatorShell
) -> None:
    with serving(operator) as running:
        with denying(own_shell, "false", *CASE):
            own_shell.namespace.create(body("a", **usual()))
            running.until("not ready: no job can be created for now: ")
        until(lambda: own_shell.on_cluster() == ["a-1"], "the job of a-1")
        assert phases(operator)["a-1"] != "Failed"
        running.until("info collecting\n")


def test_a_kind_that_is_not_installed_fails_its_object_alone(
    own_shell: Shell, operator: OperatorShell
) -> None:
    namespace = own_shell.namespace
    with serving(operator) as running:
        namespace.create(body("denied", **usual(jobKind="trainjob")))
        until(lambda: phases(operator).get("denied-1") == "Failed", "the end of denied-1")
        assert operator.json("status", "denied-1")["history"][-1]["cause_id"] == "job-denied"
        assert " not ready: " not in running.err


def test_submit_goes_on_with_the_next_case(own_shell: Shell) -> None:
    words = ("deeplabv3p", "--all-cases", "--preset=smoke", "--framework=pytorch")
    with denying(own_shell, WORKERS, "deeplabv3p", "--preset=smoke", "--framework=pytorch"):
        own_shell.run("submit", *words, ENDLESS, "--detach", code=2)
    runs = {run["run_id"]: run for run in own_shell.json("list")}
    created = set(own_shell.on_cluster())
    assert created
    for run_id, run in runs.items():
        assert run["case"].startswith("1x") is (run_id not in created)
        assert (run["phase"] == "Failed") is (run_id not in created)
