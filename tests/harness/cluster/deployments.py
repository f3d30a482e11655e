"""The operator's Deployment as objects; the operator itself runs on the host."""

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.harness.cluster.jobs import ON_GPUS
from tests.harness.cluster.namespace import Namespace

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
