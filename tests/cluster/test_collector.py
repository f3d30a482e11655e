"""The collector: nothing lost, nothing doubled, whatever happens to it or around it."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster import collectors
from tests.harness.cluster.collectors import Collector
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import Shell, until
from tests.harness.cluster.trainer_logs import TrainerLogs


@pytest.fixture
def collector(own_shell: Shell, tmp_path: Path) -> Collector:
    return collectors.make(own_shell.namespace, tmp_path / "machine")


def is_collected(collector: Collector, run_id: str, logs: TrainerLogs) -> None:
    """Check that a run is measured, its job deleted, and each line archived once."""
    until(lambda: run_id not in collector.on_cluster(), f"the deletion of {run_id}")
    status = collector.json("status", run_id)
    assert (status["phase"], status["measurement"]["verdict"]) == ("Succeeded", "valid")
    for replica, lines in logs.expected.items():
        assert collector.archived(run_id, replica) == lines


def test_a_run_is_collected_though_its_submitter_never_comes_back(
    own_shell: Shell, collector: Collector, tmp_path: Path
) -> None:
    with collector.collecting("--prometheus=none") as running:
        first = own_shell.printing("first")
        running.until("step ")
        first.end()
        own_shell.finish("first")
        is_collected(collector, "first", first)
        second = own_shell.printing("second")
        second.end()
        own_shell.finish("second")
        is_collected(collector, "second", second)
        collectors.end(running)
    assert "warning: collecting has ended" not in running.err


@pytest.mark.soak
def test_killed_at_any_moment_it_goes_on_where_it_was(
    own_shell: Shell, collector: Collector
) -> None:
    logs = own_shell.logs("r1")
    logs.begin()
    own_shell.submit("r1", "--node-pool=endless", "--detach")
    for moment in ("run r1", "Running", "step "):
        with collector.collecting() as running:
            running.until(moment)
    with collector.collecting() as running:
        running.until("Running")
        logs.end()
        own_shell.finish("r1")
        until(lambda: len(collector.archived("r1")) > len(logs.expected["master-0"]) // 2, "logs")
    with collector.collecting() as running:
        is_collected(collector, "r1", logs)
        collectors.end(running)


def test_of_two_the_second_waits_until_the_first_ends_or_is_killed(
    own_shell: Shell, collector: Collector
) -> None:
    logs = own_shell.printing("r1")
    with collector.collecting() as first:
        first.until("step ")
        with collector.collecting() as second:
            second.until(" holds Lease dlperf-collector")
            assert "Running" not in second.err
            collectors.end(first)
            second.until("Running")
            with collector.collecting() as third:
                third.until(" holds Lease dlperf-collector")
                second.kill()
                logs.end()
                own_shell.finish("r1")
                is_collected(collector, "r1", logs)
                collectors.end(third)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_an_api_server_that_is_away_is_waited_for(
    own_cluster: OwnCluster, own_shell: Shell, collector: Collector
) -> None:
    logs = own_shell.printing("r1")
    with collector.collecting() as running:
        running.until("step ")
        with own_cluster.without("kube-apiserver"):
            running.until("The Lease was lost: collecting ends.")
            # One that begins now waits, too.
            with collector.collecting() as other:
                other.until("API server")
        logs.end()
        own_shell.finish("r1")
        is_collected(collector, "r1", logs)
        collectors.end(running)


@pytest.fixture
def disk(collector: Collector) -> Iterator[Path]:
    """Let the collector's store lie on a disk of its own, of 2 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    collector.store.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "k8sbench-test", str(collector.store)]
    done = subprocess.run(mount, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
    yield collector.store
    subprocess.run(["umount", "--lazy", str(collector.store)], check=True)


def test_a_disk_that_is_full_and_free_again_loses_nothing(
    own_shell: Shell, collector: Collector, disk: Path
) -> None:
    logs = own_shell.printing("r1")
    with collector.collecting() as running:
        running.until("step ")
        filler = disk / "filler"
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="space"):
            file.writelines(itertools.repeat(b"\0" * 4096))
        logs.end()
        own_shell.finish("r1")
        running.until("disk is full")
        assert "r1" in own_shell.on_cluster()
        filler.unlink()
        is_collected(collector, "r1", logs)
        collectors.end(running)
