"""``k8sbench doctor`` on a real cluster, healthy and with each problem."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from k8sbench.app.packaged_texts import init_template
from k8sbench.cli.main import main
from tests.harness.cluster import audit, operator_process, users
from tests.harness.cluster.jobs import ON_GPUS
from tests.harness.cluster.limits import shorten
from tests.harness.cluster.manifests import limit, refusing
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster

LABELS = {"control-plane": "kubeflow-training-operator"}
QUICK = ("--kube-api-qps=400", "--kube-api-burst=800", "--controller-threads=8")


@contextlib.contextmanager
def operator_deployment(
    namespace: Namespace, *flags: str, template: str | None = None
) -> Iterator[None]:
    """Create a Deployment like upstream's during the block, with a fake pod."""
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "init-container"},
        "data": {"initContainer.yaml": template or ""},
    }
    namespace.create(config, _deployment(flags, has_template=template is not None))
    try:
        namespace.wait("condition=Available", "deployment/training-operator")
        yield
    finally:
        made = ("deployment/training-operator", "configmap/init-container")
        namespace.kubectl("delete", *made, "--wait")


def _deployment(flags: tuple[str, ...], *, has_template: bool) -> dict[str, Any]:
    container = {
        "name": "training-operator",
        "image": "example.invalid/training-operator:v1.9.3",
        "command": ["/manager"],
        "args": list(flags),
        "volumeMounts": [{"name": "init", "mountPath": "/etc/config"}] if has_template else [],
    }
    volume = {"name": "init", "configMap": {"name": "init-container"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "training-operator", "labels": LABELS},
        "spec": {
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {"containers": [container], "volumes": [volume], **ON_GPUS},
            },
        },
    }


NOT_READY = 6
MAKE_NAMESPACE = Callable[..., Namespace]


class Report:
    """Output of one call."""

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
    assert report.ids("warning") == {"gpu-metrics"}
    assert report.level("permissions") == "ok"
    asked = audit.requests(own_cluster.layout.audit_log)
    account = users.account(namespace, "user")
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


@pytest.mark.kubernetes("1.30")
def test_every_trouble_of_a_namespace_is_its_finding(
    restricted: Namespace, new_namespace: MAKE_NAMESPACE, doctor: Doctor
) -> None:
    limit(restricted, {"requests.nvidia.com/gpu": "4"}, "gpus")
    rule = ("CREATE", "pytorchjobs", "'team' in object.metadata.labels", "a job needs the label")
    with operator_deployment(new_namespace()), refusing(restricted, *rule):
        for _ in range(100):  # until the API server has taken the policy up
            report = doctor(restricted, "--data=pvc:images")
            if report.level("job-admission") == "failure":
                break
    # The operator is upstream's: its init container may not run where restricted is enforced.
    troubles = {"data", "job-admission", "operator-init-container", "quota"}
    assert (report.code, report.ids("failure")) == (NOT_READY, troubles)
    said = [report.messages(each)[0] for each in ("data", "job-admission", "quota")]
    assert said[0] == f"There is no volume claim images in {restricted.name}."
    assert said[1].startswith("A PyTorchJob of k8sbench is refused:")
    assert "a job needs the label" in said[1]
    assert "requests.nvidia.com/gpu: 0 of 4 used (gpus), 8 are needed" in said[2]


def test_the_operator_of_a_namespace_is_shown_with_its_age_and_objects_are_what_users_need(
    namespace: Namespace, doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace.kubectl("create", "serviceaccount", "reader")
    reader = str(users.sign_in(namespace, "reader", tmp_path / "reader.kubeconfig"))
    assert doctor(namespace).level("k8sbench-operator") == "ok"
    (lacks,) = set(doctor.asked("--kubeconfig", reader).messages("k8sbench-operator"))
    assert "leases.coordination.k8s.io" in lacks
    users.grant(namespace, "reader", "leases", [operator_process.LEASES])
    operator = operator_process.make(namespace, tmp_path / "machine")
    with operator.collecting() as running:
        running.until("info collecting\n")
        report = doctor(namespace)
        assert report.level("k8sbench-operator") == "ok"
        assert report.level("permissions") == "ok"
        asked = doctor.asked("--kubeconfig", reader).messages("permissions")
        assert any("create, patch, delete benchmarks.k8sbench.io" in each for each in asked)
        assert not any("create, patch, delete pytorchjobs" in each for each in asked)
        operator_process.end(running)
    shorten(monkeypatch, lease_alive=0.0)
    silent = doctor(namespace)
    assert (silent.code, silent.level("k8sbench-operator")) == (NOT_READY, "failure")
