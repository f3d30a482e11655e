"""A certificate that is not valid now is named with its dates and with this machine's time."""

from __future__ import annotations

import base64
import contextlib
import datetime
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes.client import validity
from k8sbench.adapters.kubernetes.client.connection import check_answers, connect
from k8sbench.model.errors import Unreachable
from tests.unit.kubernetes import servers
from tests.unit.kubernetes.servers import answer, saying, serving

GOOD = ("20200101000000Z", "20990101000000Z")
EXPIRED = ("20200101000000Z", "20210203040506Z")
LATER = ("20800101000000Z", "20990101000000Z")
CLOCK = r"this machine's clock shows \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


def data(*files: Path) -> str:
    return base64.b64encode(b"".join(file.read_bytes() for file in files)).decode()


def refusal(path: Path, *, ahead: float = 0.0) -> Unreachable:
    """Say why the server does not answer, by a clock that is ahead."""
    with contextlib.closing(connect(kubeconfig=str(path), environ={})) as api:
        ours = api.sender.clock
        api.sender.clock = lambda: ours() + ahead
        with pytest.raises(Unreachable) as wrong:
            check_answers(api)
    assert wrong.value.exit_code == 6
    return wrong.value


def assert_says(wrong: Unreachable, pattern: str) -> None:
    with pytest.raises(Unreachable, match=pattern):
        raise wrong


@pytest.mark.parametrize(
    ("dates", "sentence"),
    [
        (EXPIRED, f"its certificate expired at 2021-02-03 04:05:06 UTC, and {CLOCK}"),
        (LATER, f"its certificate is valid only from 2080-01-01 00:00:00 UTC, and {CLOCK}"),
    ],
    ids=["expired", "not yet valid"],
)
def test_a_server_s(tmp_path: Path, dates: tuple[str, str], sentence: str) -> None:
    pair = servers.certificate(tmp_path / "pki", *dates)
    with serving(saying(answer()), tls=servers.tls_of(pair)) as address:
        trusted: dict[str, Any] = {"certificate-authority-data": data(pair[0])}
        path = servers.kubeconfig(tmp_path / "config", f"https://{address}", **trusted)
        wrong = refusal(path)
    assert wrong.cause_id == "api-certificate-dates"
    assert_says(wrong, rf"of context lab is not trusted; {sentence}\.")
    assert "this machine's clock" in wrong.action


def test_a_server_s_that_is_of_another_authority_is_not_blamed_on_its_dates(tmp_path: Path) -> None:
    pair = servers.certificate(tmp_path / "pki", *GOOD)
    with serving(saying(answer()), tls=servers.tls_of(pair)) as address:
        wrong = refusal(servers.kubeconfig(tmp_path / "config", f"https://{address}"))
    assert wrong.cause_id == "api-not-trusted"
    assert "certificate-authority" in wrong.action


def test_an_authority_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"certificate-authority-data": "bm8="}
    path = servers.kubeconfig(tmp_path / "config", "https://127.0.0.1:1", **nothing)
    assert_says(refusal(path), "is not trusted; the certificate authority that is given holds")


@pytest.mark.parametrize(
    ("dates", "ahead", "sentence"),
    [
        (EXPIRED, 0.0, f"our client certificate expired at 2021-02-03 04:05:06 UTC, and {CLOCK}"),
        (LATER, 0.0, f"client certificate is valid only from 2080-01-01 00:00:00 UTC, and {CLOCK}"),
        (GOOD, 0.0, "does not accept these credentials"),
        # A laptop whose clock is a hundred years ahead.
        (GOOD, 36_500 * 86_400.0, f"our client certificate expired at 2099-01-01 .*, and {CLOCK}"),
    ],
    ids=["expired", "not yet valid", "another reason", "a wrong clock"],
)
def test_a_client_s_that_the_server_does_not_accept(
    tmp_path: Path, dates: tuple[str, str], ahead: float, sentence: str
) -> None:
    server = servers.certificate(tmp_path / "pki", *GOOD)
    certificate, key = servers.certificate(tmp_path / "user", *dates)
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    trusted: dict[str, Any] = {"certificate-authority": str(server[0])}
    with serving(saying(answer(401, b"Unauthorized")), tls=servers.tls_of(server)) as address:
        path = servers.kubeconfig(tmp_path / "config", f"https://{address}", user, **trusted)
        assert_says(refusal(path, ahead=ahead), sentence)


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


def test_dates_are_read_as_openssl_wrote_them(tmp_path: Path) -> None:
    # From 2050 on as GeneralizedTime.
    certificate, _ = servers.certificate(tmp_path / "pki", "19990101000000Z", "20600203040506Z")
    found = validity.of(certificate.read_bytes())
    assert found is not None
    assert [validity.shown(at) for at in found] == [
        "1999-01-01 00:00:00 UTC",
        "2060-02-03 04:05:06 UTC",
    ]
    assert found.wrong(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC).timestamp()) is None


def test_what_is_no_certificate_has_no_dates(tmp_path: Path) -> None:
    certificate, key = servers.certificate(tmp_path / "pki", *GOOD)
    der = base64.b64decode("".join(certificate.read_text().splitlines()[1:-1]))
    assert validity.of(der) is not None
    for broken in (None, b"", b"\x30", der[:40], der[1:], key.read_bytes(), b"\x30\x80" + der):
        assert validity.of(broken) is None
