"""A thousand jobs of four pods each, submitted, watched to their ends and collected by one process.

    python tests/bench/scale.py [JOBS] [--run-for 20s] [--trainers] [--not-alone] [--apart]

On a test cluster of its own (``tests/cluster``): real API server, scheduler and operator, fake
nodes with room for all. The jobs go in by ``k8sbench submit --repeats N --parallel N``: those
of a user's program, or with ``--trainers`` of k8sbench's own, each with its ConfigMap of 200 KB.
Printed are the wall time, the peak memory of our process, how many logs it read at one time at
most, the watches that the API server had open for it and the requests per job (from the audit log),
the lag between a state on the wire, as a second process sees it there, and that state on our record
(a success once as that of the job, and once, from the end of the last pod, as that of the run,
whose logs are whole on disk then), and log lines that are missing or doubled. Before that the same
jobs are created, and each is deleted when it has succeeded, as k8sbench does it, by a program that
does nothing else, while the second process watches them, too: what the cluster alone needs for
them; with ``--not-alone`` that is left out, and its limit. On one machine k8sbench and the cluster
take processors from each other; with ``--apart`` each has processors of its own in both halves, as
they have machines of their own elsewhere. Exit code 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from tests.bench.sides import many_jobs, operator_alone, product
from tests.bench.sides.many_jobs import REPLICAS, asked, kept
from tests.harness.cluster import bringup, needs
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster

GPUS, SPARE = 32, 7
"""GPUs of a node, and nodes beside those that the pods of all jobs fill: where jobs wait with a
part of their pods, a fake master ends without its workers."""
MEMORY_LIMIT = 300
"""MB."""
STREAM_LIMIT = 64
RATIO_LIMIT = 1.3
"""Of the time in all to that of the cluster alone."""
LAG_LIMIT = 1.0
"""Seconds, of 99 in 100."""
ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Measure and print; returns 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("jobs", nargs="?", type=int, default=1000)
    parser.add_argument("--run-for", default="20s", help="how long the pods run")
    parser.add_argument("--trainers", action="store_true", help="k8sbench's own, in a ConfigMap")
    parser.add_argument("--not-alone", action="store_true", help="only with k8sbench")
    parser.add_argument(
        "--apart", action="store_true", help="cluster and k8sbench share no processor"
    )
    given = parser.parse_args()
    processors = sorted(os.sched_getaffinity(0))
    if given.apart and len(processors) < 2:
        parser.error("--apart takes two processors or more")
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=True)  # each part is read as soon as it is known
    if (reason := needs.missing()) is not None:
        print(f"skipped: {reason}")
        return 0
    nodes = math.ceil(given.jobs * REPLICAS / GPUS) + SPARE
    half = len(processors) // 2 if given.apart else 0
    os.sched_setaffinity(0, processors[half:])  # what is started from here on has these
    with tempfile.TemporaryDirectory(prefix="k8sb-") as name, cluster(Path(name), nodes) as own:
        os.sched_setaffinity(0, processors[:half] or processors)
        return measure(own, Path(name), given)


@contextlib.contextmanager
def cluster(folder: Path, count: int) -> Iterator[OwnCluster]:
    """Start a cluster of so many large nodes, and end it."""
    options = bringup.Options(nodes=count, gpus=GPUS)
    own = bringup.start(folder / "k", options, say=lambda _: None)
    try:
        yield own
    finally:
        own.end()


def measure(own: OwnCluster, folder: Path, given: argparse.Namespace) -> int:
    """Run so many jobs and print what they took."""
    jobs, run_for = given.jobs, given.run_for
    namespace = Namespace.make(own, "scale")
    lines = list(many_jobs.log_lines(datetime.now(UTC), trainers=given.trainers))
    (own.layout.folder / "pod.log").write_text(many_jobs.stamped(lines))
    words = many_jobs.write_benchmark(folder, run_for, trainers=given.trainers)
    environ = os.environ | own.variables()
    alone = None
    if not given.not_alone:
        apart = Namespace.make(own, "alone")
        # The second process costs both halves the same.
        with watching(own, apart.name, folder / "alone.json", environ):
            alone = operator_alone.seconds(own, apart, _rendered(words), jobs)
        print(f"the cluster alone: {alone:.0f} s; load {os.getloadavg()[0]:.1f}")
    words += [f"--repeats={jobs}", f"--parallel={jobs}", "--backend=kubernetes"]
    words += ["--namespace", namespace.name, "--store", str(folder / "store"), "-o", "json"]
    began = time.monotonic()
    with watching(own, namespace.name, folder / "wire.json", environ):
        notes = folder / "notes.json"
        argv = [sys.executable, "-m", "tests.bench.sides.product", str(notes), "submit", *words]
        with (folder / "out.json").open("w") as out, (folder / "err.txt").open("w") as err:
            done = subprocess.run(argv, cwd=ROOT, env=environ, stdout=out, stderr=err, check=False)
    seconds = time.monotonic() - began
    if done.returncode not in {0, 5}:  # 5: equal logs are no repeats, and are rejected as such
        print((folder / "err.txt").read_text()[-3000:], f"exit code {done.returncode}")
        return 1
    told = json.loads(notes.read_text())
    print(
        f"{jobs} jobs of {REPLICAS} pods that run {run_for},"
        f" {'our own trainers' if given.trainers else 'a user program'}: {seconds:.0f} s in all,"
        f" {told['processor']:.1f} s of processor; load {os.getloadavg()[0]:.1f}"
    )
    if alone is not None:
        print(f"{seconds / alone:.2f} × the cluster alone (limit {RATIO_LIMIT})")
    wire = json.loads((folder / "wire.json").read_text())
    missed = [
        alone is not None and seconds / alone > RATIO_LIMIT,
        _resources(told, own, namespace.name, jobs),
        _lags(told["moves"], wire, jobs),
        _lines(folder / "store" / "runs", [text for _, text in lines], jobs, wire),
    ]
    return int(any(missed))


def _rendered(words: Sequence[str]) -> dict[str, Any]:
    argv = [sys.executable, "-m", "k8sbench", "render", *words, "-o", "json"]
    text = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: list[dict[str, Any]] = json.loads(text)["items"]
    return next(one for one in found if one["kind"] == "PyTorchJob")


@contextlib.contextmanager
def watching(
    own: OwnCluster, namespace: str, notes: Path, environ: dict[str, str]
) -> Iterator[None]:
    """Have a second process note when events are on the wire."""
    argv = [sys.executable, "-m", "tests.bench.sides.wire_clock"]
    with subprocess.Popen(
        [*argv, str(own.kubeconfig), namespace, str(notes)],
        cwd=ROOT,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.communicate()


def _resources(told: dict[str, Any], own: OwnCluster, namespace: str, jobs: int) -> bool:
    # The watcher is k8sbench's client too; its two requests are taken off.
    peak, logs = float(told["peak"]) / 1e6, int(told["logs"])
    found = asked(own.layout.audit_log, namespace)
    each = ", ".join(f"{name} {count / jobs:.2f}" for name, count in found.requests.most_common())
    print(
        f"memory: {peak:.0f} MB (limit {MEMORY_LIMIT}); watches: {found.watches - 2} at most;"
        f" logs: {logs} read at a time at most (limit {STREAM_LIMIT}; {found.logs} as the API"
        " server sees it, which learns of an end a moment later)"
    )
    print(f"requests per job: {found.requests.total() / jobs:.1f} ({each})")
    if found.refused:
        print(f"refused: {dict(found.refused)}")
    return peak > MEMORY_LIMIT or logs > STREAM_LIMIT


def _lags(moves: Sequence[tuple[str, str, float]], wire: dict[str, Any], jobs: int) -> bool:
    ours = {(run_id, phase): at for run_id, phase, at in reversed(moves)}
    missed = False
    for title, phases, key, limit in (
        ("Running", ("Running",), "running", LAG_LIMIT),
        ("Succeeded", (product.ENDING, "Succeeded"), "told", LAG_LIMIT),
        ("Succeeded, with all logs on disk", ("Succeeded",), "ended", None),
    ):
        lags = sorted(
            min(ours[run_id, phase] for phase in phases if (run_id, phase) in ours) - seen[key]
            for run_id, seen in wire.items()
            if any((run_id, phase) in ours for phase in phases)
        )
        p50, p99 = (lags[min(len(lags) - 1, int(len(lags) * part))] for part in (0.5, 0.99))
        print(
            f"lag of {title}: p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms,"
            f" most {lags[-1] * 1000:.0f} ms"
            + (f" (limit of p99 {limit * 1000:.0f};" if limit else " (")
            + f"{len(lags)} of {jobs})"
        )
        missed |= limit is not None and p99 > limit
    return missed


def _lines(runs: Path, lines: Sequence[str], jobs: int, wire: dict[str, Any]) -> bool:
    found = kept(runs, lines)
    # A starved operator may never tell of an end; we know it by the pods, and delete the job.
    pods = sum(seen["pods"] for seen in wire.values()) + REPLICAS * (jobs - len(wire))
    print(
        f"{found.measured} of {jobs} runs measured, {found.logs} logs of {pods} pods:"
        f" {found.missing} lines missing, {found.doubled} doubled"
    )
    return bool(found.missing or found.doubled) or found.measured < jobs or found.logs < pods


if __name__ == "__main__":
    sys.exit(main())
