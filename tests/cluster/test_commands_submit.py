"""``submit`` and ``watch`` on a real cluster, from command to row."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import CASE, Shell
from tests.harness.cluster.trainer_logs import PARAMETERS, RATE

PLAN = (
    "resnet50 · pytorch · dle · fp32 · 2 replicas × 1 GPU = 2 GPUs · batch 4 × 2 = 8 ·"
    " 2 + 10 iterations · pool"
)


def test_a_run_ends_with_a_valid_row_and_leaves_nothing_on_the_cluster(own_shell: Shell) -> None:
    logs = own_shell.logs("whole").begin().end()
    with own_shell.submitted("whole") as done:
        done.until("Running: ")
        own_shell.finish("whole")
        done.ends()
    assert re.search(r"^resnet50 .* 2x1 .* 1/1 .* 16.* ok \(smoke\)", done.out, re.MULTILINE)
    # Plain lines, in the order of what happens.
    lines = done.err.splitlines()
    assert lines[0].startswith(f"{PLAN} endless · image pytorch/pytorch:")
    assert lines[1].startswith("backend kubernetes: current context test of KUBECONFIG (")
    assert f"namespace {own_shell.namespace.name}; pools from" in lines[1]
    assert lines[2].startswith("run whole (set ")
    reported = [line.strip() for line in lines[3:]]
    assert any(line.startswith("Running: ") for line in reported)
    assert reported[-2] == "Succeeded: All 2 replicas succeeded."
    assert re.fullmatch(
        r"measured 16\.\d\d \w+/s \(time_weighted\), valid, smoke: .*", reported[-1]
    )
    assert "\x1b" not in done.err
    status = own_shell.json("status", "whole")
    measured = status["measurement"]
    assert (measured["verdict"], measured["reasons"]) == ("valid", [])
    assert measured["throughput"]["time_weighted"] == pytest.approx(RATE)
    assert (measured["gpus"], measured["parameters"]) == (2, PARAMETERS)
    assert measured["gpu_model"] == "Tesla V100-SXM2-32GB"
    assert own_shell.archived("whole") == logs.expected["master-0"]
    assert own_shell.archived("whole", "worker-0") == logs.expected["worker-0"]
    # Pods belong to the job, and are deleted by the cluster when it is gone.
    assert own_shell.on_cluster() == []


def test_ctrl_c_detaches_and_watch_comes_back_for_the_row(shell: Shell) -> None:
    logs = shell.logs("left").begin()
    with shell.submitted("left", columns=100) as submit:
        # Drawn: the run, and how far the training is.
        submit.until_drawn(r"left +Running +\S+ +6/12 +16 samples/s")
        submit.interrupt().ends(130)
    assert "error: Interrupted (Ctrl-C): detached from left; its job goes on." in submit.out
    assert "Come back with: k8sbench watch left" in submit.out
    assert "left" in shell.on_cluster()
    assert shell.json("list")[0]["on_cluster"] == "Running"
    with shell.started("watch", "left") as watch:
        watch.until("Running")
        logs.end()
        shell.finish("left")
        watch.ends()
    assert " ok (smoke)" in watch.out
    assert shell.archived("left") == logs.expected["master-0"]
    assert shell.on_cluster() == []


def test_a_run_that_fails_shows_its_last_lines_and_ends_with_code_3(shell: Shell) -> None:
    shell.logs("failing").begin(3)
    pool = shell.pools.read_text().replace(": 0s}", ": 0s, k8sbench.test/exit-code: '7'}")
    shell.pools.write_text(pool)
    done = shell.submit("failing", code=3)
    assert re.search(r"Failed: .*(master|worker)-0.* 7", done.err)
    assert '"event": "step", "step": 3' in done.err
    assert shell.phase("failing") == "Failed"
    assert len(shell.archived("failing")) == 5
    assert shell.on_cluster() == []


# -- who else submits -------------------------------------------------------------------------


def test_a_run_id_that_exists_is_joined_by_its_own_store_alone(shell: Shell) -> None:
    logs = shell.logs("joined").begin()
    shell.submit("joined", "--node-pool=endless", "--set=night", "--detach")
    # Another store does not, and is told whose it is.
    refused = shell.colleague().submit("joined", "--node-pool=endless", code=2)
    assert "k8sbench collect --take-over joined" in refused.err
    # By its record, and by way of the process that follows it.
    with shell.submitted("joined") as again:
        again.until("Running")
        assert "run joined exists and is joined as it is: set night" in again.err
        with shell.submitted("joined") as third:
            third.until("Running")
            assert shell.on_cluster().count("joined") == 1
            logs.end()
            shell.finish("joined")
            ended = [again.ends(), third.ends()]
    assert all(" ok (smoke)" in one.out for one in ended)
    (run,) = shell.json("list")
    assert (run["run_id"], run["set_name"], run["phase"]) == ("joined", "night", "Succeeded")
    assert shell.archived("joined") == logs.expected["master-0"]
    # It is over: joining it prints its row, and says that this is all.
    after = shell.submit("joined", "--node-pool=endless")
    assert " ok (smoke)" in after.out
    assert "Run joined of set night was over before, and is not run again." in after.err


# -- what pods get ----------------------------------------------------------------------------


SUBMIT = ("submit", *CASE, "--node-pool=endless", "--detach")


def dead(shell: Shell) -> str:
    """The kubeconfig of a cluster that has gone."""
    config = json.loads(Path(shell.environment["KUBECONFIG"]).read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"  # where nobody listens
    path = shell.folder / "dead.kubeconfig"
    path.write_text(json.dumps(config))
    return str(path)


def test_cluster_and_namespace_are_chosen_like_kubectl(shell: Shell, namespace: Namespace) -> None:
    here = shell.environment["KUBECONFIG"]
    # Named on the command line, wherever KUBECONFIG points.
    done = shell.run(
        *SUBMIT, "--run-id=named", f"--kubeconfig={here}", "--context=test",
        f"--namespace={shell.namespace.name}", KUBECONFIG=dead(shell),
    )  # fmt: skip
    assert f"context test of {here}, namespace {shell.namespace.name}" in done.err
    # Recorded with the run, so that no later command need name it.
    status = json.loads(shell.run("status", "named", "-ojson", KUBECONFIG=dead(shell)).out)
    assert status["location"]["namespace"] == shell.namespace.name
    assert status["on_cluster"] is not None
    shell.run("delete", "named", KUBECONFIG=dead(shell))
    assert "named" not in shell.on_cluster()
    # A namespace where one may do nothing.
    denied = shell.run(*SUBMIT, f"--namespace={namespace.name}", code=6)
    assert f"may not get leases.coordination.k8s.io in namespace {namespace.name}." in denied.err
    assert "role.yaml" in denied.err


def test_a_dry_run_creates_nothing(shell: Shell) -> None:
    done = shell.run("submit", *CASE, "--dry-run")
    kinds = [one["kind"] for one in yaml.safe_load_all(done.out)]
    assert kinds == ["PyTorchJob"]
    assert done.err.startswith("resnet50 · pytorch · ")
    assert "\nbackend kubernetes: current context test" in done.err
    assert shell.on_cluster() == []
    assert shell.json("list") == []


def test_what_the_cluster_lacks_is_named_before_anything_is_created(own_shell: Shell) -> None:
    training = ("--mode=train", "--data=pvc:pictures", "--checkpoints=pvc:kept")
    words = ("submit", "resnet50", "--gpus=1", "--preset=smoke", *training)
    missing = f"There is no volume claim %s in {own_shell.namespace.name}."
    said = own_shell.run(*words, "--weights=pvc:start/a.pth", code=6).err
    assert all(missing % name in said for name in ("pictures", "kept", "start"))
    assert own_shell.on_cluster() == []
    assert own_shell.json("list") == []
