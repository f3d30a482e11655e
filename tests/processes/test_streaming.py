"""A long log takes little memory, whatever its lines are."""

import datetime
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

pytestmark = pytest.mark.tier("linux")

NOISE = b"/usr/lib/python3/site-packages/paddle/nn/layer/norm.py:641: UserWarning: When training\n"
BEGAN = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
STEP = datetime.timedelta(seconds=0.35)
CHILD = """
import atexit, runpy, sys

def tell():
    status = open("/proc/self/status").read()
    print(status.partition("VmHWM:")[2].split()[0], file=sys.stderr)

atexit.register(tell)
runpy.run_module("k8sbench", run_name="__main__")
"""
"""Runs the command and prints its peak memory in KiB.

``wait4`` alone would report a child with its parent's memory included.
"""


def dense() -> Iterator[bytes]:
    """Yield only DeepLearningExamples' lines, 0.35 s apart, each with another rate."""
    for iteration in itertools.count(1):
        yield (
            f"DLL {BEGAN + iteration * STEP:%Y-%m-%d %H:%M:%S.%f} - Epoch: 0 Iteration: "
            f"{iteration}  train.loss : 6.90500  train.total_ips : "
            f"{365.71 + iteration * 7919 % 1000 / 1000:.2f} images/s train.lr : 0.1\n"
        ).encode()


def sparse() -> Iterator[bytes]:
    """Yield nineteen lines of noise after each training line."""
    return (line + NOISE * 19 for line in dense())


def endless() -> Iterator[bytes]:
    """Yield a thousand training lines; then one line that goes on."""
    yield b"".join(itertools.islice(dense(), 1000))
    yield from itertools.repeat(b"x" * 100_000)


def feed(blocks: Iterator[bytes], megabytes: int, out: int) -> None:
    """Write that much of a log into a pipe."""
    left = megabytes * 1_000_000
    with os.fdopen(out, "wb") as pipe:
        while left > 0:
            left -= pipe.write(next(blocks))


def peak_memory(kind: Callable[[], Iterator[bytes]], megabytes: int) -> tuple[float, str]:
    """Return the peak memory, MB, and the output of ``measure``."""
    read, write = os.pipe()
    words = ["measure", "-", "--format", "dle-resnet50", "--gpus", "1", "--batch-size", "128"]
    feeder = threading.Thread(target=feed, args=(kind(), megabytes, write))
    feeder.start()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *words, "--warmup", "100", "-o", "json"],
        stdin=read,
        capture_output=True,
        text=True,
        check=True,
    )
    os.close(read)
    feeder.join()
    return int(done.stderr) * 1024 / 1e6, done.stdout


@pytest.mark.parametrize(
    ("kind", "megabytes", "records", "growth"),
    [
        (sparse, 60, 25_000, 6),  # a twentieth of the lines are records
        (dense, 20, 130_000, 13),  # the median sorts the rates, at some 60 bytes each
        (endless, 60, 800, 6),
    ],
)
def test_a_long_log_takes_little_more_memory_than_one_of_1_mb(
    kind: Callable[[], Iterator[bytes]], megabytes: int, records: int, growth: float
) -> None:
    little, _ = peak_memory(kind, 1)
    memory, printed = peak_memory(kind, megabytes)
    (found,) = json.loads(printed)
    assert found["records"] > records
    assert found["verdict"] == "valid"
    assert found["throughput"]["time_weighted"] > 0
    assert memory - little < growth
