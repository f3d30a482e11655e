"""Cost of many labelled jobs of four pods, which an operator observes.

    python tests/bench/observed_jobs.py [FEW MANY]

On a test cluster of its own (``tests/cluster``) with Kueue, which needs root. An operator observes
few, then many jobs of others of all :data:`SHAPES`, and is started again in the middle. Each log
must be complete, or its gap named, and the audit log may have nothing of the operator's user that
writes, but of its Lease. Printed are its requests, its processor seconds, those of the children
that measure, its peak memory, and the cost of each further job. Exit code 1 if a limit is missed,
or if an operator has logged a traceback.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from tests.bench.room import REPLICAS, cluster_for
from tests.harness.cluster import audit, needs, nodes, operator_process, queues, users
from tests.harness.cluster.jobs import pytorch_job
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster
from tests.tiers import ROOT
from tests.waiting import wait_until

FEW_MANY = (250, 1000)
"""Numbers of jobs; of both the lists have several pages."""
REPLICA_NAMES = ("master-0", "worker-0", "worker-1", "worker-2")
SECONDS, KILOBYTES = 0.10, 60
"""Limits of a further job: processor time of operator and children, memory of the operator."""
PATIENCE = 900.0
"""Longest wait for a step of all jobs, seconds: the machine is shared."""
LABEL = "k8sbench.io/observe"
PLAIN, MISLABELLED, DELETED, SIDECAR, INIT, QUEUED, RESTARTED = (
    *("plain", "mislabelled", "deleted", "sidecar", "init", "queued", "restarted"),
)
SHAPES = (PLAIN, MISLABELLED, DELETED, SIDECAR, INIT, QUEUED, RESTARTED)
"""Kinds of jobs, in turn: an Nth one is of the Nth kind.

Kueue suspends a queued one until its queue is released. Of a restarted one :data:`KILLED` is
killed, and the training operator deletes its pod and makes another one.
"""
KILLED = "master-0"
TO_KILL = f"shape={RESTARTED},training.kubeflow.org/replica-type=master"
"""Selects these pods."""
TRACEBACK = "Traceback (most recent call last)"
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
    with cluster_for(many, has_kueue=True) as (own, folder):
        default_log(own).write_text(nodes.log_text(lines))
        less, more = (play(own, folder, jobs, lines) for jobs in (few, many))
    each = [(one - other) / (many - few) for one, other in zip(more, less, strict=True)]
    seconds, measuring, megabytes = each
    total, kilobytes = seconds + measuring, megabytes * 1000
    print(
        f"each further job: {total:.3f} s (limit {SECONDS}): {seconds:.3f} s of the operator and"
        f" {measuring:.3f} s of its children; {kilobytes:.0f} kB (limit {KILOBYTES})"
    )
    return int(total > SECONDS or kilobytes > KILOBYTES)


def default_log(own: OwnCluster) -> Path:
    """Return the file that all pods without a log of their own print."""
    return own.layout.folder / "pod.log"


def play(own: OwnCluster, folder: Path, count: int, lines: list[str]) -> Cost:
    """Observe jobs from their creation to their ends; check their records, logs and requests.

    ``lines`` are those that each pod prints.
    """
    namespace = Namespace.make(own, f"observed {count}")
    user = operator_process.may_observe(namespace, folder / f"user-{count}")
    store = folder / f"observed-{count}"
    shapes = {f"job-{number:04}": SHAPES[number % len(SHAPES)] for number in range(count)}
    gpus = len(chosen(shapes, QUEUED)) * REPLICAS
    with queues.queue_of(namespace, gpus) as queue:
        costs = observed(namespace, user, store, shapes, queue)
    whole, missing = check_logs(store, shapes, lines)
    asked = audit.asked(own.layout.audit_log, users.account(namespace, "operator"))
    kinds = sorted(asked.items(), key=lambda one: (one[0].resource, one[0].verb))
    print("requests:", ", ".join(f"{verb} {what} {times}" for (verb, what), times in kinds))
    assert asked
    writes = audit.writes(asked, but=audit.OF_AN_OPERATOR)
    assert not writes, writes
    cost = Cost(
        seconds=round(sum(one.seconds for one in costs), 2),
        measuring=round(sum(one.measuring for one in costs), 2),
        megabytes=round(max(one.megabytes for one in costs), 1),
    )
    print(
        f"{count} jobs, {len(recorded(store))} of them labelled, {whole} logs whole,"
        f" {missing} with a named gap: {cost}",
        flush=True,
    )
    return cost


def observed(
    namespace: Namespace, user: Path, store: Path, shapes: Mapping[str, str], queue: str
) -> list[Cost]:
    """Have two operators observe jobs, one after the other; returns the cost of each."""
    left = [name for name, shape in shapes.items() if shape != MISLABELLED]
    held, restarted = chosen(shapes, QUEUED), chosen(shapes, RESTARTED)
    queues.stop(namespace.cluster, queue, "Hold")
    with begun(namespace, user, store) as first:
        namespace.create(*(job(name, shape) for name, shape in shapes.items()))
        wait(lambda: len(recorded(store)) == len(left), f"{len(left)} runs in {store}")
        running = len(left) - len(held)
        wait(lambda: len(phases(store, "Running")) == running, "the jobs that run")
        wait(lambda: len(phases(store, "Queued")) == len(held), "the jobs in the queue")
        costs = [taken(first, store)]
    with begun(namespace, user, store) as second:
        if deleted := chosen(shapes, DELETED):
            namespace.kubectl("delete", "pytorchjobs", *deleted, "--wait=false")
            wait(lambda: len(phases(store, "Lost")) == len(deleted), "the ends of deleted jobs")
        queues.stop(namespace.cluster, queue, "None")
        rest = len(left) - len(deleted)
        wait(lambda: len(phases(store, "Running")) == rest, "all other jobs")
        if restarted:
            kill(namespace)
            wait(lambda: run_again(namespace, len(restarted)), "the second pods")
        namespace.kubectl("annotate", "pods", "--all", f"{nodes.RUN_FOR}=0s", "--overwrite")
        wait(lambda: len(phases(store, "Succeeded")) == rest, "the ends of all jobs")
        costs.append(taken(second, store))
    assert len(recorded(store)) == len(left)
    assert len([*store.glob("runs/*/measurement.json")]) >= rest
    return costs


def kill(namespace: Namespace) -> None:
    """Kill the pod :data:`KILLED` of each job that shall have another one."""
    end = (f"{nodes.RUN_FOR}=0s", f"{nodes.EXIT_CODE}=137")
    namespace.kubectl("annotate", "pods", f"--selector={TO_KILL}", *end)


def run_again(namespace: Namespace, count: int) -> bool:
    """Return True if so many second pods of the killed ones run, until they are released."""
    pods = namespace.get("pods", selector=TO_KILL)
    states = [
        pod["status"].get("phase")
        for pod in pods
        if nodes.EXIT_CODE not in pod["metadata"].get("annotations", {})
    ]
    return states == ["Running"] * count


def check_logs(store: Path, shapes: Mapping[str, str], lines: list[str]) -> tuple[int, int]:
    """Check that each log is whole or has a named gap; returns how many are each."""
    named = gaps(store)
    logs = {(run.parent.name, name) for run in recorded(store) for name in REPLICA_NAMES}
    logs |= {(path.parts[-3], path.stem) for path in store.glob("runs/*/logs/*.log")}
    incomplete = {
        (run_id, name)
        for run_id, name in logs
        if printed(store / "runs" / run_id / "logs" / f"{name}.log") != lines
    }
    assert incomplete <= named, incomplete - named
    # The training operator may delete a second pod, too, and make a third.
    second = {run_id for run_id, name in logs | named if name.startswith(f"{KILLED}.pod-")}
    assert len(second) == len(chosen(shapes, RESTARTED)), second
    return len(logs) - len(incomplete), len(incomplete)


def job(name: str, shape: str) -> dict[str, Any]:
    """Return a job of a shape, whose pods run until they are released."""
    made = pytorch_job(name, workers=REPLICAS - 1, gpus=1, run_for=None)
    labels = {LABEL: "yes" if shape == MISLABELLED else "true"}
    made["metadata"]["labels"] = labels
    made["metadata"]["annotations"] = {"k8sbench.io/precision": "bf16"}
    other = {"name": "other", "image": "example.invalid/other:1"}
    replicas = made["spec"]["pytorchReplicaSpecs"]
    template = replicas["Master"]["template"]  # that of all
    template["metadata"]["labels"] = {"shape": shape}
    pod = template["spec"]
    if shape == SIDECAR:
        pod["containers"].append(other)
    elif shape == INIT:
        pod["initContainers"] = [other]
    elif shape == QUEUED:
        labels[queues.LABEL] = queues.QUEUE
    elif shape == RESTARTED:
        replicas["Master"]["restartPolicy"] = "ExitCode"
    return made


@contextlib.contextmanager
def begun(namespace: Namespace, user: Path, store: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start an operator that observes; it ends with the block, however that ends."""
    words = ("operator", "--observe", "--listen=127.0.0.1:0", f"--namespace={namespace.name}")
    own = {"KUBECONFIG": str(user), "HOME": str(user.parent), "PYTHONPATH": "."}
    with log_of(store).open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD, *words, f"--store={store}"],
            env={**os.environ, **namespace.cluster.variables(), **own},
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def log_of(store: Path) -> Path:
    """Return the file that the operator of a store logs to."""
    return store.with_suffix(".err")


def taken(process: subprocess.Popen[bytes], store: Path) -> Cost:
    """End an operator; returns the figures that it prints last."""
    process.send_signal(signal.SIGTERM)
    process.wait()
    log = log_of(store).read_text()
    refuse_traceback(log)
    return Cost(*(float(word) for word in log.split()[-3:]))


def refuse_traceback(log: str) -> None:
    """Exit with 1 if an operator has logged a traceback: a part of it has died, so it did less."""
    _, start, rest = log.partition(TRACEBACK)
    if start:
        sys.exit(
            f"The operator has logged a traceback, so its figures do not count:\n{start}{rest}"
        )


def wait(condition: Callable[[], object], what: str) -> None:
    """Wait for a step of all jobs."""
    wait_until(condition, what, PATIENCE)


def chosen(shapes: Mapping[str, str], shape: str) -> list[str]:
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
