"""Cost of many labelled jobs of four pods, which an operator observes.

    python tests/bench/observed_jobs.py [FEW MANY]

On a test cluster of its own (``tests/cluster``), which needs root. An operator observes few, then
many jobs of others of all :data:`SHAPES`, and is started again in the middle. Each log must be
complete, or its gap named. Printed are the operator's processor seconds, those of the children that
measure, its peak memory, and the cost of each further job. Exit code 1 if a limit is missed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from tests.bench.room import REPLICAS, cluster_for
from tests.harness.cluster import needs, nodes
from tests.harness.cluster.jobs import pytorch_job
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster
from tests.tiers import ROOT
from tests.waiting import wait_until

FEW_MANY = (250, 1000)
"""Numbers of jobs; of both the lists have several pages."""
REPLICA_NAMES = ("master-0", "worker-0", "worker-1", "worker-2")
SECONDS, KILOBYTES = 0.10, 60
"""Limits of a further job: processor time and memory of the operator."""
PATIENCE = 900.0
"""Longest wait for a step of all jobs, seconds: the machine is shared."""
LABEL = "k8sbench.io/observe"
PLAIN, MISLABELLED, DELETED, SIDECAR, INIT, SUSPENDED = (
    *("plain", "mislabelled", "deleted", "sidecar", "init", "suspended"),
)
SHAPES = (PLAIN, MISLABELLED, DELETED, SIDECAR, INIT, SUSPENDED)
"""Kinds of jobs, in turn: an Nth one is of the Nth kind."""
LOG = ROOT / "tests" / "fixtures" / "logs" / "torchtitan.log"
CHILD = """
import atexit, resource, runpy, sys

def tell():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = [one.ru_utime + one.ru_stime for one in used]
    peak = open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]
    print("\\n", *seconds, int(peak) * 1024 / 1e6, file=sys.stderr)

atexit.register(tell)
runpy.run_module("k8sbench", run_name="__main__", alter_sys=True)
"""
"""Runs the command; ends with processor seconds, its own and of children, and peak MB."""


class Cost(NamedTuple):
    """Cost of observing some jobs."""

    seconds: float
    """Processor time of the operator."""
    measuring: float
    """Processor time of its children."""
    megabytes: float
    """Peak memory of the operator."""


def main() -> int:
    """Measure and print; returns 1 if a limit is missed."""
    if (reason := needs.missing()) is not None:
        print(f"skipped: {reason}")
        return 0
    few, many = map(int, sys.argv[1:]) if sys.argv[1:] else FEW_MANY
    lines = LOG.read_text().splitlines()
    with cluster_for(many) as (own, folder):
        default_log(own).write_text(nodes.log_text(lines))
        less, more = (play(own, folder, jobs, lines) for jobs in (few, many))
    each = [(one - other) / (many - few) for one, other in zip(more, less, strict=True)]
    print(
        f"each further job: {each[0]:.3f} s (limit {SECONDS}), {each[1]:.3f} s to measure it;"
        f" {each[2] * 1000:.0f} kB (limit {KILOBYTES})"
    )
    return int(each[0] > SECONDS or each[2] * 1000 > KILOBYTES)


def default_log(own: OwnCluster) -> Path:
    """Return the file that all pods without a log of their own print."""
    return own.layout.folder / "pod.log"


def play(own: OwnCluster, folder: Path, count: int, lines: list[str]) -> Cost:
    """Observe jobs from their creation to their ends; check their records and logs.

    ``lines`` are those that each pod prints.
    """
    namespace = Namespace.make(own, f"observed {count}")
    store = folder / f"observed-{count}"
    shapes = {f"job-{number:04}": SHAPES[number % len(SHAPES)] for number in range(count)}
    watched = [name for name, shape in shapes.items() if shape != MISLABELLED]
    first = begin(own, namespace.name, store)
    namespace.create(*(job(name, shape) for name, shape in shapes.items()))
    wait(lambda: len(recorded(store)) == len(watched), f"{len(watched)} runs in {store}")
    pods = [name for name, shape in shapes.items() if shape not in {MISLABELLED, SUSPENDED}]
    wait(lambda: len(phases(store, "Running")) == len(pods), "the jobs that run")
    costs = [taken(first, store)]
    second = begin(own, namespace.name, store)
    if deleted := chosen(shapes, DELETED):
        namespace.kubectl("delete", "pytorchjobs", *deleted, "--wait=false")
        wait(lambda: len(phases(store, "Lost")) == len(deleted), "the ends of deleted jobs")
    resumed = '{"spec": {"runPolicy": {"suspend": false}}}'
    for name in chosen(shapes, SUSPENDED):
        namespace.kubectl("patch", "pytorchjob", name, "--type=merge", f"--patch={resumed}")
    left = len(watched) - len(deleted)
    wait(lambda: len(phases(store, "Running")) == left, "all other jobs")
    namespace.kubectl("annotate", "pods", "--all", f"{nodes.RUN_FOR}=0s", "--overwrite")
    wait(lambda: len(phases(store, "Succeeded")) == left, "the ends of all jobs")
    costs.append(taken(second, store))
    assert len(recorded(store)) == len(watched)
    assert len([*store.glob("runs/*/measurement.json")]) >= left
    incomplete = {
        (folder.name, replica)
        for folder in store.glob("runs/*")
        for replica in REPLICA_NAMES
        if printed(folder / "logs" / f"{replica}.log") != lines
    }
    assert incomplete <= gaps(store), incomplete - gaps(store)
    cost = Cost(
        seconds=round(sum(one.seconds for one in costs), 2),
        measuring=round(sum(one.measuring for one in costs), 2),
        megabytes=round(max(one.megabytes for one in costs), 1),
    )
    whole = len(watched) * REPLICAS - len(incomplete)
    print(
        f"{count} jobs, {len(watched)} of them labelled, {whole} logs whole,"
        f" {len(incomplete)} with a named gap: {cost}",
        flush=True,
    )
    return cost


def job(name: str, shape: str) -> dict[str, Any]:
    """Return a job of a shape, whose pods run until they are released."""
    made = pytorch_job(name, workers=REPLICAS - 1, gpus=1, run_for=None)
    made["metadata"]["labels"] = {LABEL: "yes" if shape == MISLABELLED else "true"}
    made["metadata"]["annotations"] = {"k8sbench.io/precision": "bf16"}
    made["spec"]["runPolicy"]["suspend"] = shape == SUSPENDED
    other = {"name": "other", "image": "example.invalid/other:1"}
    pod = made["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]  # that of all
    if shape == SIDECAR:
        pod["containers"].append(other)
    elif shape == INIT:
        pod["initContainers"] = [other]
    return made


def begin(own: OwnCluster, namespace: str, store: Path) -> subprocess.Popen[bytes]:
    """Start an operator that observes."""
    words = ("operator", "--observe", "--listen=127.0.0.1:0", f"--namespace={namespace}")
    own_home = {"HOME": str(own.layout.folder), "PYTHONPATH": "."}
    with log_of(store).open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-c", CHILD, *words, f"--store={store}"],
            env={**os.environ, **own.variables(), **own_home},
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )


def log_of(store: Path) -> Path:
    """Return the file that the operator of a store logs to."""
    return store.with_suffix(".err")


def taken(process: subprocess.Popen[bytes], store: Path) -> Cost:
    """End an operator; returns the figures that it prints last."""
    process.send_signal(signal.SIGTERM)
    process.wait()
    return Cost(*(float(word) for word in log_of(store).read_text().split()[-3:]))


def wait(condition: Callable[[], object], what: str) -> None:
    """Wait for a step of all jobs."""
    wait_until(condition, what, PATIENCE)


def chosen(shapes: dict[str, str], shape: str) -> list[str]:
    """Return the jobs of a shape."""
    return [name for name, one in shapes.items() if one == shape]


def recorded(store: Path) -> list[Path]:
    """Return the recorded runs."""
    return [*store.glob("runs/*/run.json")]


def gaps(store: Path) -> set[tuple[str, str]]:
    """Return the runs and replicas whose logs have a recorded gap."""
    return {
        (path.parent.name, gap["replica"])
        for path in store.glob("runs/*/log-gaps.json")
        for gap in json.loads(path.read_text())
    }


def printed(path: Path) -> list[str]:
    """Return the lines of an archived log, without their stamps; none without a log."""
    return [line.partition(" ")[2] for line in read(path).splitlines()]


def read(path: Path) -> str:
    """Return the text of a file; none without it."""
    return path.read_text() if path.exists() else ""


def phases(store: Path, phase: str) -> list[Path]:
    """Return the runs whose last state is this one."""
    found = []
    for path in store.glob("runs/*/events.jsonl"):
        lines = path.read_text().splitlines()
        if lines and json.loads(lines[-1])["phase"] == phase:
            found.append(path)
    return found


if __name__ == "__main__":
    sys.exit(main())
