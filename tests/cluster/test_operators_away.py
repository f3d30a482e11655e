"""Runs of Benchmark objects while an operator of jobs, Trainer v2 or Kueue is away."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.test_benchmark_objects import body, phases, serving, status, usual
from tests.harness.cluster import fixture, operator_process
from tests.harness.cluster.bringup import Options
from tests.harness.cluster.operator_process import OperatorShell
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import Shell, until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """Give a cluster with both operators and Kueue."""
    options = Options(has_trainer=True, has_kueue=True)
    yield from fixture.with_operators(tmp_path_factory, options)


@pytest.fixture
def operator(own_shell: Shell, tmp_path: Path) -> OperatorShell:
    return operator_process.make(own_shell.namespace, tmp_path / "machine")


JOBS = {"v1": "pytorchjobs", "trainjob": "trainjobs,trainingruntimes"}
"""Job kind → types of objects that a run has."""
AWAY = [
    ("training-operator", "v1"),
    ("trainer", "trainjob"),
    # Kueue's webhook stands before jobs of no queue, too.
    ("kueue", "v1"),
    ("kueue", "trainjob"),
]


@pytest.mark.parametrize(("away", "kind"), AWAY)
def test_no_run_ends_by_an_operator_that_is_away_and_none_that_is_cancelled_leaves_anything(
    cluster: OwnCluster, own_shell: Shell, operator: OperatorShell, away: str, kind: str
) -> None:
    namespace = own_shell.namespace

    def reason() -> str:
        conditions = status(namespace, "a").get("conditions", ())
        return next((one["reason"] for one in conditions if one["type"] == "Complete"), "")

    def left(*runs: str) -> set[str]:
        found = own_shell.on_cluster(JOBS[kind])
        return {name for name in found if name.startswith(runs)}

    with serving(operator) as running:
        with cluster.without(away):
            namespace.create(body("a", **usual(repeats=3, parallel=3, jobKind=kind)))
            namespace.create(body("b", **usual(jobKind=kind)))
            running.until("not ready: no job can be created for now: ")
            until(lambda: reason() == "JobsRefused", "the reason in the status")
            until(lambda: operator.json("status", "b-1")["history"][-1]["cause_id"], "b-1's turn")
            unwanted = '--patch={"spec": {"cancel": true}}'
            namespace.kubectl("patch", "benchmark", "b", "--type=merge", unwanted)
            namespace.wait("condition=Complete", "benchmark/b")
            until(lambda: not left("b-"), "nothing of b")
        until(lambda: len(left("a-1", "a-2", "a-3")) >= 3, "the jobs of a")
        running.until("info collecting\n")
        for number in (1, 2, 3):
            own_shell.finish(f"a-{number}")
        namespace.wait("condition=Complete", "benchmark/a")
    ended = dict.fromkeys(["a-1", "a-2", "a-3"], "Succeeded") | {"b-1": "Cancelled"}
    assert phases(operator) == ended


REFUSALS = {
    404: "the server could not find the requested resource",
    403: 'User "operator" cannot create resource "trainingruntimes" in API group '
    '"trainer.kubeflow.org" in the namespace "a"',
    422: "ValidatingAdmissionPolicy 'rule' with binding 'all' denied request: not on Fridays",
}


def test_a_refused_runtime_ends_no_run(own_shell: Shell, operator: OperatorShell) -> None:
    namespace = own_shell.namespace

    def is_created(run_id: str) -> bool:
        return run_id in own_shell.on_cluster("trainjobs")

    with operator.behind_proxy() as proxy, serving(operator) as running:
        for number, (status, message) in enumerate(REFUSALS.items(), 1):
            name = f"a{number}"
            answer = {"kind": "Status", "apiVersion": "v1", "code": status, "message": message}
            with proxy.answer(status, "/trainingruntimes", body=answer, method="POST") as refused:
                namespace.create(body(name, **usual(jobKind="trainjob")))
                refused.wait(2)
                if status != 404:  # a kind that is not installed is of this job alone
                    running.until("not ready: no job can be created for now: ")
            until(partial(is_created, f"{name}-1"), name)
            assert phases(operator)[f"{name}-1"] not in {"Failed", "Lost"}
