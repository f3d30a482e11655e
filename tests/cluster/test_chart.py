"""The chart on a real API server, by Helm: install, upgrade, rollback, uninstall."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8sbench.adapters.kubernetes.operator_proxy import LEASE, PLACE_ANNOTATION
from tests import tiers
from tests.chart import examples
from tests.harness import helm as programs
from tests.harness import release as releases
from tests.harness.cluster import operator_process, tools, users
from tests.harness.cluster.cluster import Cluster, KubectlFailed, stream
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.operator_process import OperatorShell
from tests.harness.cluster.shell import POOLS
from tests.harness.helm import CHART, RELEASE, Helm, HelmFailed, merged, named, nested
from tests.harness.release import OPERATOR, PATIENCE, Release

TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists"}


@pytest.fixture
@tiers.needs("helm")
def oldest(cluster: Cluster, tmp_path: Path) -> Helm:
    """Give Helm 3; with Helm 4 ``test_pages.py`` installs, upgrades and rolls back."""
    return Helm(min(programs.MODULES), tmp_path, cluster.variables())


@pytest.fixture
@tiers.needs("helm")
def newest(cluster: Cluster, tmp_path: Path) -> Helm:
    """Give the newest Helm, for what is the same in both."""
    return Helm(max(programs.MODULES), tmp_path, cluster.variables())


@pytest.fixture
def release(oldest: Helm, restricted: Namespace) -> Release:
    """Give the chart, not installed yet, in a namespace that takes restricted pods alone."""
    return Release(oldest, restricted)


@pytest.fixture
def volume(cluster: Cluster, restricted: Namespace) -> Iterator[dict[str, Any]]:
    """Make a volume for the store; gives the values that ask for it."""
    with releases.volume(cluster, restricted.name, "/nowhere") as values:
        yield values


def test_upgrade_rollback_and_second_install(release: Release, volume: dict[str, Any]) -> None:
    namespace = release.namespace
    # Without an image: all that needs none, and the way to the rest.
    told = release.run("install", *PATIENCE, values={})
    assert "make push IMAGES=operator" in told.out
    assert f"k8sbench doctor -n {namespace.name}" in told.out
    assert (
        f"helm upgrade dlperf charts/ --namespace {namespace.name} --reset-then-reuse-values"
        in told.out
    )
    assert f"k8sbench submit resnet50 -n {namespace.name} " in told.out
    users = {f"serviceaccount/{RELEASE}-user"} | {
        f"{kind}.rbac.authorization.k8s.io/{RELEASE}-user" for kind in ("role", "rolebinding")
    }
    assert release.objects() == users
    # With one: its restricted pod runs, with its store on the volume.
    values = merged(examples.OPERATOR, nested("operator.tolerations", [TOLERATION]), volume)
    told = release.run("upgrade", *PATIENCE, values=values)
    assert "make push" not in told.out
    assert f"rollout status deployment/{OPERATOR}" in told.out
    first = release.pod()
    claim = namespace.get("persistentvolumeclaim", OPERATOR)
    assert claim["status"]["phase"] == "Bound"
    everything = release.objects()
    assert everything > users
    # What somebody has deleted is made again; another configuration is another pod.
    namespace.kubectl("delete", "rolebinding", OPERATOR)
    release.run("upgrade", *PATIENCE, values=merged(values, nested("operator.keepLogsFor", "90d")))
    assert release.objects() == everything
    assert release.configuration()["K8SBENCH_KEEP_LOGS_FOR"] == "90d"
    assert release.pod()["metadata"]["uid"] != first["metadata"]["uid"]
    # A rollback is the one before.
    release.run("rollback", *PATIENCE)
    assert "K8SBENCH_KEEP_LOGS_FOR" not in release.configuration()
    assert release.objects() == everything
    with pytest.raises(HelmFailed, match="only dynamically provisioned pvc can be resized"):
        release.run("upgrade", values=merged(values, nested("operator.persistence.size", "40Gi")))
    # What is uninstalled is gone, but for the results; who installs again has them.
    release.run("uninstall", *PATIENCE)
    assert release.objects() == {f"persistentvolumeclaim/{OPERATOR}"}
    release.run("install", *PATIENCE, values=values)
    release.pod()
    again = namespace.get("persistentvolumeclaim", OPERATOR)
    assert again["metadata"]["uid"] == claim["metadata"]["uid"]
    assert again["spec"]["volumeName"] == claim["spec"]["volumeName"]


def test_all_options_are_accepted(newest: Helm, namespace: Namespace, monitoring: None) -> None:
    objects = newest.template(examples.ALL, namespace=namespace.name)
    kinds = {"CronJob", "NetworkPolicy", "ClusterRole", "ServiceMonitor", "PrometheusRule", "Pod"}
    assert kinds <= {each["kind"] for each in objects}
    # A dry run of a pod needs its account.
    accounts = named(objects, "ServiceAccount")
    namespace.cluster.create(*accounts)
    strictly = ("create", "--dry-run=server", "--validate=strict", "--filename=-")
    others = [each for each in objects if each not in accounts]
    namespace.cluster.kubectl(*strictly, given=stream(others))
    # The Prometheus operator's types are not ones that take anything.
    (rule,) = named(objects, "PrometheusRule")
    rule["spec"] = {"groups": [{"name": "k8sbench", "rules": [{"alert": "NoQuery"}]}]}
    with pytest.raises(KubectlFailed, match="Required value"):
        namespace.cluster.kubectl(*strictly, given=stream([rule]))


@pytest.fixture(params=programs.MODULES)
@tiers.needs("helm")
def owner(
    request: pytest.FixtureRequest, cluster: Cluster, namespace: Namespace, tmp_path: Path
) -> Release:
    """Give the chart to an administrator of the namespace, by the ClusterRole ``admin``."""
    namespace.kubectl("create", "serviceaccount", "owner")
    bind_owner(namespace, "--clusterrole=admin")
    signed = users.sign_in(namespace, "owner", tmp_path / "owner.kubeconfig")
    variables = {**cluster.variables(), "KUBECONFIG": str(signed)}
    return Release(Helm(request.param, tmp_path, variables), namespace)


SKIP = "--skip-crds"
"""Types are installed by an administrator of the cluster."""


def bind_owner(namespace: Namespace, role: str) -> None:
    who = f"--serviceaccount={namespace.name}:owner"
    namespace.kubectl("create", "rolebinding", f"owner{role.replace('=', '-')}", role, who)


def test_an_administrator_of_a_namespace_alone_installs_all_but_what_grants_permissions(
    owner: Release,
) -> None:
    namespace, values = owner.namespace, examples.INSTALLS["namespace"]
    told = owner.run("install", SKIP, values=values)
    assert "--show-only 'templates/rbac/*' | kubectl apply -f -" in told.out
    assert f"deployment.apps/{OPERATOR}" in owner.objects()

    def may() -> list[bool]:
        return [
            users.may(namespace, f"{RELEASE}-user", "create", "benchmarks.k8sbench.io"),
            users.may(namespace, OPERATOR, "patch", "pytorchjobs.kubeflow.org"),
        ]

    assert may() == [False, False]
    # An administrator of the cluster adds the rest.
    roles = ("--set=rbac.create=true", "--show-only=templates/rbac/*")
    told = owner.run("template", *roles, f"--kube-version={tools.kubernetes()}", values=values)
    namespace.cluster.kubectl("apply", "--filename=-", given=told.out)
    assert may() == [True, True]
    owner.run("upgrade", values=values)
    owner.run("uninstall")
    assert may() == [True, True]


def test_an_upgrade_from_0_3_0_stops_before_it_loses_results_and_says_what_to_do(
    release: Release, volume: dict[str, Any], tmp_path: Path
) -> None:
    namespace, old = release.namespace, f"{RELEASE}-collector"
    # The chart of 0.3.0, as far as names go; this claim would be deleted with the release.
    chart = tmp_path / "old"
    shutil.copytree(CHART, chart)
    (chart / "templates" / "upgrade.yaml").unlink()
    helpers = chart / "templates" / "_helpers.tpl"
    helpers.write_text(helpers.read_text().replace("}}-operator", "}}-collector"))
    values = merged(
        examples.OPERATOR,
        nested("operator.tolerations", [TOLERATION]),
        nested("operator.persistence.keep", False),
        volume,
    )
    where = f"--namespace={namespace.name}"
    release.helm.run("install", RELEASE, chart, *release.helm.given(values), where, *PATIENCE)
    uid = namespace.get("persistentvolumeclaim", old)["metadata"]["uid"]

    renamed = merged(values, {"collector": values["operator"]})
    with pytest.raises(HelmFailed, match="rename the key"):
        release.run("upgrade", values=renamed)
    keeping = f"operator.persistence.existingClaim={old}"
    with pytest.raises(HelmFailed, match=keeping):
        release.run("upgrade", values=values)
    words = "annotate persistentvolumeclaim {} helm.sh/resource-policy=keep"
    with pytest.raises(HelmFailed, match=words.format(old)):
        release.run("upgrade", f"--set={keeping}", values=values)
    namespace.kubectl(*words.format(old).split())
    told = release.run("upgrade", f"--set={keeping}", *PATIENCE, values=values)
    assert "kubectl apply --server-side -f charts/crds/" in told.out
    (disk,) = (one for one in release.pod()["spec"]["volumes"] if one["name"] == "data")
    assert disk["persistentVolumeClaim"]["claimName"] == old
    claim = namespace.get("persistentvolumeclaim", old)["metadata"]
    assert (claim["uid"], "deletionTimestamp" in claim) == (uid, False)
    assert f"deployment.apps/{old}" not in release.objects()


def test_the_notes_name_another_operator_of_the_namespace(release: Release) -> None:
    namespace, lease = release.namespace, "kubectl delete lease k8sbench-operator --namespace"
    told = release.run("install", values=examples.OPERATOR)
    assert lease not in told.out
    # As the first operator holds it.
    annotations = {PLACE_ANNOTATION: f"{namespace.name}/{OPERATOR}"}
    namespace.create(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE, "annotations": annotations},
            "spec": {"holderIdentity": "vm-1", "leaseDurationSeconds": 15},
        }
    )
    assert lease not in release.run("upgrade", values=examples.OPERATOR).out
    where = f"--namespace={namespace.name}"
    second = release.helm.given(examples.OPERATOR)
    told = release.helm.run("install", "dlperf-b", CHART, *second, where)
    assert f"Operator {namespace.name}/{OPERATOR} serves namespace {namespace.name}" in told.out
    assert f"{lease} {namespace.name}" in told.out
    assert "existingClaim" not in told.out
    release.helm.run("uninstall", "dlperf-b", where)
    # The same release under another name.
    renamed = merged(examples.OPERATOR, {"fullnameOverride": "bench"})
    told = release.run("upgrade", values=renamed)
    assert f"{lease} {namespace.name}" in told.out
    assert f"--set operator.persistence.existingClaim={OPERATOR}" in told.out


def test_after_an_uninstall_jobs_go_on_and_no_deletion_waits_for_the_operator(
    release: Release, tmp_path: Path
) -> None:
    namespace = release.namespace
    pools = {"nodePools": yaml.safe_load(POOLS)["pools"]}
    release.run("install", values=merged(examples.OPERATOR, pools))
    # The operator runs beside the cluster, with the rights and the settings of its pod.
    signed = users.sign_in(namespace, OPERATOR, tmp_path / "kubeconfig")
    operator = OperatorShell(namespace, signed, tmp_path / "operator")
    operator.environment |= release.configuration()
    spec = {"benchmark": "resnet50", "replicas": 2, "gpus": 1, "preset": "smoke"}
    asked = {
        "apiVersion": "k8sbench.io/v1alpha1",
        "kind": "Benchmark",
        "metadata": {"name": "night"},
        "spec": {**spec, "nodePool": "endless"},
    }
    with operator.collecting() as running:
        thief = {**asked, "metadata": {"name": "thief"}}
        namespace.create({**thief, "spec": {**spec, "data": f"pvc:{OPERATOR}"}})
        namespace.wait("jsonpath={.status.phase}=Failed", "benchmark/thief")
        condition = namespace.get("benchmark", "thief")["status"]["conditions"][0]
        assert "is the operator's own" in condition["message"]
        namespace.create(asked)
        namespace.wait("create", "pytorchjob/night-1")
        release.run("uninstall", *PATIENCE)
        operator_process.end(running)
    (lease,) = namespace.get("leases")
    assert lease["metadata"]["name"] == "k8sbench-operator", "its last sign of life stays"
    for policy in ("background", "foreground"):
        namespace.kubectl("delete", "benchmark", "night", f"--cascade={policy}", "--timeout=60s")
        assert namespace.get("pytorchjob", "night-1")["metadata"].get("deletionTimestamp") is None
        namespace.create(asked)
    namespace.cluster.kubectl("delete", "namespace", namespace.name, "--timeout=120s")
