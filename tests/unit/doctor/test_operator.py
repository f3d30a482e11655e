"""Facts from the operator's Deployment."""

import pytest
import yaml

from k8sbench.app import packaged_texts
from k8sbench.diagnose.preflight import deployment as preflight_deployment
from k8sbench.model.operators import TRAINING_OPERATOR
from tests.unit.doctor.clusters import deployment


def test_flags_may_stand_in_the_command_and_of_several_containers_the_operator_s_is_read() -> None:
    found = deployment()
    containers = found["spec"]["template"]["spec"]["containers"]
    containers[0]["command"] = ["/manager", "--gang-scheduler-name=volcano"]
    containers.insert(0, {"name": "proxy", "args": ["--gang-scheduler-name=none"]})
    assert preflight_deployment.flags(found)["gang-scheduler-name"] == "volcano"


def test_the_value_of_a_flag_may_be_the_next_word() -> None:
    found = preflight_deployment.flags(deployment("--leader-elect", "--file", "/a/b", "--qps=5"))
    assert found == {"leader-elect": "true", "file": "/a/b", "qps": "5"}


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
    assert preflight_deployment.version(deployment(image=image), TRAINING_OPERATOR) == version


def test_our_template_is_what_the_operator_reads() -> None:
    filled = packaged_texts.init_template()
    for name in ("InitContainerImage", "MaxTries", "MasterAddr"):
        assert f"{{{{.{name}}}}}" in filled
        filled = filled.replace(f"{{{{.{name}}}}}", "5")
    (container,) = yaml.safe_load(filled)
    assert container["name"] == "init-pytorch"
