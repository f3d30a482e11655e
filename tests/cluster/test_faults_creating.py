"""Lost creation requests and answers, a kill before creation, full quotas, places."""

from pathlib import Path

import pytest

from tests.harness.cluster import operator_process, webhooks
from tests.harness.cluster.fault_proxy import FaultProxy
from tests.harness.cluster.manifests import limit
from tests.harness.cluster.operator_process import OperatorShell
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import CASE, Shell, until

COUNTED = "count/pytorchjobs.kubeflow.org"


@pytest.fixture
def operator(own_shell: Shell, tmp_path: Path) -> OperatorShell:
    return operator_process.make(own_shell.namespace, tmp_path / "machine")


def test_a_job_with_a_lost_answer_is_found_and_ends(own_shell: Shell, proxy: FaultProxy) -> None:
    with proxy.lose_answer(f"/{own_shell.kind.plural}", method="POST", times=1) as lost:
        own_shell.submit("found", code=5)  # the pods print nothing
    assert lost.hits == 1
    assert own_shell.phase("found") == "Succeeded"
    assert own_shell.on_cluster() == []


def test_runs_wait_for_room_in_a_quota_that_others_fill_and_all_end(own_shell: Shell) -> None:
    limit(own_shell.namespace, {COUNTED: "2"})
    done = own_shell.run("submit", *CASE, "--repeats=4", "--parallel=4", "--set=some", code=5)
    assert "Queued: PyTorchJob resnet50-" in done.err
    assert f"quota few allows {COUNTED} 2, of which 2 used, and 1 more asked for." in done.err
    runs = own_shell.json("list")
    assert [(run["phase"], run["verdict"]) for run in runs] == [("Succeeded", "rejected")] * 4


def test_an_operator_that_is_killed_before_a_creation_creates_the_job_later(
    own_shell: Shell, operator: OperatorShell
) -> None:
    operator.limits = {**operator.limits, "creation_settle": 3.0}
    logs = operator_process.given(own_shell, "a")
    with operator.behind_proxy() as proxy:
        with (
            proxy.drop(f"/{own_shell.kind.plural}", method="POST") as lost,
            operator.collecting() as running,
        ):
            lost.wait()
            running.kill()
        assert own_shell.on_cluster() == []
        with operator.collecting() as running:
            until(lambda: own_shell.on_cluster() == ["a-1"], "the job of a-1")
            logs.end()
            own_shell.finish("a-1")
            operator_process.check_collected(operator, "a-1", logs)
            operator_process.end(running)


WEBHOOK = 'Internal error occurred: failed calling webhook "v.kubeflow.org": connection refused'
REFUSALS = {
    500: WEBHOOK,
    403: 'User "operator" cannot create resource "pytorchjobs" in API group "kubeflow.org" '
    'in the namespace "a"',
    422: "ValidatingAdmissionPolicy 'rule' with binding 'all' denied request: not on Fridays",
}


@pytest.mark.parametrize("status", REFUSALS)
def test_a_place_that_refuses_jobs_ends_no_run_of_an_object(
    own_shell: Shell, operator: OperatorShell, status: int
) -> None:
    namespace = own_shell.namespace
    head = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}
    body = {**head, "message": REFUSALS[status]}
    operator_process.given(own_shell, "a", repeats=3, parallel=1)
    jobs = f"/{own_shell.kind.plural}"
    with operator.behind_proxy() as proxy, operator.collecting() as running:
        with proxy.answer(status, jobs, body=body, method="POST") as refused:
            refused.wait(3)
            running.until("not ready: no job can be created for now: ")

            def complete() -> dict[str, str]:
                found = namespace.get("benchmark", "a").get("status", {}).get("conditions", ())
                return next((one for one in found if one["type"] == "Complete"), {})

            until(lambda: complete().get("reason") == "JobsRefused", "the reason in the status")
            phases = [run["phase"] for run in operator.json("list", "--store=local")]
            assert phases == ["Created"] * 3
        until(lambda: own_shell.on_cluster() == ["a-1"], "the job of a-1")
        running.until("info collecting")
        operator_process.end(running)


@pytest.mark.parametrize(
    "path", ["/metadata/name", "/metadata/labels/k8sbench.io~1run"], ids=["name", "run label"]
)
def test_a_job_that_a_webhook_renames_is_deleted_and_ends_no_run(
    own_cluster: OwnCluster, own_shell: Shell, operator: OperatorShell, path: str
) -> None:
    namespace, kind = own_shell.namespace, own_shell.kind
    change = {"op": "replace", "path": path, "value": "other"}
    with operator.collecting() as running:
        with webhooks.mutating(own_cluster, namespace, [change]):
            operator_process.given(own_shell, "a")
            running.until("not ready: no job can be created for now: ")
            until(lambda: namespace.get(kind.plural) == [], "the deletion of the renamed jobs")
        until(lambda: own_shell.on_cluster() == ["a-1"], "the job of a-1")
        operator_process.end(running)
    history = operator.json("status", "a-1")["history"]
    assert "creation-waits" in {step["cause_id"] for step in history}
    assert history[-1]["phase"] not in {"Lost", "Failed"}
