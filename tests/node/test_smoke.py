"""The real nodes are up."""

from __future__ import annotations

from tests.harness.cluster import tools
from tests.harness.node.cluster import NodeCluster


def test_the_nodes_are_real_and_ready(node_cluster: NodeCluster) -> None:
    node_cluster.wait_for(*node_cluster.components)
    about = {
        one["metadata"]["name"]: one["status"]["nodeInfo"] for one in node_cluster.get("nodes")
    }
    assert set(about) == {"node-0", "node-1"}
    for info in about.values():
        assert info["kubeletVersion"] == f"v{tools.KUBERNETES}"
        assert info["containerRuntimeVersion"].startswith("containerd://")
