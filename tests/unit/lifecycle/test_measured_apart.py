"""A run of a declared format is measured in a process of its own, which cannot keep ours busy."""

from __future__ import annotations

import pathlib
import sys
import threading
from collections.abc import Iterator

import pytest

from k8sbench.app import context
from k8sbench.model.spec import LogFormat
from tests.unit.cli import live_runs

ENDLESS = r"(\S+\s*)+# (?P<iteration>\d+) (?P<rate>\S+)"
SOUND = r"^x # (?P<iteration>\d+) (?P<rate>\S+)"


@pytest.fixture(autouse=True)
def process() -> Iterator[None]:
    """Have each test start the process."""
    end()
    yield
    end()


def end() -> None:
    process = context._process()
    context._process.cache_clear()
    process.kill()
    process.communicate()


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


def test_one_process_measures_all_and_another_one_when_it_has_ended(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = task(tmp_path, SOUND, "x # 1 5.0")
    found = [context.measure(given)]
    monkeypatch.setattr(context, "COMMAND", program("sys.exit('Error: no')"))
    found.append(context.measure(given))
    assert found[0] == found[1] == context.measured(given)
    context._process().kill()
    context._process().wait()
    failed = context.measure(given)
    assert failed.verdict == "rejected"
    assert "cannot be measured: code 1, Error: no" in str(failed.reasons)


@pytest.mark.parametrize("end", ["sys.exit(130)", "os.kill(os.getpid(), signal.SIGINT)"])
def test_ctrl_c_ends_it(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(context, "COMMAND", program(end))
    with pytest.raises(KeyboardInterrupt):
        context.measure(task(tmp_path, SOUND))


def test_logs_have_a_limit_of_time_together(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "COMMAND", program("signal.pause()"))
    monkeypatch.setattr(context, "SECONDS", 0.01)
    found = context.measure(task(tmp_path, SOUND))
    assert "are not measured within" in str(found.reasons)


def program(line: str) -> tuple[str, ...]:
    return sys.executable, "-c", f"import os, signal, sys; {line}"
