"""What is replaced while k8sbench runs is read anew: an authority, a client's certificate."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client import connection
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.model.errors import Unreachable
from tests.harness.cluster import users
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster
from tests.harness.cluster.pki import Pki


@pytest.fixture
def pki(own_cluster: OwnCluster) -> Pki:
    """The cluster's certificates; its operator's webhook has those of an authority of its own."""
    return own_cluster.layout.pki


@contextlib.contextmanager
def opened(**options: Any) -> Iterator[Api]:
    with contextlib.closing(connect(**options)) as api:
        yield api


def refusal(api: Api) -> str | None:
    with pytest.raises(Unreachable) as wrong:
        connection.check_answers(api)
    return wrong.value.cause_id


def check_may_ask(api: Api) -> None:
    assert api.list(kinds.path("Pod", api.place.namespace))[0] == []


def write(kubeconfig: Path, part: str, **changes: Any) -> None:
    """Change the cluster or the user of a kubeconfig; None takes an entry out."""
    config = json.loads(kubeconfig.read_text())
    entries = config[f"{part}s"][0][part] | changes
    config[f"{part}s"][0][part] = {key: one for key, one in entries.items() if one is not None}
    kubeconfig.write_text(json.dumps(config))


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_an_authority_in_a_file_that_the_kubeconfig_names(
    pki: Pki, user: Path, tmp_path: Path
) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_bytes((pki.webhook / "ca.crt").read_bytes())
    keys = {"certificate-authority-data": None, "certificate-authority": str(authority)}
    write(user, "cluster", **keys)
    with opened(kubeconfig=str(user)) as api:
        assert refusal(api) == "api-not-trusted"
        authority.write_bytes(pki.certificate("ca").read_bytes())
        check_may_ask(api)


def test_an_authority_of_a_pod_s_service_account(
    pki: Pki, user: Path, namespace: Namespace, tmp_path: Path
) -> None:
    account = tmp_path / "account"
    account.mkdir()
    config = json.loads(user.read_text())
    (account / "token").write_text(config["users"][0]["user"]["token"])
    (account / "namespace").write_text(namespace.name)
    (account / "ca.crt").write_bytes((pki.webhook / "ca.crt").read_bytes())
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    environ = {
        "HOME": str(tmp_path / "nobody"),
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }
    with opened(environ=environ, service_account=account) as api:
        assert refusal(api) == "api-not-trusted"
        (account / "ca.crt").write_bytes(pki.certificate("ca").read_bytes())
        check_may_ask(api)


def test_a_client_s_certificate_in_the_kubeconfig(
    pki: Pki, namespace: Namespace, tmp_path: Path
) -> None:
    def signed(certificate: Path, key: Path) -> dict[str, str]:
        return {"client-certificate-data": data(certificate), "client-key-data": data(key)}

    other = signed(pki.webhook / "tls.crt", pki.webhook / "tls.key")
    path = users.write_kubeconfig(namespace, tmp_path / "config", other)
    with opened(kubeconfig=str(path)) as api:
        assert refusal(api) == "unauthorized"
        write(path, "user", **signed(pki.certificate("admin"), pki.key("admin")))
        check_may_ask(api)


def test_an_authority_that_is_half_written_does_not_end_what_works(
    pki: Pki, user: Path, tmp_path: Path
) -> None:
    authority = tmp_path / "ca.crt"
    whole = pki.certificate("ca").read_bytes()
    authority.write_bytes(whole)
    keys = {"certificate-authority-data": None, "certificate-authority": str(authority)}
    write(user, "cluster", **keys)
    with opened(kubeconfig=str(user)) as api:
        check_may_ask(api)
        authority.write_bytes(whole[: len(whole) // 2])
        check_may_ask(api)
    with opened(kubeconfig=str(user)) as api:
        assert refusal(api) == "api-not-trusted"
