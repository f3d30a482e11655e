"""Prompts and refusals of ``store remove``; goldens cover other ``store`` commands."""

import subprocess
import sys
from types import SimpleNamespace

import click
import pytest

from k8sbench.adapters.store.sql_store import SqlStore
from tests.tiers import ROOT
from tests.unit.command_line import Cli
from tests.unit.presence import present


@pytest.fixture(autouse=True)
def _runs(runs: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


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


CLAIMS = """
import sys
from k8sbench.adapters.store.opening import open_store
store = open_store()
store.claims.claim("seg-1")
print(flush=True)
sys.stdin.read()
"""


def test_a_run_that_another_process_follows_is_not_removed(cli: Cli) -> None:
    words = [sys.executable, "-c", CLAIMS]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        present(other.stdout).readline()
        err = cli("store", "remove", "seg-1", "--yes", code=2).err
        assert "Another k8sbench process follows run seg-1" in err
        other.communicate()
    cli("store", "remove", "seg-1", "--yes")
