"""Credentials are taken from where the kubeconfig says, and anew when they expire."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from k8sbench.adapters.kubernetes.client import exec_plugin
from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.adapters.kubernetes.client.credentials import Credentials
from k8sbench.adapters.kubernetes.client.exec_plugin import PluginFault
from k8sbench.adapters.kubernetes.client.kubeconfig import KubeconfigFault
from k8sbench.adapters.kubernetes.client.transport import secret_file

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
    with pytest.raises(PluginFault, match=f"credential plugin .*{sentence}") as wrong:
        found.current()
    assert wrong.value.exit_code == 6
    assert capfd.readouterr().err == ""


def test_a_plugin_that_is_not_there_is_named_with_how_to_install_it(tmp_path: Path) -> None:
    missing = {"apiVersion": VERSION, "command": "no-such-plugin"}
    with pytest.raises(PluginFault, match="no-such-plugin of the kubeconfig is not inst") as wrong:
        of(tmp_path, exec=missing).current()
    assert "PATH" in wrong.value.action
    hint = {**missing, "command": "./here", "installHint": "Install it with: krew install it"}
    with pytest.raises(PluginFault, match=r"plugin \./here .* is not installed") as wrong:
        of(tmp_path, exec=hint).current()
    assert wrong.value.action == "Install it with: krew install it"


def test_a_plugin_that_is_no_program_is_named(tmp_path: Path) -> None:
    (tmp_path / "here").write_text("no program")
    with pytest.raises(PluginFault, match=r"plugin \./here .* cannot be run: permission denied"):
        of(tmp_path, exec={"apiVersion": VERSION, "command": "./here"}).current()


def test_a_plugin_that_needs_a_terminal_is_not_run_without_one(tmp_path: Path) -> None:
    entry = plugin(tmp_path, answer(token="t"), interactiveMode="Always")
    with pytest.raises(PluginFault, match="needs a terminal"):
        of(tmp_path, exec=entry).current()


HANGS = """echo open http://localhost:8000 >&2
sleep 1000 &
echo $! > part && mv part child
wait
"""


def hanging(folder: Path) -> Credentials:
    """Take the credentials of a plugin that waits for a program that it has started."""
    words = {"command": "sh", "args": ["-c", f"cd {folder}\n{HANGS}"]}
    return of(folder, exec=plugin(folder, "", **words))


def check_child_is_gone(folder: Path) -> None:
    """Wait until what the plugin has started is ended; whose child it is then may not have seen."""
    pid = int((folder / "child").read_text())
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            pass


def test_a_plugin_that_hangs_is_noted_then_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(exec_plugin, "NOTE_SECONDS", 1.0)
    monkeypatch.setattr(exec_plugin, "LIMIT_SECONDS", 1.5)
    with pytest.raises(PluginFault, match="has not answered within 2 s, and was ended"):
        hanging(tmp_path).current()
    (note,) = caplog.messages
    assert "has not answered yet; waiting. It says: open http://localhost:8000" in note
    assert caplog.records[0].levelno == logging.WARNING
    check_child_is_gone(tmp_path)


def test_closing_ends_a_plugin_that_is_waited_for(tmp_path: Path) -> None:
    found = hanging(tmp_path)
    wrongs: list[BaseException] = []

    def ask() -> None:
        try:
            found.current()
        except PluginFault as wrong:
            wrongs.append(wrong)

    asking = threading.Thread(target=ask)
    asking.start()
    while not (tmp_path / "child").exists():
        assert asking.is_alive()
    found.close()
    asking.join()
    assert "was ended before it answered" in str(wrongs)
    check_child_is_gone(tmp_path)


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


def test_no_other_client_is_imported_to_sign_in(tmp_path: Path) -> None:
    """It costs 0.3 s for each command."""
    of(tmp_path, token="t")
    program = (
        "import sys\n"
        "from k8sbench.adapters.kubernetes.client.connection import connect\n"
        "connect(kubeconfig=sys.argv[1]).sender._credentials.current()\n"
        "print({'kubernetes', 'requests', 'oauthlib', 'subprocess'} & sys.modules.keys())"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "config")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_token_in_a_file_comes_before_the_one_beside_it(tmp_path: Path) -> None:
    found = of(tmp_path, tokenFile="token", token="beside")
    assert found.current().authorization == "Bearer beside"
    (tmp_path / "token").write_text("of the file\n".replace(" ", "-"))
    assert found.current().authorization == "Bearer of-the-file"


def test_secrets_pass_through_a_file_that_is_gone_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for kept in ("in memory", "as a file"):
        with secret_file() as (file, path):
            file.write(b"hush")
            assert Path(path).read_bytes() == b"hush", kept
            assert Path(path).stat().st_mode & 0o077 == 0 or kept == "in memory"
        assert not Path(path).exists()
        # Other systems have no such files.
        monkeypatch.delattr(os, "memfd_create", raising=False)
