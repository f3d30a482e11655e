"""TrainJobs on a cluster that has Kubeflow Trainer v2 and no training operator of v1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import tiers
from tests.harness.cluster import fixture, tools
from tests.harness.cluster.namespace import ENFORCED, Namespace
from tests.harness.cluster.shell import Shell
from tests.harness.node import bringup, frameworks, image
from tests.harness.node.cluster import NodeCluster


@pytest.fixture(scope="module")
def trainer_cluster(
    node_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeCluster]:
    """Give a cluster with two real nodes, whose jobs are those of Trainer v2."""
    if (reason := tools.missing(tools.OPERATORS)) is not None:
        tiers.absent("node", reason)
    own = bringup.start(fixture.new_folder(tmp_path_factory), has_v1=False, has_trainer=True)
    yield own
    own.end()


@pytest.fixture
def trained_in(trainer_cluster: NodeCluster) -> Iterator[Namespace]:
    """Give a namespace that enforces *restricted* and has the frameworks' claim."""
    tiers.demand("frameworks")
    namespace = Namespace.make(trainer_cluster, "trained", {ENFORCED: "restricted"})
    with frameworks.claimed(namespace):
        yield namespace
    namespace.delete()


@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_a_job_trains_across_two_nodes_and_is_deleted_with_all_it_made(
    trainer_cluster: NodeCluster, trained_in: Namespace, tmp_path: Path, framework: str
) -> None:
    shell = Shell(trained_in, trained_in.user(tmp_path), tmp_path / "shell")
    what = ("deeplabv3p", f"--framework={framework}", "--preset=smoke", "--replicas=2", "--amp")
    short = ("--warmup=1", "--iterations=5", "--run-id=run", "--keep")
    site = (f"--pools={trainer_cluster.pools}", f"--image={image.PYTHON}")
    with shell.started("submit", *what, *short, *site) as submit:
        submit.until("step 1/6")
        submit.ends()
    assert "jobs of Kubeflow Trainer v2" in submit.err
    assert "Succeeded: All 2 replicas succeeded." in submit.err
    assert re.search(r"^deeplabv3p .* 2x1-cpu .* valid; smoke", submit.out, re.MULTILINE)
    pods = trained_in.get("pods")
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node-0", "node-1"}
    for pod in pods:
        served = trained_in.kubectl("logs", pod["metadata"]["name"]).splitlines()
        number = pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]
        assert shell.archived("run", f"node-{number}") == served
    status = shell.json("status", "run")
    assert status["measurement"]["verdict"] == "valid", status["measurement"]["reasons"]
    shell.run("delete", "run")
    trained_in.kubectl("wait", "--for=delete", "trainingruntime/run", "jobset/run", "--timeout=60s")
