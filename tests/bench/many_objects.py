"""Cost of many Benchmark objects that are created at once, beside the writes that they need.

    python tests/bench/many_objects.py [COUNT]

On a test cluster of its own (``tests/cluster``), which needs root. An operator with an empty store
gets so many objects of one run. Printed are the seconds until every job exists, those in which the
same API server carries out as many of the writes that an object needs one after another, and their
ratio. Exit code 1 if it is above the limit.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `tests`, when run as a file

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.connection import connect
from tests.harness.cluster import bringup, needs, operator_process
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.operator_process import OperatorShell
from tests.harness.cluster.own import OwnCluster
from tests.waiting import wait_until

COUNT = 120
"""Objects."""
WRITES = 3
"""Writes that an object needs until its job exists: the job, and two states of its status."""
MOST = 50.0
"""Limit of the ratio; where one object was planned after another, it was 76."""
LONGEST_SECONDS = 600.0
PROGRAM = ("-m", "k8sbench")
"""With the intervals that users have."""


def main() -> int:
    """Measure and print; returns 1 if the limit is missed."""
    if (reason := needs.missing()) is not None:
        print(f"skipped: {reason}")
        return 0
    count = int(sys.argv[1]) if sys.argv[1:] else COUNT
    with tempfile.TemporaryDirectory(prefix="k8sb-") as name:
        own = bringup.start(Path(name) / "k", say=lambda _: None)
        try:
            namespace = Namespace.make(own, "many objects")
            floor = written(own, namespace, count * WRITES)
            took = served(namespace, Path(name), count)
        finally:
            own.end()
    ratio = took / floor
    print(
        f"{count} objects: {took:.1f} s until all jobs exist; {count * WRITES} writes one after"
        f" another: {floor:.1f} s; ratio {ratio:.1f} (limit {MOST})"
    )
    return int(ratio > MOST)


def written(own: OwnCluster, namespace: Namespace, count: int) -> float:
    """Return the seconds in which so many small objects are created."""
    api = connect(kubeconfig=str(own.kubeconfig), namespace=namespace.name)
    began = time.monotonic()
    for number in range(count):
        head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"one-{number}"}}
        api.create(kinds.path("ConfigMap", namespace.name), head)
    return time.monotonic() - began


def served(namespace: Namespace, folder: Path, count: int) -> float:
    """Return the seconds until an operator has created the jobs of so many objects."""
    operator = operator_process.make(namespace, folder / "machine")
    operator.program = PROGRAM
    objects = [_object(f"many-{number}") for number in range(count)]
    with operator.collecting() as running:
        running.until("collecting")
        namespace.create(*objects)
        began = time.monotonic()
        wait_until(lambda: _jobs(operator) == count, f"{count} jobs", LONGEST_SECONDS)
        took = time.monotonic() - began
        operator_process.end(running)
    return took


def _object(name: str) -> dict[str, Any]:
    case = {"benchmark": "resnet50", "replicas": 2, "gpus": 1, "preset": "smoke"}
    head = {"apiVersion": "k8sbench.io/v1alpha1", "kind": "Benchmark", "metadata": {"name": name}}
    return {**head, "spec": {**case, "nodePool": "nowhere", "wait": True}}


def _jobs(operator: OperatorShell) -> int:
    return len(operator.on_cluster())


if __name__ == "__main__":
    sys.exit(main())
