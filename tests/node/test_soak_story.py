"""A team and its chart: installed, used, upgraded, rolled back, removed and installed again.

The collector is the real one in a pod of its own; the people are users who may do what the chart
gives them and nothing else.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import tiers
from tests.harness import helm as programs
from tests.harness import release as releases
from tests.harness.cluster import pki, users
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.pki import Subject
from tests.harness.cluster.shell import CASE, Shell, until
from tests.harness.helm import RELEASE, Helm, merged, nested
from tests.harness.node import collector_image, faults, frameworks, image
from tests.harness.node.cluster import NodeCluster
from tests.harness.node.programs import GATE, Programs, variant
from tests.harness.release import COLLECTOR, PATIENCE, Release

pytestmark = pytest.mark.soak

USER = 65532
"""As whom the collector runs: the owner of its volume."""
TTL_SECONDS = 60
REPLICAS = ("master-0", "worker-0")
SHORT = ("--warmup=1", "--iterations=5", f"--image={image.PYTHON}")
NIGHTLY = ("resnet50", "--replicas=1", "--preset=smoke", "--node-pool=small", *SHORT)
PART = 5
WRITES = f"""
{GATE}
for number in range(1, {3 * PART} + 1):
    print("step", number, 5.0, flush=True)
    if number in ({PART}, {2 * PART}):
        wait_at_gate()
"""
"""Prints its lines in three parts, each when it is told to."""
WRITTEN = [f"step {number} 5.0" for number in range(1, 3 * PART + 1)]
RUN, LONG, NIGHT = "story", "long", "tonight"


class Team:
    """People with a namespace in common, as users of the cluster by their certificates."""

    def __init__(self, cluster: NodeCluster, namespace: Namespace, folder: Path) -> None:
        self._cluster, self._namespace, self._folder = cluster, namespace, folder
        self._numbers = itertools.count()

    def machine(self, person: str, *, pools: bool = False) -> Shell:
        """Give a person a machine that is new: no store, and no pools file unless one is wanted."""
        name = f"{self._namespace.name}-{person}"
        made = self._cluster.layout.pki
        if not made.certificate(name).exists():
            pki.sign(made, name, Subject(name, use="clientAuth"))
        signed = {
            "client-certificate": str(made.certificate(name)),
            "client-key": str(made.key(name)),
        }
        folder = self._folder / f"{person}-{next(self._numbers)}"
        folder.mkdir()
        kubeconfig = users.write_kubeconfig(self._namespace, folder / "kubeconfig", signed)
        shell = Shell(self._namespace, kubeconfig, folder)
        if not pools:
            del shell.environment["K8SBENCH_POOLS"]
        return shell

    def subjects(self, *people: str) -> list[dict[str, str]]:
        """Name people as the chart is to be told of them."""
        group = "rbac.authorization.k8s.io"
        return [
            {"kind": "User", "name": f"{self._namespace.name}-{person}", "apiGroup": group}
            for person in people
        ]


@pytest.fixture
def team(node_cluster: NodeCluster, trained_in: Namespace, tmp_path: Path) -> Team:
    folder = tmp_path / "machines"
    folder.mkdir()
    return Team(node_cluster, trained_in, folder)


@pytest.fixture
def values(
    node_cluster: NodeCluster,
    trained_in: Namespace,
    team: Team,
    collector_image_name: str,
    tmp_path: Path,
) -> Iterator[dict[str, Any]]:
    """Give the values of the team's chart, whose volume is a folder of this machine."""
    disk = tmp_path / "disk"
    disk.mkdir()
    os.chown(disk, USER, USER)
    pools = json.loads(frameworks.pools())
    with releases.volume(node_cluster, trained_in.name, disk) as claimed:
        yield merged(
            claimed,
            {
                "users": {"subjects": team.subjects("ann", "ben")},
                "nodePools": pools["pools"],
                "defaultNodePool": pools["default"],
                "collector": {"image": collector_image.VALUES},
                "nightly": {"enabled": True, "submits": [list(NIGHTLY)]},
            },
        )


@pytest.fixture
def release(node_cluster: NodeCluster, trained_in: Namespace, tmp_path: Path) -> Release:
    tiers.demand("helm")
    newest = Helm(max(programs.MODULES), tmp_path, node_cluster.variables())
    return Release(newest, trained_in)


def let_the_operator_remove(namespace: Namespace, run_id: str) -> None:
    """Have the training operator delete a job, and so its pods, some time after its end."""
    policy = {"spec": {"runPolicy": {"ttlSecondsAfterFinished": TTL_SECONDS}}}
    patch = ("--type=merge", f"--patch={json.dumps(policy)}")
    namespace.kubectl("patch", "pytorchjob", run_id, *patch)


def printed(namespace: Namespace, threads: ThreadPoolExecutor, pod: str) -> Future[list[str]]:
    """Follow what a pod prints to its end, as kubectl does."""
    namespace.wait("create", f"pod/{pod}")
    namespace.wait("condition=PodReadyToStartContainers", f"pod/{pod}")
    namespace.until(lambda one: one["status"]["phase"] != "Pending", f"pod/{pod}")
    return threads.submit(lambda: namespace.kubectl("logs", "--follow", pod).splitlines())


def everything(shell: Shell) -> Any:
    """Return what a machine without a store is told: the runs, their rows, every line of theirs."""
    runs = shell.json("list")
    logs = {run["run_id"]: shell.run("logs", run["run_id"]).out for run in runs}
    return runs, shell.json("results"), logs


def test_nothing_is_lost_from_the_first_install_to_the_second(
    trained_in: Namespace, team: Team, values: dict[str, Any], release: Release
) -> None:
    namespace = trained_in
    release.run("install", *PATIENCE, values=values)

    # A laptop submits and is gone.
    laptop = team.machine("ann")
    told = laptop.run("submit", *CASE, *SHORT, f"--run-id={RUN}", "--detach")
    assert f"pools from ConfigMap {namespace.name}/dlperf-pools" in told.err
    let_the_operator_remove(namespace, RUN)
    shutil.rmtree(laptop.folder)
    with ThreadPoolExecutor() as threads:
        following = {name: printed(namespace, threads, f"{RUN}-{name}") for name in REPLICAS}
        lines = {name: one.result() for name, one in following.items()}
    assert any("Iteration: 6 " in line for line in lines["master-0"])

    # Another person, on another machine, has all of it when no pod is left.
    until(lambda: laptop.on_cluster("pods") == [], "no pods")
    other = team.machine("ben")
    header, row = other.run("results").out.splitlines()[:2]
    assert "SOURCE" in header
    assert "resnet50" in row
    assert "collector" in row
    for name in REPLICAS:
        assert other.run("logs", RUN, f"--replica={name}").out.splitlines() == lines[name]
    assert len(other.run("logs", RUN).out.splitlines()) == sum(map(len, lines.values()))

    # The night comes now: its Job submits, and the collector does the rest.
    namespace.kubectl("create", "job", NIGHT, f"--from=cronjob/{RELEASE}-nightly")
    namespace.wait("condition=Complete", f"job/{NIGHT}")
    (of_the_night,) = laptop.on_cluster()

    # What is printed while the collector goes to another node, and comes back, is not lost either.
    programs = Programs(team.machine("ann", pools=True), writes=variant(WRITES))
    with programs.shell.started(*programs.words("writes", f"--run-id={LONG}")) as submit:
        submit.until("step 1")
    # This laptop was closed: its store needs the job still, so that the operator deletes it.
    let_the_operator_remove(namespace, LONG)
    until(lambda: other.run("logs", LONG).out.splitlines() == WRITTEN[:PART], "the first lines")
    before = release.pod()
    elsewhere = {"node-0": "node-1", "node-1": "node-0"}[before["spec"]["nodeName"]]
    moved = merged(values, nested("collector.nodeSelector", faults.on(elsewhere)))
    release.run("upgrade", values=merged(moved, nested("collector.keepLogsFor", "90d")))
    programs.open_gate(LONG)
    assert release.pod()["spec"]["nodeName"] == elsewhere
    until(lambda: other.run("logs", LONG).out.splitlines() == WRITTEN[: 2 * PART], "the next")
    release.run("rollback")
    programs.open_gate(LONG)
    namespace.wait("condition=Succeeded", f"pytorchjob/{LONG}")
    assert "K8SBENCH_KEEP_LOGS_FOR" not in release.configuration()
    release.pod()

    def is_measured(run_id: str) -> bool:
        return other.json("status", run_id)["measurement"] is not None

    for run_id in (LONG, of_the_night):
        until(partial(is_measured, run_id), f"the measurement of {run_id}")
    assert other.run("logs", LONG).out.splitlines() == WRITTEN
    assert NIGHT in {run["set_name"] for run in other.json("list")}

    # The release goes and comes again; the results stay.
    known = everything(other)
    assert {run["run_id"] for run in known[0]} == {RUN, LONG, of_the_night}
    release.run("uninstall", *PATIENCE)
    assert release.objects() == {f"persistentvolumeclaim/{COLLECTOR}"}
    release.run("install", *PATIENCE, values=values)
    release.pod()
    until(lambda: laptop.on_cluster("pods") == [], "no pods")
    assert everything(team.machine("ben")) == known
