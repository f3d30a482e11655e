"""Many jobs in one process: no thread, no open file, no process, no port is left over."""

from __future__ import annotations

import gc
import os
import socket
import threading
from pathlib import Path

import psutil
import pytest

from k8sbench.adapters.local import cluster, manifest
from tests.local.jobs import Machine


def open_files() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone


def test_jobs_leave_nothing_open(tmp_path: Path) -> None:
    Machine(tmp_path / "warm").close()  # imports what is imported on first use
    gc.collect()  # what an earlier test left must not go now
    threads, files = threading.active_count(), open_files()
    children = psutil.Process().children()
    machine = Machine(tmp_path)
    for trainer in ("pass", "raise ValueError", "import signal; signal.pause()"):
        running = machine.start(trainer)
        if "pause" in trainer:
            machine.cluster.cancel(running.run_id, "enough", "enough")
        running.to_the_end()
    assert threading.active_count() == threads
    assert open_files() == files
    assert psutil.Process().children() == children
    machine.close()


def test_a_job_that_nobody_watches_leaves_nothing_open_either(tmp_path: Path) -> None:
    gc.collect()
    files = open_files()
    machine = Machine(tmp_path)
    machine.start("import signal; signal.pause()")
    machine.close()
    assert open_files() == files


def test_a_held_port_is_given_to_nobody_and_can_be_listened_on() -> None:
    with cluster.held_port() as port:
        address = (manifest.LOOPBACK, port)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(address)
        with socket.create_server(address) as server, socket.create_connection(address):
            server.accept()[0].close()
