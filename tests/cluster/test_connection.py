"""Every way to sign in to a real API server, and every way that leads nowhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client import connection
from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.model.errors import Unreachable
from tests.harness.cluster import users
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.wire import Wire

Kubeconfig = Callable[..., Path]


@pytest.fixture
def token(user: Path) -> str:
    return str(json.loads(user.read_text())["users"][0]["user"]["token"])


@pytest.fixture
def kubeconfig(namespace: Namespace, tmp_path: Path) -> Kubeconfig:
    """Write kubeconfigs for users who sign in in some way, to a cluster as it is or changed."""

    def write(user: dict[str, Any], **cluster: Any) -> Path:
        path = users.write_kubeconfig(namespace, tmp_path / "config", user)
        config = json.loads(path.read_text())
        config["clusters"][0]["cluster"].update(cluster)
        path.write_text(json.dumps(config))
        return path

    return write


def asked(path: Path, **options: Any) -> int:
    """Ask something that needs a permission, once, and count what there is."""
    api = connect(kubeconfig=str(path), **options)
    try:
        return len(api.list(kinds.path("Pod", api.place.namespace))[0])
    finally:
        api.close()


def refusal(path: Path, seconds: float = 5.0) -> Unreachable:
    """Say why the server does not answer."""
    api = connect(kubeconfig=str(path))
    with pytest.raises(Unreachable) as wrong:
        connection.check_answers(api, seconds=seconds)
    api.close()
    return wrong.value


def test_a_plugin_s_certificate(own_cluster: OwnCluster, kubeconfig: Kubeconfig) -> None:
    pki = own_cluster.layout.pki
    version = "client.authentication.k8s.io/v1"
    pair = {
        "clientCertificateData": pki.certificate("admin").read_text(),
        "clientKeyData": pki.key("admin").read_text(),
    }
    answer = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": pair})
    plugin = {
        "apiVersion": version,
        "command": sys.executable,
        "args": ["-c", f"print({answer!r})"],
        "interactiveMode": "Never",
    }
    assert asked(kubeconfig({"exec": plugin})) == 0


def test_a_server_name_that_is_not_the_host_s(kubeconfig: Kubeconfig, token: str) -> None:
    path = kubeconfig({"token": token}, **{"tls-server-name": "kubernetes.default.svc"})
    assert asked(path) == 0
    wrong = refusal(kubeconfig({"token": token}, **{"tls-server-name": "other.example"}))
    assert wrong.cause_id == "api-not-trusted"


def test_a_server_that_is_not_to_be_verified(kubeconfig: Kubeconfig, token: str) -> None:
    path = kubeconfig({"token": token}, **{"insecure-skip-tls-verify": True})
    config = json.loads(path.read_text())
    config["clusters"][0]["cluster"].pop("certificate-authority-data")
    path.write_text(json.dumps(config))
    assert asked(path) == 0


def test_a_proxy_is_used_unless_it_is_to_be_left_out(own_cluster: OwnCluster, user: Path) -> None:
    server = own_cluster.layout.server
    address = own_cluster.layout.place.address
    if own_cluster.layout.place.link is None:
        pytest.skip("nothing on the loopback address is reached by a proxy")
    proxy = Wire(server, connect=True)
    environ = {"HTTPS_PROXY": f"http://{proxy.address}"}
    assert asked(user, environ=environ) == 0
    assert proxy.connections == 1
    assert asked(user, environ={**environ, "NO_PROXY": f"{address}/32"}) == 0
    assert proxy.connections == 1
    proxy.close()
