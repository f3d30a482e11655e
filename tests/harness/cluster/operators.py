"""Kubeflow Trainer v2 with JobSet, and Kueue, as each ships.

They run outside the cluster, as the training operator of v1 does, and as users with their own
roles. The cluster's authority signs the certificates of their webhooks. Kueue does not start
without its own rotation of certificates, and finds here what the rotation would have made.
"""

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
from tests.harness.cluster.tools import OPERATORS

_KUEUE_SECRET = "kueue-webhook-server-cert"
_KUEUE_JOBS = ("jobset", "trainjob", "pytorchjob", "paddlejob")
_ROLES = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Operator:
    """One of them."""

    name: str
    program: str
    group: str
    """API group of its types; part of its configuration's group."""
    version: str
    """API version of its types."""
    types: frozenset[str]
    namespace: str
    service: str
    """Service of its webhook."""
    config_version: str = "v1alpha1"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Additional settings of its configuration."""
    secret: str | None = None
    """Secret of the certificates that it rotates itself."""
    hooks: frozenset[str] | None = None
    """Kinds that its webhooks are installed for; None: all it ships."""
    converted: frozenset[str] = frozenset()
    """Types with a webhook for conversion, which a patch beside the type's file adds."""

    @property
    def files(self) -> list[str]:
        """The files that it ships with, its types first."""
        own = [name for name in OPERATORS.files if name.startswith(self.name)]
        return sorted(own, key=lambda name: "-crd" not in name)

    @property
    def host(self) -> str:
        """The name in the certificate of its webhook."""
        return f"{self.service}.{self.namespace}.svc"

    @property
    def user(self) -> str:
        """Return its user name; a service account's name may be too long."""
        return f"k8sbench:{self.name}"


ALL = (
    Operator(
        name="jobset",
        program="jobset",
        group="jobset.x-k8s.io",
        version="v1alpha2",
        types=frozenset({"jobsets"}),
        namespace="jobset-system",
        service="jobset-webhook-service",
        settings={"internalCertManagement": {"enable": False}},
    ),
    Operator(
        name="trainer",
        program="trainer-controller-manager",
        group="trainer.kubeflow.org",
        version="v1alpha1",
        types=frozenset({"trainjobs", "trainingruntimes", "clustertrainingruntimes"}),
        namespace="kubeflow-system",
        service="kubeflow-trainer-controller-manager",
        settings={"certManagement": {"enable": False}},
    ),
    Operator(
        name="kueue",
        program="kueue",
        group="kueue.x-k8s.io",
        version="v1beta2",
        types=frozenset({"clusterqueues", "localqueues", "resourceflavors", "workloads"}),
        namespace="kueue-system",
        service="kueue-webhook-service",
        config_version="v1beta2",
        settings={
            "namespace": "kueue-system",
            "internalCertManagement": {
                "enable": True,
                "webhookServiceName": "kueue-webhook-service",
                "webhookSecretName": _KUEUE_SECRET,
            },
            # Kubernetes 1.33 does not serve the last four's types; the first writes to /visibility.
            "featureGates": dict.fromkeys(
                (
                    "VisibilityOnDemand",
                    "KueueDRAIntegration",
                    "KueueDRAIntegrationExtendedResource",
                    "KueueDRAIntegrationPartitionableDevices",
                    "KueueDRAIntegrationConsumableCapacity",
                ),
                False,
            ),
            "integrations": {
                "frameworks": [
                    "jobset.x-k8s.io/jobset",
                    "trainer.kubeflow.org/trainjob",
                    "kubeflow.org/pytorchjob",
                    "kubeflow.org/paddlejob",
                ]
            },
        },
        secret=_KUEUE_SECRET,
        # The others stand before every pod, Job and Deployment of the cluster.
        hooks=frozenset({*_KUEUE_JOBS, "clusterqueue", "cohort", "resourceflavor", "workload"}),
        converted=frozenset(
            {"clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads"}
        ),
    ),
)
NAMES = tuple(one.name for one in ALL)


def _running(layout: Layout) -> list[Operator]:
    return [one for one in ALL if one.name in layout.operators]


def types(layout: Layout) -> dict[str, set[str]]:
    """Return the types to serve before operators start, by group and version."""
    return {f"{one.group}/{one.version}": {*one.types} for one in _running(layout)}


def objects(layout: Layout) -> Iterator[dict[str, Any]]:
    """Make what their manifests install, but for the Deployments and service accounts."""
    for one in _running(layout):
        place = {"name": one.service, "namespace": one.namespace}
        port = layout.place.ports[f"{one.name}-webhook"]
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one.namespace}}
        # The API server resolves an ExternalName itself: no proxy of services is needed.
        spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
        yield {"apiVersion": "v1", "kind": "Service", "metadata": place, "spec": spec}
        if one.secret is not None:
            yield _secret(layout, one)
        for name in one.files:
            for shipped in yaml.load_all(
                layout.operators[one.name].file(name).read_text(), Loader=yaml.CSafeLoader
            ):
                yield from _installed(layout, one, shipped)


def _installed(layout: Layout, one: Operator, shipped: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Change what an operator ships as its own kustomization would."""
    kind, metadata = shipped["kind"], shipped["metadata"]
    if kind in ("ClusterRole", "Role"):
        metadata["name"] = one.name
        if kind == "Role":
            metadata["namespace"] = one.namespace
        yield _binding(one, kind)
    elif kind == "CustomResourceDefinition":
        if shipped["spec"]["names"]["plural"] in one.converted:
            client = _client(layout, one, "/convert")
            webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
            shipped["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    else:
        # Kueue looks for its own by these names.
        metadata["name"] = f"{one.name}-{metadata['name']}"
        shipped["webhooks"] = [
            hook
            for hook in shipped["webhooks"]
            if one.hooks is None or hook["name"].split(".")[0][1:] in one.hooks
        ]
        for hook in shipped["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = _client(layout, one, path)
            if path.endswith("v1-pod"):  # as its own patch has it
                label = {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}
                hook["objectSelector"] = {"matchExpressions": [label]}
    yield shipped


def _client(layout: Layout, one: Operator, path: str) -> dict[str, Any]:
    port = layout.place.ports[f"{one.name}-webhook"]
    service = {"name": one.service, "namespace": one.namespace, "port": port, "path": path}
    rotated = one.secret is not None
    authority = _certificates(layout, one) / "ca.crt" if rotated else layout.pki.certificate("ca")
    return {"caBundle": _encoded(authority), "service": service}


def _secret(layout: Layout, one: Operator) -> dict[str, Any]:
    names = ("ca.crt", "ca.key", "tls.crt", "tls.key")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": one.secret, "namespace": one.namespace},
        "data": {name: _encoded(_certificates(layout, one) / name) for name in names},
    }


def _encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


def _binding(one: Operator, kind: str) -> dict[str, Any]:
    metadata = {"name": one.name} | ({"namespace": one.namespace} if kind == "Role" else {})
    return {
        "apiVersion": f"{_ROLES}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _ROLES, "kind": kind, "name": one.name},
        "subjects": [{"kind": "User", "name": one.user}],
    }


def write_files(layout: Layout) -> None:
    """Make their certificates, kubeconfigs and configurations."""
    for one in _running(layout):
        pki.sign(layout.pki, one.name, Subject(one.user, use="clientAuth"))
        kubeconfig.of_identity(layout.kubeconfig(one.name), layout.server, layout.pki, one.name)
        served = f"{one.name}-webhook"
        certificates = _certificates(layout, one)
        certificates.mkdir(parents=True)
        if one.secret is not None:
            pki.rotated(certificates, one.name, one.host)
        else:
            subject = Subject(one.host, alternatives=[f"DNS:{one.host}"], use="serverAuth")
            pki.sign(layout.pki, served, subject)
            (certificates / "tls.crt").write_bytes(layout.pki.certificate(served).read_bytes())
            (certificates / "tls.key").write_bytes(layout.pki.key(served).read_bytes())
        webhook: dict[str, Any] = {"port": layout.place.ports[served]}
        if one.name != "trainer":  # which knows no such setting, and reads below TMPDIR
            webhook["certDir"] = str(certificates)
        config = {
            "apiVersion": f"config.{one.group}/{one.config_version}",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f":{layout.place.ports[one.name + '-health']}"},
            "webhook": webhook,
            **one.settings,
        }
        (_folder(layout, one) / "config.json").write_text(json.dumps(config))


def components(layout: Layout) -> dict[str, Component]:
    """Return the programs of those that run, by name."""
    return {one.name: _program(layout, one) for one in _running(layout)}


def _program(layout: Layout, one: Operator) -> Component:
    argv = (
        str(layout.operators[one.name].program(one.program)),
        f"--kubeconfig={layout.kubeconfig(one.name)}",
        f"--config={_folder(layout, one) / 'config.json'}",
    )
    ready = layout.url(f"{one.name}-health", "/readyz", "http")
    return Component(one.name, argv, ready, {"TMPDIR": str(_folder(layout, one))})


def _folder(layout: Layout, one: Operator) -> Path:
    return layout.folder / one.name


def _certificates(layout: Layout, one: Operator) -> Path:
    return _folder(layout, one) / CERTIFICATES_READ
