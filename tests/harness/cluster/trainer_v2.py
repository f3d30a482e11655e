"""Kubeflow Trainer v2 and JobSet, which it needs, with the types, roles and webhooks they ship.

They run outside the cluster, as the training operator of v1 does, and as users with their own
roles. The cluster's authority signs the certificates of their webhooks.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.harness.cluster import kubeconfig, pki
from tests.harness.cluster.components import CERTIFICATES_READ, Component, Layout
from tests.harness.cluster.pki import Subject
from tests.harness.cluster.tools import TRAINER

TYPES = {
    "jobset.x-k8s.io/v1alpha2": {"jobsets"},
    "trainer.kubeflow.org/v1alpha1": {"trainjobs", "trainingruntimes", "clustertrainingruntimes"},
}
"""All types that are installed, by group."""


@dataclass(frozen=True)
class Operator:
    """One of the two."""

    name: str
    program: str
    group: str
    namespace: str
    service: str
    """Of its webhook."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of its configuration, beside what both have."""

    @property
    def files(self) -> list[str]:
        """The files that it ships with, its types first."""
        own = [name for name in TRAINER.files if name.startswith(self.name)]
        return sorted(own, key=lambda name: "-crd" not in name)


OPERATORS = (
    Operator(
        name="jobset",
        program="jobset",
        group="jobset.x-k8s.io",
        namespace="jobset-system",
        service="jobset-webhook-service",
        settings={"internalCertManagement": {"enable": False}},
    ),
    Operator(
        name="trainer",
        program="trainer-controller-manager",
        group="trainer.kubeflow.org",
        namespace="kubeflow-system",
        service="kubeflow-trainer-controller-manager",
        settings={"certManagement": {"enable": False}},
    ),
)


def objects(layout: Layout) -> Iterator[dict[str, Any]]:
    """Make what their manifests install, but for the Deployments and service accounts."""
    authority = base64.b64encode(layout.pki.certificate("ca").read_bytes()).decode()
    for one in OPERATORS if layout.trainer is not None else ():
        assert layout.trainer is not None
        port = layout.place.ports[f"{one.name}-webhook"]
        place = {"name": one.service, "namespace": one.namespace}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one.namespace}}
        # The API server resolves an ExternalName itself: no proxy of services is needed.
        spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
        yield {"apiVersion": "v1", "kind": "Service", "metadata": place, "spec": spec}
        for name in one.files:
            for shipped in yaml.safe_load_all(layout.trainer.file(name).read_text()):
                if shipped["kind"] == "ClusterRole":
                    shipped["metadata"]["name"] = one.name
                    yield _binding(one)
                if "webhooks" in shipped:
                    shipped["metadata"]["name"] = f"{one.name}-{shipped['kind'].lower()[:6]}"
                for hook in shipped.get("webhooks", ()):
                    path = hook["clientConfig"]["service"]["path"]
                    service = {**place, "port": port, "path": path}
                    hook["clientConfig"] = {"caBundle": authority, "service": service}
                    if path.endswith("v1-pod"):  # as its own patch has it
                        label = {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}
                        hook["objectSelector"] = {"matchExpressions": [label]}
                yield shipped


def _binding(one: Operator) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": one.name},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": one.name,
        },
        "subjects": [{"kind": "User", "name": _user(one)}],
    }


def _user(one: Operator) -> str:
    return f"k8sbench:{one.name}"


def write_files(layout: Layout) -> None:
    """Make their certificates, kubeconfigs and configurations."""
    for one in OPERATORS if layout.trainer is not None else ():
        host = f"{one.service}.{one.namespace}.svc"
        pki.sign(layout.pki, one.name, Subject(_user(one), use="clientAuth"))
        kubeconfig.write(layout.kubeconfig(one.name), layout.server, layout.pki, one.name)
        served = f"{one.name}-webhook"
        pki.sign(layout.pki, served, Subject(host, alternatives=[f"DNS:{host}"], use="serverAuth"))
        certificates = _folder(layout, one) / CERTIFICATES_READ
        certificates.mkdir(parents=True)
        (certificates / "tls.crt").write_bytes(layout.pki.certificate(served).read_bytes())
        (certificates / "tls.key").write_bytes(layout.pki.key(served).read_bytes())
        config = {
            "apiVersion": f"config.{one.group}/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f":{layout.place.ports[one.name + '-health']}"},
            "webhook": {"port": layout.place.ports[served]},
            **one.settings,
        }
        (_folder(layout, one) / "config.json").write_text(json.dumps(config))


def components(layout: Layout) -> dict[str, Component]:
    """Return their programs by name; none where they are not to run."""
    return {} if layout.trainer is None else {one.name: _program(layout, one) for one in OPERATORS}


def _program(layout: Layout, one: Operator) -> Component:
    assert layout.trainer is not None
    argv = (
        str(layout.trainer.program(one.program)),
        f"--kubeconfig={layout.kubeconfig(one.name)}",
        f"--config={_folder(layout, one) / 'config.json'}",
    )
    ready = layout.url(f"{one.name}-health", "/readyz", "http")
    return Component(one.name, argv, ready, {"TMPDIR": str(_folder(layout, one))})


def _folder(layout: Layout, one: Operator) -> Path:
    return layout.folder / one.name
