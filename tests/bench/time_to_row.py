"""How long it takes from a job's end to its printed row.

    python tests/bench/time_to_row.py [ROUNDS]

On a test cluster of its own: from the moment in which the job's condition Succeeded is on the wire,
as a process sees it that does nothing else, until ``k8sbench submit`` has printed the measured row:
the logs of all pods fetched to their last line, measured, recorded. Beside it, from the same
moment on, until kubeflow-training's ``wait_for_job_conditions`` returns for an equal job, of which
it then knows the end and no more; it asks every second here, every 15 unless told. Exit code 1 if
a limit is missed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

import yaml

from tests.bench import scale
from tests.bench.sides import many_jobs
from tests.harness.cluster import needs
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster

ROUNDS = 5
LIMITS = {4: 1.5, 32: 3.0}
"""Pods → seconds."""
NODES = 8
RUN_FOR = "3s"
ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Measure and print; returns 1 if a limit is missed."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    if (reason := needs.missing()) is not None:
        print(f"skipped: {reason}")
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="k8sb-") as name,
        scale.cluster(Path(name), NODES) as own,
    ):
        return measure(own, Path(name), rounds)


def measure(own: OwnCluster, folder: Path, rounds: int) -> int:
    """Run jobs of both sizes, and print what came after their ends."""
    namespace = Namespace.make(own, "row").name
    environ = os.environ | own.variables() | {"K8SBENCH_STORE": str(folder / "store")}
    lines = many_jobs.stamped(many_jobs.log_lines(datetime.now(UTC)))
    (own.layout.folder / "pod.log").write_text(lines)
    missed = False
    for pods, limit in LIMITS.items():
        words = many_jobs.write_benchmark(folder, RUN_FOR, pods)
        ours = [sys.executable, "-m", "k8sbench", "submit", *words, "--backend=kubernetes"]
        ours += [f"--namespace={namespace}", "--output=csv"]
        job = _job(folder, words, environ)
        script = [sys.executable, "-m", "tests.bench.sides.training_client", str(own.kubeconfig)]
        row: list[float] = []
        told: list[float] = []
        for turn in range(rounds):
            name = f"script-{pods}-{turn}"
            theirs = [*script, namespace, str(job), name, "--wait"]
            row.append(_after_the_end(own, namespace, ours, environ, folder))
            told.append(_after_the_end(own, namespace, theirs, environ, folder))
        print(
            f"{pods} pods: row after {_shown(row)} (limit {limit}); TrainingClient's wait loop:"
            f" {_shown(told)}; load {os.getloadavg()[0]:.1f}"
        )
        missed |= statistics.median(row) > limit
    return int(missed)


def _shown(seconds: Sequence[float]) -> str:
    median = statistics.median(seconds)
    return f"{median:.2f} s ({min(seconds):.2f}–{max(seconds):.2f})"


def _after_the_end(
    own: OwnCluster, namespace: str, argv: Sequence[str], environ: Mapping[str, str], folder: Path
) -> float:
    """Return the seconds from the job's end on the wire to the first line that is printed."""
    notes = folder / "wire.json"
    with scale.watching(own, namespace, notes, dict(environ)):
        process = subprocess.Popen(
            argv, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        with process:
            assert process.stdout is not None
            line = process.stdout.readline()
            at = time.time()
            _, said = process.communicate()
        if not line:
            raise RuntimeError(f"{argv[:5]}: {said[-2000:]}")
    # Jobs of earlier turns are in what is watched, too: they ended before.
    found: dict[str, Any] = json.loads(notes.read_text())
    return at - max(float(seen["told"]) for seen in found.values())


def _job(folder: Path, words: Sequence[str], environ: Mapping[str, str]) -> Path:
    argv = [sys.executable, "-m", "k8sbench", "render", *words]
    text = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True).stdout
    (found,) = yaml.safe_load_all(text)
    path = folder / "job.json"
    path.write_text(json.dumps(found))
    return path


if __name__ == "__main__":
    sys.exit(main())
