"""A node ends with its cluster, however that comes about, and leaves the machine as it was."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests import tiers
from tests.harness.cluster import fixture, host
from tests.harness.node import cgroups
from tests.harness.node.inside import SETTINGS
from tests.tiers import ROOT

pytestmark = pytest.mark.soak

FOLDERS = (
    *("/run/containerd", "/run/netns", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers"),
    "/var/log/pods",
)
# A stand-in for pytest: what it has started may not outlive it.
PARENT = """
import sys
from pathlib import Path
from tests.harness.node import bringup, faults
from tests.harness.cluster.namespace import Namespace
own = bringup.start(Path(sys.argv[1]), count=1, say=lambda text: None)
namespace = Namespace.make(own, "pods")
namespace.create(faults.pod("one", faults.WAITS))
namespace.wait_for_pods(1)
print(own.nodes[0].machine.cgroup, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fixture.new_folder(tmp_path_factory)


@pytest.fixture
def unchanged() -> Iterator[None]:
    before = traces()
    yield
    assert host.eventually(lambda: traces() == before), host.differences(before, traces())


def traces() -> dict[str, object]:
    """Describe of the machine what a kubelet, a container runtime or a plug-in would change."""
    return {
        **host.network(),
        **{name: Path("/proc/sys", name).read_text() for name in SETTINGS},
        **{folder: sorted(Path(folder).glob("*")) for folder in FOLDERS},
        "mounts": [line for line in mounts() if "containerd" in line or "kubelet" in line],
    }


def mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


def same_namespace(kind: str, wanted: str) -> list[int]:
    """Return the processes in a namespace."""
    found = []
    for pid in psutil.pids():
        try:
            if str(Path(f"/proc/{pid}/ns/{kind}").readlink()) == wanted:
                found.append(pid)
        except OSError:
            continue
    return found


def pid_namespace_of(process: psutil.Process) -> str:
    return str(Path(f"/proc/{process.pid}/ns/pid").readlink())


@pytest.mark.usefixtures("node_programs", "unchanged")
def test_a_node_and_its_pods_end_with_the_process_that_started_them_even_when_that_is_killed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tiers.CACHE))
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        cgroup = parent.stdout.readline().strip()
        (kubelet,) = (one for one in host.processes_of(folder / "node-0") if is_kubelet(one))
        machine = pid_namespace_of(kubelet)
        mine = psutil.Process(parent.pid).children(recursive=True)
        assert "pause" in {one.name() for one in mine}
        assert cgroups.roots(cgroup)
        parent.kill()
    assert host.eventually(lambda: not folder.exists())
    assert host.eventually(lambda: not host.processes_of(folder))
    assert not [line for line in mounts() if str(folder) in line]
    assert host.eventually(lambda: not same_namespace("pid", machine))
    assert not psutil.wait_procs(mine, timeout=10)[1]
    assert host.eventually(lambda: not cgroups.roots(cgroup))


def is_kubelet(process: psutil.Process) -> bool:
    return process.name() == "kubelet"
