"""A cluster ends when it should, however that comes about, and leaves the machine as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests import tiers
from tests.harness.cluster import fixture, host, tools
from tests.tiers import ROOT

pytestmark = pytest.mark.soak

# A stand-in for pytest: what it has started may not outlive it.
PARENT = """
import sys
from pathlib import Path
from tests import tiers
from tests.harness.cluster import bringup
own = bringup.start(Path(sys.argv[1]), say=lambda text: None)
print(own.layout.place.link or "", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def real_cache(programs: tools.Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs that a test starts find the cache, though the test's home is another."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tiers.CACHE))


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fixture.new_folder(tmp_path_factory)


@pytest.mark.usefixtures("real_cache")
def test_a_cluster_ends_with_the_process_that_started_it_even_when_that_is_killed(
    folder: Path,
) -> None:
    before = host.network()
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        link = parent.stdout.readline().strip()
        processes = [*host.processes_of(folder), *psutil.Process(parent.pid).children()]
        assert len(processes) > 6  # its components and its subreaper
        network = host.network_namespace(processes[0].pid)
        assert {host.cgroups(one.pid) for one in processes} == {host.cgroups(os.getpid())}
        parent.kill()
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert not alive
    assert not host.processes_of(folder)
    assert not folder.exists()
    assert not host.mounts_of(folder)
    assert host.eventually(lambda: host.network() == before), host.differences(
        before, host.network()
    )
    if link:
        assert network not in host.network_namespaces()
        assert host.eventually(lambda: not Path("/sys/class/net", link).exists())
