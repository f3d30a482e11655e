"""The subreaper ends every process of a cluster, and only those."""

from __future__ import annotations

import os
import signal
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
if sys.argv[2] == "stay":
    processes.stay()
print(processes.start("one", sys.argv[3:], {}), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = fixture.new_folder(tmp_path_factory)
    made.mkdir()
    return made


def wait_for_output(processes: Processes, name: str) -> None:
    assert host.eventually(lambda: processes.log(name).read_text() != "")


def parent_of(folder: Path, how: str, *argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder), how, *argv],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_it_ends_what_a_process_left_behind(folder: Path) -> None:
    processes = Processes.begin(folder, private=False)
    processes.start("one", ORPHANS, PATH)
    wait_for_output(processes, "one")
    assert host.eventually(lambda: not processes.list()[0].is_running)
    (orphan,) = host.processes_of(folder)
    assert orphan.ppid() == processes.pid
    processes.end()
    assert not orphan.is_running()


def test_it_ends_with_the_process_that_began_it(folder: Path) -> None:
    with parent_of(folder, "tied", *SLEEPS) as parent:
        assert parent.stdout is not None
        running = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    assert not psutil.wait_procs([running], timeout=60)[1]
    assert host.eventually(lambda: not folder.exists())


def test_it_stays_when_it_is_asked_to(folder: Path) -> None:
    with parent_of(folder, "stay", *SLEEPS) as parent:
        assert parent.stdout is not None
        running = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    found = Processes(folder)
    assert found.list()[0].is_running
    found.end()
    assert not running.is_running()
    with pytest.raises(NoCluster):
        found.list()


def test_its_children_die_with_it(folder: Path) -> None:
    processes = Processes.begin(folder, private=False)
    running = psutil.Process(processes.start("one", SLEEPS, PATH))
    assert processes.pid is not None
    os.kill(processes.pid, signal.SIGKILL)
    assert not psutil.wait_procs([running], timeout=60)[1]
    processes.end()
    assert not folder.exists()


def test_a_borrowed_file_goes_with_the_last_that_needs_it(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wanted = tmp_path / "a" / "b"
    both = []
    for _ in range(2):
        folder = fixture.new_folder(tmp_path_factory)
        folder.mkdir()
        both.append(Processes.begin(folder, private=False))
        both[-1].borrow(wanted)
    one, other = both
    one.end()
    assert wanted.exists()
    other.end()
    assert not wanted.parent.exists()
