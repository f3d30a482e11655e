"""Logs that cannot be read for a while: nothing is deleted before they are, or a user wants it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k8sbench.model.errors import Unreachable
from tests.harness.cluster import fault_proxy
from tests.harness.cluster.fault_proxy import FaultProxy
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import IMPATIENT, Shell

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
    found.program = ("-c", IMPATIENT)
    return found


FAULTS = {
    "kubelet": (
        _status(500, KUBELET),
        "(kubelet at 10.0.0.1:10250: dial tcp 10.0.0.1:10250: connect: connection refused)",
    ),
    "forbidden": (
        _status(403, "pods/log is forbidden"),
        "(pods/log is forbidden (it takes the permission get on pods/log))",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_job_stays_until_its_logs_are_collected(
    shell: Shell, proxy: tuple[FaultProxy, Path], name: str
) -> None:
    logs = shell.logs(name)
    logs.begin()
    logs.end()
    body, why = FAULTS[name]
    with proxy[0].answer(body["code"], "/log", body=body):
        submit = shell.submit(name, code=LEFT)
        watch = shell.run("watch", name, code=LEFT)
    assert "The job has succeeded, and it stays with its pods: the log of master-0" in submit.err
    assert f"and 1 more cannot be read now {why}.\n" in submit.err
    assert f"When logs can be read again: k8sbench collect {name}; to end" in submit.err
    assert " valid; smoke" not in submit.out, submit.out
    assert name in shell.on_cluster()
    assert f"{name}-master-0" in shell.on_cluster("pods")
    # Once as the state that it has, once as the one that it has again.
    assert watch.err.count("The job has succeeded, and it stays with its pods") == 2
    assert "error:" not in watch.err
    status = shell.json("status", name)
    assert (status["phase"] != "Succeeded", status["cause_id"]) == (True, "logs-incomplete")
    assert " valid; smoke" in shell.run("collect", "--all").out
    assert shell.archived(name) == logs.expected["master-0"]
    assert shell.archived(name, "worker-0") == logs.expected["worker-0"]
    assert name not in shell.on_cluster()
    assert not (shell.store / "runs" / name / "log-gaps.json").exists()


def test_what_breaks_in_the_middle_of_a_log_is_collected_from_there(
    shell: Shell, proxy: tuple[FaultProxy, Path]
) -> None:
    logs = shell.logs("cut")
    logs.begin()
    logs.end()
    size = len("\n".join(logs.expected["master-0"]))
    with (
        proxy[0].cut("cut-master-0/log", after=size // 2, times=1),
        proxy[0].drop("cut-master-0/log"),
    ):
        shell.submit("cut", code=LEFT)
    begun = shell.archived("cut")
    assert 0 < len(begun) < len(logs.expected["master-0"])
    assert shell.archived("cut", "worker-0") == logs.expected["worker-0"]
    assert " valid; smoke" in shell.run("collect", "cut").out
    assert shell.archived("cut") == logs.expected["master-0"]
    assert "cut" not in shell.on_cluster()


def test_a_run_whose_logs_cannot_be_read_can_be_ended_without_them(
    shell: Shell, proxy: tuple[FaultProxy, Path]
) -> None:
    shell.logs("unwanted")
    """A container that has run does not wait to start, whatever the answer says."""
    waiting = 'container "pytorch" in pod "p" is waiting to start'
    proxy[0].answer(400, "/log", body=_status(400, waiting))
    shell.submit("unwanted", code=LEFT)
    again = shell.run("collect", "unwanted", code=LEFT)
    assert "the log of master-0 and 1 more cannot be read now" in again.err
    assert "unwanted" in shell.on_cluster()
    shell.run("cancel", "unwanted")
    assert "unwanted" not in shell.on_cluster()
    status = shell.json("status", "unwanted")
    assert status["phase"] == "Succeeded"
    assert "incomplete-log" in [one["id"] for one in status["measurement"]["reasons"]]
