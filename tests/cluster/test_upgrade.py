"""A release of version 0.2.0 is upgraded: its Roles, its ConfigMaps, its claim and its store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8sbench.adapters.store import database
from k8sbench.adapters.store.sql_store import open_store
from k8sbench.model.phase import Phase
from k8sbench.ports import RunFilter
from tests import tiers
from tests.chart import examples
from tests.harness import earlier_stores
from tests.harness import helm as programs
from tests.harness import release as releases
from tests.harness.cluster import collectors, users
from tests.harness.cluster.cluster import Cluster
from tests.harness.cluster.collectors import Collector
from tests.harness.cluster.namespace import Namespace
from tests.harness.helm import RELEASE, Helm, merged, nested
from tests.harness.release import COLLECTOR, PATIENCE, Release
from tests.tiers import ROOT
from tests.unit.store.examples import NOW, measurement, plan, step

BEFORE = ROOT / "tests" / "fixtures" / "chart-0.2.0"
OLD_RUNS = ("seg-1", "seg-2")
USER = f"{RELEASE}-user"


@pytest.fixture(params=programs.MODULES, ids=lambda major: f"helm{major}")
def helm(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Helm:
    """Give each major version of Helm, on the cluster."""
    tiers.demand("helm")
    return Helm(request.param, tmp_path, cluster.variables())


@pytest.fixture
def volume(cluster: Cluster, restricted: Namespace) -> Iterator[dict[str, Any]]:
    """Make a volume for the store; gives the values that ask for it."""
    with releases.volume(cluster, restricted.name, "/nowhere") as values:
        yield values


def test_a_release_of_0_2_0_becomes_one_of_today(
    helm: Helm, restricted: Namespace, volume: dict[str, Any], tmp_path: Path
) -> None:
    release = Release(helm, restricted)
    where = f"--namespace={restricted.name}"
    storage_class = volume["collector"]["persistence"]["storageClass"]
    old = f"--set=storageClass={storage_class}"
    helm.run("install", RELEASE, BEFORE, where, old, *PATIENCE)
    claim = restricted.get("persistentvolumeclaim", COLLECTOR)
    assert claim["status"]["phase"] == "Bound"
    assert users.may(restricted, USER, "patch", "configmaps")
    assert f"configmap/{RELEASE}-config" in release.objects()
    values = merged(
        examples.COLLECTOR,
        volume,
        nested("nodePools", [examples.POOL]),
        nested("collector.tolerations", [{"operator": "Exists"}]),
    )
    release.run("upgrade", *PATIENCE, values=values)
    # The same claim, and nothing of before beside what an install makes.
    again = restricted.get("persistentvolumeclaim", COLLECTOR)
    assert again["metadata"]["uid"] == claim["metadata"]["uid"]
    release.pod()
    installed = {
        (each["kind"], each["metadata"]["name"])
        for each in helm.template(values, namespace=restricted.name)
    }
    names = {name.partition("/")[2] for name in release.objects()}
    assert names == {name for _, name in installed}
    assert release.configuration()["K8SBENCH_NAMESPACES"] == restricted.name
    # Users can no longer reach each other's ConfigMaps, and reach the collector's token.
    for verb in ("patch", "update", "delete"):
        assert not users.may(restricted, USER, verb, "configmaps")
    assert users.may(restricted, USER, "get", f"secrets/{COLLECTOR}-token")
    pools = restricted.get("configmap", "dlperf-pools")["data"]["pools.yaml"]
    assert [pool["name"] for pool in yaml.safe_load(pools)["pools"]] == [examples.POOL["name"]]
    _collects(_collector(restricted, tmp_path))
    # Back: what 0.2.0 had is there again.
    release.run("rollback", "1", *PATIENCE)
    assert f"configmap/{RELEASE}-config" in release.objects()
    assert (
        restricted.get("persistentvolumeclaim", COLLECTOR)["metadata"]["uid"]
        == (claim["metadata"]["uid"])
    )


def _collector(namespace: Namespace, folder: Path) -> Collector:
    """Make a collector with the Roles of the release and a store that 0.2.0 left."""
    token = namespace.kubectl("create", "token", COLLECTOR).strip()
    kubeconfig = users.write_kubeconfig(namespace, folder / "collector.config", {"token": token})
    # The pod's, which does not run here, is away.
    namespace.kubectl("scale", f"deployment/{COLLECTOR}", "--replicas=0")
    collector = Collector(namespace, kubeconfig, folder / "collector")
    with open_store(str(collector.store)) as store:
        for number, run_id in enumerate(OLD_RUNS, start=1):
            store.record(plan(run_id, repeat=number), at=NOW, owner=None)
            store.move(run_id, step(Phase.SUCCEEDED))
            store.measured(run_id, measurement())
        runs = store.runs(RunFilter())
    for path in collector.store.glob("k8sbench.db*"):
        path.unlink()
    base = database.open_sqlite(collector.store)
    with base.writing() as db:
        earlier_stores.make(db, runs)
    base.close()
    return collector


def _collects(collector: Collector) -> None:
    """Check that it takes the Lease, makes its token and has the runs of before."""
    with collector.collecting(f"--lease={COLLECTOR}") as running:
        running.until("Others read it at port")
        collector.namespace.wait("create", f"secret/{COLLECTOR}-token")
        collectors.end(running)
    assert "warning" not in running.out + running.err
    assert {run["run_id"] for run in collector.json("list")} == set(OLD_RUNS)
    for run_id in OLD_RUNS:
        assert collector.json("status", run_id)["measurement"]["verdict"] == "valid"
