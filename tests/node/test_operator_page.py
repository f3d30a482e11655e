"""docs/operator.md: what its commands do with an operator that runs, and has results."""

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from k8sbench.model.phase import Phase
from k8sbench.store.open_store import open_store
from tests.docs import operating, pages
from tests.docs.operating import TEAM
from tests.docs.pages import Command
from tests.harness.cluster.namespace import ENFORCED, Namespace
from tests.harness.node import operator_image
from tests.harness.node.cluster import NodeCluster
from tests.unit.model.measurements import measurement
from tests.unit.store.examples import PROCESS, archive, plan, step

POD = "deployment/dlperf-operator"
STORE = "/data/k8sbench"
STORE_CLAIM, BACKUP_CLAIM = "dlperf-operator", "dlperf-backup"
PRUNES = "K8sbenchStoreFull"
RUNS = ("seg-1", "seg-2")
LONG_AGO = 1e9


@pytest.fixture
def team(node_cluster: NodeCluster) -> Iterator[Namespace]:
    """Give the page's namespace."""
    metadata = {"name": TEAM, "labels": {ENFORCED: "restricted"}}
    node_cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    found = Namespace(node_cluster, TEAM)
    found.wait("create", "serviceaccount/default")
    yield found
    # Where pods are left, a namespace is looked at again after half of their grace alone.
    found.kubectl("delete", "deployments,cronjobs,jobs,pods", "--all")
    node_cluster.kubectl("delete", "namespace", TEAM)


@pytest.fixture
def disks(node_cluster: NodeCluster, tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Create volumes of both nodes, on this machine; return folders by claim."""
    folders = {claim: tmp_path / claim for claim in (STORE_CLAIM, BACKUP_CLAIM)}
    for claim, folder in folders.items():
        folder.mkdir()
        folder.chmod(0o777)  # a volume by hand is not given to the pod's group
        spec = {
            "capacity": {"storage": "20Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": TEAM, "name": claim},
            "hostPath": {"path": str(folder), "type": "Directory"},
        }
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": claim}}
        node_cluster.create({**volume, "spec": spec})
    yield folders
    node_cluster.kubectl("delete", "persistentvolume", *folders, "--wait=false")


def seed(folder: Path) -> None:
    """Make a store with two measured runs that ended long ago."""
    with open_store(str(folder / "seed")) as store:
        for number, name in enumerate(RUNS, 1):
            store.record(plan(name, repeat=number), at=LONG_AGO + number, process=PROCESS)
            archive(store, f"a line of {name}", run_id=name, at=LONG_AGO)
            store.move(name, step(Phase.SUCCEEDED, at=LONG_AGO + 60))
            store.save_measurement(name, measurement())


@pytest.mark.tier("helm")
def test_the_commands_for_a_running_operator_do_what_the_page_says(
    node_cluster: NodeCluster,
    team: Namespace,
    disks: dict[str, Path],
    operator_image_name: str,
    tmp_path: Path,
) -> None:
    variables = operating.prepare(tmp_path, node_cluster.layout.programs.program("kubectl"))
    variables |= team.cluster.variables()
    image = {"image": operator_image.VALUES, "persistence": {"storageClass": "-"}}
    (tmp_path / "team.yaml").write_text(yaml.safe_dump({"operator": image}))

    def run(text: str) -> str:
        command = Command(page="", line=0, text=text, code=0, section="")
        return pages.run(command, tmp_path, variables)

    def pod(words: str) -> str:
        return run(f"kubectl -n {TEAM} exec {POD} -- {words}")

    run(f"helm install dlperf charts/ --namespace {TEAM} --values team.yaml --wait")
    seed(tmp_path)
    run("k8sbench store export seed.tar.gz --store seed")
    run(f"kubectl -n {TEAM} exec -i {POD} -- k8sbench store import - < seed.tar.gz")
    commands: dict[str, list[str]] = {}
    for command in operating.commands("node"):
        commands.setdefault(command.section, []).append(command.text)
    export, import_, reindex, upgrade, now = commands.pop("Backup and restore")
    printed = {
        section: "".join(map(run, texts))
        for section, texts in commands.items()
        if section != PRUNES
    }
    assert re.search(r"^Phase: +Succeeded$", printed["Install"], re.MULTILINE)
    assert all(name in printed["K8sbenchStuckJob"] for name in RUNS)
    assert re.search(" (collecting$|waiting: )", printed["K8sbenchNotCollecting"])
    assert "Others read it" in printed["K8sbenchOperatorDown"]
    # Backups are made, by hand and by the CronJob, and the volume lost, before one is restored.
    run(export)
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "20Gi"}},
    }
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec}
    team.create({**claim, "metadata": {"name": BACKUP_CLAIM}})
    run(upgrade)
    run(now)
    team.wait("condition=Complete", "job/backup-now")
    for file in (tmp_path / "backup.tar.gz", disks[BACKUP_CLAIM] / "backup-now.tar.gz"):
        with tarfile.open(file) as tar:
            assert {f"runs/{name}/logs/master-0.log" for name in RUNS} <= set(tar.getnames())
    run(f"kubectl -n {TEAM} rollout status {POD}")  # the upgrade has replaced its pod
    pod(f"find {STORE} -mindepth 1 -delete")
    run(f"kubectl -n {TEAM} delete pod -l app.kubernetes.io/component=operator")
    run(f"kubectl -n {TEAM} rollout status {POD}")
    assert not any(name in pod("k8sbench list --store local") for name in RUNS)
    run(import_)
    run(reindex)
    assert all("a line of" in pod(f"k8sbench logs {name}") for name in RUNS)
    # Only then what is old is removed.
    assert "2 runs" in "".join(map(run, commands[PRUNES]))
    assert all(name in pod("k8sbench results --all -o json --store local") for name in RUNS)
    for name in RUNS:
        folder = disks[STORE_CLAIM] / "k8sbench" / "runs" / name
        kept = {path.name for path in folder.iterdir()}
        assert {"measurement.json", "pruned.json"} <= kept
        assert "logs" not in kept
