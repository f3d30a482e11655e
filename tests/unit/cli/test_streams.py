"""Unwritable output: a full disk, a closed stream."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests.tiers import ROOT


def k8sbench(words: str, redirected: str, store: pathlib.Path) -> subprocess.CompletedProcess[str]:
    command = f'"$0" -m k8sbench {words} --store "$1" {redirected}'
    return subprocess.run(
        ["bash", "-c", command, sys.executable, str(store)],
        env={name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="Linux has /dev/full")
def test_output_onto_a_full_disk_is_no_internal_error(tmp_path: pathlib.Path) -> None:
    done = k8sbench("list -o json", "> /dev/full", tmp_path / "store")
    assert done.returncode == 1
    assert "error: The output cannot be written: no space left on device.\n" in done.stderr
    assert "Internal error" not in done.stderr


def test_a_closed_output_is_named(tmp_path: pathlib.Path) -> None:
    done = k8sbench("list -o json", ">&-", tmp_path / "store")
    assert (done.returncode, "standard output is closed" in done.stderr) == (1, True)


def test_no_note_gets_into_the_data_where_nobody_reads_notes(tmp_path: pathlib.Path) -> None:
    done = k8sbench("results -o json", "2>&-", tmp_path / "store")
    assert (done.returncode, json.loads(done.stdout)["rows"]) == (0, [])


def test_an_error_that_nobody_can_read_keeps_its_exit_code(tmp_path: pathlib.Path) -> None:
    assert k8sbench("status nope", "2>/dev/full", tmp_path / "store").returncode == 2
