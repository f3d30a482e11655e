"""What a thousand jobs cost that k8sbench follows, beside the cluster's own cost for them.

    python tests/bench/many_jobs.py [JOBS] [--pairs 3] [--run-for 20s]

On a test cluster of its own (``tests/cluster``), with nodes for all of their pods. One side
creates the jobs, as many at a time as k8sbench does, and deletes each when it has succeeded; the
other is ``k8sbench submit --repeats JOBS --parallel JOBS``. They take turns. Printed are processor
seconds of all processes of the cluster and of k8sbench, wall times, and the median of the pairs'
ratios. Exit code 1 if that is above the limit, or a log is not whole.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

import psutil
import yaml

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.lifecycle.decide import REQUESTS
from k8sbench.model.kube import conditions
from tests.bench.sides import many_jobs
from tests.bench.sides.many_jobs import REPLICAS, Kept
from tests.bench.submit_speed import ROOT, on_cluster
from tests.harness.cluster import bringup
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster

LIMIT = 1.3
GPUS, SPARE = 32, 7
"""GPUs of a node, and nodes beside those that the pods of all jobs fill: where jobs wait with a
part of their pods, a fake master ends without its workers."""
SECONDS = 3000
PRINTED = ["a fake pod; tests/harness/cluster/nodes.py can give it a log"]


def main() -> int:
    """Measure and print; returns 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("jobs", nargs="?", type=int, default=1000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--run-for", default="20s", help="how long the pods run")
    given = parser.parse_args()
    options = bringup.Options(nodes=math.ceil(given.jobs * REPLICAS / GPUS) + SPARE, gpus=GPUS)
    return on_cluster(
        lambda own, folder: measure(own, folder, given.jobs, given.pairs, given.run_for), options
    )


class Taken(NamedTuple):
    """What the jobs of one side took, seconds."""

    wall: float
    cluster: float
    """Of processors, by the processes of the cluster."""
    own: float = 0.0
    """Of processors, by k8sbench."""


def measure(own: OwnCluster, folder: Path, jobs: int, pairs: int, run_for: str) -> int:
    """Let the sides take turns, and print what they took."""
    words = many_jobs.write_benchmark(folder, run_for)
    ratios, is_missed = list[float](), False
    for turn in range(pairs):
        sides: dict[str, Callable[[], float]] = {
            "alone": lambda: alone(own, words, jobs),
            "followed": lambda: followed(own, folder / "store", words, jobs),
        }
        taken: dict[str, Taken] = {}
        for name in sorted(sides, reverse=turn % 2 == 1):
            before, begun = _processor(), time.monotonic()
            mine = sides[name]()
            taken[name] = Taken(time.monotonic() - begun, _processor() - before, mine)
        whole = Kept(runs=jobs, measured=jobs, logs=jobs * REPLICAS)
        is_missed |= many_jobs.kept(folder / "store" / "runs", PRINTED) != whole
        (folder / "store").rename(folder / f"store-{turn}")
        ours, theirs = taken["followed"], taken["alone"]
        ratios.append((ours.cluster + ours.own) / theirs.cluster)
        print(
            f"{jobs} jobs of {REPLICAS} pods: {theirs.cluster:.0f} s of processor alone in"
            f" {theirs.wall:.0f} s; {ours.cluster:.0f} + {ours.own:.0f} s followed in"
            f" {ours.wall:.0f} s: {ratios[-1]:.2f}; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    median = statistics.median(ratios)
    print(f"median {median:.2f} (limit {LIMIT}){'; logs are not whole' if is_missed else ''}")
    return int(is_missed or median > LIMIT)


def _processor() -> float:
    """Seconds of processors that this process's children, the cluster, have taken so far."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total += sum(process.cpu_times()[:2])
    return total


@contextlib.contextmanager
def _namespace(own: OwnCluster) -> Iterator[str]:
    """Give a namespace, and wait until it is deleted with all that is in it."""
    name = Namespace.make(own, "many").name
    yield name
    # All jobs have ended: the operator creates no more of their pods while the namespace goes.
    own.kubectl("delete", f"namespace/{name}", f"--timeout={SECONDS}s")


def followed(own: OwnCluster, store: Path, words: list[str], jobs: int) -> float:
    """Have k8sbench run the jobs; returns what it took of processors, seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with _namespace(own) as namespace:
        argv = [sys.executable, "-m", "k8sbench", "submit", *words, f"--store={store}"]
        argv += [f"--repeats={jobs}", f"--parallel={jobs}", "--backend=kubernetes"]
        done = subprocess.run(
            [*argv, f"--namespace={namespace}"],
            cwd=ROOT,
            env=os.environ | own.variables(),
            capture_output=True,
            text=True,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 5:  # there is nothing in the logs to measure
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def alone(own: OwnCluster, words: list[str], jobs: int) -> float:
    """Create as many equal jobs, and delete each when it has succeeded; nobody reads them."""
    argv = [sys.executable, "-m", "k8sbench", "render", *words]
    text = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (job,) = (one for one in yaml.safe_load_all(text) if one["kind"] == "PyTorchJob")
    with _namespace(own) as namespace, ThreadPoolExecutor(REQUESTS) as threads:
        api = connect(kubeconfig=str(own.kubeconfig), namespace=namespace)
        path = kinds.path("PyTorchJob", namespace)

        def create(number: int) -> str:
            named = copy.deepcopy(job)
            named["metadata"]["name"] = f"alone-{number}"
            api.create(path, named)
            return f"alone-{number}"

        left = set(threads.map(create, range(jobs)))

        def take(found: Mapping[str, Any]) -> None:
            name = found["metadata"]["name"]
            if name in left and conditions(found).get("Succeeded", {}).get("status") == "True":
                left.remove(name)
                threads.submit(api.delete, f"{path}/{name}")

        while left:  # a server ends the watch of a client that is slow
            listed, version = api.list(path)
            for one in listed:
                take(one)
            with contextlib.suppress(ApiFault):
                for line in api.watch(path, resource_version=version, timeout_s=SECONDS):
                    event = json.loads(line)
                    if event["type"] != "BOOKMARK":
                        take(event["object"])
                    if not left:
                        break
        threads.shutdown()
        api.close()
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
