"""Errors of broken connections, in networking terms, never Python's."""

import contextlib
import json
import socket
import struct
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sbench.adapters.kubernetes import listing, operator_proxy
from k8sbench.adapters.kubernetes.client import faults
from k8sbench.adapters.kubernetes.client.api import Api, ApiFault
from k8sbench.adapters.kubernetes.operator_proxy import PLACE_ANNOTATION
from k8sbench.model.errors import Unreachable
from k8sbench.model.names import PLAN_ANNOTATION
from k8sbench.model.run import Location
from tests.harness.cluster.limits import shorten
from tests.unit.kubernetes.objects import PLAN, job, stamp
from tests.unit.kubernetes.servers import VERSION, Act, answer, reached, saying, serving


def fault_of(folder: Path, server: str, **cluster: Any) -> ApiFault:
    with reached(folder, server, **cluster) as api:
        fault = api.no_answer(1.0)
    assert fault is not None
    return fault


def reset(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def wait(connection: socket.socket) -> None:
    while connection.recv(1 << 16):
        pass


def dripping(begin: bytes) -> Act:
    """Send ``begin`` and then single bytes until the client disconnects."""

    def act(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(begin)
        while True:
            connection.sendall(b"x")
            time.sleep(0.05)

    return act


def alert(number: int) -> bytes:
    return bytes([21, 3, 3, 0, 2, 2, number])


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LATE = "it did not answer in time"
NO_HTTP = "its answer is not HTTP"
BROKEN_OFF = "it closed the connection before the end of its answer"
IF_PLAIN = "; if it does not speak TLS, write http://"
BROKEN: dict[str, tuple[Act, str]] = {
    "dropped": (saying(b""), "it closed the connection without an answer"),
    "reset": (reset, "connection reset by peer"),
    "silent": (wait, LATE),
    "a refusal without an end": (
        dripping(b"HTTP/1.1 500 No\r\nContent-Length: 100000\r\n\r\n"),
        f"{LATE}: its answer has no end",
    ),
    "another protocol": (saying(b"SSH-2.0-OpenSSH\r\n"), NO_HTTP),
    "no status": (saying(b"HTTP/1.1 abc\r\n\r\n"), NO_HTTP),
    "a header too long": (saying(OK + b"A: " + b"x" * 70_000 + b"\r\n\r\n"), NO_HTTP),
    "cut": (saying(OK + b"Content-Length: 100\r\n\r\nabc"), BROKEN_OFF),
    "a chunk cut": (saying(CHUNKED + b"10\r\nabc"), BROKEN_OFF),
    "no chunk": (saying(CHUNKED + b"zz\r\nabc"), BROKEN_OFF),
    "no gzip": (
        saying(OK + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"),
        "its answer cannot be decompressed",
    ),
    "TLS: plain HTTP": (
        saying(answer(400)),
        f"TLS cannot be agreed on (wrong version number){IF_PLAIN}",
    ),
    "TLS: dropped": (saying(b""), "it closed the connection during the TLS handshake"),
    "TLS: reset": (reset, "connection reset by peer"),
    "TLS: old": (
        saying(alert(70)),
        f"TLS cannot be agreed on (tlsv1 alert protocol version){IF_PLAIN}",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_connection(tmp_path: Path, how: str) -> None:
    act, message = BROKEN[how]
    with serving(act) as address:
        scheme = "https" if how.startswith("TLS") else "http"
        fault = fault_of(tmp_path, f"{scheme}://{address}")
    assert (fault.message, fault.status, fault.passes) == (message, None, True)


def test_a_client_certificate_that_the_handshake_rejects(tmp_path: Path) -> None:
    with (
        serving(saying(alert(45))) as address,
        reached(tmp_path, f"https://{address}") as api,
        pytest.raises(Unreachable, match=r"our client certificate is rejected \(.* expired\)"),
    ):
        api.check_answers(retry_s=0.0)


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("https://nosuch.invalid", "its name cannot be resolved"),
        ("https://127.0.0.1:1", "connection refused"),
        ("https://127.0.0.1:abc", "its address is not the URL of a server"),
        ("ftp://a.example", "its address is not the URL of a server"),
        ("https://a..example", "its address is not the URL of a server"),
    ],
)
def test_an_address_without_a_server(tmp_path: Path, server: str, message: str) -> None:
    fault = fault_of(tmp_path, server)
    assert fault.reason == faults.ABSENT
    with reached(tmp_path, server) as api, pytest.raises(Unreachable, match=message):
        api.check_answers(retry_s=0.0)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("HTTP/1.1 403 Forbidden\r\n\r\n", "403 Forbidden (asked through the proxy {})"),
        ("", "it closed the connection without an answer (asked through the proxy {})"),
    ],
)
def test_a_refusing_proxy_is_named_by_its_host(tmp_path: Path, said: str, message: str) -> None:
    with serving(saying(said.encode())) as address:
        way = {"proxy-url": f"http://ann:secret@{address}"}
        fault = fault_of(tmp_path, "https://a.example", **way)
    assert fault.message == message.format(address)


@pytest.mark.filterwarnings("ignore:SOCKS support in urllib3")
@pytest.mark.parametrize(
    ("proxy", "message"),
    [
        ("http://127.0.0.1:1", "connection refused (asked through the proxy 127.0.0.1:1)"),
        ("socks5://127.0.0.1:1", "this kind of proxy is not supported"),
    ],
)
def test_a_proxy_that_cannot_be_used(tmp_path: Path, proxy: str, message: str) -> None:
    fault = fault_of(tmp_path, "https://a.example", **{"proxy-url": proxy})
    assert fault.message.startswith(message)


@pytest.mark.parametrize(
    "first",
    [
        saying(b""),
        saying(answer(503)),
        saying(answer(429)),
        *(saying(answer(429, Retry_After=after)) for after in ("0", "-1", "nan", "soon")),
    ],
    ids=["dropped", "503", "429", "at once", "before", "never", "a word"],
)
def test_one_answer_that_is_lost_is_asked_for_again(tmp_path: Path, first: Act) -> None:
    with serving(first, saying(answer())) as address, reached(tmp_path, f"http://{address}") as api:
        api.check_answers(retry_s=10.0)
        assert api.sender.errors.total() == 1


MADE = b'{"kind": "ConfigMap", "metadata": {"name": "one"}}'


@pytest.mark.parametrize("first", [saying(b""), saying(answer(500))], ids=["dropped", "500"])
def test_a_creation_that_may_have_happened_is_repeated_only_if_its_caller_says_so(
    tmp_path: Path, first: Act
) -> None:
    with (
        serving(first, first, saying(answer(201, MADE))) as address,
        reached(tmp_path, f"http://{address}") as api,
    ):
        with pytest.raises(ApiFault):
            api.create("/a", {}, retry_s=10.0)
        assert api.create("/a", {}, again=True, retry_s=10.0)["metadata"] == {"name": "one"}


def test_a_creation_that_the_server_put_off_is_repeated(tmp_path: Path) -> None:
    busy, made = saying(answer(429, Retry_After="0")), saying(answer(201, MADE))
    with serving(busy, made) as address, reached(tmp_path, f"http://{address}") as api:
        assert api.create("/a", {}, retry_s=10.0)["metadata"] == {"name": "one"}


def test_a_long_wait_is_logged_with_the_answer_and_the_time_of_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shorten(monkeypatch, request_note=0.0)
    slow, busy = saying(answer(500, b"etcd is slow")), saying(answer(429, Retry_After="0"))
    with (
        serving(saying(b""), slow, busy, saying(answer())) as address,
        reached(tmp_path, f"http://{address}") as api,
    ):
        api.check_answers(retry_s=10.0)
    said = ("does not answer", "500 (etcd is slow)", "throttles requests (429)")
    for words, message in zip(said, caplog.messages, strict=True):
        assert words in message
        assert "next try in" in message


def closing(body: object, status: int = 200) -> Act:
    return saying(answer(status, json.dumps(body).encode(), Connection="close"))


@pytest.mark.parametrize(
    "change", [[1], {"a": 1}, {"type": "ADDED", "object": {"metadata": {}}}, {"type": "ERROR"}]
)
def test_a_watch_of_what_are_no_changes_has_failed(tmp_path: Path, change: object) -> None:
    """An exception would end the watching thread unnoticed."""
    with (
        serving(closing(change)) as address,
        reached(tmp_path, f"http://{address}") as api,
        pytest.raises(ApiFault, match="no change of an object"),
    ):
        list(api.watch("/api/v1/pods", resource_version="1", timeout_s=1).changes())


@pytest.mark.parametrize("token", [{"token": "/w=="}, {"token": ""}, {"Token": "YQ=="}])
def test_names_of_an_operator_stay_parts_of_a_path(tmp_path: Path, token: dict[str, str]) -> None:
    asked = []
    kept = answer(200, json.dumps({"kind": "Secret", "metadata": {}, "data": token}).encode())

    def secret(connection: socket.socket) -> None:
        asked.append(connection.recv(1 << 16).partition(b" HTTP")[0])
        connection.sendall(kept)

    named = {"kind": "Lease", "metadata": {"annotations": {PLACE_ANNOTATION: "a?/b/c#"}}}
    with (
        serving(closing(named), secret) as address,
        reached(tmp_path, f"http://{address}") as api,
        pytest.raises(Unreachable, match="holds no token that can be sent"),
    ):
        operator_proxy.connect_operator(api)
    assert asked == [b"GET /api/v1/namespaces/a%3F/secrets/b%2Fc%23-token"]


# -- the server's clock ---------------------------------------------------------------------------


@contextlib.contextmanager
def dated(folder: Path, date: str, body: bytes = VERSION) -> Iterator[Api]:
    """Reach an API server whose answers have a date."""
    # Without the second header the next request might come over the same connection.
    with (
        serving(saying(answer(200, body, Date=date, Connection="close"))) as address,
        reached(folder, f"http://{address}") as api,
    ):
        yield api


def is_ahead(api: Api, seconds: float = 0.0) -> bool:
    """Return True if the server is ahead of us, within a minute."""
    return abs(api.time() - time.time() - seconds) < 60


@pytest.mark.parametrize("seconds", [3600.0, -5400.0])
def test_the_server_s_time_is_that_of_its_latest_answer(tmp_path: Path, seconds: float) -> None:
    with dated(tmp_path, formatdate(time.time() + seconds, usegmt=True)) as api:
        assert is_ahead(api), "ours, before it has answered"
        assert api.no_answer() is None
        assert is_ahead(api, seconds)


def test_a_job_of_others_was_never_created_later_than_now(tmp_path: Path) -> None:
    """Else every later state of it would have the time of its creation."""
    made = job(annotations={PLAN_ANNOTATION: msgspec.json.encode(PLAN).decode()})
    late = {**made, "metadata": {**made["metadata"], "creationTimestamp": stamp(1e10)}}
    body = json.dumps({"metadata": {"resourceVersion": "1"}, "items": [late]}).encode()
    with dated(tmp_path, formatdate(usegmt=True), body) as api:
        assert all(found.created_at <= time.time() for found in listing.jobs(api))


@pytest.mark.parametrize(
    "said",
    [b'{"kind": "Status", "code": 409, "reason": "Conflict", "message": "modified"}', b""],
    ids=["of the API server", "of a proxy"],
)
def test_a_conflict_that_lasts_is_no_mistake_in_a_manifest(tmp_path: Path, said: bytes) -> None:
    with (
        serving(saying(answer(409, said))) as address,
        reached(tmp_path, f"http://{address}") as api,
        pytest.raises(Unreachable) as raised,
        api.explaining("Benchmark a be changed"),
    ):
        api.get("/a", retry_s=0.0)
    assert raised.value.cause_id == "conflict"


@pytest.mark.parametrize(
    ("verb", "what", "is_users"),
    [
        ("get", 'leases" in API group "coordination.k8s.io', True),
        ("create", 'benchmarks" in API group "k8sbench.io', True),
        ("list", "pods", True),
        ("create", 'pytorchjobs" in API group "kubeflow.org', False),
        ("create", "configmaps", False),
    ],
)
def test_the_least_role_with_a_missing_permission_is_advised(
    verb: str, what: str, is_users: bool
) -> None:
    """The chart's users may not create jobs, which the Role of k8sbench allows."""
    said = f'x is forbidden: User "ann" cannot {verb} resource "{what}" in the namespace "a"'
    place = Location(server="https://cluster.example:6443", namespace="a")
    error = faults.explained(ApiFault(403, "Forbidden", said), "x be read", place)
    assert error.cause_id == "forbidden"
    assert ("users.subjects" in error.action) is is_users
    assert error.action.endswith("role.yaml in namespace a.")
