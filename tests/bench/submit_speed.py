"""How long ``k8sbench submit --detach`` of one job takes, beside others that create an equal job.

    python tests/bench/submit_speed.py [PAIRS]

On a test cluster of its own: ours plans, renders, checks, records, and creates the trainers'
ConfigMap and the job; a script with kubeflow-training's ``TrainingClient.create_job``, and
``kubectl apply --server-side``, create the job alone. The three take turns. Exit code 1 if the
median of the pairs' ratios to the script is above the limit.
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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from tests.harness.cluster import bringup, needs
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster

PAIRS = 9
LIMIT = 1.8
BENCHMARK = ("resnet50", "--replicas=4", "--gpus=1", "--image=registry.example.com/torch:1")
ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Measure and print; returns 1 if the limit is missed."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    if (reason := needs.missing()) is not None:
        print(f"skipped: {reason}")
        return 0
    with tempfile.TemporaryDirectory(prefix="k8sb-") as name:
        own = bringup.start(Path(name) / "k", say=lambda _: None)
        try:
            return measure(own, Path(name), pairs)
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
    times: dict[str, list[float]] = {"k8sbench": [], "TrainingClient": [], "kubectl": []}
    for turn in range(pairs + 1):
        script = [sys.executable, "-m", "tests.bench.sides.training_client"]
        words = {
            "k8sbench": ours,
            "TrainingClient": [*script, str(own.kubeconfig), namespace, str(job), f"script-{turn}"],
            "kubectl": [*apply, f"--filename={_named(job, f'kubectl-{turn}')}"],
        }
        for name, argv in words.items():
            times[name].append(_seconds(argv, environ))
    times = {name: found[1:] for name, found in times.items()}  # the first fills caches
    shown = ", ".join(f"{name} {statistics.median(found):.2f} s" for name, found in times.items())
    print(
        f"submit --detach of one job: {shown} (medians of {pairs}; load {os.getloadavg()[0]:.1f})"
    )
    missed = False
    for name in ("TrainingClient", "kubectl"):
        ratios = sorted(a / b for a, b in zip(times["k8sbench"], times[name], strict=True))
        low, median, high = statistics.quantiles(ratios, n=4)
        limit = f"; limit {LIMIT}" if name == "TrainingClient" else ""
        print(f"  {median:.2f} × {name} (quartiles {low:.2f}–{high:.2f}{limit})")
        missed |= name == "TrainingClient" and median > LIMIT
    return int(missed)


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


def _seconds(argv: Sequence[str], environ: Mapping[str, str]) -> float:
    start = time.perf_counter()
    done = subprocess.run(argv, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise RuntimeError(f"{argv[:5]}: {done.stderr[-2000:]}")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
