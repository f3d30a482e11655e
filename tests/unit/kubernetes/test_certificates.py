"""A certificate that cannot be used or is not trusted is named, with what to do."""

from __future__ import annotations

import base64
import contextlib
import re
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes.client.connection import check_answers, connect
from k8sbench.model.errors import Unreachable
from tests.unit.kubernetes import servers
from tests.unit.kubernetes.servers import answer, saying, serving

GOOD = ("20200101000000Z", "20990101000000Z")
EXPIRED = ("20200101000000Z", "20210203040506Z")
LATER = ("20800101000000Z", "20990101000000Z")
CLOCK = r"this machine's clock shows \d{4}-\d\d-\d\d \d\d:\d\d UTC"


def data(*files: Path) -> str:
    return base64.b64encode(b"".join(file.read_bytes() for file in files)).decode()


def refusal(path: Path) -> Unreachable:
    """Say why the server does not answer."""
    with (
        contextlib.closing(connect(kubeconfig=str(path), environ={})) as api,
        pytest.raises(Unreachable) as refused,
    ):
        check_answers(api)
    assert refused.value.exit_code == 6
    return refused.value


def assert_says(error: Unreachable, pattern: str) -> None:
    assert re.search(pattern, str(error)), error


@pytest.mark.parametrize(
    ("dates", "sentence"),
    [
        (EXPIRED, f"its certificate: certificate has expired, and {CLOCK}"),
        (LATER, f"its certificate: certificate is not yet valid, and {CLOCK}"),
    ],
    ids=["expired", "not yet valid"],
)
def test_a_server_s(tmp_path: Path, dates: tuple[str, str], sentence: str) -> None:
    pair = servers.certificate(tmp_path / "pki", *dates)
    with serving(saying(answer()), tls=servers.tls_of(pair)) as address:
        trusted: dict[str, Any] = {"certificate-authority-data": data(pair[0])}
        path = servers.kubeconfig(tmp_path / "config", f"https://{address}", **trusted)
        refused = refusal(path)
    assert refused.cause_id == "api-not-trusted"
    assert_says(refused, rf"of context lab is not trusted; {sentence}\.")


def test_an_authority_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"certificate-authority-data": "bm8="}
    path = servers.kubeconfig(tmp_path / "config", "https://127.0.0.1:1", **nothing)
    assert_says(refusal(path), "is not trusted; the certificate authority that is given holds")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"client-key": "gone.pem"}, "gone.pem, the client-key of .* cannot be read: no such file"),
        (
            {"client-key-data": "bm8="},
            "our client certificate cannot be used: it is not a certificat",
        ),
        ({"client-key": "other/key.pem"}, "cannot be used: the key is another certificate's"),
    ],
)
def test_a_client_s_that_cannot_be_used(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    certificate, key = servers.certificate(tmp_path / "user", *GOOD)
    servers.certificate(tmp_path / "other", *GOOD)
    user = {"client-certificate": str(certificate), "client-key": str(key), **changes}
    path = servers.kubeconfig(tmp_path / "config", "https://127.0.0.1:1", user)
    assert_says(refusal(path), sentence)
