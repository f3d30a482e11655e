"""What the faults of a real node leave alone, and what a pod that is ended may still say.

How pods end by memory, disk, evictions, restarts and lost nodes, and how nodes rotate logs, is in
``test_causes.py`` and ``test_submit.py``, as users see it.
"""

from __future__ import annotations

import json

from tests.harness.cluster.namespace import Namespace
from tests.harness.node import faults
from tests.harness.node.cluster import NodeCluster
from tests.harness.node.faults import on, pod, small_logs


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


def test_pods_go_on_while_their_node_s_kubelet_starts_again(
    node_cluster: NodeCluster, restricted: Namespace
) -> None:
    restricted.create(pod("one", faults.WAITS, nodeSelector=on("node-0")))
    before = restricted.wait_for_pods(1)["one"]["status"]["containerStatuses"]
    with small_logs(node_cluster, "node-0"):
        reported = json.loads(
            node_cluster.kubectl("get", "--raw", "/api/v1/nodes/node-0/proxy/configz")
        )
        assert reported["kubeletconfig"]["containerLogMaxSize"] == faults.SMALL_LOG
    # A kubelet that begins looks at its pods one after the other.
    restricted.until(lambda one: one["status"]["containerStatuses"] == before, "pod", "one")
