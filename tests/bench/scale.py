"""A thousand jobs of four pods each, submitted, watched to their ends and collected by one process.

    python tests/bench/scale.py [JOBS] [--run-for 20s]

On a test cluster of its own (``tests/cluster``): real API server, scheduler and operator, fake
nodes with room for all. The jobs go in by ``k8sbench submit --repeats N --parallel N``. Printed are
the wall time, the processor's time and peak memory of our process, how many logs it read at one
time at most, the watches that the API server had open for it and the requests per job (from the
audit log), and log lines that are missing or doubled. Exit code 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from tests.bench.sides import many_jobs
from tests.bench.sides.many_jobs import REPLICAS, Kept, asked, kept
from tests.harness.cluster import bringup, needs
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster

GPUS, SPARE = 32, 7
"""GPUs of a node, and nodes beside those that the pods of all jobs fill: where jobs wait with a
part of their pods, a fake master ends without its workers."""
MEMORY_LIMIT = 300
"""MB."""
STREAM_LIMIT = 64
ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Measure and print; returns 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("jobs", nargs="?", type=int, default=1000)
    parser.add_argument("--run-for", default="20s", help="how long the pods run")
    given = parser.parse_args()
    if (reason := needs.missing()) is not None:
        print(f"skipped: {reason}")
        return 0
    nodes = math.ceil(given.jobs * REPLICAS / GPUS) + SPARE
    with tempfile.TemporaryDirectory(prefix="k8sb-") as name:
        options = bringup.Options(nodes=nodes, gpus=GPUS)
        own = bringup.start(Path(name) / "k", options, say=lambda _: None)
        try:
            return measure(own, Path(name), given.jobs, given.run_for)
        finally:
            own.end()


def measure(own: OwnCluster, folder: Path, jobs: int, run_for: str) -> int:
    """Run so many jobs and print what they took."""
    namespace = Namespace.make(own, "scale")
    lines = list(many_jobs.log_lines(datetime.now(UTC)))
    (own.layout.folder / "pod.log").write_text(many_jobs.stamped(lines))
    words = many_jobs.write_benchmark(folder, run_for)
    words += [f"--repeats={jobs}", f"--parallel={jobs}", "--backend=kubernetes"]
    words += ["--namespace", namespace.name, "--store", str(folder / "store"), "-o", "json"]
    notes, environ = folder / "notes.json", os.environ | own.variables()
    argv = [sys.executable, "-m", "tests.bench.sides.product", str(notes), "submit", *words]
    began = time.monotonic()
    done = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode not in {0, 5}:  # 5: equal logs are no repeats, and are rejected as such
        print(done.stderr[-3000:], f"exit code {done.returncode}")
        return 1
    told = json.loads(notes.read_text())
    peak, logs = float(told["peak"]) / 1e6, int(told["logs"])
    print(
        f"{jobs} jobs of {REPLICAS} pods that run {run_for}: {seconds:.0f} s in all,"
        f" {told['processor']:.1f} s of processor; load {os.getloadavg()[0]:.1f}"
    )
    audited = asked(own.layout.audit_log, namespace.name)
    each = ", ".join(f"{name} {n / jobs:.2f}" for name, n in audited.requests.most_common())
    print(
        f"memory: {peak:.0f} MB (limit {MEMORY_LIMIT}); watches: {audited.watches} at most;"
        f" logs: {logs} read at a time at most (limit {STREAM_LIMIT})"
    )
    print(f"requests per job: {audited.requests.total() / jobs:.1f} ({each})")
    stored = kept(folder / "store" / "runs", [text for _, text in lines])
    print(
        f"{stored.measured} of {jobs} runs measured, {stored.logs} logs:"
        f" {stored.missing} lines missing, {stored.doubled} doubled"
    )
    whole = Kept(runs=jobs, measured=jobs, logs=jobs * REPLICAS)
    return int(peak > MEMORY_LIMIT or logs > STREAM_LIMIT or stored != whole)


if __name__ == "__main__":
    sys.exit(main())
