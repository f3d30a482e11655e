"""Lost creation requests and answers, a kill before creation, a full quota."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from k8sbench.model.errors import CreationUnknown, Unreachable
from k8sbench.model.phase import Phase
from tests.harness.cluster import fault_proxy, following
from tests.harness.cluster.fault_proxy import FaultProxy
from tests.harness.cluster.following import Port
from tests.harness.cluster.limits import SECONDS, shorten
from tests.harness.cluster.manifests import limit
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import CASE, Shell

JOBS = "/pytorchjobs"
COUNTED = "count/pytorchjobs.kubeflow.org"


@pytest.fixture
def port(user: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FaultProxy, Port]]:
    """Give a port behind a proxy, which has no patience."""
    shorten(monkeypatch, find_job=0.1)
    with fault_proxy.before(user) as (proxy, path), following.opened(path) as opened:
        opened.cluster.create_s = 0.1
        yield proxy, opened


def test_a_job_with_a_lost_answer_is_found_and_ends(own_shell: Shell, proxy: FaultProxy) -> None:
    with proxy.lose_answer(f"/{own_shell.kind.plural}", method="POST", times=1) as lost:
        own_shell.submit("found", code=5)  # the pods print nothing
    assert lost.hits == 1
    assert own_shell.phase("found") == "Succeeded"
    assert own_shell.on_cluster() == []


def test_a_lost_request_is_unknown(port: tuple[FaultProxy, Port], namespace: Namespace) -> None:
    proxy, opened = port
    plan = following.plan("1x1")
    # The job is created; neither that nor its presence is answered.
    with (
        proxy.lose_answer(JOBS, method="POST"),
        proxy.drop(JOBS, method="GET"),
        pytest.raises(CreationUnknown, match=f"Whether the job {plan.run_id} exists"),
    ):
        opened.submit(plan)
    assert namespace.get("pytorchjob", plan.run_id)
    opened.resume(plan)
    opened.end_of(plan)
    # Nothing was created.
    refused = following.plan("1x1")
    with proxy.answer(429, JOBS, method="POST"), pytest.raises(Unreachable) as raised:
        opened.submit(refused)
    assert not isinstance(raised.value, CreationUnknown)
    assert refused.run_id not in namespace.kubectl("get", "pytorchjobs", "--output=name")


def test_a_refusal_after_a_lost_answer_is_not_believed(port: tuple[FaultProxy, Port]) -> None:
    """A quota may be full because of the job itself."""
    proxy, opened = port
    opened.cluster.create_s = SECONDS
    plan = following.plan("1x1")
    full = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "exceeded quota: few"}
    with (
        proxy.lose_answer(JOBS, method="POST", times=1),
        proxy.answer(403, JOBS, method="POST", body=full) as refused,
    ):
        opened.submit(plan)
    assert refused.hits == 1
    assert opened.end_of(plan).phase is Phase.SUCCEEDED


def test_runs_wait_for_room_in_a_quota_that_others_fill_and_all_end(own_shell: Shell) -> None:
    limit(own_shell.namespace, {COUNTED: "2"})
    done = own_shell.run("submit", *CASE, "--repeats=4", "--parallel=4", "--set=some", code=5)
    assert "Queued: PyTorchJob resnet50-" in done.err
    assert f"quota few allows {COUNTED} 2, of which 2 used, and 1 more asked for." in done.err
    runs = own_shell.json("list")
    assert [(run["phase"], run["verdict"]) for run in runs] == [("Succeeded", "rejected")] * 4
