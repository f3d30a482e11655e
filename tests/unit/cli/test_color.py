"""Colour of states and verdicts: on a terminal, unless NO_COLOR is set."""

import re
import sys

import pytest

from tests.results.report.factory import repeats
from tests.unit.cli.conftest import Fill
from tests.unit.command_line import Cli

GREEN = "\x1b[32m"


@pytest.fixture(autouse=True)
def _store(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    fill(repeats([100.0, 101.0, 102.0]))


@pytest.mark.parametrize("command", ["results", "list"])
def test_verdicts_are_coloured(cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    colored = cli(command).out
    assert f"{GREEN}valid\x1b[0m" in colored
    for name, value in (("TERM", "dumb"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
        assert re.sub(r"\x1b\[\d+m", "", colored) == cli(command).out
