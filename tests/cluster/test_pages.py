"""docs/operator.md and docs/kubernetes.md: their commands, in their order, do what they say.

Those of the operator's page that need a running operator are tried apart.
"""

import functools
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.docs import operating, pages
from tests.docs.operating import TEAM
from tests.harness.cluster import nodes
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import Shell
from tests.tiers import ROOT

NODE, DISK = "infra-0", "operator-page"


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
            "allowVolumeExpansion": True,
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


@pytest.mark.tier("helm")
def test_the_commands_of_the_operators_page_run_in_order(
    prepared: OwnCluster, tmp_path: Path
) -> None:
    variables = operating.prepare(tmp_path, prepared.layout.programs.program("kubectl"))
    variables |= prepared.variables()
    printed = {}
    for command in operating.commands("cluster"):
        if "--force-conflicts" in command.text:
            by_hand = "kubectl -n team-a patch deployment dlperf-operator --patch"
            patch = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 7}}}}
            run = functools.partial(pages.run, folder=tmp_path, variables=variables)
            run(msgspec.structs.replace(command, text=f"{by_hand} '{json.dumps(patch)}'"))
            without = command.text.replace("--force-conflicts", "")
            told = run(msgspec.structs.replace(command, text=without, code=1))
            assert 'conflict with "kubectl-patch"' in told
        printed[command.text] = pages.run(command, tmp_path, variables)

    def of(words: str) -> str:
        (found,) = (text for command, text in printed.items() if words in command)
        return found

    assert re.search("takes? a replica", of("doctor -n team-a --node-pool v100"))
    assert "Bound" in of("get persistentvolumeclaim")
    claim = prepared.kubectl("get", "persistentvolumeclaims", f"--namespace={TEAM}", "-o=yaml")
    assert "storage: 40Gi" in claim
    assert "Rollback was a success" in of("rollback")
    assert '"title": "k8sbench team-a/dlperf"' in (tmp_path / "k8sbench.json").read_text()
    assert "job.batch/tonight created" in of("create job")


PAGE = ROOT / "docs" / "kubernetes.md"


def test_the_commands_of_kubernetes_run_in_their_order(own_shell: Shell) -> None:
    # The page's readers have a pool with real nodes; ours are fake, and end by themselves.
    pools = own_shell.pools.read_text().replace(": 0s}", ": 2s}")
    own_shell.pools.write_text(pools)
    for name in ("hello", "later"):
        own_shell.logs(name).begin().end()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    nodes_of_a_rack = pages.commands(PAGE, "Which node is slow")
    for command in pages.commands(PAGE):
        if command in nodes_of_a_rack:
            continue
        if "unwanted" in command.text:
            own_shell.pools.write_text(pools.replace("default: quick", "default: endless"))
        pages.run(command, own_shell.folder, {**own_shell.environment, "PATH": path})
    runs = {run["run_id"]: (run["phase"], run["verdict"]) for run in own_shell.json("list")}
    assert runs == {
        "hello": ("Succeeded", "valid"),
        "later": ("Succeeded", "valid"),
        "unwanted": ("Cancelled", None),
    }
    assert own_shell.on_cluster() == []
