"""Signing in to a real API server, failed sign-ins and rotated credentials."""

import base64
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes import kinds
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
        api.check_answers(retry_s=0.0)
    return wrong.value.cause_id


def check_may_ask(api: Api) -> None:
    assert api.list(kinds.path("Pod", api.place.namespace))[0] == []


def change(kubeconfig: Path, part: str, **changes: Any) -> None:
    """Change the cluster or the user of a kubeconfig; None takes an entry out."""
    config = json.loads(kubeconfig.read_text())
    entries = config[f"{part}s"][0][part] | changes
    config[f"{part}s"][0][part] = {key: one for key, one in entries.items() if one is not None}
    kubeconfig.write_text(json.dumps(config))


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


# -- replaced while k8sbench runs --------------------------------------------------------------


def test_an_authority_file_of_the_kubeconfig(pki: Pki, user: Path, tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_bytes((pki.webhook / "ca.crt").read_bytes())
    keys = {"certificate-authority-data": None, "certificate-authority": str(authority)}
    change(user, "cluster", **keys)
    with opened(kubeconfig=str(user)) as api:
        assert refusal(api) == "api-not-trusted"
        whole = pki.certificate("ca").read_bytes()
        authority.write_bytes(whole)
        check_may_ask(api)
        # One that is half written does not end what works.
        authority.write_bytes(whole[: len(whole) // 2])
        check_may_ask(api)
    with opened(kubeconfig=str(user)) as api:
        assert refusal(api) == "api-not-trusted"


def test_a_client_certificate_inline(pki: Pki, namespace: Namespace, tmp_path: Path) -> None:
    def signed(certificate: Path, key: Path) -> dict[str, str]:
        return {"client-certificate-data": data(certificate), "client-key-data": data(key)}

    other = signed(pki.webhook / "tls.crt", pki.webhook / "tls.key")
    path = users.write_kubeconfig(namespace, tmp_path / "config", other)
    with opened(kubeconfig=str(path)) as api:
        assert refusal(api) == "unauthorized"
        change(path, "user", **signed(pki.certificate("admin"), pki.key("admin")))
        check_may_ask(api)
