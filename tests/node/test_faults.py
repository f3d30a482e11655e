"""What a pod's end looks like, for each way in which a real node can end it."""

from __future__ import annotations

import json

import pytest

from tests.cluster.namespace import Namespace, events_of
from tests.node import cgroups, faults
from tests.node.cluster import NodeCluster
from tests.node.faults import ended, evict, log_files, lost, on, phase, pod, small_logs

LINES = 4000
WRITES = f"""
import sys, time
for number in range({LINES}):
    print(f"{{number:06}}", "x" * 90, flush=True)
    if number % 60 == 0:
        time.sleep(0.1)
"""
RESTARTS_ONCE = """
import pathlib, sys
seen = pathlib.Path("/state/seen")
if not seen.exists():
    seen.touch()
    sys.exit(5)
"""


# Where one process needs too much, version 2 of the cgroups ends all of the container.
AFTER_CHILD = 3 if cgroups.mounted("cgroup") else 137


@pytest.mark.parametrize(
    ("command", "status"),
    [(faults.OUT_OF_MEMORY, 137), (faults.CHILD_OUT_OF_MEMORY, AFTER_CHILD)],
)
def test_out_of_memory(restricted: Namespace, command: tuple[str, ...], status: int) -> None:
    restricted.create(pod("one", command, resources=faults.MEMORY))
    failed = restricted.until(phase("Failed"), "pod", "one")
    assert (ended(failed)["exitCode"], ended(failed)["reason"]) == (status, "OOMKilled")


def test_a_container_is_started_again(restricted: Namespace) -> None:
    kept = [{"name": "state", "emptyDir": {}}]
    wanted = pod("one", RESTARTS_ONCE, restartPolicy="OnFailure", volumes=kept)
    wanted["spec"]["containers"][0]["volumeMounts"] = [{"name": "state", "mountPath": "/state"}]
    restricted.create(wanted)
    done = restricted.until(phase("Succeeded"), "pod", "one")
    (status,) = done["status"]["containerStatuses"]
    assert status["restartCount"] == 1
    assert status["state"]["terminated"]["exitCode"] == 0


def test_a_pod_that_is_evicted_by_the_api_is_gone(restricted: Namespace) -> None:
    restricted.create(pod("one", faults.ENDS_WHEN_TOLD))
    restricted.wait_for_pods(1)
    evict(restricted, "one")
    gone = restricted.until(lambda one: "deletionTimestamp" in one["metadata"], "pod", "one")
    conditions = {one["type"]: one for one in gone["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["reason"] == "EvictionByEvictionAPI"
    restricted.wait("delete", "pod/one")


def test_a_pod_that_fills_the_disk_is_evicted_by_the_node(restricted: Namespace) -> None:
    restricted.create(pod("one", faults.DISK_FULL, resources=faults.DISK))
    failed = restricted.until(phase("Failed"), "pod", "one")
    assert failed["status"]["reason"] == "Evicted"
    assert "exceeds the total limit of containers 20Mi" in failed["status"]["message"]


def test_a_pod_that_is_deleted_says_its_last_words(
    node_cluster: NodeCluster, restricted: Namespace
) -> None:
    last = "signal.signal(15, lambda *_: (print('off', flush=True), sys.exit(7)))"
    restricted.create(pod("one", f"import signal, sys; {last}; {faults.WAITS}"))
    restricted.wait_for_pods(1)
    with node_cluster.lines("--namespace", restricted.name, "logs", "-f", "one") as lines:
        assert next(lines) == "on\n"
        restricted.kubectl("delete", "pod", "one", "--wait=false")
        assert list(lines) == ["off\n"]
    restricted.wait("delete", "pod/one")


def test_a_node_that_says_nothing_more_is_lost_and_comes_back(
    node_cluster: NodeCluster, restricted: Namespace
) -> None:
    restricted.create(pod("one", faults.ENDS_WHEN_TOLD, nodeSelector=on("node-1")))
    restricted.wait_for_pods(1)
    with lost(node_cluster, "node-1"):
        left = restricted.until(lambda one: "deletionTimestamp" in one["metadata"], "pod", "one")
        # Nobody is there to end it, or to say that it has ended.
        assert left["status"]["phase"] == "Running"
        conditions = {one["type"]: one for one in left["status"]["conditions"]}
        assert conditions["DisruptionTarget"]["reason"] == "DeletionByTaintManager"
        assert conditions["Ready"]["status"] == "False"
        assert "Node is not ready" in events_of(restricted, "NodeNotReady")
        assert events_of(restricted, "TaintManagerEviction")
    restricted.wait("delete", "pod/one")


def test_a_followed_log_is_whole_though_the_node_rotates_it_and_a_later_one_is_not(
    node_cluster: NodeCluster, restricted: Namespace
) -> None:
    with small_logs(node_cluster, "node-0"):
        restricted.create(pod("one", WRITES, nodeSelector=on("node-0")))
        restricted.until(phase("Running"), "pod", "one")
        followed = restricted.kubectl("logs", "-f", "one").splitlines()
        assert [int(line[:6]) for line in followed] == list(range(LINES))
        assert len(log_files(node_cluster, restricted, "one")) > 1
        later = restricted.kubectl("logs", "one").splitlines()
        assert len(later) < LINES


def test_pods_go_on_while_their_node_s_kubelet_starts_again(
    node_cluster: NodeCluster, restricted: Namespace
) -> None:
    restricted.create(pod("one", faults.WAITS, nodeSelector=on("node-0")))
    before = restricted.wait_for_pods(1)["one"]["status"]["containerStatuses"]
    with small_logs(node_cluster, "node-0"):
        told = json.loads(
            node_cluster.kubectl("get", "--raw", "/api/v1/nodes/node-0/proxy/configz")
        )
        assert told["kubeletconfig"]["containerLogMaxSize"] == faults.SMALL_LOG
    assert restricted.get("pod", "one")["status"]["containerStatuses"] == before
