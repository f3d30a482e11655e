"""A run of a declared format is measured in a process of its own, which cannot keep ours busy."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import threading
from typing import Any

import pytest

from k8sbench.app import context
from k8sbench.model.spec import LogFormat
from tests.unit.cli import live_runs

ENDLESS = r"(\S+\s*)+# (?P<iteration>\d+) (?P<rate>\S+)"
SOUND = r"^x # (?P<iteration>\d+) (?P<rate>\S+)"


def task(folder: pathlib.Path, record: str, *lines: str) -> context.Task:
    log = folder / "master-0.log"
    log.write_text("".join(f"{line}\n" for line in lines))
    declared = LogFormat(name="mine", unit="x", per="job", record=record)
    run = live_runs.run(log=declared, impl="user", trainer=None)
    return context.Task(run=run, files={str(log): log.name})


def test_it_is_measured_as_it_would_be_here(tmp_path: pathlib.Path) -> None:
    given = task(tmp_path, SOUND, *(f"x # {step} 5.0" for step in range(1, 200)))
    assert context.measure(given) == context.measured(given)


def test_an_expression_that_never_ends_is_a_rejected_measurement_on_any_thread(
    tmp_path: pathlib.Path,
) -> None:
    given = task(tmp_path, ENDLESS, "abcdefghij " * 6)
    made = []
    thread = threading.Thread(target=lambda: made.append(context.measure(given)))
    thread.start()
    thread.join()
    (found,) = made
    assert found.verdict == "rejected"
    assert "busy for more than" in str(found.reasons)


@pytest.mark.parametrize("code", [130, -signal.SIGINT])
def test_ctrl_c_ends_it_and_a_failure_is_told(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def run(code: int) -> Any:
        return lambda *_, **__: subprocess.CompletedProcess([], code, b"", b"Trace\nError: no")

    monkeypatch.setattr(subprocess, "run", run(code))
    with pytest.raises(KeyboardInterrupt):
        context.measure(task(tmp_path, SOUND))
    monkeypatch.setattr(subprocess, "run", run(1))
    found = context.measure(task(tmp_path, SOUND))
    assert found.verdict == "rejected"
    assert "cannot be measured: code 1, Error: no" in str(found.reasons)
