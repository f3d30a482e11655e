"""Read access to an operator: schema documents, logs with ranges."""

from __future__ import annotations

import base64
import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
import urllib3

from k8sbench.app import comparisons
from k8sbench.model.errors import NotFound, UsageError
from k8sbench.model.facts import facts_of
from k8sbench.model.group import Group, GroupList
from k8sbench.model.kube import TOKEN_HEADER
from k8sbench.model.phase import Phase
from k8sbench.model.plan import ObservedJob
from k8sbench.model.replica_logs import LogLine
from k8sbench.operator import http
from k8sbench.operator.controller import (
    SUCCESS_SECONDS,
    Look,
    OperatorSettings,
    OperatorState,
    PlaceLook,
)
from k8sbench.operator.metrics import Metrics
from k8sbench.results.stored_groups import StoredGroups
from k8sbench.store.database import DATABASE
from k8sbench.store.open_store import open_store
from k8sbench.store.sql_store import SqlStore
from tests.harness.cluster.limits import shorten
from tests.harness.credentials import written
from tests.unit.model.measurements import measurement
from tests.unit.store import schemas
from tests.unit.store.examples import PROCESS, plan, step

Get = Any
TOKEN = "sesame"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with open_store(str(tmp_path / "store")) as store:
        for number in (1, 2):
            store.record(plan(f"seg-{number}", repeat=number), at=1e9 + number, process=PROCESS)
        store.move("seg-1", step(Phase.RUNNING))
        store.move("seg-1", step(Phase.SUCCEEDED))
        store.save_measurement("seg-1", measurement())
        archive = store.archive("seg-1")
        for text in ("one", "two"):
            archive.write(LogLine(replica="master-0", at=7.0, text=text))
        yield store


@pytest.fixture
def state(store: SqlStore) -> OperatorState:
    settings = OperatorSettings(store=str(store.root))
    return OperatorState(settings=settings, stands_by=True, failure="", looked_at=time.monotonic())


@pytest.fixture
def get(state: OperatorState) -> Iterator[Get]:
    with serving(state) as get:
        yield get


@contextlib.contextmanager
def serving(state: OperatorState) -> Iterator[Get]:
    """Serve the store of an operator during the block."""
    metrics = Metrics()
    metrics.state = state
    with (
        http.Server(
            "127.0.0.1:0", http.application(state, metrics.registry, lambda: TOKEN)
        ) as server,
        urllib3.HTTPConnectionPool("127.0.0.1", server.port, retries=False, maxsize=4) as pool,
    ):

        def get(path: str, method: str = "GET", **headers: str) -> urllib3.BaseHTTPResponse:
            return pool.request(method, path, headers={TOKEN_HEADER: TOKEN, **headers})

        yield get


def test_the_page_of_results_is_at_the_root(get: Get) -> None:
    found = get("/?all=true")
    assert (found.status, found.headers["content-type"]) == (200, "text/html; charset=utf-8")
    text = found.data.decode()
    assert text.startswith("<!doctype html>")
    links = re.findall(r'href="(api/[^"]+)"', text)
    assert {link.partition("/artifacts/")[2] for link in links} == {"", "logs/master-0.log"}
    assert {get(f"/{link}").status for link in links} == {200}
    assert "测试结果" in get("/?all=true&lang=zh").data.decode()
    asked = (get("/?all=true"), get("/?all=true&published=true"))
    assert ["published" in page.data.decode() for page in asked] == [False, True]
    refused = get("/?lang=xx")
    assert (refused.status, refused.json()["error"]) == (400, "lang=xx is none.")


def test_the_documents_keep_to_the_schema(get: Get, store: SqlStore) -> None:
    for path in ("/api/v1/runs", "/api/v1/runs?detail=status", "/api/v1/runs/{run}/artifacts"):
        found = get(path.format(run="seg-1")).json()
        assert len(found) >= 2
        schemas.validate("documents", found, f"GET {path}")
    (newest,) = get("/api/v1/runs?limit=1").json()
    assert newest["run_id"] == "seg-2"
    (before,) = get(f"/api/v1/runs?limit=1&until={newest['created_at'] - 0.5!r}").json()
    assert before["run_id"] == "seg-1"
    assert get("/api/v1/runs?phase=Succeeded").json()[0]["run_id"] == "seg-1"
    comparisons.save_baseline(
        "b", ["seg-1"], str(store.root), lambda _: None, replace=False, at=1e9
    )
    (baseline,) = get("/api/v1/baselines").json()
    schemas.validate("documents", [baseline], "GET /api/v1/baselines")
    assert [run["plan"]["run_id"] for run in baseline["runs"]] == ["seg-1"]
    said = get("/api/v1/runs/seg-1").json()
    schemas.validate("documents", said, "GET /api/v1/runs/{run}")
    (row,) = get("/api/v1/groups?all=true").json()["rows"]
    assert [member["run_id"] for member in row["members"]] == ["seg-1", "seg-2"]


def test_rows_and_groups_are_those_of_the_store(get: Get, store: SqlStore) -> None:
    store.save_measurement("seg-1", measurement(log_digest="digest"))
    found = msgspec.json.decode(get("/api/v1/rows").data, type=GroupList)
    known = StoredGroups(store, print)
    assert found.rows == known.rows
    assert found.columns[:2] == ("set_name", "group_id")
    assert found.created == {"nightly": {"seg-1": 1e9 + 1, "seg-2": 1e9 + 2}}
    (group,) = known.groups(known.rows)
    answer = get(f"/api/v1/groups/{group.key.id},g-none")
    assert msgspec.json.decode(answer.data, type=list[Group]) == [group]


def test_a_log_is_served_without_its_credentials(get: Get, store: SqlStore) -> None:
    (log,) = store.log_files("seg-1")
    with log.open("a") as more:
        more.writelines(f"{one.text}\n" for one in written())
    found = get("/api/v1/runs/seg-1/artifacts/logs/master-0.log").data.decode()
    assert found.startswith(log.read_text().partition("two\n")[0] + "two\n")
    assert found.count("\n") == log.read_text().count("\n")
    assert not [secret for one in written() for secret in one.secrets if secret in found]


def test_a_file_that_grows_is_sent_up_to_the_size_that_it_had(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"x" * 10)
    answer = http.file(path)
    pieces = http.pieces(path, 10)
    with path.open("ab") as more:
        more.write(b"y" * 10)
    assert b"".join(pieces) == b"x" * 10
    assert answer.headers["Content-Length"] == "10"


@pytest.mark.parametrize(
    ("path", "status", "error"),
    [
        ("/api/v1/runs/nobody", 404, "There is no run 'nobody' in the operator's store."),
        ("/api/v1/runs/seg", 400, "2 runs begin with 'seg'"),
        (f"/api/v1/runs/seg-1/artifacts/%2e%2e/%2e%2e/{DATABASE}", 404, ""),
        ("/api/v1/runs/seg-1/artifacts//etc/passwd", 404, "no artifact '/etc/passwd'"),
        ("/api/v1/runs?since=yesterday", 400, "cannot be read: Expected `float"),
        *((f"/api/v1/{what}?since=1e308", 400, "<= 253000000000") for what in ("runs", "groups")),
        *((f"/api/v1/runs?limit={number}", 400, "$.limit") for number in ("inf", "-1", "0", "nan")),
        ("/api/v1/runs?phase=Done", 400, "Invalid enum value 'Done'"),
        ("/api/v2/runs", 404, ""),
        (f"/api/v1/groups/{','.join(f'g-{n}' for n in range(201))}", 400, "201 groups"),
        ("/api/v1/runs/seg-1/artifacts/%00", 400, ""),
        (f"/api/v1/runs/seg-1/artifacts/{'x' * 5000}", 400, ""),
        (f"/api/v1/runs?since={'9' * 400}", 400, ""),
    ],
)
def test_what_there_is_not_is_an_error(get: Get, path: str, status: int, error: str) -> None:
    answer = get(path)
    assert answer.status == status
    assert error in answer.data.decode()


def test_a_refusal_quotes_no_credential(get: Get) -> None:
    name = f"password=hunter2?{'x' * 300}".replace("?", "%3F")
    answer = get(f"/api/v1/runs/seg-1/artifacts/{name}")
    assert answer.status == 400
    assert "password=***" in answer.json()["error"]
    assert "hunter2" not in answer.data.decode()


def test_an_artifact_is_sent_as_it_is_and_no_file_beside_the_folder_is_one(
    get: Get, store: SqlStore
) -> None:
    for name in ("run.json", "logs/master-0.log"):
        found = get(f"/api/v1/runs/seg-1/artifacts/{name}")
        assert (found.status, found.data) == (200, (store.folder("seg-1") / name).read_bytes())
    (store.folder("seg-1") / "link").symlink_to(store.folder("seg-2"))
    for name in ("../seg-2/run.json", "link/run.json", "/etc/passwd", "", "logs"):
        with pytest.raises(NotFound):
            http.artifact(store, {}, "seg-1", name)


@pytest.mark.parametrize(("serves", "status"), [(False, 404), (True, 200)])
def test_logs_of_observed_jobs_are_served_only_where_that_is_allowed(
    store: SqlStore, state: OperatorState, serves: bool, status: int
) -> None:
    job = ObservedJob(
        kind="Job", namespace="team-a", name="llama", replicas=("master-0",), container="node"
    )
    store.save_facts("seg-1", facts_of(plan("seg-1", backend="observed", observed=job)))
    state.settings = msgspec.structs.replace(state.settings, observe_serve_logs=serves)
    with serving(state) as get:
        assert get("/api/v1/runs/seg-1/artifacts/logs/master-0.log").status == status
        assert get("/api/v1/runs/seg-1/artifacts/run.json").status == 200
        listed = {one["name"] for one in get("/api/v1/runs/seg-1/artifacts").json()}
        assert ("logs/master-0.log" in listed) == serves
        assert ("logs/master-0.log" in get("/?all=true").data.decode()) == serves


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({TOKEN_HEADER: ""}, 403),
        ({TOKEN_HEADER: "other"}, 403),
        ({"authorization": "Basic " + base64.b64encode(b"any:sesame").decode()}, 200),
        ({"authorization": "Basic " + base64.b64encode(b"any:other").decode()}, 403),
        ({"authorization": "Basic !"}, 403),
    ],
)
def test_documents_need_the_token_probes_do_not_and_nothing_can_be_changed(
    get: Get, headers: dict[str, str], status: int
) -> None:
    for path in ("/", "/api/v1/runs", "/api/v1/runs/seg-1/artifacts/run.json"):
        assert get(path, **headers).status == status
    for path in ("/healthz", "/readyz", "/metrics"):
        assert get(path, **headers).status == 200
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert get("/api/v1/runs/seg-1", method).status == 405


def test_a_browser_is_asked_for_the_token_and_none_is_none(state: OperatorState) -> None:
    app = {token: http.application(state, Metrics().registry, token.strip) for token in (TOKEN, "")}
    for token, status in ((TOKEN, 401), ("", 503)):
        with http.Server("127.0.0.1:0", app[token]) as server:
            answer = urllib3.request("GET", f"http://127.0.0.1:{server.port}/", retries=False)
            assert answer.status == status
            assert ("www-authenticate" in answer.headers) is (status == 401)


def test_one_that_waits_is_ready_and_one_that_fails_is_not(get: Get, state: OperatorState) -> None:
    def said() -> tuple[int, str]:
        answer = get("/readyz")
        return answer.status, answer.data.decode()

    state.stands_by, state.waits_for = False, "The API server forbids it."
    assert said() == (503, f"{state.waits_for}\n")
    state.stands_by, state.waits_for = True, "vm_1 holds Lease dlperf-operator"
    assert said() == (200, f"waiting: {state.waits_for}\n")
    state.is_leader, state.stands_by = True, False
    assert said() == (503, f"{state.waits_for}\n"), "a Lease that is not renewed"
    state.waits_for = ""
    assert said() == (503, "the jobs were not listed yet.\n")
    listed = PlaceLook(listed_at=time.monotonic())

    def look(**changes: Any) -> None:
        place = msgspec.structs.replace(listed, **changes)
        state.look = Look(now=0.0, listed_time=0.0, runs=(), api_errors={}, places={"a": place})

    look()
    assert said() == (200, "collecting\n")
    look(refusal="A webhook does not answer.")
    assert said() == (503, "no job can be created for now: A webhook does not answer.\n")
    problem = "The API server forbids that jobs be listed."
    look(problem=problem)
    assert said()[0] == 200, "one try that failed"
    objects = "User operator may not list benchmarks.k8sbench.io."
    look(objects_problem=objects)
    assert said() == (503, f"{objects}\n")
    look(problem=problem, listed_at=time.monotonic() - 2 * SUCCESS_SECONDS)
    assert said() == (503, f"the jobs were not listed for 90 s. {problem}\n")
    state.failure = "The disk is full."
    assert said() == (503, "The disk is full.\n")
    state.settings = OperatorSettings(store=__file__)
    answer = get("/api/v1/runs")
    assert (answer.status, "is a file, not a store" in answer.json()["error"]) == (503, True)
    assert get("/healthz").status == 200
    state.looked_at -= http.HEALTHY_SECONDS + 1
    assert get("/healthz").status == 503


def test_an_address_that_cannot_be_used_is_an_error(state: OperatorState) -> None:
    app = http.application(state, Metrics().registry, lambda: TOKEN)
    with pytest.raises(UsageError, match="is not an address"):
        http.Server("8080", app)
    with http.Server("127.0.0.1:0", app) as first:
        taken = http.Server(f"127.0.0.1:{first.port}", app)
        with pytest.raises(UsageError, match="Nothing can be served"):
            taken.__enter__()


HALVES = [
    b"",
    b"GET /metrics HTTP/1.1\r\nHost: a",
    b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /healthz HTTP/1.1\r\n",
]
"""Bytes after which a connection owes the rest of a request."""


def test_half_requests_keep_nobody_out(
    state: OperatorState, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is whole is answered, however long that takes."""
    monkeypatch.setattr(http, "WHOLE_SECONDS", 0.2)
    monkeypatch.setattr(http, "MOST_CONNECTIONS", 3 * len(HALVES))
    entered, leave = threading.Event(), threading.Event()

    def slow(*_: object) -> list[object]:
        entered.set()
        assert leave.wait(30)
        return []

    monkeypatch.setattr(SqlStore, "baselines", slow)
    app = http.application(state, Metrics().registry, lambda: TOKEN)
    with (
        http.Server("127.0.0.1:0", app) as server,
        urllib3.HTTPConnectionPool("127.0.0.1", server.port, retries=False, maxsize=4) as pool,
        ThreadPoolExecutor(1) as other,
    ):
        headers = {TOKEN_HEADER: TOKEN}
        whole = other.submit(pool.request, "GET", "/api/v1/baselines", headers=headers)
        assert entered.wait(30)
        for half in HALVES * 3:
            connection = socket.create_connection(("127.0.0.1", server.port), 30)
            with connection:
                connection.sendall(half)
                with contextlib.suppress(ConnectionError):
                    while connection.recv(1 << 16):
                        pass
        assert pool.request("GET", "/metrics").status == 200
        leave.set()
        assert whole.result().status == 200


def test_few_documents_are_made_at_once(
    get: Get, state: OperatorState, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch, operator_read=0.05)
    entered, leave = threading.Semaphore(0), threading.Event()

    def slow(*_: object) -> list[object]:
        entered.release()
        assert leave.wait(30)
        return []

    monkeypatch.setattr(SqlStore, "baselines", slow)
    with ThreadPoolExecutor(60) as pool:
        made = [pool.submit(get, "/api/v1/baselines") for _ in range(http.MOST_READS)]
        for _ in made:
            assert entered.acquire(timeout=30)
        assert get("/api/v1/baselines").status == 503
        assert get("/healthz").status == 200
        shorten(monkeypatch, operator_read=30.0)
        made += [pool.submit(get, "/api/v1/baselines") for _ in range(50)]  # more than threads
        assert get("/metrics").status == 200
        assert not any(one.done() for one in made)
        leave.set()
        assert {one.result().status for one in made} == {200}
