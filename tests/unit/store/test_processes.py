"""Telling whether the process that answers for a run still runs."""

from __future__ import annotations

import os
import pathlib
import subprocess

import msgspec
import pytest

from k8sbench.adapters import processes
from tests.harness import children

SLEEP = "import sys; print('ready', flush=True); sys.stdin.read()"


@pytest.fixture
def other() -> subprocess.Popen[str]:
    return children.ready(SLEEP)


def test_this_process_runs() -> None:
    me = processes.this_process()
    assert me.pid == os.getpid()
    assert me.started > 0
    assert processes.alive(me) is True


def test_a_process_that_was_killed_is_gone(other: subprocess.Popen[str]) -> None:
    owner = processes.describe(other.pid)
    assert processes.alive(owner) is True
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # dead, and still in the table
    assert processes.alive(owner) is False
    other.communicate()
    assert processes.alive(owner) is False


def test_a_pid_that_was_used_again_is_another_process() -> None:
    me = processes.this_process()
    assert processes.alive(msgspec.structs.replace(me, started=me.started - 1)) is False


@pytest.fixture
def machine_id(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The file of a machine's id."""
    path = tmp_path / "machine-id"
    path.write_text("3d1219c7c4c5404aaa1f6d2a48adfda4\n")
    monkeypatch.setattr(processes, "MACHINE_ID", path)
    return path


def test_a_boot_ends_every_process(machine_id: pathlib.Path) -> None:
    me = processes.this_process()
    assert me.machine
    assert "3d1219c7" not in me.machine
    assert processes.alive(msgspec.structs.replace(me, boot_id="another")) is False


@pytest.mark.parametrize("other", ["another\n", "", None])
def test_a_boot_of_another_machine_of_the_name_says_nothing(
    machine_id: pathlib.Path, other: str | None
) -> None:
    theirs = msgspec.structs.replace(processes.this_process(), boot_id="another")
    if other is None:
        machine_id.unlink()
    else:
        machine_id.write_text(other)
    assert processes.alive(theirs) is None
    # Nor does a row of a version that did not know the machine.
    assert processes.alive(msgspec.structs.replace(theirs, machine="")) is None


@pytest.mark.parametrize("change", [{"host": "elsewhere"}, {"pid_space": "pid:[42]"}])
def test_a_process_of_another_machine_or_container_cannot_be_seen(change: dict[str, str]) -> None:
    me = processes.this_process()
    assert processes.alive(msgspec.structs.replace(me, **change)) is None


@pytest.mark.parametrize("pid", [2**22 + 1, 0])
def test_a_pid_that_cannot_be_is_never_taken_for_alive(pid: int) -> None:
    me = processes.this_process()
    assert processes.alive(msgspec.structs.replace(me, pid=pid)) is not True


def test_a_process_that_proc_hides_is_not_called_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    me = processes.this_process()
    monkeypatch.setattr(processes, "_stat", lambda _: None)
    assert processes.alive(me) is None


def test_a_command_named_to_confuse_is_read_all_the_same() -> None:
    rename = "import ctypes; ctypes.CDLL(None).prctl(15, b') R 1 (x', 0, 0, 0);"
    process = children.ready(rename + SLEEP)
    owner = processes.describe(process.pid)
    assert processes.alive(owner) is True
    process.communicate("")
    assert processes.alive(owner) is False
