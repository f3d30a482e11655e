"""Credentials are taken from where the kubeconfig says, and anew when they expire."""

from __future__ import annotations

import base64
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes.client import credentials
from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.adapters.kubernetes.client.credentials import Credentials
from k8sbench.adapters.kubernetes.client.kubeconfig import KubeconfigFault
from k8sbench.model.errors import Unreachable

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
        (answer(token="t", expirationTimestamp="soon"), "printed no ExecCredential: .*soon"),
        (answer(), "printed neither a token nor a client certificate"),
        (
            answer(clientCertificateData="c"),
            "neither a token nor a client certificate with its key",
        ),
        (answer("v0", token="t"), f"printed apiVersion v0 instead of {VERSION}"),
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


def test_a_plugin_that_is_not_there_is_named_with_how_to_install_it(tmp_path: Path) -> None:
    missing = {"apiVersion": VERSION, "command": "no-such-plugin"}
    with pytest.raises(Unreachable, match="no-such-plugin of the kubeconfig is not inst") as wrong:
        of(tmp_path, exec=missing).current()
    assert "PATH" in wrong.value.action
    hint = {**missing, "command": "./here", "installHint": "Install it with: krew install it"}
    with pytest.raises(Unreachable, match=r"plugin \./here .* is not installed") as wrong:
        of(tmp_path, exec=hint).current()
    assert wrong.value.action == "Install it with: krew install it"


def test_a_plugin_that_is_no_program_is_named(tmp_path: Path) -> None:
    (tmp_path / "here").write_text("no program")
    with pytest.raises(Unreachable, match=r"plugin \./here .* cannot be run: permission denied"):
        of(tmp_path, exec={"apiVersion": VERSION, "command": "./here"}).current()


def test_a_plugin_that_needs_a_terminal_is_not_run_without_one(tmp_path: Path) -> None:
    entry = plugin(tmp_path, answer(token="t"), interactiveMode="Always")
    with pytest.raises(Unreachable, match="needs a terminal"):
        of(tmp_path, exec=entry).current()


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
        ({"token": "a\nb"}, "The token of user me of .* is not a token"),
    ],
)
def test_what_a_user_s_entry_lacks_is_named(
    tmp_path: Path, user: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(KubeconfigFault, match=sentence) as wrong:
        of(tmp_path, **user).current()
    assert wrong.value.exit_code == 6
    assert wrong.value.action


def test_a_token_in_a_file_comes_before_the_one_beside_it(tmp_path: Path) -> None:
    found = of(tmp_path, tokenFile="token", token="beside")
    assert found.current().authorization == "Bearer beside"
    (tmp_path / "token").write_text("of the file\n".replace(" ", "-"))
    assert found.current().authorization == "Bearer of-the-file"
