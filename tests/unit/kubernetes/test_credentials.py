"""Credentials are taken from where the kubeconfig says, and anew when they expire."""

import base64
import json
import logging
import re
import socket
import ssl
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.adapters.kubernetes.client.faults import KubeconfigFault
from k8sbench.adapters.kubernetes.client.transport import Login
from k8sbench.model.errors import Unreachable
from tests.harness.cluster.limits import shorten
from tests.unit.kubernetes import servers
from tests.unit.kubernetes.servers import Act, answer, saying, serving

VERSION = "client.authentication.k8s.io/v1"


def login(folder: Path, **user: Any) -> Login:
    """Sign in as a kubeconfig's only user."""
    path = servers.kubeconfig(folder / "config", "https://a.example", user)
    return connect(kubeconfig=str(path), environ={}).sender.login()


GOOD = ("20200101000000Z", "20990101000000Z")


NOBODY: Mapping[str, Any] = {}


def data(*files: Path) -> str:
    return base64.b64encode(b"".join(file.read_bytes() for file in files)).decode()


def token(folder: Path, **user: Any) -> str:
    return login(folder, **user).headers()["Authorization"]


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
    certificate, key = servers.certificate(tmp_path / "pki", *GOOD)
    user = {"client-certificate-data": data(certificate), "client-key": "pki/key.pem"}
    found = login(tmp_path, **user).configuration
    assert Path(found.cert_file).read_text() == certificate.read_text()
    assert found.key_file == str(key)


def guarded(asked: list[str], *accepted: str) -> Act:
    """Answer 401 to all requests but those with one of these tokens."""

    def act(connection: socket.socket) -> None:
        text = connection.recv(1 << 16).decode()
        asked.append(re.findall("(?mi)^authorization: bearer (.*)\r$", text)[0])
        is_accepted = asked[-1] in accepted
        connection.sendall(answer(200 if is_accepted else 401, Connection="close"))

    return act


def test_a_token_file_that_was_rotated_is_read_again_after_one_401(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    asked: list[str] = []
    with (
        serving(guarded(asked, "old"), guarded(asked, "new")) as address,
        servers.reached(tmp_path, f"http://{address}", {"tokenFile": "token"}) as api,
    ):
        api.check_answers(retry_s=0.0)
        (tmp_path / "token").write_text("new\n")
        api.check_answers(retry_s=0.0)
        assert asked == ["old", "old", "new"]
        api.check_answers(retry_s=0.0)
        assert asked == ["old", "old", "new", "new"]


def test_a_plugin_runs_again_after_one_401_and_only_then(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    until = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()
    text = (
        "import json, pathlib\n"
        f"file = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "count = int(file.read_text()) + 1\n"
        "file.write_text(str(count))\n"
        f"status = {{'token': f't{{count}}', 'expirationTimestamp': {until!r}}}\n"
        f"print(json.dumps({{'apiVersion': {VERSION!r}, 'kind': 'x', 'status': status}}))"
    )
    asked: list[str] = []
    user = {"exec": plugin(tmp_path, text)}
    with (
        serving(*[guarded(asked, "t1")] * 2, guarded(asked, "t2")) as address,
        servers.reached(tmp_path, f"http://{address}", user) as api,
    ):
        for _ in range(4):
            api.check_answers(retry_s=0.0)
    assert asked == ["t1", "t1", "t1", "t2", "t2"]


def test_a_plugin_that_gives_a_certificate_runs_once(tmp_path: Path) -> None:
    """The official client's loader would run it, too."""
    text = f"open({str(tmp_path / 'runs')!r}, 'a').write('x'); "
    certificate, key = (path.read_text() for path in servers.certificate(tmp_path / "pki", *GOOD))
    text += credential(clientCertificateData=certificate, clientKeyData=key)
    found = login(tmp_path, exec=plugin(tmp_path, text)).configuration
    assert Path(found.cert_file).read_text() == certificate
    assert Path(found.key_file).read_text() == key
    assert (tmp_path / "runs").read_text() == "x"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "import sys; print('first', file=sys.stderr); sys.exit('no session: log in first.')",
            "failed: no session: log in first",
        ),
        ("import sys; sys.exit(3)", "failed: process returned 3"),
        ("import os; os.kill(os.getpid(), 15)", "failed: process returned 143"),
        ("", "failed: failed to decode process output"),
        ("print('hello')", "failed: failed to decode process output"),
        ("print('{}')", "failed: malformed response. missing key 'apiVersion'"),
        ("print(7)", "failed: "),
        (credential(), "printed neither a token nor a client certificate"),
        (credential(token=""), "printed neither a token nor a client certificate"),
        (
            credential(clientCertificateData="c"),
            "neither a token nor a client certificate with its key",
        ),
        (credential("v0", token="t"), f"failed: plugin api version .*v0 does not match {VERSION}"),
    ],
)
def test_a_plugin_that_fails_is_reported_with_its_reason(
    tmp_path: Path, text: str, sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Unreachable, match=f"credential plugin .*{sentence}") as wrong:
        login(tmp_path, exec=plugin(tmp_path, text))
    assert wrong.value.exit_code == 6
    assert "`kubectl get pods`" in wrong.value.action
    assert capfd.readouterr().err == ""


def test_a_plugin_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch, plugin=0.5)
    with pytest.raises(Unreachable, match=r"failed: .*did not end within 0\.5 s"):
        login(tmp_path, exec=plugin(tmp_path, "import time; time.sleep(1000)"))
    commands = (one.info["cmdline"] or [] for one in psutil.process_iter(["cmdline"]))
    assert not [words for words in commands if str(tmp_path / "plugin.py") in words]


HINT = "Install it with: krew install it"


@pytest.mark.parametrize(
    ("entry", "sentence", "action"),
    [
        ({"command": "no-such-plugin"}, "no-such-plugin of .* is not installed", "PATH"),
        ({"command": "./gone", "installHint": HINT}, r"plugin .*/gone .* is not installed", HINT),
        ({"command": "./here"}, r"plugin .*/here .* failed: .*Permission denied", "kubectl"),
    ],
)
def test_a_plugin_that_cannot_be_run_is_named_with_how_to_install_it(
    tmp_path: Path, entry: dict[str, str], sentence: str, action: str
) -> None:
    (tmp_path / "here").write_text("no program")
    with pytest.raises(Unreachable, match=sentence) as wrong:
        login(tmp_path, exec=plugin(tmp_path, credential(token="t"), **entry))
    assert action in wrong.value.action


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        ({"tokenFile": "gone"}, "user ann of .*config cannot be used: .*No such file .*/gone"),
        ({"client-certificate": "gone"}, "cannot be used: File does not exist: .*/gone"),
        ({"client-key": "."}, "cannot be used: File does not exist: "),
        ({"client-key-data": "a"}, "user ann of .*config cannot be used: Invalid base64"),
        ({"token": "a\nb"}, "No HTTP header can hold the token of user ann of "),
        ({"tokenFile": "empty"}, "user ann of .* cannot be used: its token is empty"),
        ({"token": ["a secret"]}, "a token is not a text"),
    ],
)
def test_what_an_entry_lacks_is_named(tmp_path: Path, user: dict[str, Any], sentence: str) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(KubeconfigFault, match=sentence) as wrong:
        login(tmp_path, **user).headers()
    assert wrong.value.exit_code == 6
    assert wrong.value.action
    assert "secret" not in str(wrong.value)


@pytest.mark.parametrize(
    ("user", "action"),
    [
        ({"auth-provider": {"name": "oidc", "config": {"id-token": "secret"}}}, "kubelogin"),
        ({"token": "t", "as": "bob"}, "nobody is impersonated"),
    ],
)
def test_an_entry_that_is_not_supported_is_refused(
    tmp_path: Path, user: dict[str, Any], action: str
) -> None:
    with pytest.raises(KubeconfigFault, match="which k8sbench does not support") as wrong:
        login(tmp_path, **user)
    assert action in wrong.value.action
    assert "secret" not in str(wrong.value)


SECRET = "c2VjcmV0"
"""A secret as such, and in base64."""


@pytest.mark.parametrize(
    "user",
    [
        {"token": f"{SECRET}\nb"},
        {"token": [SECRET]},
        {"client-key-data": f"{SECRET}="},
        {"exec": {"token": SECRET}},
        {"username": 1, "password": SECRET},
        {"token": SECRET, "client-certificate": "gone"},
        {"token": SECRET, "as": "bob"},
        {"auth-provider": {"config": SECRET}},
        {"plugin prints": f"{{'token': '{SECRET}'"},
        {"plugin prints": {"token": SECRET}},
        {"plugin prints": credential(token=f"{SECRET} \n")},
        {"plugin prints": credential(clientKeyData=SECRET)},
    ],
)
def test_no_message_traceback_or_log_shows_a_secret(
    tmp_path: Path, user: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    if printed := user.pop("plugin prints", None):
        user["exec"] = plugin(tmp_path, printed if "print(" in printed else f"print({printed!r})")
    with (
        pytest.raises(Unreachable) as wrong,
        serving(saying(answer(401, b""))) as address,
        servers.reached(tmp_path, f"http://{address}", user) as api,
    ):
        api.check_answers(retry_s=0.0)
    shown = "".join(traceback.format_exception(wrong.value))
    assert SECRET not in shown + caplog.text
    assert "Unreachable" in shown or "KubeconfigFault" in shown


# -- certificates ---------------------------------------------------------------------------------


def assert_refused(
    folder: Path, server: str, sentence: str, user: Mapping[str, Any] = NOBODY, **cluster: Any
) -> None:
    """The server does not answer, for this reason."""
    with (
        servers.reached(folder, server, user, **cluster) as api,
        pytest.raises(Unreachable, match=sentence) as refused,
    ):
        api.check_answers(retry_s=0.0)
    assert refused.value.exit_code == 6
    assert refused.value.cause_id == "api-not-trusted" or user


def test_a_server_s_certificate_may_be_ignored_or_be_for_another_name(tmp_path: Path) -> None:
    pair = servers.certificate(tmp_path / "pki", *GOOD)
    with serving(saying(answer()), tls=servers.tls_of(pair)) as address:
        server = f"https://{address.replace('127.0.0.1', 'localhost')}"
        trusted: dict[str, Any] = {"certificate-authority-data": data(pair[0])}
        assert_refused(tmp_path, server, "is not trusted", **trusted)
        for way in ({"insecure-skip-tls-verify": True}, {"tls-server-name": "127.0.0.1"} | trusted):
            with servers.reached(tmp_path, server, **way) as api:
                api.check_answers(retry_s=0.0)


def test_an_authority_is_read_once_and_again_when_its_file_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    load = ssl.SSLContext.load_verify_locations

    def counted(context: ssl.SSLContext, path: str, *rest: Any) -> None:
        reads.append(path)
        load(context, path, *rest)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", counted)
    pair = servers.certificate(tmp_path / "pki", *GOOD)
    renewed = servers.certificate(tmp_path / "renewed", *GOOD)
    trusted = tmp_path / "ca.pem"
    trusted.write_bytes(pair[0].read_bytes())
    ends, tls = saying(answer(Connection="close")), servers.tls_of(pair)
    authority: dict[str, Any] = {"certificate-authority": str(trusted)}
    with (
        serving(ends, tls=tls) as address,
        servers.reached(tmp_path, f"https://{address}", **authority) as api,
    ):
        for _ in range(3):
            api.check_answers(retry_s=0.0)
        assert len(reads) == 1
        tls.load_cert_chain(*renewed)
        with pytest.raises(Unreachable, match="is not trusted"):
            api.check_answers(retry_s=0.0)
        renewed[0].replace(trusted)
        for _ in range(3):
            api.check_answers(retry_s=0.0)
        assert len(reads) == 3
