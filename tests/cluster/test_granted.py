"""What the chart grants is what whole sessions ask for: the API server's audit log decides."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests import tiers
from tests.cluster.test_doctor import crd
from tests.harness import helm as programs
from tests.harness.cluster import audit, users
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import RUN_FOR
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.shell import ENDLESS, POOLS, Shell, until
from tests.harness.helm import CHART, RELEASE, Helm

KUEUE = "kueue.x-k8s.io"
ACCOUNT = f"{RELEASE}-user"


class Right(NamedTuple):
    """One verb on one resource, as rules name both."""

    group: str
    resource: str
    verb: str


OPTIONAL: dict[Right, str] = {
    Right("", "pods", "create"): "a dry run asks whether its pods would be admitted",
    Right("", "pods", "list"): "DCGM exporters are in a namespace of their own",
    Right("", "services/proxy", "get"): "so is Prometheus",
    Right("apps", "deployments", "get"): "and the training operator",
    Right("apps", "deployments", "list"): "wherever that is",
}
"""What is asked for without being granted, since it is of other namespaces or nobody's to give →
what for. Each is a note, and no run fails by it."""


@pytest.fixture
def kueue(own_cluster: OwnCluster) -> Iterator[None]:
    """Let the cluster know Kueue's types; Kueue does not run."""
    kinds = ("LocalQueue", "Workload")
    own_cluster.create(*(crd(KUEUE, "v1beta1", kind) for kind in kinds))
    served = f"/apis/{KUEUE}/v1beta1"
    own_cluster.until(lambda: own_cluster.ask(served) is not None, lambda: "kube-apiserver")
    yield
    own_cluster.kubectl("delete", "crd", *(f"{kind.lower()}s.{KUEUE}" for kind in kinds))


@pytest.fixture
def shell(own_cluster: OwnCluster, namespace: Namespace, tmp_path: Path) -> Shell:
    """A command line of the account that the chart made, which knows nothing but the cluster."""
    tiers.demand("helm")
    helm = Helm(max(programs.MODULES), tmp_path, own_cluster.variables())
    pools = yaml.safe_load(POOLS.format(run_for=RUN_FOR))
    values = {
        "listNodes": True,
        "nodePools": pools["pools"],
        "defaultNodePool": pools["default"],
        "prometheus": {"url": "http://prometheus.monitoring.svc:9090"},
    }
    where = f"--namespace={namespace.name}"
    helm.run("install", RELEASE, CHART, where, *helm.given(values))
    token = namespace.kubectl("create", "token", ACCOUNT).strip()
    kubeconfig = users.write_kubeconfig(namespace, tmp_path / "kubeconfig", {"token": token})
    found = Shell(namespace, kubeconfig, tmp_path / "shell")
    del found.environment["K8SBENCH_POOLS"]
    return found


def test_users_are_granted_what_whole_sessions_use_and_nothing_else(
    own_cluster: OwnCluster, namespace: Namespace, kueue: None, shell: Shell
) -> None:
    prepare(namespace)
    # The cluster's first answer to whether it is ready.
    shell.run("doctor", "--data=pvc:data", "--queue=lab", code=6)
    # A run from its submit to its row, with the pools that the chart publishes.
    logs = shell.logs("whole")
    logs.begin()
    with shell.submitted("whole") as submit:
        submit.until(f"pools from ConfigMap {namespace.name}/dlperf-pools")
        submit.until("Running: ")
        # There are none here: what it may not read is part of the reason.
        shell.run("top", "whole", "--once", code=6)
        logs.end()
        shell.finish("whole")
        submit.ends()
    # One that is left, looked at, and collected by somebody who has but the cluster.
    logs = shell.printing("left")
    shell.run("list")
    shell.run("status", "left")
    shell.run("logs", "left")
    logs.end()
    shell.finish("left")
    shell.colleague().run("collect", "left", "--follow")
    shell.run("collect", "--all")
    # Those that are not to go on, of the other kind, and one that waits in a queue.
    paddle = ("deeplabv3p", "--framework=paddle", "--replicas=2", "--gpus=1", "--preset=smoke")
    shell.run("submit", *paddle, ENDLESS, "--run-id=unwanted", "--detach")
    shell.run("cancel", "unwanted")
    shell.submit("queued", "--queue=lab", "--detach")
    with shell.started("watch", "queued") as watch:
        watch.until("Queued: ")
        until(lambda: Right(KUEUE, "workloads", "list") in used(own_cluster, namespace), "a look")
    shell.run("delete", "queued")
    # Where no node fits, the nodes are looked at.
    shell.submit("nowhere", "--node-pool=nowhere", code=3)
    shell.submit("draft", "--dry-run=server")
    # What was made for a job that is refused is taken back.
    none = {"hard": {"count/pytorchjobs.kubeflow.org": "0"}}
    namespace.create(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": none}
    )
    shell.submit("refused", "--detach", code=2)

    granted, asked = rights(namespace), used(own_cluster, namespace)
    assert sorted(granted - asked) == []
    assert sorted(refused(own_cluster, namespace)) == sorted(OPTIONAL)


def prepare(namespace: Namespace) -> None:
    """Make what the doctor is asked about."""
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "",
    }
    of_collector = {
        "app.kubernetes.io/name": "dlperf",
        "app.kubernetes.io/component": "collector",
    }
    namespace.create(
        {"apiVersion": f"{KUEUE}/v1beta1", "kind": "LocalQueue", "metadata": {"name": "lab"}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": f"{RELEASE}-collector", "labels": of_collector},
            "spec": {"ports": [{"name": "http", "port": 8080}]},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": claim,
        },
    )


def rights(namespace: Namespace) -> set[Right]:
    """Return what the chart's Role and ClusterRole grant."""
    roles = [
        namespace.get("role", ACCOUNT),
        namespace.cluster.get("clusterrole", f"{namespace.name}-{RELEASE}-nodes"),
    ]
    return {
        Right(*right)
        for role in roles
        for rule in role["rules"]
        for right in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


def used(cluster: OwnCluster, namespace: Namespace) -> set[Right]:
    """Return what the account was allowed to do by the chart's bindings, and did."""
    return {
        right(request)
        for request in requests(cluster, namespace)
        if f'"{ACCOUNT}/{namespace.name}"' in said(request, "reason")
        or f'"{namespace.name}-{RELEASE}-nodes"' in said(request, "reason")
    }


def refused(cluster: OwnCluster, namespace: Namespace) -> set[Right]:
    """Return what the account asked for and was not allowed to do."""
    return {
        right(request)
        for request in requests(cluster, namespace)
        if said(request, "decision") == "forbid"
    }


def requests(cluster: OwnCluster, namespace: Namespace) -> list[dict[str, Any]]:
    name = f"system:serviceaccount:{namespace.name}:{ACCOUNT}"
    asked = audit.requests(cluster.layout.audit_log)
    return [each for each in asked if each["user"].get("username") == name]


def said(request: dict[str, Any], what: str) -> str:
    return str(request.get("annotations", {}).get(f"authorization.k8s.io/{what}", ""))


def right(request: dict[str, Any]) -> Right:
    about = request["objectRef"]
    resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    return Right(about.get("apiGroup", ""), resource, request["verb"])
