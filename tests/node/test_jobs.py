"""Jobs as ``k8sbench render`` prints them train on real nodes, and their logs measure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k8sbench.cli.main import main
from tests.cluster.namespace import Namespace, has_condition
from tests.node import image
from tests.node.cluster import NodeCluster


@pytest.mark.timeout(240)  # 20 s, where nobody else wants the two cores
@pytest.mark.parametrize(
    ("benchmark", "framework", "kind", "pods"),
    [
        ("resnet50", "pytorch", "pytorchjob", ("run-master-0", "run-worker-0")),
        ("deeplabv3p", "paddle", "paddlejob", ("run-worker-0", "run-worker-1")),
    ],
)
def test_a_job_trains_across_two_nodes_where_the_restricted_standard_is_enforced(
    node_cluster: NodeCluster,
    trained_in: Namespace,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    benchmark: str,
    framework: str,
    kind: str,
    pods: tuple[str, str],
) -> None:
    site = ("--pools", str(node_cluster.pools), "--image", image.PYTHON)
    what = (benchmark, "--framework", framework, "--preset", "smoke", "--replicas", "2")
    short = ("--warmup", "1", "--iterations", "5", "--run-id", "run")
    assert main(["render", *what, *short, *site]) == 0
    trained_in.kubectl("create", "--validate=strict", "--filename=-", given=capsys.readouterr().out)
    done = trained_in.until(
        lambda job: has_condition("Succeeded")(job) or has_condition("Failed")(job),
        f"{kind}/run",
        seconds=200,
    )
    assert has_condition("Succeeded")(done), trained_in.kubectl("logs", pods[0])
    nodes = {trained_in.get("pod", name)["spec"]["nodeName"] for name in pods}
    assert nodes == {"node-0", "node-1"}
    log = tmp_path / "rank-0.log"
    log.write_text(trained_in.kubectl("logs", pods[0]))
    assert main(["measure", str(log), "--format", "k8sbench", "-o", "json"]) == 0
    (measured,) = json.loads(capsys.readouterr().out)
    assert measured["verdict"] == "valid", measured["reasons"]
    assert (measured["framework"], measured["device"]) == (framework, "cpu")
