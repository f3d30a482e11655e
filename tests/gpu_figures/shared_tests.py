"""A plug-in of pytest: several processes share the tests, and each result is kept as it comes.

It stands in for pytest-xdist and pytest-timeout, which may be missing where the GPU is, and
unlike theirs its results are whole up to the moment at which the processes are stopped. A test
belongs to the process that first makes its file in the folder of ``--shared-folder``. What cannot
be collected is a test that has failed.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

OPTION = "--shared-folder"
COLLECTED = "collected"
NAMED = re.compile(r"(Error|Exception|error)\b")
LONGEST_ERROR = 240


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know the option, and that of pytest-timeout in pyproject.toml."""
    parser.addoption(OPTION, type=Path, required=True)
    parser.addini("timeout", "is for pytest-timeout, which is not loaded here")


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark of pytest-timeout; keep the results."""
    config.addinivalue_line("markers", "timeout: is for pytest-timeout, which is not loaded here")
    config.pluginmanager.register(_Sharing(config.getoption(OPTION)))


class _Sharing:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._worst: dict[str, tuple[str, str]] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._keep(report.nodeid, report.outcome, report.longreprtext)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if self._claim(COLLECTED):
            names = [item.nodeid for item in session.items]
            (self._folder / COLLECTED).write_text(json.dumps(names))
        for number, item in enumerate(session.items):
            if self._claim(str(number)):
                # Which test is next nobody knows, so that no fixture can stay for it.
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return True

    def _claim(self, name: str) -> bool:
        try:
            (self._folder / name).open("x").close()
        except FileExistsError:
            return False
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome, reason = self._worst.get(report.nodeid, ("passed", ""))
        if report.outcome != "passed" and outcome != "failed":
            outcome, reason = report.outcome, report.longreprtext
            if isinstance(report.longrepr, tuple):  # where and why it was skipped
                reason = report.longrepr[2].removeprefix("Skipped: ")
        self._worst[report.nodeid] = outcome, reason
        if report.when == "teardown":
            self._keep(report.nodeid, outcome, reason)

    def _keep(self, *result: str) -> None:
        with (self._folder / f"{os.getpid()}.results").open("a") as file:
            file.write(json.dumps(result) + "\n")


@dataclass(frozen=True)
class Results:
    """What the processes have kept in their folder."""

    results: dict[str, tuple[str, str]]
    """Test → passed, failed or skipped, and why."""
    unfinished: list[str]
    """Tests without a result."""

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Read the folder; without tests where pytest has collected none."""
        collected = folder / COLLECTED
        names = json.loads(collected.read_text() or "[]") if collected.exists() else []
        lines = [
            json.loads(line)
            for path in folder.glob("*.results")
            for line in path.read_text().splitlines()
        ]
        results = {name: (outcome, reason) for name, outcome, reason in sorted(lines)}
        return cls(results, [name for name in names if name not in results])

    @property
    def succeeded(self) -> bool:
        """Whether there were tests, all have ended, and none failed."""
        outcomes = {outcome for outcome, _ in self.results.values()}
        return bool(outcomes) and "failed" not in outcomes and not self.unfinished

    def lines(self) -> list[str]:
        """Their numbers, the tests without a result, the tests that failed, and why some were
        skipped.
        """
        counts = Counter(outcome for outcome, _ in self.results.values())
        head = [f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped")]
        head += [f"{len(self.unfinished)} without a result"] if self.unfinished else []
        skipped = Counter(why for outcome, why in self.results.values() if outcome == "skipped")
        return [
            ", ".join(head),
            *(f"without a result: {name}" for name in self.unfinished),
            *(f"failed: {name}: {_error(text)}" for name, text in self.failures().items()),
            *(f"{number} × {reason}" for reason, number in skipped.most_common()),
        ]

    def failures(self) -> dict[str, str]:
        """Test that failed → pytest's whole text of it."""
        return {name: text for name, (outcome, text) in self.results.items() if outcome == "failed"}


def _error(text: str) -> str:
    """The line of pytest's text that names the error; that of a nested program comes last."""
    lines = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    named = [line for line in lines if NAMED.search(line)]
    return (named or lines or ["no message"])[-1][:LONGEST_ERROR]
