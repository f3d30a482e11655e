"""Credentials are taken from where the kubeconfig says, and anew when they expire."""

from __future__ import annotations

import base64
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.adapters.kubernetes.client.credentials import Credentials, CredentialsFault

VERSION = "client.authentication.k8s.io/v1"


def of(folder: Path, **user: Any) -> Credentials:
    """Take the credentials of a kubeconfig's only user."""
    path = folder / "config"
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "me"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://a.example"}}],
        "users": [{"name": "me", "user": user}],
    }
    path.write_text(json.dumps(config))
    return connect(kubeconfig=str(path), environ={})._credentials


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


def answer(version: str = VERSION, **status: Any) -> str:
    text = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    return f"print({text!r})"


def counting(folder: Path, status: str) -> str:
    """Make a plugin's program whose tokens are numbered."""
    (folder / "count").write_text("0")
    return (
        "import json, pathlib\n"
        f"file = pathlib.Path({str(folder / 'count')!r})\n"
        "count = int(file.read_text()) + 1\n"
        "file.write_text(str(count))\n"
        f"status = {{'token': f't{{count}}', {status}}}\n"
        f"print(json.dumps({{'apiVersion': {VERSION!r}, 'kind': 'x', 'status': status}}))"
    )


def test_a_token_is_sent_as_it_is(tmp_path: Path) -> None:
    assert of(tmp_path, token="t").current().authorization == "Bearer t"


def test_name_and_password_are_sent_as_basic_authentication(tmp_path: Path) -> None:
    expected = "Basic " + base64.b64encode(b"n:p").decode()
    assert of(tmp_path, username="n", password="p").current().authorization == expected


def test_without_anything_nothing_is_sent(tmp_path: Path) -> None:
    secrets = of(tmp_path).current()
    assert (secrets.authorization, secrets.certificate) == (None, None)


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


def test_a_plugin_is_asked_and_told_about_the_cluster(tmp_path: Path) -> None:
    text = (
        "import json, os\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "token = info['spec']['cluster']['server'] + os.environ['MORE']\n"
        "said = {'apiVersion': info['apiVersion'], 'kind': 'x', 'status': {'token': token}}\n"
        "print(json.dumps(said))"
    )
    more = {"provideClusterInfo": True, "env": [{"name": "MORE", "value": "!"}]}
    found = of(tmp_path, exec=plugin(tmp_path, text, **more))
    assert found.current().authorization == "Bearer https://a.example!"


def test_a_plugin_is_not_asked_again_while_what_it_gave_is_good(tmp_path: Path) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    text = counting(tmp_path, f"'expirationTimestamp': {later!r}")
    found = of(tmp_path, exec=plugin(tmp_path, text))
    assert found.current() == found.current()


def test_a_plugin_is_asked_again_when_what_it_gave_expires(tmp_path: Path) -> None:
    past = (datetime.now(UTC) - timedelta(seconds=5)).isoformat()
    text = counting(tmp_path, f"'expirationTimestamp': {past!r}")
    found = of(tmp_path, exec=plugin(tmp_path, text))
    assert found.current() != found.current()


def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    text = answer(clientCertificateData="the certificate", clientKeyData="the key")
    found = of(tmp_path, exec=plugin(tmp_path, text))
    assert found.current().certificate == b"the certificate\nthe key"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import sys; sys.exit('no session: log in first')", "no session: log in first"),
        ("print('hello')", "failed to decode process output"),
        ("print('{}')", "malformed response"),
        (answer(), "missing token or clientCertificateData"),
        (answer("v0", token="t"), "plugin api version v0 does not match"),
    ],
)
def test_a_plugin_that_fails_is_told_with_its_reason(
    tmp_path: Path, text: str, sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CredentialsFault, match=f"credential plugin .*{sentence}") as wrong:
        of(tmp_path, exec=plugin(tmp_path, text))
    assert wrong.value.exit_code == 6
    assert capfd.readouterr().err == ""


def test_a_plugin_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = {"apiVersion": VERSION, "command": "./no-such-plugin"}
    with pytest.raises(CredentialsFault, match="no-such-plugin"):
        of(tmp_path, exec=missing)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsFault, match=r"No such file or directory: .*token"):
        of(tmp_path, tokenFile="token")
