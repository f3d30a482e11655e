"""docs/operations.md: its commands, in its order, do what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import tiers
from tests.docs import pages
from tests.harness import helm as programs
from tests.harness.cluster import nodes, tools
from tests.harness.cluster.own import OwnCluster

PAGE = tiers.ROOT / "docs" / "operations.md"
TEAM = "team-a"
FILE = re.compile(r"^```yaml\n# (\S+\.yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NODE, DISK = "infra-0", "operations-page"


@pytest.fixture
def prepared(own_cluster: OwnCluster, monitoring: None) -> Iterator[OwnCluster]:
    """Give the cluster what its administrators would: a node without GPUs, storage, monitoring."""
    (node,) = nodes.fake_nodes(1)
    node["metadata"]["name"] = NODE
    del node["spec"]["taints"]
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    own_cluster.create(
        node,
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": DISK, "annotations": default},
            "provisioner": "kubernetes.io/no-provisioner",
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": DISK},
            "spec": {
                "capacity": {"storage": "20Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": DISK,
                "hostPath": {"path": "/nowhere"},
            },
        },
    )
    yield own_cluster
    at_once = ("--wait=false", "--ignore-not-found")
    own_cluster.kubectl("delete", "namespace", TEAM, *at_once)
    for what in (f"persistentvolume/{DISK}", f"storageclass/{DISK}", f"node/{NODE}"):
        own_cluster.kubectl("delete", what, *at_once)


def test_the_commands_of_the_page_run_in_its_order(prepared: OwnCluster, tmp_path: Path) -> None:
    tiers.demand("helm")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    newest = tools.built(programs.MODULES[max(programs.MODULES)])
    (bin_folder / "helm").symlink_to(newest.program("helm"))
    (bin_folder / "kubectl").symlink_to(prepared.layout.programs.program("kubectl"))
    (tmp_path / "charts").symlink_to(programs.CHART)
    for name, text in FILE.findall(PAGE.read_text()):
        (tmp_path / name).write_text(text)
    environment = {
        **os.environ,
        **prepared.variables(),
        "HOME": str(tmp_path),
        "PATH": f"{bin_folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    printed: dict[str, str] = {}
    for command in pages.commands(PAGE):
        done = subprocess.run(
            ["bash", "-c", command.text],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == command.code, f"{command}\n{done.stdout}\n{done.stderr}"
        printed[command.text] = done.stdout + done.stderr

    def of(words: str) -> str:
        (found,) = (text for command, text in printed.items() if words in command)
        return found

    assert "pools from ConfigMap team-a/dlperf-pools" in of("k8sbench submit")
    assert "servicemonitor" in of("get servicemonitors")
    assert "Bound" in of("get persistentvolumeclaim")
    assert '"title": "k8sbench"' in (tmp_path / "k8sbench.json").read_text()
    assert "job.batch/tonight created" in of("create job")
