"""How long ``k8sbench submit --detach`` of one job takes, beside others that create an equal job.

    python tests/bench/submit_speed.py [PAIRS]

On a test cluster of its own: ours plans, renders, checks, records, looks for the trainers'
ConfigMap, and creates the job; a script with kubeflow-training's ``TrainingClient.create_job``, and
``kubectl apply --server-side``, create the job alone. The three take turns. Beside the wall time
stands the processor's, which other programs disturb less. Exit code 1 if the median of the pairs'
ratios of wall time to the script is above the limit.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from tests.harness.cluster import bringup, needs
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster

PAIRS = 9
LIMIT = 1.0
BENCHMARK = ("resnet50", "--replicas=4", "--gpus=1", "--image=registry.example.com/torch:1")
ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Measure and print; returns 1 if the limit is missed."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    return on_cluster(lambda own, folder: measure(own, folder, pairs))


def on_cluster(
    use: Callable[[OwnCluster, Path], int], options: bringup.Options | None = None
) -> int:
    """Return what a function returns of a new test cluster and a folder; 0 where none can be."""
    if (reason := needs.missing()) is not None:
        print(f"skipped: {reason}")
        return 0
    with tempfile.TemporaryDirectory(prefix="k8sb-") as name:
        own = bringup.start(Path(name) / "k", options, say=lambda _: None)
        try:
            return use(own, Path(name))
        finally:
            own.end()


def measure(own: OwnCluster, folder: Path, pairs: int) -> int:
    """Let the three take turns, and print what they took."""
    namespace = Namespace.make(own, "speed").name
    environ = os.environ | own.variables() | {"K8SBENCH_STORE": str(folder / "store")}
    ours = [sys.executable, "-m", "k8sbench", "submit", *BENCHMARK, "--detach"]
    ours += ["--backend=kubernetes", f"--namespace={namespace}", "-o", "name"]
    job = equal_job(folder, environ)
    kubectl = str(own.layout.programs.program("kubectl"))
    apply = [kubectl, "apply", "--server-side", f"--namespace={namespace}"]
    # As installed programs are, all are compiled after the first turn.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    times: dict[str, list[Taken]] = {"k8sbench": [], "TrainingClient": [], "kubectl": []}
    for turn in range(pairs + 1):
        script = [sys.executable, "-m", "tests.bench.sides.training_client"]
        words = {
            "k8sbench": ours,
            "TrainingClient": [*script, str(own.kubeconfig), namespace, str(job), f"script-{turn}"],
            "kubectl": [*apply, f"--filename={_named(job, f'kubectl-{turn}')}"],
        }
        for name, argv in words.items():
            times[name].append(_taken(argv, environ))
    times = {name: found[1:] for name, found in times.items()}  # the first fills caches
    print(f"submit --detach of one job, medians of {pairs}; load {os.getloadavg()[0]:.1f}")
    is_missed = False
    for part, what in enumerate(Taken._fields):
        seconds = {name: [one[part] for one in found] for name, found in times.items()}
        medians = ((name, statistics.median(found)) for name, found in seconds.items())
        print(f"  {what}: " + ", ".join(f"{name} {median:.2f} s" for name, median in medians))
        for name in ("TrainingClient", "kubectl"):
            pairs_of = zip(seconds["k8sbench"], seconds[name], strict=True)
            low, median, high = statistics.quantiles([a / b for a, b in pairs_of], n=4)
            is_limited = name == "TrainingClient" and what == "wall"
            limit = f"; limit {LIMIT}" if is_limited else ""
            is_missed |= is_limited and median > LIMIT
            print(f"    {median:.2f} × {name} (quartiles {low:.2f}–{high:.2f}{limit})")
    return int(is_missed)


def equal_job(folder: Path, environ: Mapping[str, str]) -> Path:
    """Write the job that ours creates, as JSON."""
    import yaml

    argv = [sys.executable, "-m", "k8sbench", "render", *BENCHMARK]
    text = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True).stdout
    (found,) = (one for one in yaml.safe_load_all(text) if one["kind"] == "PyTorchJob")
    path = folder / "job.json"
    path.write_text(json.dumps(found))
    return path


def _named(job: Path, name: str) -> Path:
    found = json.loads(job.read_text())
    found["metadata"]["name"] = name
    path = job.with_name(f"{name}.json")
    path.write_text(json.dumps(found))
    return path


class Taken(NamedTuple):
    """What a program took, seconds."""

    wall: float
    processor: float


def _taken(argv: Sequence[str], environ: Mapping[str, str]) -> Taken:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise RuntimeError(f"{argv[:5]}: {done.stderr[-2000:]}")
    return Taken(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    sys.exit(main())
