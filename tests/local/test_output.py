"""What replicas print: every line, whole, in order, however slowly it is read."""

from __future__ import annotations

from k8sbench.adapters.local.replica import CHUNK
from k8sbench.model.phase import Phase
from k8sbench.ports import JobEvent
from tests.local.jobs import Machine, processes_of, wait_for

PIPE = 64 * 1024
"""What a pipe holds on Linux, bytes."""


def test_both_streams_come_in_the_order_of_writing(machine: Machine) -> None:
    trainer = """
import sys
for n in range(50):
    print("out", n, flush=True)
    print("err", n, file=sys.stderr, flush=True)
"""
    seen = machine.run(trainer, replicas=1)
    assert seen.lines("master-0") == [f"{s} {n}" for n in range(50) for s in ("out", "err")]


def test_no_line_is_lost_and_none_doubled(machine: Machine) -> None:
    """More than all pipes hold, from four replicas at once, up to the very end."""
    trainer = """
import os, sys
sys.stdout.write("".join(f"{n:06d} {'x' * 60}\\n" for n in range(20_000)))
sys.stdout.flush()
os._exit(0)
"""
    seen = machine.run(trainer, replicas=4)
    expected = [f"{n:06d} {'x' * 60}" for n in range(20_000)]
    for replica in ("master-0", "worker-0", "worker-1", "worker-2"):
        assert seen.lines(replica) == expected


def test_what_was_said_before_anybody_watched_is_not_lost(machine: Machine) -> None:
    trainer = """
import os
print("x" * 1000)
print("last", end="", flush=True)
open(os.path.join(os.environ["PYTHONPATH"].split(":")[0], os.environ["RANK"]), "w").close()
"""
    running = machine.start(trainer)
    mount = running.folder / "mounts/trainers"
    wait_for(lambda: (mount / "0").exists() and (mount / "1").exists(), "both to have written")
    wait_for(lambda: not processes_of(running.run_id), "both to end")
    seen = running.to_the_end()
    assert seen.lines("master-0") == seen.lines("worker-0") == ["x" * 1000, "last"]


def test_lines_are_stamped_in_the_order_of_arrival(machine: Machine) -> None:
    seen = machine.run("for n in range(3): print(n, flush=True)", replicas=1)
    stamps = [event.line.at for event in seen.events if event.line is not None]
    assert stamps == sorted(stamps)
    first, last = seen.events[0].transition, seen.final
    assert first is not None
    assert first.at <= stamps[0] <= stamps[-1] <= last.at


def test_a_slow_reader_slows_the_replica_and_loses_nothing(machine: Machine) -> None:
    """The replica is never further ahead than its pipe and one reading hold."""
    trainer = """
import os
folder = os.environ["PYTHONPATH"].split(":")[0]
ahead = os.open(os.path.join(folder, "ahead"), os.O_CREAT | os.O_WRONLY)
for n in range(50_000):
    os.pwrite(ahead, b"%08d" % n, 0)
    os.write(1, b"%099d\\n" % n)
"""
    running = machine.start(trainer, replicas=1)
    ahead = running.folder / "mounts/trainers/ahead"
    most = (CHUNK + PIPE) // 100 + 1
    for n in range(50_000):
        running.until(_is_line)
        assert int(ahead.read_bytes()) - n <= most
    assert running.to_the_end().lines("master-0") == [f"{n:099d}" for n in range(50_000)]


def _is_line(event: JobEvent) -> bool:
    return event.line is not None


def test_a_replica_that_says_nothing_is_no_less_a_success(machine: Machine) -> None:
    seen = machine.run("pass")
    assert seen.phases == [Phase.STARTING, Phase.SUCCEEDED]


def test_output_that_a_stray_still_holds_open_ends_with_the_replica(machine: Machine) -> None:
    trainer = """
import subprocess, sys
subprocess.Popen(
    [sys.executable, "-c", "import signal; print('stray', flush=True); signal.pause()"],
    start_new_session=True,
)
print("done")
"""
    seen = machine.run(trainer, replicas=1)
    assert seen.final.phase is Phase.SUCCEEDED
    assert "done" in seen.lines("master-0")
