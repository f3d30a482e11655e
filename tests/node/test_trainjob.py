"""TrainJobs on a cluster that has Kubeflow Trainer v2, Kueue and no training operator of v1."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import tiers
from tests.harness import helm as programs
from tests.harness import release as releases
from tests.harness.cluster import fixture, tools
from tests.harness.cluster.namespace import ENFORCED, Namespace
from tests.harness.cluster.queues import QUEUE, queue_of
from tests.harness.cluster.shell import Shell, until
from tests.harness.helm import RELEASE, Helm, merged
from tests.harness.node import bringup, collector_image, frameworks, image
from tests.harness.node.cluster import NodeCluster
from tests.harness.release import PATIENCE, Release
from tests.node.test_soak_story import NIGHT, NIGHTLY, USER, Team


@pytest.fixture(scope="module")
def trainer_cluster(
    node_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeCluster]:
    """Give a cluster with two real nodes, whose jobs are those of Trainer v2."""
    if (reason := tools.missing(tools.OPERATORS)) is not None:
        tiers.absent("node", reason)
    own = bringup.start(
        fixture.new_folder(tmp_path_factory), has_v1=False, has_trainer=True, has_kueue=True
    )
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
    what = ("deeplabv3p", f"--framework={framework}", "--preset=smoke", "--replicas=2")
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
    made = "trainjobs,trainingruntimes,jobsets,jobs,pods"
    until(lambda: not trained_in.kubectl("get", made, "--output=name"), "all that it made to go")


def stop_queue(namespace: Namespace, policy: str) -> None:
    patch = json.dumps({"spec": {"stopPolicy": policy}})
    namespace.kubectl("patch", "localqueue", QUEUE, "--type=merge", f"--patch={patch}")


def test_a_nightly_set_of_the_chart_trains_through_a_queue_and_its_rows_are_there_for_all(
    trainer_cluster: NodeCluster, trained_in: Namespace, collector_archive: Path, tmp_path: Path
) -> None:
    tiers.demand("helm")
    trainer_cluster.load(collector_archive)
    team = Team(trainer_cluster, trained_in, tmp_path)
    release = Release(
        Helm(max(programs.MODULES), tmp_path, trainer_cluster.variables()), trained_in
    )
    (disk := tmp_path / "disk").mkdir()
    os.chown(disk, USER, USER)
    pools = json.loads(frameworks.pools())
    of_team = {
        "users": {"subjects": team.subjects("ann")},
        "nodePools": pools["pools"],
        "collector": {"image": collector_image.VALUES},
        "nightly": {"enabled": True, "submits": [[*NIGHTLY, f"--queue={QUEUE}"]]},
    }
    with (
        releases.volume(trainer_cluster, trained_in.name, disk) as claimed,
        queue_of(trained_in, 1),
    ):
        release.run("install", *PATIENCE, values=merged(claimed, of_team))
        stop_queue(trained_in, "Hold")
        trained_in.kubectl("create", "job", NIGHT, f"--from=cronjob/{RELEASE}-nightly")
        trained_in.wait("condition=Complete", f"job/{NIGHT}")
        ann = team.machine("ann")
        until(lambda: [one["phase"] for one in ann.json("list")] == ["Queued"], "the queued run")
        stop_queue(trained_in, "None")
        until(lambda: [one["verdict"] for one in ann.json("list")] == ["valid"], "the night's row")
        (row,) = ann.json("results", f"--set={NIGHT}")["rows"]
        assert row["queued_s"] > 0
        release.run("uninstall", *PATIENCE)
