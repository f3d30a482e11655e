"""Collector of a namespace: requests to it, and its Lease.

Requests go through the API server's service proxy. The Lease of ``coordination.k8s.io`` elects the
collector by the usual protocol. A holder that does not renew the Lease for its duration has lost
it. The time counts from the last change seen here, as in client-go: the clocks of machines differ.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import math
import platform
import re
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault, Tolerated
from k8sbench.adapters.kubernetes.client.transport import Request, read
from k8sbench.adapters.store import disk
from k8sbench.model.errors import BenchError, Unreachable
from k8sbench.model.kube import MOST_RUNS, TOKEN_HEADER, KubeObject, name_of
from k8sbench.model.ownership import OPERATOR
from k8sbench.model.run import Baseline, Run
from k8sbench.model.times import SERVER_SECONDS

T = TypeVar("T")
LABELS = "app.kubernetes.io/name=dlperf,app.kubernetes.io/component=collector"
PORT = "http"
CONFIG_MAP = "dlperf-collector"
"""ConfigMap that names the namespace's collector in another namespace.

Keys: ``namespace`` and ``service``.
"""

LEASE_SECONDS = 15
"""Duration of a Lease without renewal."""
REQUEST_SECONDS = 5.0
"""Time limit of one request."""
RENEW_SECONDS = 4.0
"""Interval of renewals."""
TOKEN_SECONDS = 60.0
"""Interval of reading the token, which may be replaced."""
HELD_SECONDS = 10.0
"""Seconds after a renewal until the collector stops.

Others may take over 15 s after the renewal.
"""
TOKEN_KEY = "token"


def token(api: Api, name: str) -> str:
    """Return the token that the collector's readers send; creates a missing one.

    ``name`` is the collector's. Raises :class:`BenchError`.
    """
    path, drawn = kinds.path("Secret", api.place.namespace), secrets.token_urlsafe(32)
    with api.explaining(f"Secret {_secret(name)} be read or created"):
        if (found := _read_token(api, api.place.namespace, name)) is not None:
            return found
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": _secret(name), "ownerReferences": _owners(api, name)},
            "stringData": {TOKEN_KEY: drawn},
        }
        if _is_first(lambda: api.create(path, body, retry_s=0.0), 409):
            return drawn
        return _read_token(api, api.place.namespace, name) or ""


def _secret(name: str) -> str:
    return f"{name}-token"


def _owners(api: Api, name: str) -> list[Mapping[str, str]]:
    """Return an owner reference to the chart's Deployment of this name.

    The Lease and the token are deleted with the Deployment.
    """
    path = kinds.path("Deployment", api.place.namespace, name)
    found = None
    with Tolerated(403):
        found = api.find(path, brief=True, retry_s=REQUEST_SECONDS)
    about = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return [] if found is None else [about | {"uid": found["metadata"]["uid"]}]


def _read_token(api: Api, namespace: str, name: str) -> str | None:
    path = kinds.path("Secret", namespace, _secret(name))
    found = api.find(path, retry_s=REQUEST_SECONDS)
    if found is None:
        return None
    kept = (found.get("data") or {}).get(TOKEN_KEY, "")
    text = base64.b64decode(kept).strip().decode(errors="replace")
    if text and text.isascii() and text.isprintable():
        return text
    raise Unreachable(
        f"The Secret {_secret(name)} of namespace {namespace} holds no token that can be sent.",
        f"Put printable ASCII under its key {TOKEN_KEY!r}, such as: openssl rand -hex 32",
    )


class _File(msgspec.Struct):
    """Fields read from an entry of ``/artifacts``."""

    name: str
    bytes: int


_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Made once, here: msgspec crashes where two threads are the first to use a type.
_RUN = msgspec.json.Decoder(Run)
_RUNS = msgspec.json.Decoder(list[Run])
_FILES = msgspec.json.Decoder(list[_File])
_BASELINES = msgspec.json.Decoder(list[Baseline])


class CollectorProxy:
    """The collector of one namespace, if there is one."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._base: str | None = None
        self._headers: dict[str, str] = {}

    def is_there(self) -> bool:
        """Return True if the namespace has a collector.

        Raises :class:`BenchError` if that cannot be known.
        """
        with self._api.explaining("a collector be looked for"):
            namespace, service = self._service()
        if service:
            self._base = kinds.path("Service", namespace, f"{service}:{PORT}", "proxy")
            with self._api.explaining("the collector's token be read"):
                # It makes its token when it first starts.
                kept = _read_token(self._api, namespace, service)
            self._headers = {} if kept is None else {TOKEN_HEADER: kept}
        return self._base is not None

    def _service(self) -> tuple[str, str]:
        """Return the namespace and name of the collector's service.

        The name is empty if there is no service.
        """
        here = self._api.place.namespace
        found, _ = self._api.list(kinds.path("Service", here), labels=LABELS, retry_s=0.0)
        if found:
            return here, name_of(found[0])
        named = self._api.find(kinds.path("ConfigMap", here, CONFIG_MAP), retry_s=0.0) or {}
        data = named.get("data") or {}
        # Users may create it, and names become parts of paths.
        return quote(data.get("namespace", here), ""), quote(data.get("service", ""), "")

    def runs(self, query: Mapping[str, str], seconds: float = math.inf) -> Iterator[Run]:
        """Yield the runs that match, page by page, the newest page first.

        A run may come again. No page is asked for later than ``seconds``; :class:`Unreachable`.
        """
        given = {**query, "detail": "status", "limit": f"{MOST_RUNS}"}
        until = time.monotonic() + seconds
        while True:
            page = _understood(_RUNS, self.read("runs", given) or b"[]")
            yield from map(_theirs, page)
            # The oldest one comes again: another may have been created at the same time.
            before = repr(min((run.created_at for run in page), default=0.0))
            if len(page) < MOST_RUNS or given.get("until") == before:
                return
            if time.monotonic() > until:
                raise Unreachable(f"It has not answered in {seconds:g} s.", "Try again.")
            given = {**given, "until": before}

    def run(self, text: str) -> Run | None:
        """Return the run with this id or unique id prefix, if there is one."""
        answer = self.read(f"runs/{text}", {})
        return None if answer is None else _theirs(_understood(_RUN, answer))

    def baselines(self) -> list[Baseline]:
        """Return its baselines; none of a collector that knows no such."""
        return _understood(_BASELINES, self.read("baselines", {}) or b"[]")

    def copy(
        self, run_id: str, folder: Path, kinds: Sequence[Literal["logs", "gpu", ""]]
    ) -> list[Path]:
        """Copy a run's logs, GPU series or other files (``""``) into a folder.

        Returns the copies; raises :class:`BenchError`.
        """
        copies = []
        files = self.read(f"runs/{run_id}/artifacts", {}) or b"[]"
        for entry in _understood(_FILES, files):
            kind, _, name = entry.name.rpartition("/")
            if kind not in kinds or _FILE_NAME.fullmatch(name) is None:
                continue
            path = folder / kind / name
            disk.make_folder(path.parent)
            copies.append(path)
            try:
                with disk.create(path, "wb") as out:
                    if entry.bytes:
                        out.writelines(self.pieces(f"runs/{run_id}/artifacts/{entry.name}"))
            except ApiFault as fault:
                raise Unreachable(
                    f"The collector's file {entry.name} of run {run_id} cannot be read:"
                    f" {fault.message.rstrip('.')}.",
                    "Try again.",
                ) from fault
        return copies

    def read(self, path: str, query: Mapping[str, str]) -> bytes | None:
        """Return a document; None if the collector does not have it."""
        try:
            sender, seconds = self._api.sender, self._api.retry_s
            request = Request("get", self._at(path), query, headers=self._headers)
            return read(sender.send(request, read_s=seconds), seconds)
        except ApiFault as fault:
            if fault.status == 404:
                return None
            if fault.status in {401, 403}:
                raise self._api.explained(fault, "the collector be read") from fault
            raise Unreachable(
                f"The collector does not answer ({fault.message.rstrip('.')}).",
                "See: kubectl get pods -l app.kubernetes.io/component=collector",
            ) from fault

    def pieces(self, path: str) -> Iterator[bytes]:
        """Yield a document as it arrives; raises :class:`ApiFault`."""
        seconds, headers = self._api.retry_s, self._headers
        at = self._at(path)
        yield from self._api.stream(at, {}, silence_s=seconds, headers=headers).chunks()

    def _at(self, path: str) -> str:
        return f"{self._base}/api/v1/{quote(path)}"


def _understood(decoder: msgspec.json.Decoder[T], answer: bytes) -> T:
    """Decode an answer; :class:`Unreachable` if this version cannot read it."""
    try:
        return decoder.decode(answer)
    except msgspec.MsgspecError as error:
        raise Unreachable(
            f"Its answer is not one that this version of k8sbench reads ({error}).",
            "Use the version of k8sbench that the collector has.",
        ) from error


def _theirs(answer: Run) -> Run:
    """Make of its answer the run that it has."""
    return msgspec.structs.replace(
        answer,
        owner=None,
        artifacts=None,
        artifacts_missing=f"The collector has its files: k8sbench logs {answer.run_id}",
        source=OPERATOR,
    )


class Lease:
    """A Lease that ``holder`` wants, in the namespace of ``api``.

    One thread uses it.
    """

    def __init__(
        self, api: Api, name: str, holder: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api, self._name, self._holder, self._clock = api, name, holder, clock
        self._seen: tuple[str, float] | None = None
        """Last known version and when it was first seen, monotonic seconds."""
        self.other: str = "another one"
        """Last known holder other than this process."""

    def attempt(self) -> bool:
        """Take or renew the Lease; returns True if this process holds it.

        Raises :class:`BenchError`.
        """
        with self._api.explaining(f"Lease {self._name} be renewed"):
            found = self._find()
            at = datetime.datetime.fromtimestamp(self._api.time(), datetime.UTC)
            now = at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            mine = {
                "holderIdentity": self._holder,
                "leaseDurationSeconds": LEASE_SECONDS,
                "acquireTime": now,
                "renewTime": now,
            }
            if found is None:
                return self._create(mine)
            spec = _spec(found)
            other = str(spec.get("holderIdentity") or "")
            if other == self._holder:
                return self._write(found, renewTime=now)
            version = found["metadata"]["resourceVersion"]
            if self._seen is None or self._seen[0] != version:
                self._seen = (version, self._clock())
            expires_at = self._seen[1] + float(spec.get("leaseDurationSeconds") or LEASE_SECONDS)
            self.other = other or self.other
            if other and self._clock() < expires_at:
                return False
            transitions = int(spec.get("leaseTransitions") or 0) + 1
            return self._write(found, **mine, leaseTransitions=transitions)

    def release(self) -> None:
        """Release the Lease, so that the next holder need not wait.

        Raises :class:`BenchError`.
        """
        with self._api.explaining(f"Lease {self._name} be released"):
            found = self._find()
            if found is not None and _spec(found).get("holderIdentity") == self._holder:
                self._write(found, holderIdentity="", leaseDurationSeconds=1)

    def _path(self, name: str = "") -> str:
        return kinds.path("Lease", self._api.place.namespace, name)

    def _find(self) -> KubeObject | None:
        return self._api.find(self._path(self._name), retry_s=REQUEST_SECONDS)

    def _create(self, spec: Mapping[str, object]) -> bool:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "ownerReferences": _owners(self._api, self._name)},
            "spec": spec,
        }
        return _is_first(lambda: self._api.create(self._path(), body, retry_s=0.0), 409)

    def _write(self, found: KubeObject, **spec: object) -> bool:
        """Change the Lease; False if another process changed it first."""
        metadata = {"resourceVersion": found["metadata"]["resourceVersion"]}
        body = {"metadata": metadata, "spec": spec}
        path = self._path(self._name)
        return _is_first(lambda: self._api.patch(path, body, retry_s=0.0), 404, 409)


class Leadership:
    """Lease holder: acquires and renews in its own thread while entered.

    Of several collectors the holder collects; the others wait.
    """

    def __init__(self, connect: Callable[[], Api], name: str, note: Callable[[str], None]) -> None:
        self._connect, self._name, self._note = connect, name, note
        self.waits_for = ""
        """Holder of the Lease, or the error; empty if held or not requested."""
        self.stands_by = False
        """True if another process held the Lease at the last attempt."""
        self.token = ""
        """Token that readers send; empty until it is read."""
        self._renewed_at: float | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    @property
    def is_held(self) -> bool:
        """Return True if this process may collect."""
        at = self._renewed_at
        return at is not None and time.monotonic() - at < HELD_SECONDS

    def __enter__(self) -> Leadership:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(HELD_SECONDS)

    def _keep(self) -> None:
        holder = f"{platform.node()}_{uuid.uuid4().hex[:8]}"
        while not self._stopped.is_set():
            try:
                with contextlib.closing(self._connect()) as api:
                    api.retry_s = REQUEST_SECONDS
                    self._renew(api, Lease(api, self._name, holder))
            except BenchError as error:
                self.waits_for = str(error)
            self._stopped.wait(SERVER_SECONDS)

    def _renew(self, api: Api, lease: Lease) -> None:
        read_at, problem = 0.0, ""
        while not self._stopped.is_set():
            began = time.monotonic()
            try:
                if not self.token or began - read_at >= TOKEN_SECONDS:
                    self.token, read_at, problem = token(api, self._name), began, ""
            except BenchError as error:
                if str(error) != problem:
                    problem = str(error)
                    self._note(f"warning: nobody can read this collector: {problem}")
            try:
                is_ours = lease.attempt()
            except BenchError as error:
                self.waits_for, self.stands_by = error.message, False
            else:
                self.waits_for = "" if is_ours else f"{lease.other} holds Lease {self._name}"
                self.stands_by = not is_ours
                self._renewed_at = began if is_ours else None
            self._stopped.wait(RENEW_SECONDS if self.is_held else SERVER_SECONDS)
        if self.is_held:
            self._renewed_at = None
            with contextlib.suppress(BenchError):  # it expires
                lease.release()


def _spec(found: KubeObject) -> Mapping[str, Any]:
    return found.get("spec") or {}


def _is_first(request: Callable[[], object], *late: int) -> bool:
    """Send a request; False if another process was faster.

    The HTTP statuses in ``late`` say so.
    """
    with Tolerated(*late):
        request()
        return True
    return False
