"""Logs on a node that is away when they are to be read: its kubelet, or its object."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import log_text
from tests.harness.cluster.shell import IMPATIENT, Shell, until
from tests.harness.node import faults
from tests.harness.node.cluster import NodeCluster
from tests.harness.node.programs import GATE, POOL, Programs, variant

LINES = 200
WRITES = f"for n in range({LINES}): print('step', n + 1, 5.0, flush=True)"
WRITTEN = [f"step {number + 1} 5.0" for number in range(LINES)]
BETWEEN_JUMPS = 25
SET_BACK = (timedelta(seconds=2), timedelta(hours=1), timedelta(seconds=30))
"""How late a node's clock is, one after the other."""
BEFORE_JUMPS = f"""{GATE}
for n in range({BETWEEN_JUMPS}):
    print('step', n + 1, 5.0, flush=True)
wait_at_gate()
"""
STAYS = [
    {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute"}
    for taint in ("unreachable", "not-ready")
]
"""Tolerations of pods that no controller deletes while their node does not answer."""


@pytest.fixture
def programs(restricted: Namespace, tmp_path: Path) -> Programs:
    shell = Shell(restricted, restricted.user(tmp_path), tmp_path / "shell")
    shell.limits = IMPATIENT
    found = Programs(shell, writes=variant(WRITES), clock=variant(BEFORE_JUMPS))
    pool = {"name": "far", **POOL, "selector": faults.on("node-1"), "tolerations": STAYS}
    shell.pools.write_text(json.dumps({"default": "far", "pools": [pool]}))
    return found


def test_a_log_is_whole_when_its_kubelet_is_back_and_stays_with_its_job_until_then(
    node_cluster: NodeCluster, programs: Programs
) -> None:
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


def test_a_log_is_not_lost_with_the_object_of_its_node(
    node_cluster: NodeCluster, programs: Programs
) -> None:
    shell = programs.shell
    shell.run(*programs.words("writes", "--detach"))
    shell.namespace.wait("condition=Succeeded", "pytorchjob/writes")
    with faults.deleted(node_cluster, "node-1"):
        left = shell.run("collect", "writes", code=6)
        assert (
            "The job has succeeded, and it stays with its pods: the log of master-0 cannot be read"
            " now (its node node-1 is not part of the cluster)." in left.err
        )
        assert shell.on_cluster() == ["writes"]
    shell.limits = {}
    assert " valid" in shell.run("collect", "writes").out
    assert shell.archived("writes") == WRITTEN
    assert shell.on_cluster() == []


@pytest.mark.parametrize("is_broken", [False, True], ids=["open stream", "broken stream"])
def test_a_node_whose_clock_is_set_back_loses_and_doubles_no_line(
    node_cluster: NodeCluster, programs: Programs, is_broken: bool
) -> None:
    """The kubelet is a real one; the clock is not set back, only the stamps are as if it were.

    Nodes have the clock of the machine that tests run on, and Go's programs take the time from the
    kernel, so that no library can shift it. It is containerd that stamps lines, when it writes them
    into the file that the kubelet serves; what a container prints after the clock was set back is
    written into that file here instead, while the container waits.
    """
    shell = programs.shell
    shell.limits = {}
    wanted = [f"step {number + 1} 5.0" for number in range(BETWEEN_JUMPS * (1 + len(SET_BACK)))]
    with shell.started(*programs.words("clock")) as submit:
        until(lambda: _archived(shell) == wanted[:BETWEEN_JUMPS], "the first lines")
        (file,) = faults.log_files(node_cluster, shell.namespace, "clock-master-0")
        for number, late in enumerate(SET_BACK, 1):
            first, last = BETWEEN_JUMPS * number, BETWEEN_JUMPS * (number + 1)
            is_away = faults.lost(node_cluster, "node-1") if is_broken else contextlib.nullcontext()
            with is_away, file.open("a") as log:
                log.write(log_text(wanted[first:last], datetime.now(UTC) - late))
            until(lambda last=last: len(_archived(shell)) >= last, f"{last} lines")  # type: ignore[misc]
        programs.open_gate("clock")
        submit.ends()
    assert shell.archived("clock") == wanted
    assert not (shell.store / "runs" / "clock" / "log-gaps.json").exists()
    assert " valid" in submit.out
    assert shell.on_cluster() == []


def _archived(shell: Shell) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return shell.archived("clock")
    return []
