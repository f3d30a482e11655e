"""The subreaper ends every process of a cluster, and only those."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.harness.cluster import fixture, host
from tests.harness.cluster.processes import Processes

PATH = {"PATH": os.defpath}
SLEEPS = (sys.executable, "-c", "import signal; print('on', flush=True); signal.pause()")
# Ends at once and leaves a child in a session of its own: nobody's, but for a subreaper.
ORPHANS = (
    *SLEEPS[:2],
    "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True)",
    *SLEEPS,
)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = fixture.new_folder(tmp_path_factory)
    made.mkdir()
    return made


def test_it_ends_what_a_process_left_behind(folder: Path) -> None:
    processes = Processes.begin(folder, private=False)
    processes.start("one", ORPHANS, PATH)
    assert host.eventually(lambda: processes.log("one").read_text() != "")
    assert host.eventually(lambda: not processes.list()[0].is_running)
    (orphan,) = host.processes_of(folder)
    assert orphan.ppid() == processes.pid
    processes.end()
    assert not orphan.is_running()
