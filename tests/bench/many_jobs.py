"""Cost of many followed jobs of four pods, beside the same watches alone.

    python tests/bench/many_jobs.py [FEW MANY]

On a test cluster of its own (``tests/cluster``), which needs root. ``k8sbench submit`` follows the
jobs to their ends, first few, then many of them. Meanwhile another process only reads the changes
of the same jobs, pods and events. Printed are processor seconds and peak memory of both, and what
each further job costs. Exit code 1 if a limit is missed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.connection import connect
from tests.bench.room import REPLICAS, cluster_for
from tests.harness import benchmark_files
from tests.harness.cluster import needs, nodes
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import POOLS
from tests.tiers import ROOT

FEW_MANY = (250, 500)
"""Numbers of jobs; with fewer, the threads and their buffers still grow."""
RUN_FOR = "20s"
SECONDS, KILOBYTES = 0.10, 60
"""Limits of a further job: processor time and memory."""
CHILD = """
import atexit, resource, runpy, sys

def tell():
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]
    print("\\n", used.ru_utime + used.ru_stime, int(peak) * 1024 / 1e6, file=sys.stderr)

atexit.register(tell)
if len(sys.argv) > 2:
    runpy.run_module("k8sbench", run_name="__main__")
from tests.bench import many_jobs
many_jobs.read(sys.argv[1])
"""
"""Runs the command, or reads a namespace; ends with processor seconds and peak MB."""


def main() -> int:
    """Measure and print; returns 1 if a limit is missed."""
    if (reason := needs.missing()) is not None:
        print(f"skipped: {reason}")
        return 0
    few, many = map(int, sys.argv[1:]) if sys.argv[1:] else FEW_MANY
    with cluster_for(many) as (own, folder):
        less, more = (measure(own, folder, jobs) for jobs in (few, many))
    each = [(one - other) / (many - few) for one, other in zip(more, less, strict=True)]
    print(
        f"each further job: {each[0]:.3f} s (limit {SECONDS}), {each[2]:.3f} s the watches alone;"
        f" {each[1] * 1000:.0f} kB (limit {KILOBYTES})"
    )
    return int(each[0] > SECONDS or each[1] * 1000 > KILOBYTES)


def measure(own: OwnCluster, folder: Path, jobs: int) -> list[float]:
    """Follow jobs; returns seconds and MB, then of the watches alone."""
    namespace, benchmark = Namespace.make(own, f"jobs {jobs}").name, folder / "small.yaml"
    variant = benchmark_files.variant(("python", "small.py"), "registry.example.com/small:1")
    benchmark.write_text(json.dumps(benchmark_files.benchmark(small=variant)))
    pools, store = folder / "pools.yaml", folder / f"store-{jobs}"
    pools.write_text(POOLS.replace(f"{nodes.RUN_FOR}: 0s", f"{nodes.RUN_FOR}: {RUN_FOR}"))
    words = ["submit", str(benchmark), f"--replicas={REPLICAS}", "--gpus=1", f"--pools={pools}"]
    words += [f"--repeats={jobs}", f"--parallel={jobs}", "--backend=kubernetes", f"--store={store}"]
    reading = begin(own, namespace)
    followed = taken(begin(own, *words, "--namespace", namespace))
    alone = taken(reading)
    assert len([*store.glob("runs/*/logs/*.log")]) == jobs * REPLICAS
    print(f"{jobs} jobs: s and MB of k8sbench {followed}, the watches alone {alone}", flush=True)
    return [*followed, *alone]


def begin(own: OwnCluster, *words: object) -> subprocess.Popen[str]:
    """Start a process of :data:`CHILD`; one that reads ends with its input."""
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, *map(str, words)],
        env={**os.environ, **own.variables(), "HOME": str(own.layout.folder), "PYTHONPATH": "."},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def taken(process: subprocess.Popen[str]) -> list[float]:
    """Wait for a process; returns the seconds and megabytes it prints last."""
    _, printed = process.communicate()
    return [round(float(word), 2) for word in printed.split()[-2:]]


def read(namespace: str) -> None:
    """Read the changes of jobs, pods and events until standard input ends."""
    api = connect(namespace=namespace)

    def follow(kind: str) -> None:
        path = kinds.path(kind, namespace)
        _, version = api.list(path)
        while True:
            for change in api.watch(path, resource_version=version, timeout_s=3000).changes():
                version = change["object"]["metadata"]["resourceVersion"]

    for kind in ("PyTorchJob", "Pod", "Event"):
        threading.Thread(target=follow, args=(kind,), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    sys.exit(main())
