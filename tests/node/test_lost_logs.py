"""Logs on a node whose kubelet or object is gone."""

import json
from pathlib import Path

import pytest

from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import IMPATIENT, Shell
from tests.harness.node import faults
from tests.harness.node.cluster import NodeCluster
from tests.harness.node.programs import POOL, Programs, variant

LINES = 200
WRITES = f"for n in range({LINES}): print('step', n + 1, 5.0, flush=True)"
WRITTEN = [f"step {number + 1} 5.0" for number in range(LINES)]
STAYS = [
    {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute"}
    for taint in ("unreachable", "not-ready")
]
"""Tolerations of pods that no controller deletes while their node does not answer."""


@pytest.fixture
def programs(restricted: Namespace, tmp_path: Path) -> Programs:
    shell = Shell(restricted, restricted.user(tmp_path), tmp_path / "shell")
    shell.limits = IMPATIENT
    found = Programs(shell, writes=variant(WRITES))
    pool = {"name": "far", **POOL, "selector": faults.on("node-1"), "tolerations": STAYS}
    shell.pools.write_text(json.dumps({"default": "far", "pools": [pool]}))
    return found


def test_a_kubelet_that_returns_gives_all(node_cluster: NodeCluster, programs: Programs) -> None:
    shell = programs.shell
    for run in ("left", "ended"):
        shell.run(*programs.words("writes", f"--run-id={run}", "--detach"))
        shell.namespace.wait("condition=Succeeded", f"pytorchjob/{run}")
    with faults.lost(node_cluster, "node-1"):
        left = shell.run("collect", "left", code=6)
        assert "The job has succeeded, and it stays with its pods: the log of master-0" in left.err
        assert ":10250: connect: connection refused" in left.err
        shell.run("cancel", "ended")
        assert shell.on_cluster() == ["left"]
    # A kubelet that has just come back does not know its pods yet.
    shell.limits = {}
    collected = shell.run("collect", "--all")
    assert " valid" in collected.out
    assert shell.archived("left") == WRITTEN
    assert shell.on_cluster() == []
    assert shell.json("status", "ended")["measurement"]["verdict"] == "rejected"
