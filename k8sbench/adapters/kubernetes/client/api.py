"""Requests to one API server: retried where that helps, counted, all faults of one type.

Objects are plain data. Any thread may send requests. Retry-After of 429 and 503 is obeyed; after a
broken connection a request is repeated where a second one does no harm, with growing pauses, for
at most ``retry_s`` seconds. urllib3's own ``Retry`` counts attempts, cannot be interrupted and
does not read Status objects, so it is not used.
"""

from __future__ import annotations

import contextlib
import logging
import math
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import urllib3

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client import faults, transport, validity
from k8sbench.adapters.kubernetes.client.answers import LineStream, Watch
from k8sbench.adapters.kubernetes.client.credentials import Credentials, Secrets
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.client.transport import Transport
from k8sbench.model import times
from k8sbench.model.errors import BenchError
from k8sbench.model.kube import KubeObject
from k8sbench.model.run import Location

__all__ = ["Api", "ApiFault", "KubeObject", "LineStream", "Watch"]

LOG = logging.getLogger(__name__)
FIELD_MANAGER = "k8sbench"
CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
"""Until the first byte of an answer. A busy server lets requests wait in its queues."""
RETRY_SECONDS = 30.0
PAGE = 250
"""Objects in one part of a list: some MB of pods."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
LAST_SECONDS = 1.0
"""For an answer when it is time to give up."""
ABSENT_SECONDS = 1.0
"""How long to look for a server where there is none, or no such name."""
QUICK_CONNECT_SECONDS = 2.0
"""For a connection to a server that may not be there."""
JUST_BACK_SECONDS = 20.0
"""For so long after an outage it may reject every request: it has just started, and has not loaded
the roles yet. Such rejections are raised as 503."""
SAME_TIME_SECONDS = 5.0
"""Clocks that differ by less count as equal: answers carry whole seconds, and take some time."""
OTHER_TIME_SECONDS = 60.0
"""Clocks that differ by more are noted."""
_DATES = 8
"""The last answers whose times are compared with ours; the fastest of them is used."""


_METHODS = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}
"""Verb of the access rules → HTTP method; of all others it is GET."""
_BRIEF = frozenset({"create configmaps", "patch configmaps"})
"""Requests of whose answers the metadata are enough: the trainers' sources need not come back."""
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


class _Request(NamedTuple):
    """One request."""

    verb: str
    """As access rules call it: get, list, watch, create, patch, delete."""
    path: str
    query: Mapping[str, str] = {}
    body: Mapping[str, Any] | None = None
    begin: int = 0
    """The byte of the answer that is wanted first."""


class Api:
    """The client of one API server and one namespace."""

    def __init__(
        self,
        place: Location,
        why: str,
        reached: Transport,
        credentials: Credentials,
        *,
        is_cluster: bool = True,
    ) -> None:
        self.place = place
        self.why = why
        """How it was chosen: ``context a of ~/.kube/config``, ``in-cluster configuration``."""
        self.requests: Counter[str] = Counter()
        """How many requests were sent: ``create pytorchjobs``, ``watch pods``."""
        self.errors: Counter[str] = Counter()
        """How many were refused or not answered, by HTTP status; ``none``: without an answer."""
        self.clock: Callable[[], float] = time.time
        """Ours, Unix seconds."""
        self.retry_s = RETRY_SECONDS
        """Longest time, seconds, to wait for an answer and to repeat a request."""
        self.give_up_at = math.inf
        """Until when requests are repeated, and soon after which none is waited for, monotonic
        seconds."""
        self.ahead = 0.0
        """Seconds by which the API server's clock is ahead of ours, as its answers say."""
        self._aheads: deque[float] = deque(maxlen=_DATES)
        self._transport = reached
        self._credentials = credentials
        self._is_cluster = is_cluster
        """False: the server is another one, which only answers :meth:`stream`."""
        self._lock = threading.Lock()
        self._pool: urllib3.PoolManager | None = None
        self._certificates: tuple[bytes | None, bytes | None] | None = None
        """Those of the connection pool: the client's, and the authority's."""
        self._is_clock_noted = False
        self._is_closed = threading.Event()
        self._away_at = -math.inf
        """When it last did not answer, monotonic seconds."""

    # -- requests -------------------------------------------------------------------------------

    def get(self, path: str, *, retry_s: float = RETRY_SECONDS, **query: str) -> KubeObject:
        """Return an object; raises :class:`ApiFault`, ``status`` 404 where there is none."""
        return self._object(_Request("get", path, query), retry_s)

    def find(self, path: str) -> KubeObject | None:
        """Return an object, None where there is none; raises :class:`ApiFault`."""
        try:
            return self.get(path)
        except ApiFault as fault:
            if fault.status == 404:
                return None
            raise

    def list(
        self,
        path: str,
        *,
        labels: str = "",
        fields: str = "",
        keep: Callable[[KubeObject], KubeObject | None] | None = None,
        retry_s: float = RETRY_SECONDS,
    ) -> tuple[list[KubeObject], str]:
        """Return objects and the resourceVersion that they are of; requests one page at a time.

        ``keep`` makes what is kept of each; None of an object leaves it out.
        """
        query = _query(labelSelector=labels, fieldSelector=fields, limit=str(PAGE))
        found: list[KubeObject] = []
        while True:
            answer = self._ask(_Request("list", path, query), retry_s)
            try:
                page = _PAGES.decode(answer)
            except msgspec.DecodeError as error:
                raise _not_kubernetes(answer) from error
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
        silence_s: float = 10.0,
    ) -> Watch:
        """Return changes since a resourceVersion; the server ends the watch after ``timeout_s``.

        A connection without data for ``silence_s`` longer is closed.
        """
        query = _query(
            labelSelector=labels,
            fieldSelector=fields,
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=str(timeout_s),
        )
        request = _Request("watch", path, query)
        return Watch(LineStream(self._send(request, read_s=timeout_s + silence_s)))

    def create(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool = False,
        retry_s: float = RETRY_SECONDS,
    ) -> KubeObject:
        """Create an object with strict field validation.

        After a fault without a status, or of the 500s, it may have been created all the same.
        """
        query = _query(
            fieldManager=FIELD_MANAGER, fieldValidation="Strict", dryRun="All" if dry_run else ""
        )
        answer = self._ask(_Request("create", path, query, body), retry_s)
        created = _decoded(answer)
        if "kind" not in created:  # a Status has one, too
            raise _not_kubernetes(answer)
        return created

    def patch(
        self, path: str, body: Mapping[str, Any], *, retry_s: float = RETRY_SECONDS
    ) -> KubeObject:
        """Change an object by a JSON merge patch."""
        query = _query(fieldManager=FIELD_MANAGER)
        return self._object(_Request("patch", path, query, body), retry_s)

    def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        foreground: bool = False,
        retry_s: float = RETRY_SECONDS,
    ) -> KubeObject | None:
        """Delete an object and, in the background, what it owns; None: there was none.

        In the ``foreground`` it stays until what it owns is gone.

        Returns the object while a finalizer keeps it, else the server's Status. With a uid only the
        object that has it is deleted, and no other one of the same name; with a ``version`` only
        one that was not changed since, else :class:`ApiFault` is raised, ``status`` 409.
        """
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground" if foreground else "Background",
        }
        conditions = {"uid": uid, "resourceVersion": version}
        if known := {name: value for name, value in conditions.items() if value is not None}:
            body["preconditions"] = known
        try:
            return self._object(_Request("delete", path, {}, body), retry_s)
        except ApiFault as fault:
            if fault.status == 404 or (fault.status == 409 and known.keys() == {"uid"}):
                return None
            raise

    def stream(self, path: str, *, silence_s: float | None = None, **query: str) -> LineStream:
        """Return an answer as it arrives, such as a log that is followed."""
        return self._streamed(_Request("get", path, query), silence_s)

    def rest(self, path: str, begin: int, *, silence_s: float | None = None) -> LineStream:
        """Return what a file holds from byte ``begin`` on, as it arrives."""
        return self._streamed(_Request("get", path, begin=begin), silence_s)

    def _streamed(self, request: _Request, silence_s: float | None) -> LineStream:
        connect_s = CONNECT_SECONDS if silence_s is None else min(CONNECT_SECONDS, silence_s)
        return LineStream(self._send(request, read_s=silence_s, connect_s=connect_s))

    def no_answer(self, seconds: float = 2.0, *, retry_s: float = 0.0) -> ApiFault | None:
        """Request the server's version; return the fault where it does not answer in time.

        A server that runs accepts the connection at once, but its answer may be slow. Where there
        is none, or there are no credentials, soon after is as good as later.
        """
        version = _Request("get", "/version")
        connect_s = min(seconds, QUICK_CONNECT_SECONDS)
        soon = {faults.ABSENT: min(retry_s, ABSENT_SECONDS), faults.CREDENTIALS: 0.0}
        try:
            found = self._ask(version, retry_s, read_s=seconds, connect_s=connect_s, soon=soon)
            if "gitVersion" not in _decoded(found):
                raise _not_kubernetes(found)
        except ApiFault as fault:
            return fault
        return None

    def has_trainer_v2(self) -> bool:
        """Whether Kubeflow Trainer v2 answers."""
        try:
            self.get(kinds.TRAINER_V2, retry_s=0.0)
        except ApiFault:
            return False
        return True

    def explained(self, fault: ApiFault, doing: str) -> BenchError:
        """Return the error that a fault means to the user; see :func:`.faults.explained`."""
        known = fault.status == 404 and self.has_trainer_v2()
        return faults.explained(self._dated(fault), doing, self.place, trainer_v2=known)

    def pause(self, seconds: float) -> None:
        """Wait, at most until :meth:`close`."""
        self._is_closed.wait(random.uniform(seconds / 2, seconds))  # noqa: S311

    def close(self) -> None:
        """Close the connections; requests that wait to be repeated fail."""
        self._is_closed.set()
        with self._lock:
            if self._pool is not None:
                self._pool.clear()
        self._credentials.close()

    # -- sending --------------------------------------------------------------------------------

    def _object(self, request: _Request, retry_s: float) -> KubeObject:
        return _decoded(self._ask(request, retry_s))

    def _ask(
        self,
        request: _Request,
        retry_s: float,
        *,
        read_s: float = READ_SECONDS,
        connect_s: float = CONNECT_SECONDS,
        soon: Mapping[str, float] = {},
    ) -> bytes:
        """Send a request, repeat it where that helps and does no harm; return the whole answer.

        ``soon``: reason of a fault → seconds after which it is not repeated any more.
        """
        began = time.monotonic()
        left = self.give_up_at - began
        longest = min(retry_s, self.retry_s, left)
        read_s = min(read_s, self.retry_s, max(left, LAST_SECONDS))
        pause = _FIRST_PAUSE
        while True:
            try:
                return self._read(self._send(request, read_s=read_s, connect_s=connect_s))
            except ApiFault as fault:
                until = began + soon.get(fault.reason, longest)
                # A creation is repeated only where the server says that it did not begin it.
                again = fault.passes and (request.verb != "create" or fault.retry_after is not None)
                wait = fault.retry_after or random.uniform(pause / 2, pause)  # noqa: S311
                if not again or time.monotonic() + wait > until:
                    raise
            if self._is_closed.wait(wait):
                raise ApiFault(None, "", "k8sbench closed the connection")
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _send(
        self,
        request: _Request,
        *,
        read_s: float | None = READ_SECONDS,
        connect_s: float = CONNECT_SECONDS,
    ) -> urllib3.BaseHTTPResponse:
        """Send a request; raises :class:`ApiFault`, also for an answer that is a refusal."""
        timeout = urllib3.Timeout(connect=connect_s, read=read_s)
        try:
            response = self._send_signed(request, timeout)
        except BenchError as error:
            self._count_error("none")
            raise ApiFault(None, faults.CREDENTIALS, error.message) from error
        except ApiFault:
            self._count_error("none")
            raise
        if response.status < 300:
            return response
        self._count_error(str(response.status))
        fault = self._fault(response)
        if fault.status in {401, 403} and time.monotonic() - self._away_at < JUST_BACK_SECONDS:
            raise ApiFault(503, "JustBack", fault.message, retry_after=1.0)
        if response.status >= 500 and self._answers_itself(request.path):
            self._away_at = time.monotonic()
        raise fault

    def _count_error(self, code: str) -> None:
        with self._lock:
            self.errors[code] += 1

    def _send_signed(self, request: _Request, timeout: urllib3.Timeout) -> urllib3.BaseHTTPResponse:
        """Send a request, once more where a certificate or token was rejected and is renewed."""
        secrets = self._credentials.current()
        try:
            response = self._send_once(request, timeout, secrets)
            if response.status != 401 or not self._credentials.renew(secrets):
                return response
            self._read(response)
        except ApiFault as fault:
            certificates = {faults.CERTIFICATE, faults.CLIENT_CERTIFICATE}
            if fault.reason not in certificates or not self._credentials.renew(secrets):
                raise
        return self._send_once(request, timeout, self._credentials.current())

    def _send_once(
        self, request: _Request, timeout: urllib3.Timeout, secrets: Secrets
    ) -> urllib3.BaseHTTPResponse:
        verb, path, query, body, begin = request
        what = f"{verb} {kinds.resource(path)}"
        headers = urllib3.HTTPHeaderDict({"User-Agent": "k8sbench"})
        for name, value in secrets.impersonation:
            headers.add(name, value)
        if not path.endswith("/log"):
            headers["Accept"] = _METADATA if what in _BRIEF else "application/json"
        if verb in {"get", "list"} and timeout.read_timeout is not None:
            headers["Accept-Encoding"] = "gzip"
        if begin:
            headers["Range"] = f"bytes={begin}-"
        if secrets.authorization is not None:
            headers["Authorization"] = secrets.authorization
        if body is not None:
            kind = "merge-patch+json" if verb == "patch" else "json"
            headers["Content-Type"] = f"application/{kind}"
        with self._lock:
            self.requests[what] += 1
            pool = self._pool_for(secrets)
        try:
            response = pool.request(
                _METHODS.get(verb, "GET"),
                self._transport.server + path + (f"?{urlencode(query)}" if query else ""),
                body=None if body is None else msgspec.json.encode(body),
                headers=headers,
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            if self._answers_itself(path):
                self._away_at = time.monotonic()
            raise faults.from_transport(error, self._transport.proxy) from error
        if self._answers_itself(path):
            self._compare_clocks(response.headers.get("Date", ""))
        return response

    def _answers_itself(self, path: str) -> bool:
        """Return whether it does, and no pod, service or other server with its own clock."""
        return self._is_cluster and "/proxy/" not in path

    def _compare_clocks(self, date: str) -> None:
        with contextlib.suppress(ValueError), self._lock:
            self._aheads.append(parsedate_to_datetime(date).timestamp() - self.clock())
            # An answer that took long seems to come from a clock that is behind.
            most = max(self._aheads)
            self.ahead = most if abs(most) >= SAME_TIME_SECONDS else 0.0
            if abs(most) >= OTHER_TIME_SECONDS and not self._is_clock_noted:
                self._is_clock_noted = True
                LOG.warning(
                    "warning: this machine's clock is %s %s that of the API server %s."
                    " Times are shown by this machine's clock.",
                    times.duration(abs(most)),
                    "behind" if most > 0 else "ahead of",
                    self.place.server,
                )

    def _dated(self, fault: ApiFault) -> ApiFault:
        """Return a fault of a certificate with its dates, where they are what is wrong."""
        now, (ours, authority) = self.clock(), self._certificates or (None, None)
        if fault.reason == faults.CLIENT_CERTIFICATE or (fault.status == 401 and ours):
            wrong = _wrong(ours, now)
            return fault if wrong is None else ApiFault(401, faults.CLIENT_CERTIFICATE, wrong)
        if fault.reason != faults.CERTIFICATE:
            return fault
        timeout = urllib3.Timeout(QUICK_CONNECT_SECONDS)
        if (wrong := _wrong(transport.server_certificate(self._transport, timeout), now)) is None:
            wrong = _wrong(authority, now)
            whose = "its authority's certificate"
        else:
            whose = "its certificate"
        return (
            fault if wrong is None else ApiFault(None, faults.CERTIFICATE_DATES, f"{whose} {wrong}")
        )

    def _read(self, response: urllib3.BaseHTTPResponse) -> bytes:
        try:
            return response.read(decode_content=True)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise faults.from_transport(error, self._transport.proxy) from error
        finally:
            response.release_conn()

    def _fault(self, response: urllib3.BaseHTTPResponse) -> ApiFault:
        """Make a fault of an answer that is a refusal; a proxy's may be no Status."""
        seconds = response.headers.get("Retry-After", "")
        # It may also be a date, which is as good as none.
        retry_after = float(seconds) if seconds.isascii() and seconds.isdecimal() else None
        text = self._read(response)
        status: Any = None
        with contextlib.suppress(msgspec.DecodeError):
            status = msgspec.json.decode(text)
        if isinstance(status, dict) and status.get("kind") == "Status":
            return faults.from_status({"code": response.status, **status}, retry_after)
        if response.status < 400:
            # To a page where users sign in: its query holds state of its own.
            where = response.headers.get("Location", "").partition("?")[0]
            message = f"it sends us on to {where[:200]}"
            return ApiFault(response.status, faults.NOT_KUBERNETES, message)
        # Of a load balancer's page its title says nothing more than the status.
        message = "" if text.lstrip().startswith(b"<") else text.decode(errors="replace").strip()
        return ApiFault(
            response.status, "", message[:300] or str(response.reason or ""), retry_after
        )

    def _pool_for(self, secrets: Secrets) -> urllib3.PoolManager:
        """Return the connection pool; a new one where a certificate has changed."""
        certificates = (secrets.certificate, secrets.authority)
        if self._pool is None or self._certificates != certificates:
            try:
                self._pool = transport.pool(self._transport, secrets)
            except ApiFault:
                if self._pool is None:
                    raise
                # The file may be half written: the next request reads it again.
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


def _decoded(answer: bytes) -> KubeObject:
    """Read an object; raises :class:`ApiFault` for what no API server answers."""
    try:
        found: Any = msgspec.json.decode(answer)
    except msgspec.DecodeError as error:
        raise _not_kubernetes(answer) from error
    if not isinstance(found, dict):
        raise _not_kubernetes(answer)
    return found


def _not_kubernetes(answer: bytes) -> ApiFault:
    is_page = answer.lstrip()[:1] == b"<"
    what = "a web page, such as a login" if is_page else "not an object of its API"
    return ApiFault(None, faults.NOT_KUBERNETES, f"its answer is {what}")


def _query(**values: str) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def _wrong(certificate: bytes | None, now: float) -> str | None:
    """Say what is wrong with the dates of a certificate."""
    found = validity.of(certificate)
    return None if found is None else found.wrong(now)
