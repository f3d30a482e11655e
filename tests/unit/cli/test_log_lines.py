"""The operator's log: time, level and run, as text or JSON."""

import json
import logging
import re
from collections.abc import Callable, Iterator

import pytest

from k8sbench.cli.terminal import output
from k8sbench.cli.terminal.progress import LogLines
from k8sbench.model.phase import Phase
from tests.results.report.factory import run
from tests.unit.lifecycle import played

SECRET = "hunter2"
NOTES = (
    "Others read it at port 8080.",
    "warning: not ready: The database postgresql://me:hunter2@db/runs is away.",
    "error: two\nlines, and a \x1b[31mcolour\udcff",
)


Report = Callable[[str], list[str]]
ONE = run(100.0)


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Iterator[Report]:
    """Log a run's events; return the lines, checked for the secret."""
    log = logging.getLogger()
    before, level = log.handlers[:], log.level

    def reported(form: str) -> list[str]:
        lines = LogLines(lambda: 0.0, form)
        lines.planned(ONE)
        for text in NOTES:
            lines.note(text)
        lines.on_event(ONE, played.line(f"the program prints {SECRET}"))
        lines.on_event(ONE, played.at(Phase.FAILED, "It ended with exit code 1."))
        lines.ended(ONE)
        try:
            raise OSError("no file https://me:hunter2@host/")
        except OSError:
            logging.getLogger("uvicorn.error").exception("The server has failed.")
        err = capsys.readouterr().err
        assert SECRET not in err
        return err.splitlines()

    yield reported
    log.handlers[:] = before
    log.setLevel(level)


def test_json_has_time_level_run_and_message(report: Report) -> None:
    lines = [json.loads(line) for line in report("json")]
    assert all(list(line) == ["time", "level", "run", "message"] for line in lines)
    assert all(re.fullmatch(r"\d{4}-.*T.*\.\d{6}Z", line["time"]) for line in lines)
    assert {line["run"] for line in lines} == {"", ONE.run_id}
    *of_notes, fault = [(line["level"], line["message"]) for line in lines if not line["run"]]
    away = "not ready: The database postgresql://me:***@db/runs is away."
    colour = "two\nlines, and a colour"
    assert of_notes == [("info", NOTES[0]), ("warning", away), ("error", colour)]
    assert fault[0] == "error"
    assert "Traceback" in fault[1]
    assert any("Failed: It ended with exit code 1." in line["message"] for line in lines)


def test_text_is_one_clean_line_for_each_and_a_quiet_one_logs_warnings_alone(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = report("text")
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
    assert all(re.match(rf"{stamp} (info|warning|error) ", line) for line in lines)
    told = [line.split(" ", 1)[1] for line in lines]
    assert f"info run={ONE.run_id} Failed: It ended with exit code 1." in told
    assert "error two lines, and a colour" in told
    monkeypatch.setattr(output, "quiet", True)
    assert {line.split()[1] for line in report("text")} == {"warning", "error"}
