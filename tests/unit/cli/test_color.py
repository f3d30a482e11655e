"""Colour of states and verdicts: on a terminal, unless NO_COLOR or ``--color`` say otherwise."""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Callable

import click
import pytest

from k8sbench.adapters.store.sql_store import open_store
from k8sbench.cli.main import COMMANDS, cli, main
from tests.unit.command_line import Cli
from tests.unit.report.factory import repeats

GREEN = "\x1b[32m"


@pytest.fixture(autouse=True)
def _store(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with open_store() as store:
        for one in repeats([100.0, 101.0, 102.0]):
            store.record(one.plan, at=one.created_at, owner=None)
            for step in one.history[1:]:
                store.move(one.run_id, step)
            assert one.measurement is not None
            store.measured(one.run_id, one.measurement)


@pytest.fixture
def printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Run a command, on a terminal or in a pipe; gives what it printed."""

    def run(*words: str, terminal: bool = True) -> str:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
        monkeypatch.setenv("COLUMNS", "120")
        assert main(list(words)) == 0
        return capsys.readouterr().out

    return run


Printed = Callable[..., str]


@pytest.mark.parametrize("command", ["results", "list"])
def test_a_verdict_is_coloured_on_a_terminal(printed: Printed, command: str) -> None:
    assert f"{GREEN}valid\x1b[0m" in printed(command)


def test_the_columns_line_up_as_they_do_without_colour(printed: Printed) -> None:
    colored = printed("list")
    assert "\x1b" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored) == printed("list", "--color", "never")


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_the_environment_turns_it_off_and_the_option_on_again(
    printed: Printed, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert "\x1b" not in printed("results")
    assert GREEN in printed("results", "--color", "always")


def test_a_pipe_has_colour_only_where_it_is_asked_for(printed: Printed) -> None:
    assert "\x1b" not in printed("results", terminal=False)
    assert "\x1b" not in printed("results", "--color", "auto", terminal=False)
    assert GREEN in printed("results", "--color=always", terminal=False)


@pytest.mark.parametrize("form", ["json", "csv", "markdown"])
def test_what_programs_read_never_has_colour(printed: Printed, form: str) -> None:
    assert "\x1b" not in printed("results", "-o", form, "--color", "always")


def test_every_command_and_those_below_it_have_the_option() -> None:
    context = click.Context(cli)
    commands = [cli.get_command(context, name) for name in COMMANDS]
    for command in commands:
        assert command is not None
        below = command.commands.values() if isinstance(command, click.Group) else ()
        for each in (command, *below):
            assert [param.name for param in each.params].count("color") == 1


def test_another_word_is_refused(cli: Cli) -> None:
    err = cli("results", "--color", "pink", code=2).err
    assert "'pink' is not one of 'auto', 'always', 'never'" in err
