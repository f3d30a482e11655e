"""Prompts and refusals of ``store remove``; goldens cover other ``store`` commands."""

import sys
from types import SimpleNamespace

import click
import pytest

from tests.harness import children
from tests.unit.command_line import Cli
from tests.unit.store import programs

pytestmark = pytest.mark.usefixtures("runs")


@pytest.mark.parametrize("answer", [True, False])
def test_on_a_terminal_it_is_asked(cli: Cli, monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    asked: list[str] = []

    def confirm(text: str, **_: object) -> bool:
        asked.append(text)
        return answer

    monkeypatch.setattr(click, "confirm", confirm)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    err = cli("store", "remove", "weekly", code=0 if answer else 130).err
    assert asked == ["Remove 1 run permanently?"]
    assert "old-1\n" in err
    assert ("old-1" in cli("list", "-o", "name").out) is not answer


def test_a_run_that_another_process_follows_is_not_removed(cli: Cli) -> None:
    with children.ready(programs.claim, "seg-1") as other:
        err = cli("store", "remove", "seg-1", "--yes", code=2).err
        assert "Another k8sbench process follows run seg-1" in err
        other.communicate()
    cli("store", "remove", "seg-1", "--yes")
