"""The subreaper ends every process of a cluster, and only those."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.harness.cluster import fixture, host
from tests.harness.cluster.processes import NoCluster, Processes
from tests.tiers import ROOT

PATH = {"PATH": os.defpath}
SLEEPS = (sys.executable, "-c", "import signal; print('on', flush=True); signal.pause()")
# Ends at once and leaves a child in a session of its own: nobody's, but for a subreaper.
ORPHANS = (
    *SLEEPS[:2],
    "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True)",
    *SLEEPS,
)
PARENT = """
import sys
from pathlib import Path
from tests.harness.cluster.processes import Processes
processes = Processes.begin(Path(sys.argv[1]), private=False)
processes.stay()
print(processes.start("one", sys.argv[2:], {}), flush=True)
sys.stdin.read()
"""


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


def test_it_stays_when_it_is_asked_to(folder: Path) -> None:
    words = [sys.executable, "-c", PARENT, str(folder), *SLEEPS]
    with subprocess.Popen(
        words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        running = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    found = Processes(folder)
    assert found.list()[0].is_running
    found.end()
    assert not running.is_running()
    with pytest.raises(NoCluster):
        found.list()
