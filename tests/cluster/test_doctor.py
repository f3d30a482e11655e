"""``k8sbench doctor`` on a real cluster: what it says when all is well, and of each trouble."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from k8sbench.app.doctor import init_template
from k8sbench.cli.main import main
from tests.harness.cluster import audit, objects, users
from tests.harness.cluster.deployments import QUICK, operator_deployment
from tests.harness.cluster.jobs import pytorch_job
from tests.harness.cluster.manifests import claim, limit, refusing
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster

NOT_READY = 6
MAKE_NAMESPACE = Callable[..., Namespace]


class Report:
    """What one call said."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        self.document: dict[str, Any] = json.loads(text)
        self.lines: list[dict[str, str]] = self.document["checks"]

    def level(self, identifier: str) -> str:
        """The worst level of a check's lines."""
        levels = {line["level"] for line in self.lines if line["id"] == identifier}
        return next(level for level in ("failure", "warning", "ok") if level in levels)

    def messages(self, identifier: str) -> list[str]:
        """The sentences of a check that are not ok."""
        found = [line for line in self.lines if line["id"] == identifier]
        return [line["message"] for line in found if line["level"] != "ok"]

    def ids(self, level: str) -> set[str]:
        """The checks with a line of that level."""
        return {line["id"] for line in self.lines if line["level"] == level}


class Doctor:
    """The command."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, namespace: Namespace, *words: str) -> Report:
        return self.asked("--namespace", namespace.name, *words)

    def asked(self, *words: str) -> Report:
        code = main(["doctor", *words, "--output=json"])
        return Report(code, self._capsys.readouterr().out)


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Doctor:
    return Doctor(capsys)


@pytest.fixture
def without_operator(own_cluster: OwnCluster, namespace: Namespace) -> Iterator[OwnCluster]:
    """The cluster while the operator and its types are as good as not installed.

    Not when the namespace is deleted: that is done by type.
    """
    types = [f"{kind}.kubeflow.org" for kind in objects.KINDS]

    def named() -> set[str]:
        found = own_cluster.ask("/apis/kubeflow.org/v1") or {"resources": []}
        return {one["name"] for one in found["resources"]} & {*objects.KINDS}

    def serve(served: bool) -> None:
        change = [{"op": "replace", "path": "/spec/versions/0/served", "value": served}]
        words = ("patch", "crd", *types, "--type=json", f"--patch={json.dumps(change)}")
        own_cluster.kubectl(*words)
        wanted = {*objects.KINDS} if served else set()
        own_cluster.until(lambda: named() == wanted, lambda: "kube-apiserver")

    with own_cluster.without("training-operator"):
        serve(False)
        try:
            yield own_cluster
        finally:
            serve(True)


def crd(group: str, version: str, kind: str) -> dict[str, Any]:
    """A type of another program, of which its existence is all that matters."""
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": anything}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # Of groups like Kueue's the API server wants to know who approved them.
            "annotations": {"api-approved.kubernetes.io": "unapproved, of a test"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


def test_a_cluster_on_which_all_is_well_gets_ok_on_every_line_but_of_gpu_metrics(
    restricted: Namespace, new_namespace: MAKE_NAMESPACE, doctor: Doctor
) -> None:
    system = new_namespace()
    with operator_deployment(system, *QUICK, template=init_template()):
        report = doctor(restricted, "--prometheus=none")
    assert (report.ids("warning"), report.ids("failure")) == ({"gpu-metrics"}, set()), report.lines
    assert (report.code, report.document["ready"]) == (0, True)
    assert report.document["namespace"] == restricted.name
    assert len(report.lines) > 10


def test_the_role_is_enough_and_it_changes_nothing_and_never_lists_all_pods(
    own_cluster: OwnCluster, namespace: Namespace, user: Path, doctor: Doctor
) -> None:
    report = doctor.asked("--kubeconfig", str(user))
    assert report.code == 0
    assert report.ids("warning") == {"operator", "gpu-metrics"}
    assert report.level("permissions") == "ok"
    asked = audit.requests(own_cluster.layout.audit_log)
    account = f"system:serviceaccount:{namespace.name}:user"
    ours = [one for one in asked if one["user"].get("username") == account]
    assert ours
    for one in ours:
        resource = one.get("objectRef", {}).get("resource")
        assert (
            one["verb"] in {"get", "list"}
            or resource == "selfsubjectaccessreviews"
            or "dryRun=All" in one["requestURI"]
        ), one
        if resource == "pods":
            assert "managed-by" in one["requestURI"]


def test_each_permission_that_is_missing_is_named(
    namespace: Namespace, tmp_path: Path, doctor: Doctor
) -> None:
    namespace.kubectl("create", "serviceaccount", "nobody")
    nobody = users.sign_in(namespace, "nobody", tmp_path / "nobody")
    report = doctor.asked("--kubeconfig", str(nobody))
    assert report.code == NOT_READY
    assert report.ids("failure") == {"permissions"}
    where = f"in the namespace {namespace.name}."
    reported = report.messages("permissions")
    assert (
        f"You may not get, list, watch, create, patch, delete pytorchjobs.kubeflow.org {where}"
        in reported
    )
    assert f"You may not get pods/log {where}" in reported
    assert "You may not list nodes of the cluster." in reported
    assert report.level("nodes") == "warning"


def test_a_namespace_that_does_not_exist(namespace: Namespace, doctor: Doctor) -> None:
    report = doctor.asked("--namespace", f"{namespace.name}-not")
    assert (report.code, report.ids("failure")) == (NOT_READY, {"namespace"})


def test_without_the_operator_nothing_runs(
    without_operator: OwnCluster, namespace: Namespace, doctor: Doctor
) -> None:
    report = doctor(namespace)
    assert (report.code, report.ids("failure")) == (NOT_READY, {"job-kinds"})
    (message,) = report.messages("job-kinds")
    assert message.startswith("The training operator v1 is not installed")
    without_operator.create(crd("trainer.kubeflow.org", "v1alpha1", "TrainJob"))
    try:
        served = "/apis/trainer.kubeflow.org/v1alpha1"
        without_operator.until(
            lambda: without_operator.ask(served) is not None, lambda: "kube-apiserver"
        )
        (message,) = doctor(namespace).messages("job-kinds")
    finally:
        without_operator.kubectl("delete", "crd", "trainjobs.trainer.kubeflow.org")
    assert "JobSet" in message


def test_an_operator_that_does_not_run(
    own_cluster: OwnCluster, namespace: Namespace, doctor: Doctor
) -> None:
    with own_cluster.without("training-operator"):
        report = doctor(namespace)
    assert (report.code, report.ids("failure")) == (NOT_READY, {"job-admission"})
    assert [message.split(":")[0] for message in report.messages("job-admission")] == [
        "The operator does not answer; without it no PyTorchJob can be created",
        "The operator does not answer; without it no PaddleJob can be created",
    ]


def test_upstream_s_defaults_where_restricted_is_enforced(
    restricted: Namespace, new_namespace: MAKE_NAMESPACE, doctor: Doctor
) -> None:
    with operator_deployment(new_namespace()):
        report = doctor(restricted)
        paddle = doctor(restricted, "--framework", "paddle")
    assert (report.code, report.ids("failure")) == (NOT_READY, {"operator-init-container"})
    assert (paddle.code, paddle.ids("failure")) == (0, set())


def test_the_template_that_it_prints_lets_the_workers_in(
    own_cluster: OwnCluster,
    restricted: Namespace,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    assert main(["doctor", "--init-template"]) == 0
    template = tmp_path / "initContainer.yaml"
    template.write_text(capsys.readouterr().out)
    words = ("resnet50", "--framework=pytorch", "--replicas=2")
    assert main(["render", "--with-trainers", *words]) == 0
    job = capsys.readouterr().out
    own_cluster.kill("training-operator")
    try:
        flag = f"--pytorch-init-container-template-file={template}"
        own_cluster.start("training-operator", flag)
        own_cluster.wait_for("training-operator")
        restricted.kubectl("create", "--filename=-", given=job)
        pods = restricted.wait_for_pods(2)
    finally:
        own_cluster.kill("training-operator")
        own_cluster.start("training-operator")
        own_cluster.wait_for("training-operator")
    (init,) = pods["resnet50-example-worker-0"]["spec"]["initContainers"]
    assert init["image"] == "alpine:3.10"
    assert "nslookup resnet50-example-master-0" in init["command"][-1]
    assert "seq 100" in init["command"][-1]


def test_a_quota_that_other_jobs_have_used_up(namespace: Namespace, doctor: Doctor) -> None:
    limit(namespace, {"requests.nvidia.com/gpu": "10"}, "gpus")
    assert doctor(namespace).level("quota") == "ok"
    namespace.create(pytorch_job(workers=0, gpus=4, run_for=None))
    namespace.wait_for_pods(1)
    namespace.wait("jsonpath={.status.used.requests\\.nvidia\\.com/gpu}=4", "resourcequota/gpus")
    report = doctor(namespace)
    assert (report.code, report.ids("failure")) == (NOT_READY, {"quota"})
    assert (
        "requests.nvidia.com/gpu: 4 of 10 used (gpus), 8 are needed"
        in (report.messages("quota")[0])
    )


def test_a_claim_that_is_not_there_or_waits(namespace: Namespace, doctor: Doctor) -> None:
    assert doctor(namespace, "--data=pvc:images").messages("data") == [
        f"There is no volume claim images in {namespace.name}."
    ]
    namespace.create(claim("images", "ReadOnlyMany", "no-such-class"))
    namespace.wait("jsonpath={.status.phase}=Pending", "pvc/images")
    (waits,) = doctor(namespace, "--data=pvc:images/train").messages("data")
    assert waits.startswith("The volume claim images is Pending")


def test_an_admission_policy_that_refuses_our_jobs(namespace: Namespace, doctor: Doctor) -> None:
    named = "'team' in object.metadata.labels"
    with refusing(namespace, "CREATE", "pytorchjobs", named, "a job needs the label team"):
        for _ in range(100):  # until the API server has taken the policy up
            report = doctor(namespace)
            if report.level("job-admission") == "failure":
                break
        (message,) = report.messages("job-admission")
    assert message.startswith("A PyTorchJob of k8sbench is refused:")
    assert "a job needs the label team" in message
