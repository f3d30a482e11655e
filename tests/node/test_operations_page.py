"""docs/operations.md: what its commands do with a collector that runs, and has results."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8sbench.adapters.store.sql_store import open_store
from k8sbench.model.phase import Phase
from tests import tiers
from tests.docs import operating, pages
from tests.docs.operating import TEAM
from tests.docs.pages import Command
from tests.harness.cluster.namespace import ENFORCED, Namespace
from tests.harness.node import collector_image
from tests.harness.node.cluster import NodeCluster
from tests.unit.store.examples import OWNER, archive, measurement, plan, step

POD = "deployment/dlperf-collector"
STORE = "/data/k8sbench"
RUNS = ("seg-1", "seg-2")
LONG_AGO = 1e9


@pytest.fixture
def team(node_cluster: NodeCluster) -> Iterator[Namespace]:
    """Give the page's namespace."""
    metadata = {"name": TEAM, "labels": {ENFORCED: "restricted"}}
    node_cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    found = Namespace(node_cluster, TEAM)
    found.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=90s")
    yield found
    node_cluster.kubectl("delete", "namespace", TEAM)


@pytest.fixture
def disk(node_cluster: NodeCluster, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Make a volume on both nodes, which are this machine; gives the values that ask for it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    folder.chmod(0o777)  # a volume by hand is not given to the pod's group
    node_cluster.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": TEAM},
            "spec": {
                "capacity": {"storage": "20Gi"},
                "accessModes": ["ReadWriteOnce"],
                "claimRef": {"namespace": TEAM, "name": "dlperf-collector"},
                "hostPath": {"path": str(folder), "type": "Directory"},
            },
        }
    )
    yield {"storageClass": "-"}
    node_cluster.kubectl("delete", "persistentvolume", TEAM, "--wait=false")


def seed(folder: Path) -> None:
    """Make a store with two measured runs that ended long ago."""
    with open_store(str(folder / "seed")) as store:
        for number, name in enumerate(RUNS, 1):
            store.record(plan(name, repeat=number), at=LONG_AGO + number, owner=OWNER)
            archive(store, f"a line of {name}", run_id=name, at=LONG_AGO)
            store.move(name, step(Phase.SUCCEEDED, at=LONG_AGO + 60))
            store.measured(name, measurement())


def test_the_commands_for_a_running_collector_do_what_the_page_says(
    node_cluster: NodeCluster,
    team: Namespace,
    disk: dict[str, Any],
    collector_image_name: str,
    tmp_path: Path,
) -> None:
    tiers.demand("helm")
    variables = operating.prepare(tmp_path, node_cluster.layout.programs.program("kubectl"))
    variables |= team.cluster.variables()
    image = {"image": collector_image.VALUES, "persistence": disk}
    (tmp_path / "team.yaml").write_text(yaml.safe_dump({"collector": image}))

    def run(text: str) -> str:
        command = Command(page="", line=0, text=text, code=0, section="")
        return pages.run(command, tmp_path, variables)

    def pod(words: str) -> str:
        return run(f"kubectl -n {TEAM} exec {POD} -- {words}")

    run(f"helm install dlperf charts/ --namespace {TEAM} --values team.yaml --wait")
    seed(tmp_path)
    run("k8sbench store export seed.tar.gz --store seed")
    run(f"kubectl -n {TEAM} exec -i {POD} -- k8sbench store import - < seed.tar.gz")

    def section(name: str) -> str:
        return "".join(pages.run(each, tmp_path, variables) for each in operating.commands(name))

    assert all(name in pod("k8sbench list") for name in RUNS)
    started, stored, retention, backup = operating.ON_REAL_NODES
    assert re.search(r"^(collecting|waiting: )", section(started), re.MULTILINE)
    assert STORE in section(stored)
    # A backup is made, and the volume lost, before it is restored.
    make, *restore = operating.commands(backup)
    pages.run(make, tmp_path, variables)
    with tarfile.open(tmp_path / "backup.tar.gz") as tar:
        assert {f"runs/{name}/logs/master-0.log" for name in RUNS} <= set(tar.getnames())
    pod(f"find {STORE} -mindepth 1 -delete")
    run(f"kubectl -n {TEAM} delete pod -l app.kubernetes.io/component=collector")
    run(f"kubectl -n {TEAM} rollout status {POD}")
    assert not any(name in pod("k8sbench list") for name in RUNS)
    for each in restore:
        pages.run(each, tmp_path, variables)
    assert all("a line of" in pod(f"k8sbench logs {name}") for name in RUNS)
    # Only then what is old is removed.
    printed = section(retention)
    assert "2 runs" in printed
    run(f"kubectl -n {TEAM} rollout status {POD}")
    assert all(name in pod("k8sbench results --all -o json") for name in RUNS)
    for name in RUNS:
        kept = {path.name for path in (tmp_path / "disk" / "k8sbench" / "runs" / name).iterdir()}
        assert {"measurement.json", "pruned.json"} <= kept
        assert "logs" not in kept
