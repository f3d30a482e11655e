"""``k8sbench doctor --nccl`` on real nodes: two pods sum up across them, with gloo."""

from __future__ import annotations

import json

import pytest

from k8sbench.cli.main import main
from tests.harness.cluster.namespace import Namespace
from tests.harness.node import image
from tests.harness.node.cluster import NodeCluster


@pytest.mark.soak
def test_the_bandwidth_between_two_nodes_is_measured_and_nothing_is_left(
    node_cluster: NodeCluster,
    trained_in: Namespace,
    capsys: pytest.CaptureFixture[str],
) -> None:
    site = ("--pools", str(node_cluster.pools), "--image", image.PYTHON, "-n", trained_in.name)
    assert main(["doctor", "--nccl", *site, "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)["bandwidth"]
    assert printed["transports"] == ["socket"]
    assert [reading["bytes"] for reading in printed["readings"]] == [
        4**n * 1024 for n in range(1, 8)
    ]
    for reading in printed["readings"]:
        assert (reading["ranks"], reading["correct"]) == (2, True)
        assert reading["bus_bytes_per_second"] > 0
    assert trained_in.get("pytorchjobs,paddlejobs") == []
