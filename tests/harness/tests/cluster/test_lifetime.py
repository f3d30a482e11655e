"""A cluster ends when it should, however that comes about, and leaves the machine as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests import tiers
from tests.harness.cluster import bringup, components, fixture, host, needs, tools
from tests.harness.cluster.bringup import Options
from tests.harness.cluster.cluster import Cluster
from tests.harness.cluster.own import DidNotStart, OwnCluster
from tests.tiers import ROOT

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


SOME_TESTS = ("tests/cluster/test_smoke.py",)


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


def test_its_processes_die_with_its_subreaper(folder: Path, programs: tools.Programs) -> None:
    own = bringup.start(folder)
    processes = host.processes_of(folder)
    assert own.processes.pid is not None
    psutil.Process(own.processes.pid).kill()
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert not alive
    own.end()
    assert not folder.exists()


def test_two_clusters_run_side_by_side(
    own_cluster: OwnCluster, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # which nobody may ask
    other = bringup.start(folder, Options(nodes=2))
    try:
        assert other.layout.server != own_cluster.layout.server
        assert len(other.get("nodes")) == 2
        assert len(own_cluster.get("nodes")) == bringup.NODES
    finally:
        other.end()
    assert own_cluster.is_ready("kube-apiserver")


def test_a_component_that_does_not_start_shows_the_end_of_its_log(
    folder: Path, programs: tools.Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = components.all_of

    def with_a_mistake(layout: components.Layout) -> dict[str, components.Component]:
        found = original(layout)
        etcd = found["etcd"]
        return found | {"etcd": components.Component("etcd", (*etcd.argv, "--wrong"), etcd.ready)}

    monkeypatch.setattr(components, "all_of", with_a_mistake)
    with pytest.raises(DidNotStart, match="etcd ended with status") as failed:
        bringup.start(folder)
    assert "flag provided but not defined: -wrong" in str(failed.value)
    assert not folder.exists()
    assert not host.processes_of(folder)


class CommandLine:
    """``python -m tests.harness.cluster``, for a cluster of one test."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "tests.harness.cluster", "--name", self.name, *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def command(real_cache: None) -> Iterator[CommandLine]:
    made = CommandLine(f"test-{os.getpid()}")
    yield made
    made("down")


def test_a_cluster_for_people_comes_up_stays_and_goes_down(command: CommandLine) -> None:
    before = host.network()
    assert "no cluster" in command("status", code=1)
    assert "is up after" in command("up", "--loopback", "--nodes=3")
    shown = command("status")
    assert "on the loopback address (no network of its own: not asked for)" in shown
    assert {line.split()[1] for line in shown.splitlines()[2:]} == {"ready"}
    assert "is up already" in command("up")
    assert "is down after" in command("down")
    assert "no cluster is up" in command("down")
    assert host.eventually(lambda: host.network() == before), host.differences(
        before, host.network()
    )


@pytest.mark.usefixtures("real_cache")
def test_the_same_tests_run_on_a_cluster_that_is_given(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(needs.KUBECONFIG, str(cluster.kubeconfig))
    done = subprocess.run(
        (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *SOME_TESTS),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
    assert f"{needs.KUBECONFIG} names a cluster that is not ours" in done.stdout
