"""The collector's log: a line for each report, with time, level and run, as text or JSON."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator

import pytest

from k8sbench.cli.terminal import output
from k8sbench.cli.terminal.log_lines import LogLines
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from tests.unit.lifecycle import played
from tests.unit.report.factory import run

SECRET = "hunter2"
NOTES = (
    "Others read it at port 8080.",
    "warning: collecting has ended: The database postgresql://me:hunter2@db/runs is away.",
    "error: two\nlines, and a \x1b[31mcolour\udcff",
)


@pytest.fixture(autouse=True)
def root() -> Iterator[None]:
    """Take the handlers of a test away again."""
    log = logging.getLogger()
    before, level = log.handlers[:], log.level
    yield
    log.handlers[:] = before
    log.setLevel(level)


@pytest.fixture
def one() -> Run:
    return run(100.0)


def report(lines: LogLines, one: Run) -> None:
    lines.planned(one)
    for text in NOTES:
        lines.note(text)
    lines.on_event(one, played.line(f"the program prints {SECRET}"))
    lines.on_event(one, played.at(Phase.FAILED, "It ended with exit code 1."))
    lines.ended(one)
    try:
        raise OSError("no file https://me:hunter2@host/")
    except OSError:
        logging.getLogger("uvicorn.error").exception("The server has failed.")


def test_json_has_time_level_run_and_message(one: Run, capsys: pytest.CaptureFixture[str]) -> None:
    report(LogLines(lambda: 0.0, "json"), one)
    err = capsys.readouterr().err
    lines = [json.loads(line) for line in err.splitlines()]
    assert all(list(line) == ["time", "level", "run", "message"] for line in lines)
    assert all(re.fullmatch(r"\d{4}-.*T.*\.\d{6}Z", line["time"]) for line in lines)
    by_run = {line["run"] for line in lines}
    assert by_run == {"", one.run_id}
    of_notes = [(line["level"], line["message"]) for line in lines if not line["run"]]
    assert of_notes[0] == ("info", NOTES[0])
    level, message = of_notes[1]
    assert level == "warning"
    assert message == "collecting has ended: The database postgresql://me:***@db/runs is away."
    assert of_notes[2] == ("error", "two\nlines, and a colour")
    assert of_notes[3][0] == "error"
    assert "Traceback" in of_notes[3][1]
    assert SECRET not in err
    assert any("Failed: It ended with exit code 1." in line["message"] for line in lines)


def test_text_is_one_clean_line_for_each(one: Run, capsys: pytest.CaptureFixture[str]) -> None:
    report(LogLines(lambda: 0.0, "text"), one)
    err = capsys.readouterr().err
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
    assert all(re.match(rf"{stamp} (info|warning|error) ", line) for line in err.splitlines())
    assert f"info run={one.run_id} Failed: It ended with exit code 1.\n" in err
    assert "error two lines, and a colour\n" in err
    assert SECRET not in err


def test_a_quiet_one_logs_warnings_alone(
    one: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "quiet", True)
    report(LogLines(lambda: 0.0, "text"), one)
    levels = {line.split()[1] for line in capsys.readouterr().err.splitlines()}
    assert levels == {"warning", "error"}
