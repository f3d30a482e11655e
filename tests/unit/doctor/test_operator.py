"""What the operator's Deployment says of it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from k8sbench.adapters.kubernetes import preflight
from k8sbench.diagnose.preflight import operator_checks
from tests.harness.cluster.components import INIT_TEMPLATE
from tests.unit.doctor.clusters import deployment

UPSTREAM = """
- name: init-pytorch
  image: {{.InitContainerImage}}
  imagePullPolicy: IfNotPresent
  command: ['sh', '-c', 'nslookup {{.MasterAddr}}']
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--kube-api-qps=50"], {"kube-api-qps": "50"}),
        (["--kube-api-qps", "50"], {"kube-api-qps": "50"}),
        (["-kube-api-qps=50"], {"kube-api-qps": "50"}),
        (["--leader-elect", "--kube-api-qps=50"], {"leader-elect": "true", "kube-api-qps": "50"}),
        (["/manager"], {}),
    ],
)
def test_flags_are_read_as_go_reads_them(words: list[str], expected: dict[str, str]) -> None:
    assert operator_checks.flags(deployment(*words)) == expected


def test_flags_may_stand_in_the_command() -> None:
    found = deployment()
    container = found["spec"]["template"]["spec"]["containers"][0]
    container["command"] = ["/manager", "--gang-scheduler-name=volcano"]
    assert operator_checks.gang_scheduler(found) == "volcano"


def test_of_several_containers_the_operator_s_is_read() -> None:
    found = deployment("--kube-api-qps=50")
    sidecar = {"name": "proxy", "args": ["--kube-api-qps=1"]}
    found["spec"]["template"]["spec"]["containers"].insert(0, sidecar)
    assert operator_checks.number(found, "kube-api-qps", 20) == 50


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("ghcr.io/kubeflow/training-v1/training-operator:v1-d6eb98e", None),
        ("kubeflow/training-operator:v1.9.3", (1, 9)),
        ("registry:5000/training-operator", None),
        ("registry:5000/training-operator:1.8.1", (1, 8)),
    ],
)
def test_an_image_s_tag_may_tell_the_version(image: str, version: tuple[int, int] | None) -> None:
    assert operator_checks.version(deployment(image=image)) == version


def test_a_template_is_found_where_a_volume_puts_the_file() -> None:
    assert operator_checks.init_template_source(deployment()) == operator_checks.TemplateSource(
        "init-container", "initContainer.yaml"
    )


@pytest.mark.parametrize(
    ("mount", "items", "args", "place"),
    [
        ({"mountPath": "/etc/other"}, [], [], None),
        (
            {"mountPath": "/etc/config/initContainer.yaml", "subPath": "template"},
            [],
            [],
            operator_checks.TemplateSource("init-container", "template"),
        ),
        (
            {"mountPath": "/init/"},
            [{"key": "mine", "path": "t.yaml"}],
            ["--pytorch-init-container-template-file=/init/t.yaml"],
            operator_checks.TemplateSource("init-container", "mine"),
        ),
    ],
)
def test_a_template_is_found_by_mount_key_and_flag(
    mount: dict[str, Any],
    items: list[Any],
    args: list[str],
    place: operator_checks.TemplateSource | None,
) -> None:
    found = deployment(*args)
    pod = found["spec"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"] = [{"name": "init", **mount}]
    pod["volumes"][0]["configMap"]["items"] = items
    assert operator_checks.init_template_source(found) == place


@pytest.mark.parametrize(
    "template", [preflight.init_template(), INIT_TEMPLATE.read_text()], ids=["ours", "the-tests'"]
)
def test_a_template_with_a_security_context_passes(template: str) -> None:
    assert operator_checks.unrestricted(template) is None


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (None, "has no security context"),
        (UPSTREAM, "init-pytorch may escalate its privileges"),
        (
            UPSTREAM + "  securityContext: {allowPrivilegeEscalation: false}\n",
            "init-pytorch does not drop all capabilities",
        ),
        ("- {", "cannot be read"),
        ("just words", "cannot be read"),
        ("", "cannot be read"),
    ],
)
def test_any_other_template_does_not(template: str | None, why: str) -> None:
    assert why in str(operator_checks.unrestricted(template))


def test_our_template_is_what_the_operator_reads() -> None:
    filled = preflight.init_template()
    for name in ("InitContainerImage", "MaxTries", "MasterAddr"):
        assert f"{{{{.{name}}}}}" in filled
        filled = filled.replace(f"{{{{.{name}}}}}", "5")
    (container,) = yaml.safe_load(filled)
    assert container["name"] == "init-pytorch"
