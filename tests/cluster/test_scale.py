"""Many jobs at once: what one process asks of the API server for them, by its audit log."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.sides import many_jobs
from tests.bench.sides.many_jobs import REPLICAS, Kept
from tests.harness.cluster import bringup, etcd, nodes
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.readings import wait_for_nodes
from tests.harness.cluster.shell import ENDLESS, Shell
from tests.tiers import ROOT

JOBS = 8
"""kwok takes one of a machine's 128 instances of inotify for each log that is followed."""
MORE_NODES, GPUS = 2, 32
"""Room for twice the pods of all, whatever other tests have left: they run at once. (The master of
a job that waits for a node would end without it.)
"""
RUN_FOR = "4s"
REQUESTS_PER_LOG = 15
"""Two where nothing is late: it is followed, and read once more at its end. A stream that a busy
machine slows down is opened again; a log that is polled takes more than these.
"""
REQUESTS_PER_JOB = 15
"""Created, deleted, its pods listed if the watch is late; and the lists of all, which are few."""
BYTES_PER_JOB = 30_000
"""In etcd, without the pods that the operator makes; the trainers travel once for all jobs."""
PRINTED = ["a fake pod; tests/harness/cluster/nodes.py can give it a log"]
"""What the pods of the test cluster print."""


@pytest.fixture
def more_nodes(own_cluster: OwnCluster) -> Iterator[None]:
    """Give the cluster room for many pods for the time of a test."""
    more = nodes.fake_nodes(bringup.NODES + MORE_NODES, GPUS)[bringup.NODES :]
    own_cluster.create(*more)
    names = [node["metadata"]["name"] for node in more]
    wait_for_nodes(own_cluster, *names)
    yield
    own_cluster.kubectl("delete", "nodes", *names)


@pytest.mark.usefixtures("more_nodes")
def test_many_jobs_need_as_many_watches_as_one_and_few_requests_each(
    own_cluster: OwnCluster, namespace: Namespace, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    words = many_jobs.write_benchmark(tmp_path, RUN_FOR)
    words += [f"--repeats={JOBS}", f"--parallel={JOBS}", f"--namespace={namespace.name}"]
    words += ["--backend=kubernetes", f"--store={store}"]
    argv = [sys.executable, "-m", "k8sbench", "submit", *words]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 5, done.stderr[-2000:]  # there is nothing in the logs to measure
    kept = many_jobs.kept(store / "runs", PRINTED)
    assert kept == Kept(runs=JOBS, measured=JOBS, logs=JOBS * REPLICAS)
    asked = many_jobs.asked(own_cluster.layout.audit_log, namespace.name)
    assert asked.watches == 3
    logs = asked.requests.pop("get pods/log")
    assert JOBS * REPLICAS <= logs <= JOBS * REPLICAS * REQUESTS_PER_LOG
    # How often a watch begins anew depends on how long all of it takes.
    rest = [number for what, number in asked.requests.items() if not what.startswith("watch ")]
    assert sum(rest) <= JOBS * REQUESTS_PER_JOB
    assert not namespace.get("pytorchjobs")


def test_a_job_costs_etcd_no_more_than_itself(own_cluster: OwnCluster, own_shell: Shell) -> None:
    for run_id in ("first", "second"):
        own_shell.submit(run_id, ENDLESS, "--detach")
        own_shell.namespace.wait("condition=Running", f"pytorchjob/{run_id}")
    stored = etcd.sizes(own_cluster, own_shell.namespace.name)
    jobs = [size for key, size in stored.items() if "/pytorchjobs/" in key]
    assert len(jobs) == 2
    assert max(jobs) <= BYTES_PER_JOB
    assert sum("/k8sbench-trainers-" in key for key in stored) == 1
    largest = max(size for key, size in stored.items() if "/k8sbench-trainers-" not in key)
    assert largest == max(jobs), "nothing else that grows comes with a job"
