"""Objects installed into the empty API server: types, role, webhook."""

import base64
from pathlib import Path
from typing import Any

import yaml

from tests.harness.cluster.pki import Pki
from tests.harness.cluster.tools import Programs
from tests.tiers import ROOT

OPERATOR_NAMESPACE = "kubeflow"
KINDS = ("pytorchjobs", "paddlejobs")
"""The kinds that are installed, of the six that the operator knows."""
TYPES = {"kubeflow.org/v1": {*KINDS}, "kwok.x-k8s.io/v1alpha1": {"logs"}}
"""All types that are installed, by group."""
# Constants of the operator: it looks for them by these names.
_WEBHOOKS = "validator.training-operator.kubeflow.org"
_SECRET = "training-operator-webhook-cert"
_SERVICE = "training-operator"


def type_files(programs: Programs, *, has_v1: bool) -> list[Path]:
    """Return the files of the types, too large to be read here for nothing."""
    kinds = KINDS if has_v1 else ()
    own = ROOT / "charts/crds/benchmarks.k8sbench.io.yaml"
    of_operators = (programs.file(f"crd-{kind}.yaml") for kind in kinds)
    return [*of_operators, programs.file("crd-logs.yaml"), own]


def operator(programs: Programs, pki: Pki, webhook_port: int) -> list[dict[str, Any]]:
    """Make what its own manifests install, but for the Deployment: it runs outside."""
    namespaced = {"namespace": OPERATOR_NAMESPACE}
    account, role, binding, webhooks = (
        yaml.safe_load(programs.file(f"operator-{name}.yaml").read_text())
        for name in ("account", "role", "binding", "webhook")
    )
    account["metadata"] |= namespaced
    for subject in binding["subjects"]:
        subject.update(namespaced)
    webhooks["metadata"]["name"] = _WEBHOOKS
    webhooks["webhooks"] = [
        webhook
        for webhook in webhooks["webhooks"]
        if set(webhook["rules"][0]["resources"]) & {*KINDS}
    ]
    for webhook in webhooks["webhooks"]:
        service = webhook["clientConfig"]["service"]
        service.update(name=_SERVICE, port=webhook_port, **namespaced)
    # Given in advance, so that nobody waits for the operator to make them.
    files = {name: pki.webhook / name for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR_NAMESPACE}},
        account,
        role,
        binding,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": _SECRET, **namespaced},
            "data": {
                name: base64.b64encode(file.read_bytes()).decode() for name, file in files.items()
            },
        },
        # The API server resolves an ExternalName itself: no proxy of services is needed.
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": _SERVICE, **namespaced},
            "spec": {
                "type": "ExternalName",
                "externalName": "localhost",
                "ports": [{"port": webhook_port}],
            },
        },
        webhooks,
    ]
