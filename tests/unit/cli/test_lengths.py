"""Lengths of time on the command line: ``--timeout`` and ``--since`` read them alike."""

from __future__ import annotations

import pathlib

import pytest

from tests.unit.command_line import Cli


@pytest.fixture(autouse=True)
def _store(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "store"))


TIMEOUT = ("render", "resnet50", "--timeout")
SINCE = ("list", "--since")


@pytest.mark.parametrize("text", ["90s", "15m", "1h30m", "1.5h", "3d", "2w"])
def test_both_take_the_same(text: str, cli: Cli) -> None:
    for words in (TIMEOUT, SINCE):
        assert "error" not in cli(*words, text).err


@pytest.mark.parametrize("text", ["90", "2x", "-2h", "soon", ""])
def test_both_refuse_the_same_with_the_same_examples(text: str, cli: Cli) -> None:
    examples = "Write 90s, 15m, 2h, 1h30m or 3d"
    err = cli(*TIMEOUT, text, code=2).err
    assert err.startswith(f"error: --timeout {text!r} is not a length of time.\n  {examples}.")
    err = cli(*SINCE, text, code=2).err
    assert err.startswith(f"error: --since {text!r} is neither a length of time nor a date.")
    assert examples in err


@pytest.mark.parametrize("text", ["0s", "367d"])
def test_a_run_has_some_time_and_not_for_ever(text: str, cli: Cli) -> None:
    assert "Give more than 0s, up to 366d." in cli(*TIMEOUT, text, code=2).err
