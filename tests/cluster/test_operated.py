"""Commands where an operator serves the namespace: they write objects and nothing else."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.exposing import expose
from tests.harness.cluster import operator_process
from tests.harness.cluster.cluster import KubectlFailed
from tests.harness.cluster.operator_process import OperatorShell
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import CASE, ENDLESS, Running, Shell, until

OWNER = "k8sbench.io/owner"


@pytest.fixture
def operator(own_shell: Shell, tmp_path: Path) -> OperatorShell:
    return operator_process.make(own_shell.namespace, tmp_path / "machine")


@contextmanager
def serving(operator: OperatorShell, own_cluster: OwnCluster, shell: Shell) -> Iterator[Running]:
    with operator.collecting() as running:
        expose(own_cluster, shell, running)
        yield running
        operator_process.end(running)


def status(shell: Shell, name: str) -> dict[str, Any]:
    found: dict[str, Any] = shell.namespace.get("benchmark", name).get("status", {})
    return found


def until_jobs(shell: Shell, *names: str) -> None:
    until(lambda: set(shell.on_cluster()) == set(names), f"the jobs {names}")


def test_a_submit_creates_an_object_and_shows_what_the_operator_does_with_it(
    own_cluster: OwnCluster, own_shell: Shell, operator: OperatorShell
) -> None:
    shell = own_shell
    logs = [shell.logs(f"night-{number}").begin() for number in (1, 2)]
    words = ("submit", *CASE, ENDLESS, "--run-id=night", "--repeats=2", "--parallel=1")
    with serving(operator, own_cluster, shell):
        with shell.started(*words) as submit:
            submit.until("step ")
            assert shell.on_cluster() == ["night-1"]
            annotations = shell.namespace.get(shell.namespace.job("night-1"))["metadata"]
            owner = json.loads(annotations["annotations"][OWNER])
            assert owner["store"] == "operator"
            # A closed laptop changes nothing.
            submit.kill()
        logs[0].end()
        shell.finish("night-1")
        until_jobs(shell, "night-2")
        # The same command again shows the object that there is.
        with shell.started(*words) as submit:
            submit.until("night-2")
            logs[1].end()
            shell.finish("night-2")
            submit.ends()
        assert submit.out.count("ok (smoke)") == 1
        assert shell.run("watch", "night").out == submit.out
        assert shell.json("list") == operator.json("list", "--store=local") or shell.json("list")
        (row,) = shell.json("results")["rows"]
        assert [member["source"] for member in row["members"]] == ["operator"] * 2
        refused = shell.run(*words, "--iterations=11", code=2)
        assert "Choose another --run-id" in refused.err
    assert status(shell, "night")["phase"] == "Succeeded"
    assert not (shell.store / "runs").exists()


def test_the_object_of_a_command_line_is_submitted_from_a_file(
    own_cluster: OwnCluster, own_shell: Shell, operator: OperatorShell
) -> None:
    shell = own_shell
    printed = shell.run("render", *CASE, ENDLESS, "--run-id=night", "--output=benchmark").out
    file = shell.folder / "night.yaml"
    file.write_text(printed)
    words = ("submit", f"--filename={file}")
    log = shell.logs("night-1").begin()
    with serving(operator, own_cluster, shell):
        assert shell.run(*words, "--detach").out.split() == ["night"]
        found = shell.namespace.get("benchmark", "night")
        assert found["spec"] == yaml.safe_load(printed)["spec"]
        # The same file again shows the object that there is.
        with shell.started(*words, "--output=json") as submit:
            until_jobs(shell, "night-1")
            log.end()
            shell.finish("night-1")
            submit.ends()
        (row,) = json.loads(submit.out)["rows"]
        assert [member["run_id"] for member in row["members"]] == ["night-1"]
        file.write_text(printed.replace("smoke", "full"))
        shell.run(*words, code=2)
    assert not (shell.store / "runs").exists()


def test_ctrl_c_detaches_and_a_cancel_is_done_when_the_api_server_has_taken_it(
    own_cluster: OwnCluster, own_shell: Shell, operator: OperatorShell
) -> None:
    shell = own_shell
    with serving(operator, own_cluster, shell):
        words = ("submit", *CASE, ENDLESS, "--run-id=day", "--repeats=3", "--parallel=2")
        with shell.started(*words) as submit:
            submit.until("run day-2")
            submit.interrupt().ends(130)
        assert "k8sbench cancel day" in submit.err
        until_jobs(shell, "day-1", "day-2")
        shell.colleague().run("cancel", "day-1")
        until_jobs(shell, "day-2", "day-3")
        assert "Nothing to cancel" in shell.run("cancel", "day-1").err
        shell.run("cancel", "day")
        assert shell.namespace.get("benchmark", "day")["spec"]["cancel"] is True
        shell.run("watch", "day", code=3)
        until_jobs(shell)
        shell.run("submit", *CASE, ENDLESS, "--run-id=gone", "--detach")
        until_jobs(shell, "gone-1")
        shell.run("delete", "gone")
        with pytest.raises(KubectlFailed):
            shell.namespace.get("benchmark", "gone")
        until_jobs(shell)
        until(lambda: operator.phase("gone-1") == "Cancelled", "the record of gone-1")


def test_a_lost_terminal_changes_nothing_and_a_resumption_retries_the_object(
    own_cluster: OwnCluster, own_shell: Shell, operator: OperatorShell
) -> None:
    shell = own_shell

    def spec() -> dict[str, Any]:
        found: dict[str, Any] = shell.namespace.get("benchmark", "day")["spec"]
        return found

    words = ("submit", *CASE, ENDLESS, "--repeats=2")
    with serving(operator, own_cluster, shell):
        with shell.started(*words, "--run-id=day", "--set=night") as submit:
            submit.until("run day-1")
            asked = spec()
            submit.process.send_signal(signal.SIGHUP)
            submit.ends(130)
        assert spec() == asked
        for run_id in ("day-1", "day-2"):
            until_jobs(shell, run_id)
            shell.finish(run_id)
        shell.namespace.wait("condition=Complete", "benchmark/day")
        until_jobs(shell)
        assert "nothing is left to do here" in shell.run("collect", "day-1", code=None).err
        # What was measured is no figure: both are run again.
        with shell.started(*words, "--resume=night") as submit:
            until_jobs(shell, "day-3")
            assert spec() == {**asked, "retry": 1}
            refused = shell.run("collect", "--take-over", "--yes", "day-3", code=2)
            assert "k8sbench cancel day-3" in refused.err
            submit.interrupt().ends(130)
    assert not (shell.store / "benchmarks").exists()


def test_a_job_that_is_kept_stays_until_its_object_keeps_it_no_longer(
    own_cluster: OwnCluster, own_shell: Shell, operator: OperatorShell
) -> None:
    shell = own_shell
    with serving(operator, own_cluster, shell):
        with shell.started("submit", *CASE, ENDLESS, "--run-id=kept", "--keep") as submit:
            until_jobs(shell, "kept-1")
            shell.finish("kept-1")
            submit.ends(5)  # its pods print nothing
        assert shell.on_cluster() == ["kept-1"]
        patch = '--patch={"spec": {"keep": false}}'
        shell.namespace.kubectl("patch", "benchmark", "kept", "--type=merge", patch)
        until_jobs(shell)


def test_an_operator_that_is_away_is_named_and_its_objects_wait_for_it(
    own_cluster: OwnCluster, own_shell: Shell, operator: OperatorShell
) -> None:
    shell = own_shell
    with operator.collecting() as running:
        until(lambda: "k8sbench-operator" in leases(shell), "the Lease")
        running.kill()
    shell.limits = {
        "lease_alive": 0.5,
        "object_silent": 1.0,
        "poll": 0.5,
    }
    silent = shell.run("submit", *CASE, ENDLESS, "--run-id=late", code=6)
    assert "has given no sign of life for" in silent.err
    assert "k8sbench cancel late" in silent.err
    shell.limits = {}
    with serving(operator, own_cluster, shell):
        until_jobs(shell, "late-1")
    # Whatever the state of its operator, its jobs are looked at, and left to it.
    said = " ".join(shell.run("status", "late-1").out.split())
    assert "k8sbench logs late-1" in said
    assert "k8sbench collect" not in said
    assert "k8sbench watch" not in said


def leases(shell: Shell) -> list[str]:
    return [each["metadata"]["name"] for each in shell.namespace.get("leases")]


def test_the_runs_of_an_object_end_though_a_finalizer_holds_it(
    own_cluster: OwnCluster, own_shell: Shell, operator: OperatorShell
) -> None:
    shell = own_shell
    with serving(operator, own_cluster, shell):
        shell.run("submit", *CASE, ENDLESS, "--run-id=held", "--repeats=3", "--detach")
        until_jobs(shell, "held-1")
        hold = ("patch", "benchmark", "held", "--type=merge")
        shell.namespace.kubectl(*hold, '--patch={"metadata": {"finalizers": ["example.com/hold"]}}')
        assert "example.com/hold" in shell.run("delete", "held").err
        until_jobs(shell)
        until(lambda: status(shell, "held").get("phase") == "Cancelled", "the end of held")
        again = shell.run("submit", *CASE, ENDLESS, "--run-id=held", "--repeats=3", code=2)
        assert "example.com/hold" in again.err
        shell.namespace.kubectl(*hold, '--patch={"metadata": {"finalizers": null}}')
        until(lambda: not shell.namespace.get("benchmarks"), "the end of the object")
        # Its name is now the beginning of three runs of the operator.
        for command in ("cancel", "status", "watch"):
            assert "held-3, held-2, held-1" in shell.run(command, "held", code=2).err
        phases = {run["run_id"]: run["phase"] for run in operator.json("list", "--store=local")}
        assert phases == {f"held-{number}": "Cancelled" for number in (1, 2, 3)}
