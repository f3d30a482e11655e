"""Many jobs and runs of one process: its API requests by the audit log, and what it does first."""

import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.harness import benchmark_files
from tests.harness.cluster import audit, nodes, operator_process
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import POOLS, Shell, until
from tests.tiers import ROOT

JOBS, REPLICAS = 8, 4
"""kwok takes one of a machine's 128 inotify instances per followed log."""
RUN_FOR = "4s"
REQUESTS_PER_LOG = 15
"""Upper limit.

A log takes two requests where nothing is late: one to follow, one more at its end. A stream that a
busy machine slows down is reopened; a polled log takes more than this limit.
"""
REQUESTS_PER_JOB = 15
"""Upper limit: creation, deletion, listed pods where the watch is late, lists of all."""
PRINTED = "a fake pod; tests/harness/cluster/nodes.py can give it a log"
"""Output of fake pods without a log of their own."""
PROGRAM = {"small": benchmark_files.variant(("python", "small.py"), "registry.example.com/small:1")}


def asked_by(log: Path, namespace: str) -> tuple[Counter[str], int]:
    """Return k8sbench's requests by verb and resource, and its concurrent watches."""
    spans = dict[str, dict[str, Any]]()
    for entry in audit.requests(log):
        about = entry.get("objectRef") or {}
        if about.get("namespace") == namespace and entry["userAgent"].startswith("k8sbench"):
            spans.setdefault(entry["auditID"], entry).update(entry)
    found, steps = Counter[str](), list[tuple[str, int]]()
    for entry in spans.values():
        about = entry["objectRef"]
        what = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        found[f"{entry['verb']} {what}"] += 1
        if entry["verb"] == "watch":
            steps.append((entry["requestReceivedTimestamp"], 1))
            if entry["stage"] == "ResponseComplete":
                steps.append((entry["stageTimestamp"], -1))
    open_at_once = itertools.accumulate(step for _, step in sorted(steps))
    return found, max(open_at_once)


@pytest.mark.usefixtures("more_nodes")
def test_jobs_share_watches(own_cluster: OwnCluster, namespace: Namespace, tmp_path: Path) -> None:
    store, benchmark, pools = (tmp_path / name for name in ("store", "small.yaml", "pools.yaml"))
    benchmark.write_text(json.dumps(benchmark_files.benchmark(**PROGRAM)))
    pools.write_text(POOLS.replace(f"{nodes.RUN_FOR}: 0s", f"{nodes.RUN_FOR}: {RUN_FOR}"))
    words = [str(benchmark), f"--replicas={REPLICAS}", "--gpus=1", f"--pools={pools}"]
    words += [f"--repeats={JOBS}", f"--parallel={JOBS}", f"--namespace={namespace.name}"]
    words += ["--backend=kubernetes", f"--store={store}"]
    argv = [sys.executable, "-m", "k8sbench", "submit", *words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 5, done.stderr[-2000:]  # there is nothing in the logs to measure
    assert len([*store.glob("runs/*/measurement.json")]) == JOBS
    logs = [path.read_text().splitlines() for path in store.glob("runs/*/logs/*.log")]
    assert [[line.partition(" ")[2] for line in log] for log in logs] == (
        [[PRINTED]] * JOBS * REPLICAS
    )
    requests, watches = asked_by(own_cluster.layout.audit_log, namespace.name)
    assert watches == 3
    read = requests.pop("get pods/log")
    assert JOBS * REPLICAS <= read <= JOBS * REPLICAS * REQUESTS_PER_LOG
    # How often a watch begins anew depends on how long all of it takes.
    rest = [number for what, number in requests.items() if not what.startswith("watch ")]
    assert sum(rest) <= JOBS * REQUESTS_PER_JOB
    assert not namespace.get("pytorchjobs")


MANY = 300
"""Runs of one object, which take seconds to record."""


def test_lines_and_small_objects_do_not_wait_until_a_large_object_is_recorded(
    own_shell: Shell, tmp_path: Path
) -> None:
    operator = operator_process.make(own_shell.namespace, tmp_path / "machine")
    logs = operator_process.given(own_shell, "first")

    def recorded() -> int:
        return len([*operator.store.glob("runs/large-*/run.json")])

    with operator.collecting() as running:
        until(lambda: operator.archived("first-1"), "lines of first-1")
        operator_process.given(own_shell, "large", repeats=MANY, parallel=1)
        until(recorded, "runs of large")
        logs.end()
        operator_process.given(own_shell, "small")
        rank_0 = own_shell.replicas[0]
        until(lambda: operator.archived("first-1") == logs.expected[rank_0], "all lines")
        assert 0 < recorded() < MANY
        until(lambda: "small-1" in operator.on_cluster(), "the job of small")
        assert 0 < recorded() < MANY
        assert "large-1" not in operator.on_cluster()
        until(lambda: "large-1" in operator.on_cluster(), "the job of large")
        assert recorded() == MANY
        operator_process.end(running)
