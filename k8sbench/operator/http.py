"""HTTP server of the operator: read-only, for holders of its token.

Probes and metrics need no token. It is reached within the cluster, and from outside through the API
server's service proxy. Its documents have the form that the CLI prints.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import secrets
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import h11
import msgspec
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from k8sbench import limits
from k8sbench.app import benchmarks, reports, stores
from k8sbench.app.run_list import rejections, with_rejection
from k8sbench.app.run_status import log_files
from k8sbench.messages import Lang
from k8sbench.model.errors import BenchError, NotFound, StoreError, UsageError
from k8sbench.model.group import Group, GroupList
from k8sbench.model.group_filter import GroupFilter
from k8sbench.model.kube import MOST_GROUPS, MOST_RUNS, TOKEN_HEADER
from k8sbench.model.masking import mask_pieces, masked
from k8sbench.model.measurement import SCHEMA
from k8sbench.model.names import resolve
from k8sbench.model.run import Run
from k8sbench.operator.controller import OperatorState
from k8sbench.results.groups import selection
from k8sbench.results.report import document
from k8sbench.results.report.document import ListedRun, RunStatus
from k8sbench.results.stored_groups import StoredGroups
from k8sbench.store.group_interface import GroupedStore
from k8sbench.store.interface import RunFilter

LOGS = "logs"
"""Folder of a run's folder with its logs."""


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a run's folder."""

    schema: int = SCHEMA
    """Version of the document."""
    name: str
    """Path below the folder."""
    bytes: int
    """Size of the file."""
    written_at: float
    """Unix seconds."""


def runs(store: GroupedStore, query: Mapping[str, str]) -> list[ListedRun] | list[RunStatus]:
    """Return the newest runs that match, oldest first; ``detail=status`` with all there is.

    There are at most :data:`MOST_RUNS`; those before them are asked for with ``until``.
    """
    matching = store.runs(_filter(query))
    if query.get("detail") == "status":
        return [_recorded(store, run) for run in matching]
    groups = StoredGroups(store, lambda _: None)
    rejected = rejections({run.set_name for run in matching}, groups)
    return [with_rejection(document.listed(run), rejected) for run in matching]


def run(store: GroupedStore, _: Mapping[str, str], text: str) -> RunStatus:
    """Return the run of an id, or of a unique beginning of one."""
    return _recorded(store, _find(store, text))


def _recorded(store: GroupedStore, run: Run) -> RunStatus:
    return document.status(run, log_files=log_files(store, run))


def groups(store: GroupedStore, query: Mapping[str, str]) -> Any:
    """Return the rows of ``results -o json``."""
    report = _report(store, query)
    return document.document(report.results, report.parities)


def group_list(store: GroupedStore, query: Mapping[str, str]) -> GroupList:
    """Return the rows of all groups, and the names of all runs.

    ``accept=ID,ID``: with these reasons overruled.
    """
    return GroupList(
        rows=_accepting(store, query).rows,
        created=store.group_index.created(),
        accepted=store.accepted_levels(),
    )


def _accepting(store: GroupedStore, query: Mapping[str, str]) -> StoredGroups:
    accept = tuple(filter(None, query.get("accept", "").split(",")))
    return StoredGroups(store, lambda _: None, accept=accept)


def groups_by_id(store: GroupedStore, query: Mapping[str, str], ids: str) -> list[Group]:
    """Return groups by their ids, with commas between, less those that are gone.

    ``accept`` as of :func:`group_list`.
    """
    names = set(ids.split(","))
    if len(names) > MOST_GROUPS:
        raise UsageError(f"{len(names)} groups are too many.", f"Ask for {MOST_GROUPS} at most.")
    groups = _accepting(store, query)
    return groups.groups(row for row in groups.rows if row.group_id in names)


def page(
    where: str | None,
    store: GroupedStore,
    query: Mapping[str, str],
    *,
    serves_observed: bool = False,
) -> str:
    """Return the page of ``results -o html``.

    ``lang=zh``: in Chinese; ``published=true``: with published figures. ``serves_observed``: with
    links to the logs of observed jobs.
    """
    lang: Lang = "zh" if query.get("lang") == "zh" else "en"
    if query.get("lang", lang) != lang:
        raise UsageError(f"lang={query['lang']} is none.", "Ask for en or zh.")
    is_published = query.get("published") == "true"
    report = _report(store, query, published=is_published, over_sets=True)
    members = [member for row in report.results for member in row.group.members]
    files = {
        member.run_id: _files(store, member.run_id)
        for member in members
        if serves_observed or member.source != "observed"
    }
    return reports.page(report, (), where, lambda _: None, lang=lang, files=files)


def _files(store: GroupedStore, run_id: str) -> list[str]:
    """List the manifest and the logs of a run's folder."""
    folder = store.folder(run_id)
    paths = [folder / "manifest.yaml", *store.log_files(run_id)]
    return [path.relative_to(folder).as_posix() for path in paths if path.is_file()]


def _report(
    store: GroupedStore,
    query: Mapping[str, str],
    *,
    published: bool = False,
    over_sets: bool = False,
) -> selection.Report:
    asked = _filter(query)
    wanted = selection.Wanted(
        chosen=GroupFilter(benchmark=asked.benchmark, framework=asked.framework),
        set_name=asked.set_name,
        since=asked.since,
        every=query.get("all") == "true",
    )
    find = benchmarks.spec_finder(store, lambda _: None)
    groups = StoredGroups(store, lambda _: None)
    return selection.report(groups, wanted, find=find, published=published, over_sets=over_sets)


def artifacts(
    store: GroupedStore, _: Mapping[str, str], text: str, *, serves_observed: bool = False
) -> list[Artifact]:
    """List the files of a run's folder; logs of an observed job only if they are served."""
    run = _find(store, text)
    folder = store.folder(run.run_id)
    names = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not serves_observed and _is_observed_log(run, name):
            continue
        if path.is_file() and not path.is_symlink():
            about = path.stat()
            names.append(Artifact(name=name, bytes=about.st_size, written_at=about.st_mtime))
    return names


def _is_observed_log(run: Run, name: str) -> bool:
    return run.facts.job is not None and name.startswith(f"{LOGS}/")


def artifact(
    store: GroupedStore,
    _: Mapping[str, str],
    text: str,
    name: str,
    *,
    serves_observed: bool = False,
) -> Path:
    """Return a file of a run's folder, and never one that is elsewhere."""
    run = _find(store, text)
    folder = store.folder(run.run_id).resolve()
    path = (folder / name).resolve()
    if not path.is_relative_to(folder) or not path.is_file():
        raise NotFound(f"Run {text} has no artifact {name!r}.")
    if not serves_observed and _is_observed_log(run, path.relative_to(folder).as_posix()):
        raise NotFound(
            "This operator serves no logs of observed jobs.",
            "An administrator may allow it with observe.serveLogs of the chart.",
        )
    return path


def _find(store: GroupedStore, text: str) -> Run:
    return store.run(resolve(store.ids(), text, where="in the operator's store"))


def _filter(query: Mapping[str, str]) -> RunFilter:
    """Read a query; what it says besides is ignored."""
    given = {"limit": MOST_RUNS, "set_name": query.get("set"), **query}
    try:
        wanted = msgspec.convert(given, RunFilter, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"The query cannot be read: {error}.") from error
    return msgspec.structs.replace(wanted, limit=min(wanted.limit or MOST_RUNS, MOST_RUNS))


# -- the server ------------------------------------------------------------------------------------


PIECE = 1 << 16
HEALTHY_SECONDS = 300.0
"""Seconds that one step may take, such as a slow listing."""
MOST_CONNECTIONS = 400
"""Open connections beyond which requests are answered with 503."""
REQUEST_SECONDS = 10
"""Time limit for a connection to begin its next request."""
WHOLE_SECONDS = 5.0
"""Time limit for a request to arrive as a whole.

Else connections that send half of one take the place of all others, without a token.
"""
START_SECONDS, END_SECONDS = 10.0, 5.0
"""Time limits for the server to start listening, and to end."""


OPEN = frozenset({"/startupz", "/healthz", "/readyz", "/metrics"})
"""Paths for which no token is needed."""
MOST_READS = 2
"""Limit of documents built concurrently."""


class _Guard:
    """Middleware that requires the token, in its own header or as Basic's password."""

    def __init__(self, app: ASGIApp, token: Callable[[], str]) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        answer: ASGIApp = self._app
        if scope["type"] == "http" and scope["path"] not in OPEN:
            given = _given(Headers(scope=scope))
            token = self._token()
            if not token:
                answer = _json_error("The operator has no token yet.", 503)
            elif given is None:
                answer = _json_error("A token is needed: see docs/operator.md.", 401)
            elif not secrets.compare_digest(given.encode(), token.encode()):
                answer = _json_error("The token is not this operator's.", 403)
        await answer(scope, receive, send)


def _given(headers: Headers) -> str | None:
    """Return the token of a request; None: it has none."""
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return headers.get(TOKEN_HEADER)
    try:
        return base64.b64decode(value).decode().partition(":")[2]
    except ValueError:
        return ""


def _json_error(message: str, status: int) -> Response:
    headers = {"WWW-Authenticate": 'Basic realm="k8sbench"'} if status == 401 else None
    return JSONResponse({"error": message, "action": ""}, status, headers)


def application(
    state: OperatorState, registry: CollectorRegistry, token: Callable[[], str]
) -> Starlette:
    """Make the application of what is served at present."""
    reads = threading.BoundedSemaphore(MOST_READS)

    async def metrics(_: Request) -> Response:
        # Not in the threads of documents, in which some may wait.
        text = await asyncio.to_thread(generate_latest, registry)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    def answer(read: Callable[..., Any]) -> Callable[[Request], Response]:
        """Make an endpoint of a function that reads the store.

        The function takes the query and the names in the path, and returns a page, document or
        file. Few run at once, so that probes and collecting go on.
        """

        def endpoint(request: Request) -> Response:
            query, named = request.query_params, request.path_params
            if not reads.acquire(timeout=limits.now.operator_read):
                raise StoreError("The operator is busy.", "Try again.")
            try:
                where = state.settings.store
                with stores.open_readonly(where, lambda _: None) as store:
                    found = read(store, query, **named)
            finally:
                reads.release()
            if isinstance(found, Path):
                return file(found)
            if isinstance(found, str):
                return HTMLResponse(found)
            return Response(msgspec.json.encode(found), media_type="application/json")

        return endpoint

    serves_observed = state.settings.observe_serve_logs
    routes: dict[str, Callable[..., Any]] = {
        "/": partial(page, state.settings.store, serves_observed=serves_observed),
        "/api/v1/runs": runs,
        "/api/v1/runs/{text}": run,
        "/api/v1/runs/{text}/artifacts": partial(artifacts, serves_observed=serves_observed),
        "/api/v1/runs/{text}/artifacts/{name:path}": partial(
            artifact, serves_observed=serves_observed
        ),
        "/api/v1/groups": groups,
        "/api/v1/groups/{ids}": groups_by_id,
        "/api/v1/rows": group_list,
        "/api/v1/baselines": lambda store, _: store.baselines(),
    }
    return Starlette(
        routes=[
            *_probes(state),
            Route("/metrics", metrics),
            *(Route(path, answer(read)) for path, read in routes.items()),
        ],
        middleware=[Middleware(_Guard, token=token)],
        exception_handlers=dict.fromkeys((BenchError, ValueError, OSError), _refusal),
    )


def probes(state: OperatorState) -> Starlette:
    """Make an application of the probes, for their own port and thread."""
    return Starlette(routes=_probes(state))


def _probes(state: OperatorState) -> list[Route]:
    async def startupz(_: Request) -> Response:
        if state.is_starting:
            return PlainTextResponse(f"{state.unready}\n", 503)
        return PlainTextResponse("ok\n")

    async def healthz(_: Request) -> Response:
        silent = time.monotonic() - state.looked_at
        if silent > HEALTHY_SECONDS:
            return PlainTextResponse(f"nothing was done for {silent:.0f} s\n", 503)
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        why = state.unready
        return PlainTextResponse(f"{why or state.doing}\n", 503 if why else 200)

    paths = {"/startupz": startupz, "/healthz": healthz, "/readyz": readyz}
    return [Route(path, probe) for path, probe in paths.items()]


def _refusal(_: Request, error: Exception) -> Response | Awaitable[Response]:
    if not isinstance(error, BenchError):
        # A name that is longer than names of files are.
        is_fault = isinstance(error, OSError) and error.errno != errno.ENAMETOOLONG
        return JSONResponse({"error": masked(str(error)), "action": ""}, 503 if is_fault else 400)
    status = 404 if isinstance(error, NotFound) else 400 if isinstance(error, UsageError) else 503
    return JSONResponse({"error": error.message, "action": error.action}, status)


def file(path: Path) -> Response:
    """Send a file up to its present size, even if it grows; mask a log or manifest.

    Documents are masked where they are written.
    """
    size = path.stat().st_size
    sent = pieces(path, size)
    if path.suffix in {".json", ".jsonl"}:
        kind = "application/json" if path.suffix == ".json" else "text/plain; charset=utf-8"
        return StreamingResponse(sent, 200, {"Content-Length": str(size)}, kind)
    return StreamingResponse(mask_pieces(sent), 200, None, "text/plain; charset=utf-8")


def pieces(path: Path, end: int) -> Iterator[bytes]:
    """Yield a file up to a size, in pieces."""
    position = 0
    with path.open("rb") as stream:
        while position < end and (piece := stream.read(min(PIECE, end - position))):
            position += len(piece)
            yield piece


class _Timely(H11Protocol):
    """HTTP connection that is broken off if a request does not arrive in time."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect the first request."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        self._expect()

    def on_response_complete(self) -> None:
        """Expect the rest of a next request that came with the last one."""
        super().on_response_complete()
        if self.conn.trailing_data[0]:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._stop_expecting()
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self.conn.their_state not in {h11.IDLE, h11.SEND_BODY}:
            self._stop_expecting()
        elif self._late is None:
            self._late = self.loop.call_later(WHOLE_SECONDS, self.transport.abort)

    def _stop_expecting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class Server:
    """Serves an application in a thread of its own while it is entered."""

    def __init__(self, listen: str, app: Starlette) -> None:
        host, colon, port = listen.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65535:
            raise UsageError(
                f"--listen {listen!r} is not an address.", "Write :8080 or 10.0.0.1:8080."
            )
        config = uvicorn.Config(
            app,
            host=host.strip("[]"),
            port=int(port),
            lifespan="off",
            http=_Timely,
            ws="none",
            log_config=None,
            log_level="warning",
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=REQUEST_SECONDS,
            timeout_graceful_shutdown=int(END_SECONDS),
        )
        self._listen = listen
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)

    def __enter__(self) -> Server:
        self._thread.start()
        until = time.monotonic() + START_SECONDS
        while not self._server.started and self._thread.is_alive() and time.monotonic() < until:
            time.sleep(0.01)
        if not self._server.started:
            raise UsageError(f"Nothing can be served at {self._listen}.", "Is the port free?")
        # With port 0 each family of addresses has a port of its own.
        sockets = [bound for server in self._server.servers for bound in server.sockets]
        sockets.sort(key=lambda bound: bound.family is not socket.AF_INET)
        self.port: int = sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(2 * END_SECONDS)

    def _serve(self) -> None:
        try:
            self._server.run()
        except SystemExit:  # uvicorn's answer to a port that is taken, which it has logged
            return
