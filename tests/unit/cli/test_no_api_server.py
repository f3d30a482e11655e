"""Unusable API servers: exit code 6 and an explanation."""

import pathlib
import socket
import time
from functools import partial

import pytest

from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.model import creation
from k8sbench.model.run import Location
from k8sbench.store.sql_store import SqlStore
from tests.harness.cluster.limits import shorten
from tests.unit.command_line import Cli
from tests.unit.kubernetes import servers
from tests.unit.kubernetes.servers import Act, saying, serving
from tests.unit.store import examples

answer = partial(servers.answer, Connection="close")
"""Closes each connection.

On a kept one, the client would take the next request's failure for an outage, and report a later
refusal as that of a restarting server.
"""
PAGE = b"<!DOCTYPE html><title>Sign in</title>"
FORBIDDEN = (
    b'{"kind":"Status","code":403,"message":"forbidden: User \\"x\\" cannot get path \\"/\\""}'
)


def version_alone(rest: bytes) -> Act:
    """Answer the version request correctly, and others by ``rest``."""

    def act(connection: socket.socket) -> None:
        text = connection.recv(1 << 16)
        connection.sendall(answer() if b" /version " in text else rest)

    return act


def endless(connection: socket.socket) -> None:
    """Send bytes slowly until the client disconnects; no read times out."""
    connection.recv(1 << 16)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
    while True:
        connection.sendall(b" ")


PATIENCE = 30.0
"""Seconds for an answer that comes at once."""
NOT_ONE = "not a Kubernetes API server: "
ANSWERS: dict[str, tuple[Act, str]] = {
    "500": (saying(answer(500, b"")), "could not serve us (500"),
    "403 to everything": (saying(answer(403, FORBIDDEN)), "does not let "),
    "401": (saying(answer(401, b"")), "does not accept these credentials"),
    "a login page": (saying(answer(200, PAGE)), NOT_ONE + "its answer is a web"),
    "sent to a login": (
        saying(answer(302, b"", Location="https://sso.example/login?state=1")),
        NOT_ONE + "it sends us on to https://sso.example/login",
    ),
    "other JSON": (saying(answer(200, b'{"a": 1}')), NOT_ONE + "its answer is"),
    "null": (saying(answer(200, b"null")), NOT_ONE + "its answer is not an object"),
    "404": (saying(answer(404, b"404 page not found")), "it answers 404 to the request for its"),
    "an answer without an end": (endless, "did not answer in time"),
    "a page after the version": (version_alone(answer(200, PAGE)), "its answer is a web page"),
    "500 after the version": (version_alone(answer(500, b"")), "could not serve us (500"),
    "JSON after the version": (version_alone(answer(200, b'{"a": 1}')), "not an object of its API"),
}
COMMANDS = {
    "doctor": ("doctor",),
    "list": ("list", "-n", "team"),
    "collect": ("collect", "--all"),
    "submit": ("submit", "resnet50", "--gpus=1", "--detach"),
}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait long for each response, and retry nothing."""
    patient = dict.fromkeys(("api_answer", "api_look", "request_last"), PATIENCE)
    shorten(monkeypatch, **patient, create_job=0.0, doctor_checks=0.0)
    begin = Api.__init__

    def hurried(self: Api, *args: object, **more: object) -> None:
        begin(self, *args, **more)  # type: ignore[arg-type]
        self.give_up_at = 0.0

    monkeypatch.setattr(Api, "__init__", hurried)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize(("act", "sentence"), ANSWERS.values(), ids=ANSWERS)
def test_what_answers_like_no_usable_cluster_is_named_and_is_exit_code_6(
    act: Act,
    sentence: str,
    words: tuple[str, ...],
    root: pathlib.Path,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if act is endless:
        shorten(monkeypatch, request_last=0.2)
    with serving(act) as address:
        config = servers.kubeconfig(root.with_name("config"), f"http://{address}")
        out, err = cli(*words, f"--kubeconfig={config}", code=6)
    assert sentence in " ".join((out if words[0] == "doctor" else err).split())
    assert "Internal error" not in err


@pytest.mark.usefixtures("impatient")
def test_nodes_is_not_sent_to_this_machine_where_the_cluster_cannot_be_used(
    root: pathlib.Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(saying(answer(500, b""))) as address:
        config = servers.kubeconfig(root.with_name("config"), f"http://{address}")
        monkeypatch.setenv("KUBECONFIG", str(config))
        assert "--backend local" in cli("submit", "resnet50", code=6).err
        assert "--backend local" not in cli("nodes", "resnet50", code=6).err


@pytest.mark.timeout(60, func_only=True)
@pytest.mark.parametrize(
    "words", [("watch",), ("cancel",), ("delete",), ("collect",), ("logs", "-f")]
)
def test_a_command_that_never_reaches_the_server_ends_soon_and_the_run_stays(
    words: tuple[str, ...], store: SqlStore, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``watch`` went on for ever, others for half a minute."""
    shorten(monkeypatch, api_answer=1.0)
    with serving(saying(answer(500, b""))) as address:
        config = servers.kubeconfig(store.root.with_name("config"), f"http://{address}")
        plan = examples.plan(run_id="away", backend="kubernetes")
        place = Location(server=f"http://{address}", namespace="default")
        store.record(plan, at=time.time(), process=None, location=place)
        store.move("away", creation.job_created(time.time(), "uid"))
        _, err = cli(*words, "away", f"--kubeconfig={config}", code=6)
        assert "could not serve us (500: Reason)." in err
        assert not store.run("away").phase.final
