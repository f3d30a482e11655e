"""Lost creation requests and answers, a kill before creation, a full quota."""

from tests.harness.cluster.fault_proxy import FaultProxy
from tests.harness.cluster.manifests import limit
from tests.harness.cluster.shell import CASE, Shell

COUNTED = "count/pytorchjobs.kubeflow.org"


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
