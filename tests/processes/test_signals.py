"""Ctrl-C at any moment, and readers that go away, of k8sbench as a process."""

import subprocess
import sys
from pathlib import Path

import pytest

from k8sbench.cli import main
from k8sbench.store import sql_store
from tests.harness import children
from tests.processes import interrupting
from tests.tiers import ROOT


@pytest.mark.parametrize("module", [main.__name__, "click", sql_store.__name__])
def test_ctrl_c_while_it_starts_ends_it_without_a_traceback(module: str, tmp_path: Path) -> None:
    done = subprocess.run(
        children.command(interrupting.list_runs, module, tmp_path),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (130, "")
    # click closes the line of the terminal's ^C.
    assert done.stderr.removeprefix("\n") == "error: Interrupted.\n"


@pytest.mark.parametrize("words", ["--help", "benchmarks resnet50", "render tsm"])
def test_a_reader_that_has_gone_ends_every_command_as_sigpipe_does(words: str) -> None:
    # Nobody has read anything when the first byte is written, however late that is.
    command = f'exec 3> >(:); wait $!; "$0" -m k8sbench {words} >&3; echo $?'
    done = subprocess.run(
        ["bash", "-c", command, sys.executable],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.stdout == "141\n"
    assert "rror" not in done.stderr
