"""Unreadable logs delay deletion until they are read or a user insists."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k8sbench.model.errors import Unreachable
from tests.harness.cluster import fault_proxy
from tests.harness.cluster.fault_proxy import FaultProxy
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import CASE, IMPATIENT, Shell

LEFT = Unreachable.exit_code
KUBELET = (
    'Get "https://10.0.0.1:10250/containerLogs/ns/pod/pytorch?timestamps=true": dial tcp'
    " 10.0.0.1:10250: connect: connection refused"
)


def _status(code: int, message: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "code": code, "message": message}


@pytest.fixture
def proxy(common: tuple[Namespace, Path]) -> Iterator[tuple[FaultProxy, Path]]:
    with fault_proxy.before(common[1]) as opened:
        yield opened


@pytest.fixture
def shell(common: tuple[Namespace, Path], proxy: tuple[FaultProxy, Path], tmp_path: Path) -> Shell:
    found = Shell(common[0], proxy[1], tmp_path / "shell")
    found.limits = IMPATIENT
    return found


def test_a_job_stays_until_logs_are_collected(shell: Shell, proxy: tuple[FaultProxy, Path]) -> None:
    name = "kubelet"
    logs = shell.logs(name).begin().end()
    with proxy[0].answer(500, "/log", body=_status(500, KUBELET)):
        submit = shell.submit(name, code=LEFT)
        watch = shell.run("watch", name, code=LEFT)
    assert "The job has succeeded, and it stays with its pods: the log of master-0" in submit.err
    why = "kubelet at 10.0.0.1:10250: dial tcp 10.0.0.1:10250: connect: connection refused"
    assert f"and 1 more cannot be read now ({why}).\n" in submit.err
    assert f"When logs can be read again: k8sbench collect {name}; to end" in submit.err
    assert " ok (smoke)" not in submit.out, submit.out
    assert name in shell.on_cluster()
    assert f"{name}-master-0" in shell.on_cluster("pods")
    # Once as the state that it has, once as the one that it has again.
    assert watch.err.count("The job has succeeded, and it stays with its pods") == 2
    assert "error:" not in watch.err
    status = shell.json("status", name)
    assert (status["phase"] != "Succeeded", status["cause_id"]) == (True, "logs-incomplete")
    assert " ok (smoke)" in shell.run("collect", "--all").out
    assert shell.archived(name) == logs.expected["master-0"]
    assert shell.archived(name, "worker-0") == logs.expected["worker-0"]
    assert name not in shell.on_cluster()
    assert not (shell.store / "runs" / name / "log-gaps.json").exists()


def test_a_job_stays_if_log_lines_are_lost(shell: Shell, proxy: tuple[FaultProxy, Path]) -> None:
    shell.logs("partly").begin().end()
    shell.limits = {"last_logs": 1.0}
    with (
        proxy[0].answer(500, "partly-worker-0/log", body=_status(500, KUBELET)) as failing,
        shell.started("submit", *CASE, "--run-id=partly") as submit,
    ):
        failing.wait()
        submit.until("its logs are being read to their ends")
        shell.namespace.kubectl("delete", "pod", "partly-worker-0")
        submit.ends(5)
    assert (
        "partly stays on the cluster: its logs are not whole. To delete it: k8sbench delete partly"
        in submit.err
    )
    assert "partly" in shell.on_cluster()
    assert "partly-master-0" in shell.on_cluster("pods")
    reasons = shell.json("status", "partly")["measurement"]["reasons"]
    assert "incomplete-log" in [reason["id"] for reason in reasons]
    assert "Nothing needs collection here." in shell.run("collect", "--all").err
    shell.run("delete", "partly")
    assert "partly" not in shell.on_cluster()
