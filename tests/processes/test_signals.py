"""Ctrl-C at any moment, and readers that go away, of k8sbench as a process."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import ROOT

EARLY = """
import os, signal, sys, importlib.abc
class Interrupted(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupted())
sys.argv = ["k8sbench", "list", "--store", {store!r}]
from k8sbench.__main__ import run
run()
"""
"""Sends itself Ctrl-C when a module is about to be imported."""


@pytest.mark.parametrize(
    "module", ["k8sbench.cli.main", "click", "k8sbench.adapters.store.sql_store"]
)
def test_ctrl_c_while_it_starts_ends_it_without_a_traceback(module: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EARLY.format(module=module, store=str(tmp_path))],
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
