"""Credentials are taken from where the kubeconfig says, and anew when they expire."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes.client import credentials
from k8sbench.adapters.kubernetes.client.connection import check_answers, connect
from k8sbench.adapters.kubernetes.client.credentials import Credentials
from k8sbench.adapters.kubernetes.client.kubeconfig import KubeconfigFault
from k8sbench.model.errors import Unreachable
from tests.unit.kubernetes import servers
from tests.unit.kubernetes.servers import answer, saying, serving

VERSION = "client.authentication.k8s.io/v1"


def of(folder: Path, **user: Any) -> Credentials:
    """Take the credentials of a kubeconfig's only user."""
    path = servers.kubeconfig(folder / "config", "https://a.example", user)
    return connect(kubeconfig=str(path), environ={}).sender._credentials


def plugin(folder: Path, text: str, **more: Any) -> dict[str, Any]:
    """Make a credential plugin of a Python program."""
    (folder / "plugin.py").write_text(text)
    return {
        "apiVersion": VERSION,
        "command": sys.executable,
        "args": [str(folder / "plugin.py")],
        "interactiveMode": "Never",
        **more,
    }


def credential(version: str = VERSION, **status: Any) -> str:
    text = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    return f"print({text!r})"


def test_certificate_and_key_may_be_inline_or_files_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("the key")
    inline = base64.b64encode(b"the certificate").decode()
    user = {"client-certificate-data": inline, "client-key": "key"}
    assert of(tmp_path, **user).current().certificate == b"the certificate\nthe key"


def test_what_was_refused_is_renewed_if_there_is_something_new(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    found = of(tmp_path, tokenFile="token")
    refused = found.current()
    assert not found.renew(refused)
    (tmp_path / "token").write_text("new")
    assert found.renew(refused)
    assert found.current().authorization == "Bearer new"
    # Another thread was refused the old one as well: there is a new one already.
    assert found.renew(refused)


@pytest.mark.parametrize(("seconds", "is_good"), [(3600, True), (-5, False)])
def test_a_plugin_is_asked_again_after_expiry(tmp_path: Path, seconds: int, is_good: bool) -> None:
    (tmp_path / "count").write_text("0")
    until = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    text = (
        "import json, pathlib\n"
        f"file = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "count = int(file.read_text()) + 1\n"
        "file.write_text(str(count))\n"
        f"status = {{'token': f't{{count}}', 'expirationTimestamp': {until!r}}}\n"
        f"print(json.dumps({{'apiVersion': {VERSION!r}, 'kind': 'x', 'status': status}}))"
    )
    found = of(tmp_path, exec=plugin(tmp_path, text))
    assert (found.current() == found.current()) is is_good


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "import sys; print('first', file=sys.stderr); sys.exit('no session: log in first.')",
            "failed with exit code 1: no session: log in first",
        ),
        ("import sys; sys.exit(3)", "failed with exit code 3"),
        ("import os; os.kill(os.getpid(), 15)", "ended by signal 15"),
        ("print('hello')", "printed no ExecCredential: JSON is malformed"),
        ("print('{}')", "printed no ExecCredential: .*missing required field"),
        (credential(token="t", expirationTimestamp="soon"), "printed no ExecCredential: .*soon"),
        (credential(), "printed neither a token nor a client certificate"),
        (
            credential(clientCertificateData="c"),
            "neither a token nor a client certificate with its key",
        ),
        (credential("v0", token="t"), f"printed apiVersion v0 instead of {VERSION}"),
    ],
)
def test_a_plugin_that_fails_is_reported_with_its_reason(
    tmp_path: Path, text: str, sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found = of(tmp_path, exec=plugin(tmp_path, text))
    with pytest.raises(Unreachable, match=f"credential plugin .*{sentence}") as wrong:
        found.current()
    assert wrong.value.exit_code == 6
    assert capfd.readouterr().err == ""


HINT = "Install it with: krew install it"


@pytest.mark.parametrize(
    ("entry", "sentence", "action"),
    [
        ({"command": "no-such-plugin"}, "no-such-plugin of .* is not installed", "PATH"),
        ({"command": "./gone", "installHint": HINT}, r"plugin \./gone .* is not installed", HINT),
        ({"command": "./here"}, r"plugin \./here .* cannot be run: permission denied", ""),
        ({"interactiveMode": "Always"}, "needs a terminal", ""),
    ],
)
def test_a_plugin_that_cannot_be_run_is_named_with_how_to_install_it(
    tmp_path: Path, entry: dict[str, str], sentence: str, action: str
) -> None:
    (tmp_path / "here").write_text("no program")
    with pytest.raises(Unreachable, match=sentence) as wrong:
        of(tmp_path, exec=plugin(tmp_path, credential(token="t"), **entry)).current()
    assert action in wrong.value.action


def test_a_plugin_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "LIMIT_SECONDS", 0.5)
    entry = plugin(tmp_path, "import time; time.sleep(1000)")
    with pytest.raises(Unreachable, match="has not answered within 0 s, and was ended"):
        of(tmp_path, exec=entry).current()


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        ({"tokenFile": "gone"}, "gone, the tokenFile of .*config, cannot be read: no such file"),
        ({"client-certificate": "gone"}, "gone, the client-certificate of .*cannot be read"),
        ({"client-key": "."}, "the client-key of .*cannot be read: is a directory"),
        ({"client-key-data": "a"}, "client-key-data is not base64"),
        ({"client-certificate-data": "###"}, "client-certificate-data is not base64"),
        ({"token": "a\nb"}, "The token of user ann of .* is not a token"),
    ],
)
def test_what_an_entry_lacks_is_named(tmp_path: Path, user: dict[str, Any], sentence: str) -> None:
    with pytest.raises(KubeconfigFault, match=sentence) as wrong:
        of(tmp_path, **user).current()
    assert wrong.value.exit_code == 6
    assert wrong.value.action


def test_a_token_in_a_file_comes_before_the_one_beside_it(tmp_path: Path) -> None:
    found = of(tmp_path, tokenFile="token", token="beside")
    assert found.current().authorization == "Bearer beside"
    (tmp_path / "token").write_text("of the file\n".replace(" ", "-"))
    assert found.current().authorization == "Bearer of-the-file"


# -- certificates ---------------------------------------------------------------------------------


GOOD = ("20200101000000Z", "20990101000000Z")
EXPIRED = ("20200101000000Z", "20210203040506Z")
LATER = ("20800101000000Z", "20990101000000Z")
CLOCK = r"this machine's clock shows \d{4}-\d\d-\d\d \d\d:\d\d UTC"


NOBODY: Mapping[str, Any] = {}


def data(*files: Path) -> str:
    return base64.b64encode(b"".join(file.read_bytes() for file in files)).decode()


def assert_refused(
    folder: Path, server: str, sentence: str, user: Mapping[str, Any] = NOBODY, **cluster: Any
) -> None:
    """The server does not answer, for this reason."""
    with (
        servers.reached(folder, server, user, **cluster) as api,
        pytest.raises(Unreachable, match=sentence) as refused,
    ):
        check_answers(api)
    assert refused.value.exit_code == 6
    assert refused.value.cause_id == "api-not-trusted" or user


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
    says = rf"of context lab is not trusted; {sentence}\."
    with serving(saying(answer()), tls=servers.tls_of(pair)) as address:
        trusted: dict[str, Any] = {"certificate-authority-data": data(pair[0])}
        assert_refused(tmp_path, f"https://{address}", says, **trusted)


def test_an_authority_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    nothing: dict[str, Any] = {"certificate-authority-data": "bm8="}
    says = "is not trusted; the certificate authority that is given holds"
    assert_refused(tmp_path, "https://127.0.0.1:1", says, **nothing)


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
def test_a_client_s_that_is_no_use(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    certificate, key = servers.certificate(tmp_path / "user", *GOOD)
    servers.certificate(tmp_path / "other", *GOOD)
    user = {"client-certificate": str(certificate), "client-key": str(key), **changes}
    assert_refused(tmp_path, "https://127.0.0.1:1", sentence, user)
