"""Memory and time of measuring a log of a gigabyte.

Three logs are generated straight into a pipe, so that neither the disk nor the page cache takes
part: one with a training line in twenty; a dense one of training lines alone (7 million, whose
rates are kept for the median); and one that after some training lines never ends its line.
Measured is ``k8sbench measure -`` itself: peak resident memory of the process as the kernel counts
it, and the time that it took.

    python tests/bench/log_streaming.py [MEGABYTES]
"""

import datetime
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

MEGABYTES = 1000
LIMITS = {"sparse": 100, "dense": 250, "endless": 100}
"""MB of memory that each kind may take."""
NOISE = (
    b"/usr/lib/python3/site-packages/paddle/nn/layer/norm.py:641: UserWarning: When training, we "
    b"now always track global mean and variance.\n"
)
BEGAN = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
SPARSE_STEP = datetime.timedelta(seconds=0.448)
"""Seconds of one iteration; a line covers ten."""
DENSE_STEP = datetime.timedelta(seconds=0.35)


def sparse() -> Iterator[bytes]:
    """mmsegmentation's lines, 4.48 s apart on average, nineteen lines of noise after each."""
    for iteration in itertools.count(10, 10):
        yield (
            f"{BEGAN + iteration * SPARSE_STEP:%Y-%m-%d %H:%M:%S},000 - mmseg - INFO - Iter "
            f"[{iteration}/900000000]\tlr: 8.290e-03, eta: 1 day, 0:01:41, time: "
            f"0.{400 + iteration // 10 % 97}, data_time: 0.009, memory: 18705, decode.loss_ce: "
            "1.8240, decode.acc_seg: 36.9929, loss: 2.6227\n"
        ).encode() + NOISE * 19


def dense() -> Iterator[bytes]:
    """Yield only DeepLearningExamples' lines, 0.35 s apart, each with another rate."""
    for iteration in itertools.count(1):
        yield (
            f"DLL {BEGAN + iteration * DENSE_STEP:%Y-%m-%d %H:%M:%S.%f} - Epoch: 0 Iteration: "
            f"{iteration}  train.loss : 6.90500  train.total_ips : "
            f"{365.71 + iteration * 7919 % 1000 / 1000:.2f} images/s train.lr : 0.1\n"
        ).encode()


def endless() -> Iterator[bytes]:
    """A thousand of the same training lines; then one line that goes on."""
    yield b"".join(itertools.islice(dense(), 1000))
    while True:
        yield b"x" * 100_000


KINDS = {
    "sparse": (sparse, "mmseg"),
    "dense": (dense, "dle-resnet50"),
    "endless": (endless, "dle-resnet50"),
}
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


def feed(kind: str, megabytes: int, out: int) -> None:
    """Write that much of a log into a pipe."""
    left = megabytes * 1_000_000
    with os.fdopen(out, "wb") as pipe:
        for block in KINDS[kind][0]():
            pipe.write(block)
            left -= len(block)
            if left <= 0:
                return


def measure(kind: str, megabytes: int) -> tuple[float, float, str]:
    """Peak memory in MB, processor seconds, and what was printed."""
    read, write = os.pipe()
    words = ["measure", "-", "--format", KINDS[kind][1], "--gpus", "1", "--batch-size", "128"]
    feeder = threading.Thread(target=feed, args=(kind, megabytes, write))
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, *words, "--warmup", "100", "-o", "json"],
        stdin=read,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(read)
    feeder.start()
    assert child.stdout is not None
    assert child.stderr is not None
    with child.stdout, child.stderr:
        printed, peak = child.stdout.read(), child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    feeder.join()
    return int(peak) * 1024 / 1e6, usage.ru_utime + usage.ru_stime, printed


def main() -> int:
    """Print all; 1 if any takes more memory than it may."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES
    over = False
    for kind, limit in LIMITS.items():
        memory, seconds, printed = measure(kind, megabytes)
        (found,) = json.loads(printed)
        over |= memory > limit
        print(
            f"{kind}: {megabytes} MB, {found['records']} records: {memory:.0f} MB of memory "
            f"(limit {limit}), {seconds:.1f} s of processor, {megabytes / seconds:.0f} MB/s"
        )
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
