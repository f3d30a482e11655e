"""Requests to one API server: retried where that helps, counted, their faults as one type.

Objects are plain data. Any thread may ask. What the server wants (Retry-After of 429 and 503) is
heeded; a broken connection is tried again where asking twice does no harm, with growing pauses,
for as long as ``patience`` says.
"""

from __future__ import annotations

import contextlib
import functools
import math
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client import faults, transport
from k8sbench.adapters.kubernetes.client.answers import LineStream, Watch
from k8sbench.adapters.kubernetes.client.credentials import Credentials, Secrets
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.client.transport import Transport
from k8sbench.model.errors import BenchError
from k8sbench.model.kube import KubeObject
from k8sbench.model.run import Location

if TYPE_CHECKING:
    import urllib3

__all__ = ["Api", "ApiFault", "KubeObject", "LineStream", "Watch"]

FIELD_MANAGER = "k8sbench"
CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
"""Until the first byte of an answer. A busy server lets requests wait in its queues."""
PATIENCE_SECONDS = 30.0
PAGE = 250
"""Objects in one part of a list: some MB of pods."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
QUICK_CONNECT_SECONDS = 2.0
"""For a connection to a server that may not be there."""
JUST_BACK_SECONDS = 20.0
"""For so long after it was away it may refuse everything: it has just started, and does not know
the roles yet. Such refusals are told as 503."""
SAME_TIME_SECONDS = 5.0
"""Clocks that differ by less count as equal: answers carry whole seconds, and take a while."""
_DATES = 8
"""Answers whose times are compared with ours; the quickest of them is right."""


_METHODS = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}
"""Verb of the access rules → HTTP method; of all others it is GET."""


class _Request(NamedTuple):
    """One request."""

    verb: str
    """As access rules call it: get, list, watch, create, patch, delete."""
    path: str
    query: Mapping[str, str] = {}
    body: Mapping[str, Any] | None = None


class Api:
    """One API server, asked in one namespace."""

    def __init__(
        self, place: Location, why: str, reached: Transport, credentials: Credentials
    ) -> None:
        self.place = place
        self.why = why
        """How it was chosen: ``context a of ~/.kube/config``, ``in-cluster configuration``."""
        self.requests: Counter[str] = Counter()
        """How many requests were sent: ``create pytorchjobs``, ``watch pods``."""
        self.clock: Callable[[], float] = time.time
        """Ours, Unix seconds."""
        self.patience = PATIENCE_SECONDS
        """Longest time, seconds, for which an answer is waited for and a request is tried on."""
        self.ahead = 0.0
        """Seconds by which the API server's clock is ahead of ours, as its answers say."""
        self._aheads: deque[float] = deque(maxlen=_DATES)
        self._transport = reached
        self._credentials = credentials
        self._lock = threading.Lock()
        self._pool: urllib3.PoolManager | None = None
        self._certificates: tuple[bytes | None, ...] = ()
        """Those of the pool: ours, and the authority's."""
        self._is_closed = threading.Event()
        self._away_at = -math.inf
        """When it last did not answer; never goes back."""

    # -- asking ---------------------------------------------------------------------------------

    def get(self, path: str, *, patience: float = PATIENCE_SECONDS, **query: str) -> KubeObject:
        """Return an object; raises :class:`ApiFault`, ``status`` 404 where there is none."""
        return self._object(_Request("get", path, query), patience)

    def list(
        self,
        path: str,
        *,
        labels: str = "",
        fields: str = "",
        keep: Callable[[KubeObject], KubeObject | None] | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> tuple[list[KubeObject], str]:
        """Return objects and the resourceVersion that they are of; asks for one page at a time.

        ``keep`` makes what is kept of each; None of an object leaves it out.
        """
        query = _query(labelSelector=labels, fieldSelector=fields, limit=str(PAGE))
        found: list[KubeObject] = []
        while True:
            answer = self._ask(_Request("list", path, query), patience)
            page = _PAGES.decode(answer)
            for raw in page.items:
                item: KubeObject | None = msgspec.json.decode(raw)
                if item is not None and keep is not None:
                    item = keep(item)
                if item is not None:
                    found.append(item)
            if not page.metadata.continue_:
                return found, page.metadata.resource_version
            query["continue"] = page.metadata.continue_

    def watch(
        self,
        path: str,
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str,
        timeout_s: int,
        silence_s: float | None = None,
    ) -> Watch:
        """Return changes from a resourceVersion on; the server ends it after ``timeout_s``.

        A connection that is silent for ``silence_s`` longer is taken for dead.
        """
        query = _query(
            labelSelector=labels,
            fieldSelector=fields,
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=str(timeout_s),
        )
        read_s = timeout_s + (10.0 if silence_s is None else silence_s)
        return Watch(LineStream(self._send(_Request("watch", path, query), read_s=read_s)))

    def create(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool = False,
        patience: float = PATIENCE_SECONDS,
    ) -> KubeObject:
        """Create an object, checked strictly.

        A fault without a status, or of the 500s, leaves open whether it was created.
        """
        query = _query(
            fieldManager=FIELD_MANAGER, fieldValidation="Strict", dryRun="All" if dry_run else ""
        )
        return self._object(_Request("create", path, query, body), patience)

    def patch(
        self, path: str, body: Mapping[str, Any], *, patience: float = PATIENCE_SECONDS
    ) -> KubeObject:
        """Change an object by a JSON merge patch."""
        query = _query(fieldManager=FIELD_MANAGER)
        return self._object(_Request("patch", path, query, body), patience)

    def delete(
        self, path: str, *, uid: str | None = None, patience: float = PATIENCE_SECONDS
    ) -> KubeObject | None:
        """Delete an object and, in the background, what it owns; None: it was gone.

        Returns the object as long as a finalizer keeps it, else what the server says instead.
        With a uid only the object that has it: another one of the name is left alone.
        """
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
        }
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        try:
            return self._object(_Request("delete", path, {}, body), patience)
        except ApiFault as fault:
            if fault.status == 404 or (fault.status == 409 and uid is not None):
                return None
            raise

    def stream(self, path: str, *, silence_s: float | None = None, **query: str) -> LineStream:
        """Return the lines of an answer as they come, such as of a log that is followed."""
        return LineStream(self._send(_Request("get", path, query), read_s=silence_s))

    def no_answer(self, seconds: float = 2.0) -> ApiFault | None:
        """Ask the server's version, once; the fault where it does not say it in time.

        One that is there takes a connection at once, and may be slow to answer.
        """
        connect_s = min(seconds, QUICK_CONNECT_SECONDS)
        try:
            version = _Request("get", "/version")
            _read(self._send(version, read_s=seconds, connect_s=connect_s))
        except ApiFault as fault:
            return fault
        return None

    def has_trainer_v2(self) -> bool:
        """Whether Kubeflow Trainer v2 answers."""
        try:
            self.get(kinds.TRAINER_V2, patience=0.0)
        except ApiFault:
            return False
        return True

    def explained(self, fault: ApiFault, doing: str) -> BenchError:
        """Say what a fault means to the user; see :func:`.faults.explained`."""
        known = fault.status == 404 and self.has_trainer_v2()
        return faults.explained(fault, doing, self.place, trainer_v2=known)

    def pause(self, seconds: float) -> None:
        """Wait, at most until :meth:`close`."""
        self._is_closed.wait(random.uniform(seconds / 2, seconds))  # noqa: S311

    def close(self) -> None:
        """Let go of the connections; whoever waits to try again gives up."""
        self._is_closed.set()
        with self._lock:
            if self._pool is not None:
                self._pool.clear()

    # -- sending --------------------------------------------------------------------------------

    def _object(self, request: _Request, patience: float) -> KubeObject:
        answer = self._ask(request, patience)
        try:
            found: KubeObject = msgspec.json.decode(answer)
        except msgspec.DecodeError as wrong:
            raise ApiFault(None, "", f"what came is not JSON: {wrong}") from wrong
        return found

    def _ask(self, request: _Request, patience: float) -> bytes:
        """Send, again where that helps and does no harm; return the whole answer."""
        until = time.monotonic() + min(patience, self.patience)
        read_s = min(READ_SECONDS, self.patience)
        pause = _FIRST_PAUSE
        while True:
            try:
                return _read(self._send(request, read_s=read_s))
            except ApiFault as fault:
                # Of a request that creates, only those that the server says it did not begin.
                again = fault.passes and (request.verb != "create" or fault.retry_after is not None)
                wait = fault.retry_after or random.uniform(pause / 2, pause)  # noqa: S311
                if not again or time.monotonic() + wait > until:
                    raise
            if self._is_closed.wait(wait):
                raise ApiFault(None, "", "k8sbench let go of the cluster")
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _send(
        self,
        request: _Request,
        *,
        read_s: float | None = READ_SECONDS,
        connect_s: float = CONNECT_SECONDS,
    ) -> urllib3.BaseHTTPResponse:
        """Send a request once, or twice where one of us was refused and there is news of that."""
        send = functools.partial(self._sent, request, read_s, connect_s)
        secrets = self._secrets()
        try:
            response = send(secrets)
        except ApiFault as untrusted:
            if untrusted.reason != faults.CERTIFICATE or not self._renew(secrets):
                raise
            response = send(self._secrets())
        else:
            if response.status == 401 and self._renew(secrets):
                _read(response)
                response = send(self._secrets())
        if response.status < 400:
            return response
        fault = _fault(response)
        if fault.status in {401, 403} and time.monotonic() - self._away_at < JUST_BACK_SECONDS:
            raise ApiFault(503, "JustBack", fault.message, retry_after=1.0)
        if response.status >= 500:
            self._away_at = time.monotonic()
        raise fault

    def _sent(
        self, request: _Request, read_s: float | None, connect_s: float, secrets: Secrets
    ) -> urllib3.BaseHTTPResponse:
        import urllib3

        verb, path, query, body = request

        headers = {"Accept": "application/json", "User-Agent": "k8sbench"}
        if verb in {"get", "list"} and read_s is not None:
            headers["Accept-Encoding"] = "gzip"
        if path.endswith("/log"):
            del headers["Accept"]
        if secrets.authorization is not None:
            headers["Authorization"] = secrets.authorization
        if body is not None:
            kind = "merge-patch+json" if verb == "patch" else "json"
            headers["Content-Type"] = f"application/{kind}"
        with self._lock:
            self.requests[f"{verb} {kinds.resource(path)}"] += 1
            pool = self._fitting_pool(secrets)
        try:
            response = pool.request(
                _METHODS.get(verb, "GET"),
                self._transport.server + path + _encoded(query),
                body=None if body is None else msgspec.json.encode(body),
                headers=headers,
                timeout=urllib3.Timeout(connect=connect_s, read=read_s),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as wrong:
            self._away_at = time.monotonic()
            raise faults.from_transport(wrong) from wrong
        self._compare_clocks(response.headers.get("Date", ""))
        return response

    def _compare_clocks(self, date: str) -> None:
        from email.utils import parsedate_to_datetime

        with contextlib.suppress(ValueError), self._lock:
            self._aheads.append(parsedate_to_datetime(date).timestamp() - self.clock())
            # An answer that took long seems to come from a clock that is behind.
            most = max(self._aheads)
            self.ahead = most if abs(most) >= SAME_TIME_SECONDS else 0.0

    def _secrets(self) -> Secrets:
        try:
            return self._credentials.current()
        except BenchError as wrong:
            raise ApiFault(None, faults.CREDENTIALS, wrong.message) from wrong

    def _renew(self, refused: Secrets) -> bool:
        try:
            return self._credentials.renew(refused)
        except BenchError as wrong:
            raise ApiFault(None, faults.CREDENTIALS, wrong.message) from wrong

    def _fitting_pool(self, secrets: Secrets) -> urllib3.PoolManager:
        """Return the pool, a new one where a certificate is another now."""
        certificates = (secrets.certificate, secrets.authority)
        if self._pool is None or self._certificates != certificates:
            try:
                self._pool = transport.pool(self._transport, secrets)
            except ApiFault:
                if self._pool is None:
                    raise
                # A file that is being written just now: the next request reads it again.
            else:
                self._certificates = certificates
        return self._pool


class _Metadata(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _Metadata
    items: list[msgspec.Raw] = []


# Made here, once: msgspec crashes where two threads are the first to use a type.
_PAGES = msgspec.json.Decoder(_Page)


def _query(**values: str) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def _encoded(query: Mapping[str, str]) -> str:
    from urllib.parse import urlencode

    return f"?{urlencode(query)}" if query else ""


def _read(response: urllib3.BaseHTTPResponse) -> bytes:
    import urllib3

    try:
        return response.read(decode_content=True)
    except (urllib3.exceptions.HTTPError, OSError) as wrong:
        raise faults.from_transport(wrong) from wrong
    finally:
        response.release_conn()


def _fault(response: urllib3.BaseHTTPResponse) -> ApiFault:
    """Make a fault of an answer that is a refusal; a proxy's need not be a Status."""
    retry_after: float | None = None
    with contextlib.suppress(KeyError, ValueError):
        retry_after = float(response.headers["Retry-After"])
    text = _read(response)
    status: Any = None
    with contextlib.suppress(msgspec.DecodeError):
        status = msgspec.json.decode(text)
    if isinstance(status, dict) and status.get("kind") == "Status":
        return faults.from_status({"code": response.status, **status}, retry_after)
    said = text.decode(errors="replace").strip()[:300]
    return ApiFault(response.status, "", said or str(response.reason or ""), retry_after)
