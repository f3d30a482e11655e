"""``k8sbench submit`` on real nodes: trainers, rows and kubelets' logs."""

import contextlib
import json
import re
from functools import partial
from pathlib import Path

import pytest

from k8sbench.model.job_kind import JobKind
from k8sbench.model.kinds import PADDLE_JOB, TRAIN_JOB
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import Shell, until
from tests.harness.node import faults, image
from tests.harness.node.cluster import NodeCluster
from tests.harness.node.programs import GATE, Programs, variant

FIRST, MANY, LAST = 100, 300, 10
"""Lines: a few, nearly a full log file, and a few in the next."""
SHORT, LONG = 80, 14_000
"""Characters of these lines, and of the second last, which overfills its file.

A follower may lose lines that are written while the kubelet rotates. A single line is written at
once, and nothing more until the next file exists.
"""
PARTS = ((FIRST, SHORT), (MANY, SHORT), (1, LONG), (LAST, SHORT))
WRITES = f"""
{GATE}
number = 0
for lines, length in {PARTS}:
    if number:
        wait_at_gate()
    for _ in range(lines):
        number += 1
        print("step", number, 5.0, "x" * length, flush=True)
"""
LENGTHS = [length for lines, length in PARTS for _ in range(lines)]
WRITTEN = [f"step {number} 5.0 {'x' * length}" for number, length in enumerate(LENGTHS, 1)]


@pytest.mark.parametrize(
    ("framework", "kind"),
    [("paddle", PADDLE_JOB), ("pytorch", TRAIN_JOB)],
    ids=["PaddleJob", "TrainJob"],
)
def test_a_job_trains_across_two_nodes_where_the_restricted_standard_is_enforced(
    node_cluster: NodeCluster, trained_in: Namespace, tmp_path: Path, framework: str, kind: JobKind
) -> None:
    shell = Shell(trained_in, trained_in.user(tmp_path), tmp_path / "shell")
    what = ("deeplabv3p", f"--framework={framework}", "--preset=smoke", "--replicas=2")
    kinds = ("--job-kind=trainjob",) if kind is TRAIN_JOB else ()
    short = ("--warmup=1", "--iterations=5", "--run-id=run", "--keep")
    site = (f"--pools={node_cluster.pools}", f"--image={image.PYTHON}")
    with shell.started("submit", *what, *kinds, *short, *site) as submit:
        submit.until("step 1/6")
        submit.ends()
    assert "Succeeded: All 2 replicas succeeded." in submit.err
    assert re.search(r"^deeplabv3p .* 2x1-cpu .* ok \(smoke\)", submit.out, re.MULTILINE)
    pods = {kind.replica_of(pod["metadata"]["name"], "run"): pod for pod in trained_in.get("pods")}
    assert sorted(pods) == sorted(kind.names(2))
    assert {pod["spec"]["nodeName"] for pod in pods.values()} == {"node-0", "node-1"}
    for replica, pod in pods.items():
        served = trained_in.kubectl("logs", pod["metadata"]["name"]).splitlines()
        assert shell.archived("run", replica) == served
    measured = shell.json("status", "run")["measurement"]
    assert measured["verdict"] == "valid", measured["reasons"]
    assert (measured["framework"], measured["device"]) == (framework, "cpu")


@pytest.fixture
def programs(restricted: Namespace, tmp_path: Path) -> Programs:
    shell = Shell(restricted, restricted.user(tmp_path), tmp_path / "shell")
    return Programs(shell, writes=variant(WRITES))


def test_a_rotated_log_is_whole_if_followed(node_cluster: NodeCluster, programs: Programs) -> None:
    shell = programs.shell

    def files(run: str) -> list[Path]:
        return faults.log_files(node_cluster, shell.namespace, f"{run}-master-0")

    def begun(run: str) -> bool:
        return shell.archived(run) == WRITTEN[:FIRST]

    def written(run: str) -> bool:
        return files(run)[0].read_text().count("\n") == FIRST + MANY

    def rotated(run: str) -> bool:
        with contextlib.suppress(FileNotFoundError):  # put away just now
            sizes = [file.stat().st_size for file in files(run)]
            return len(sizes) > 1 and sizes[0] < faults.SMALL_LOG_BYTES
        return False

    with (
        faults.small_logs(node_cluster, "node-0"),
        shell.started(*programs.words("writes", "--run-id=followed")) as submit,
        shell.started(*programs.words("writes", "--run-id=left")) as leaving,
    ):
        for run in ("left", "followed"):
            until(partial(begun, run), "the first lines")
        leaving.interrupt().ends(130)
        for run in ("left", "followed"):
            programs.open_gate(run)
            until(partial(written, run), "nearly as much as a file may hold")
            programs.open_gate(run)
        for run in ("left", "followed"):
            until(partial(rotated, run), "rotation")
            programs.open_gate(run)
        submit.ends()
        assert shell.archived("followed") == WRITTEN
        collect = shell.run("collect", "left", "--follow", code=5)
    kept = shell.archived("left")
    assert FIRST + LAST <= len(kept) < len(WRITTEN)
    assert kept == WRITTEN[:FIRST] + WRITTEN[FIRST - len(kept) :]
    (gap,) = json.loads((shell.store / "runs" / "left" / "log-gaps.json").read_text())
    assert "rotation" in gap["why"]
    assert gap["after"] < gap["before"]
    reasons = shell.json("status", "left")["measurement"]["reasons"]
    assert "incomplete-log" in [one["id"] for one in reasons]
    assert "The log of master-0 lacks lines between" in collect.out
