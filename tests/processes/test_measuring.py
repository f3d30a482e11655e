"""Measuring in a process of its own: its result, its limits, its end."""

import os
import pathlib
import signal
import subprocess
import sys

import msgspec
import psutil
import pytest

from k8sbench.adapters import measuring
from k8sbench.model.errors import StoreError
from tests.harness import children
from tests.reader.measuring.recorded_runs import gap, run
from tests.reader.measuring.support import lines_of

pytestmark = pytest.mark.tier("linux")


def measure() -> None:
    """Measure what stdin asks for, as the parent of a child."""
    asked = msgspec.json.decode(sys.stdin.buffer.readline(), type=measuring.Task)
    measuring.measured_apart(asked)


def task(folder: pathlib.Path, **more: object) -> measuring.Task:
    logs = {}
    for name in ("master", "worker"):
        path = folder / f"{name}-0.log"
        path.write_text("".join(f"{text}\n" for text in lines_of(f"k8sbench_{name}.log")))
        logs[str(path)] = path.name
    return msgspec.structs.replace(measuring.Task(run=run(), logs=logs), **more)


def test_a_child_measures_what_this_process_would(tmp_path: pathlib.Path) -> None:
    given = task(tmp_path, gaps=[gap(2, 4)], nodes=[{"kubelet": "v1.33.1"}])
    found = measuring.measured_apart(given)
    assert found == measuring.measured(given)
    assert found.throughput is not None
    assert found.environment["kubelet"] == "v1.33.1"


def test_a_log_that_needs_more_memory_than_allowed_is_rejected(tmp_path: pathlib.Path) -> None:
    given = task(tmp_path)
    with (tmp_path / "master-0.log").open("a") as log:
        log.write(f"{'x' * 1000}\n" * 1000)
    found = measuring.measured_apart(given, limit=2**20)
    assert found.verdict == "rejected"
    assert [reason.id for reason in found.reasons] == ["nothing-measured"]
    assert "1 MiB" in found.missing["throughput"]


def test_another_failure_names_the_run(tmp_path: pathlib.Path) -> None:
    given = task(tmp_path, nodes=[{"kubelet": 1}])
    with pytest.raises(StoreError, match=f"{given.run.run_id} .*Expected `str`"):
        measuring.measured_apart(given)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"v2": "536870912\n"}, 268435456),
        ({"v2": "max\n"}, measuring.UNLIMITED),
        ({"v1": "536870912\n"}, 268435456),
        ({"v1": "9223372036854771712\n"}, measuring.UNLIMITED),
        ({}, measuring.UNLIMITED),
    ],
)
def test_a_child_gets_half_of_its_containers_memory(
    tmp_path: pathlib.Path, limits: dict[str, str], expected: int
) -> None:
    for name, text in limits.items():
        (tmp_path / name).write_text(text)
    assert measuring.memory_limit([str(tmp_path / "v2"), str(tmp_path / "v1")]) == expected


def test_a_child_has_low_priority_and_ends_with_its_parent(tmp_path: pathlib.Path) -> None:
    given = task(tmp_path)
    (tmp_path / "worker-0.log").unlink()
    os.mkfifo(tmp_path / "worker-0.log")
    with subprocess.Popen(children.command(measure), stdin=subprocess.PIPE) as parent:
        assert parent.stdin is not None
        parent.stdin.write(msgspec.json.encode(given) + b"\n")
        parent.stdin.flush()
        # Open for reading: the child has begun to measure.
        with (tmp_path / "worker-0.log").open("w"):
            (child,) = psutil.Process(parent.pid).children()
            assert child.nice() == psutil.Process().nice() + measuring.NICENESS
            parent.send_signal(signal.SIGKILL)
            _, left = psutil.wait_procs([child], timeout=60)
            assert left == []
