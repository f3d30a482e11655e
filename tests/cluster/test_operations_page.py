"""docs/operations.md: its commands, in its order; those that need a running collector apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import tiers
from tests.docs import operating, pages
from tests.docs.operating import TEAM
from tests.harness.cluster import nodes
from tests.harness.cluster.own import OwnCluster

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
    for tier in ("helm", "prometheus"):
        tiers.demand(tier)
    variables = operating.prepare(tmp_path, prepared.layout.programs.program("kubectl"))
    variables |= prepared.variables()
    printed = {
        command.text: pages.run(command, tmp_path, variables) for command in operating.commands()
    }

    def of(words: str) -> str:
        (found,) = (text for command, text in printed.items() if words in command)
        return found

    assert "pools from ConfigMap team-a/dlperf-pools" in of("k8sbench submit")
    assert "registry.example/team/k8sbench-pytorch" in of("k8sbench images")
    assert "Tesla-V100-SXM2-32GB" in of("get nodes")
    assert "take pods" in of("doctor -n team-a --node-pool v100")
    assert "SUCCESS" in of("promtool")
    assert "servicemonitor" in of("get servicemonitors")
    assert "Bound" in of("get persistentvolumeclaim")
    assert '"title": "k8sbench"' in (tmp_path / "k8sbench.json").read_text()
    assert "job.batch/tonight created" in of("create job")
