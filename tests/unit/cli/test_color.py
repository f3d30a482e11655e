"""Colour of states and verdicts: on a terminal, unless NO_COLOR is set."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest

from tests.unit.cli.conftest import Fill
from tests.unit.command_line import Cli
from tests.unit.report.factory import repeats

GREEN = "\x1b[32m"


@pytest.fixture(autouse=True)
def _store(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    fill(repeats([100.0, 101.0, 102.0]))


@pytest.fixture
def printed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a command, on a terminal or in a pipe; gives what it printed."""

    def run(*words: str, terminal: bool = True) -> str:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
        monkeypatch.setenv("COLUMNS", "120")
        return cli(*words).out

    return run


Printed = Callable[..., str]


@pytest.mark.parametrize("command", ["results", "list"])
def test_a_verdict_is_coloured_on_a_terminal(printed: Printed, command: str) -> None:
    assert f"{GREEN}valid\x1b[0m" in printed(command)


def test_the_columns_line_up_as_they_do_without_colour(
    printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    colored = printed("list")
    assert "\x1b" in colored
    monkeypatch.setenv("NO_COLOR", "1")
    assert re.sub(r"\x1b\[\d+m", "", colored) == printed("list")


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_the_environment_turns_it_off(
    printed: Printed, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert "\x1b" not in printed("results")


def test_neither_a_pipe_nor_what_programs_read_has_colour(printed: Printed) -> None:
    assert "\x1b" not in printed("results", terminal=False)
    for form in ("json", "csv", "markdown"):
        assert "\x1b" not in printed("results", "-o", form)
