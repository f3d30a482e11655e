"""Programs of a cluster: their arguments and readiness checks.

Pure: paths, ports and certificates come in. Every server listens on the cluster's address and has
the cluster's one server certificate. Only the operator's webhook server has its own and listens on
all addresses, since it has no flag for that.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.cluster import nodes
from tests.harness.cluster.network import LOOPBACK, SERVICES, Place
from tests.harness.cluster.objects import KINDS, OPERATOR_NAMESPACE
from tests.harness.cluster.pki import Pki
from tests.harness.cluster.tools import Programs

# Constant in the operator: it waits for this file, though it reads the ones in its TMPDIR.
_CERTIFICATE_AWAITED = Path("/tmp/k8s-webhook-server/serving-certs/tls.crt")
CERTIFICATES_READ = Path("k8s-webhook-server/serving-certs")
"""Below TMPDIR: where its webhook server takes them from."""
INIT_TEMPLATE = Path(__file__).with_name("init-pytorch.yaml")


@dataclass(frozen=True)
class Component:
    """One program of a cluster."""

    name: str
    argv: tuple[str, ...]
    ready: str
    """URL that answers 200 when it is."""
    environ: dict[str, str] = field(default_factory=dict)
    awaits: Path | None = None
    """A file of the host's that it waits for, whatever is in it."""


@dataclass(frozen=True)
class Layout:
    """Paths, ports and addresses of one cluster."""

    folder: Path
    place: Place
    pki: Pki
    programs: Programs
    has_v1: bool = True
    """True if the training operator (v1) runs."""
    operators: Mapping[str, Programs] = field(default_factory=dict)
    """The other operators that run, by name: see ``operators.py``."""

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self.url("api")

    def url(self, port: str, path: str = "", scheme: str = "https") -> str:
        """Return the URL of one of the servers."""
        return f"{scheme}://{self.place.address}:{self.place.ports[port]}{path}"

    def kubeconfig(self, identity: str) -> Path:
        """Return the path of an identity's kubeconfig."""
        return self.folder / "kubeconfig" / identity

    @property
    def audit_log(self) -> Path:
        """Every request of those that are no component, one JSON object a line."""
        return self.folder / "log" / "audit.jsonl"

    @property
    def operator_tmp(self) -> Path:
        """The operator's TMPDIR."""
        return self.folder / "operator"

    @property
    def node_rules(self) -> Path:
        """The path of kwok's configuration."""
        return self.folder / "kwok.yaml"


def all_of(layout: Layout) -> dict[str, Component]:
    """Return the components by name, in the order of their start."""
    makers = _MAKERS if layout.has_v1 else _MAKERS[:-1]
    return {one.name: one for one in (make(layout) for make in makers)}


def _program(layout: Layout, name: str) -> str:
    return str(layout.programs.program(name))


def _serving(layout: Layout) -> tuple[str, ...]:
    return (
        f"--tls-cert-file={layout.pki.certificate('server')}",
        f"--tls-private-key-file={layout.pki.key('server')}",
    )


def _etcd(layout: Layout) -> Component:
    client = layout.url("etcd", scheme="http")
    peer = f"http://{LOOPBACK}:{layout.place.ports['etcd-peer']}"
    argv = (
        _program(layout, "etcd"),
        f"--data-dir={layout.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",  # its data end with the run
        "--log-level=warn",
    )
    return Component("etcd", argv, layout.url("etcd", "/health", "http"))


def _apiserver(layout: Layout) -> Component:
    pki, place = layout.pki, layout.place
    argv = (
        _program(layout, "kube-apiserver"),
        f"--etcd-servers={layout.url('etcd', scheme='http')}",
        "--bind-address=0.0.0.0",  # also at the address of its service
        f"--advertise-address={place.address}",
        f"--secure-port={place.ports['api']}",
        *_serving(layout),
        f"--client-ca-file={pki.certificate('ca')}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki.folder / 'service-accounts.pub'}",
        f"--service-account-signing-key-file={pki.key('service-accounts')}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--service-cluster-ip-range={SERVICES}",
        "--allow-privileged=true",
        f"--kubelet-client-certificate={pki.certificate('kubelet-client')}",
        f"--kubelet-client-key={pki.key('kubelet-client')}",
        f"--kubelet-certificate-authority={pki.certificate('ca')}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--audit-policy-file={Path(__file__).with_name('audit-policy.yaml')}",
        f"--audit-log-path={layout.audit_log}",
        "--profiling=false",
    )
    return Component("kube-apiserver", argv, layout.url("api", "/readyz"))


def _controller_manager(layout: Layout) -> Component:
    name = "kube-controller-manager"
    argv = (
        *_secured(layout, name, "controller-manager"),
        f"--service-account-private-key-file={layout.pki.key('service-accounts')}",
        f"--root-ca-file={layout.pki.certificate('ca')}",
    )
    return Component(name, argv, layout.url("controller-manager", "/healthz"))


def _scheduler(layout: Layout) -> Component:
    name = "kube-scheduler"
    return Component(name, _secured(layout, name, "scheduler"), layout.url("scheduler", "/healthz"))


def _secured(layout: Layout, name: str, port: str) -> tuple[str, ...]:
    config = layout.kubeconfig(name)
    return (
        _program(layout, name),
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
        f"--bind-address={layout.place.address}",
        f"--secure-port={layout.place.ports[port]}",
        *_serving(layout),
        "--leader-elect=false",
        "--profiling=false",
    )


def _kwok(layout: Layout) -> Component:
    port = layout.place.ports["kwok"]
    argv = (
        _program(layout, "kwok"),
        f"--kubeconfig={layout.kubeconfig('kwok')}",
        f"--config={layout.node_rules}",
        "--enable-crds=Logs",
        "--manage-all-nodes=false",
        "--node-lease-duration-seconds=40",  # as a kubelet
        f"--manage-nodes-with-annotation-selector={nodes.SELECTED}",
        f"--server-address={layout.place.address}:{port}",
        f"--node-ip={layout.place.address}",
        f"--node-port={port}",
        *_serving(layout),
    )
    return Component("kwok", argv, layout.url("kwok", "/healthz"))


def _operator(layout: Layout) -> Component:
    health = f"{layout.place.address}:{layout.place.ports['operator-health']}"
    argv = (
        _program(layout, "training-operator"),
        f"--kubeconfig={layout.kubeconfig('training-operator')}",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address={health}",
        f"--webhook-server-port={layout.place.ports['webhook']}",
        *(f"--enable-scheme={kind.removesuffix('s')}" for kind in KINDS),
        # Its defaults (20, 30, 1) bring up 1.2 jobs of 4 pods a second.
        "--kube-api-qps=400",
        "--kube-api-burst=800",
        "--controller-threads=8",
        f"--pytorch-init-container-template-file={INIT_TEMPLATE}",
    )
    environ = {"MY_POD_NAMESPACE": OPERATOR_NAMESPACE, "TMPDIR": str(layout.operator_tmp)}
    ready = layout.url("operator-health", "/readyz", "http")
    return Component("training-operator", argv, ready, environ, _CERTIFICATE_AWAITED)


_MAKERS = (_etcd, _apiserver, _controller_manager, _scheduler, _kwok, _operator)
