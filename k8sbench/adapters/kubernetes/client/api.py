"""Requests to one API server, with retries and one type of fault.

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
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from k8sbench import limits
from k8sbench.adapters.kubernetes.client import faults
from k8sbench.adapters.kubernetes.client.faults import ApiFault, Tolerated
from k8sbench.adapters.kubernetes.client.transport import (
    CONNECT_SECONDS,
    QUICK_CONNECT_SECONDS,
    READ_SECONDS,
    WHOLE_SECONDS,
    ApiRequest,
    LineStream,
    Sender,
    read,
)
from k8sbench.json_decoders import decoder
from k8sbench.model import times
from k8sbench.model.errors import BenchError
from k8sbench.model.kube import KubeObject
from k8sbench.model.run import Location

T = TypeVar("T")
LOG = logging.getLogger(__name__)
__all__ = ["Api", "ApiFault", "KubeObject", "LineStream"]

FIELD_MANAGER = "k8sbench"
PAGE = 250
"""Objects in one part of a list: some MB of pods."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
"""First and longest pause before a retry, s; it doubles each time."""


class Api:
    """The client of one API server and one namespace."""

    def __init__(
        self, place: Location, why: str, sender: Sender, *, is_verified: bool = True
    ) -> None:
        self.place = place
        self.why = why
        """Origin of the choice, such as ``context a of ~/.kube/config``."""
        self.is_verified = is_verified
        """False if the server's certificate is not checked."""
        self.sender = sender
        self.retry_s = limits.now.request_retry
        """Limit of each answer and of retries, seconds."""
        self.give_up_at = math.inf
        """Deadline of all requests and retries, monotonic seconds."""
        self._is_closed = threading.Event()

    def time(self) -> float:
        """Return the API server's time, Unix seconds.

        It is compared with the server's stamps and our marks on objects.
        """
        return self.sender.time()

    # -- requests -------------------------------------------------------------------------------

    def get(self, path: str, *, retry_s: float | None = None, **query: str) -> KubeObject:
        """Return an object; raises :class:`ApiFault`, ``status`` 404 where there is none."""
        return self._object(ApiRequest("get", path, query), retry_s)

    def find(self, path: str, *, retry_s: float | None = None) -> KubeObject | None:
        """Return an object; None without one. Raises :class:`ApiFault`."""
        with Tolerated(404):
            return _with_metadata(self._ask(ApiRequest("get", path), retry_s))
        return None

    def list(
        self,
        path: str,
        *,
        labels: str = "",
        fields: str = "",
        keep: Callable[[KubeObject], KubeObject | None] | None = None,
        retry_s: float | None = None,
    ) -> tuple[list[KubeObject], str]:
        """Return objects and their resourceVersion, read page by page.

        If the server forgets their version between two pages, all are read anew, at once. ``keep``
        trims each object; None drops it.
        """
        query = _query(labelSelector=labels, fieldSelector=fields, limit=str(PAGE))
        items: list[KubeObject] = []
        while True:
            try:
                answer = self._ask(ApiRequest("list", path, query), retry_s)
            except ApiFault as fault:
                if fault.status != 410 or "continue" not in query:
                    raise
                del query["continue"], query["limit"]
                items.clear()
                continue
            page = _decoded(answer, _Page)
            for raw in page.items or ():
                item = _any_object(raw)
                if not _has_name(item):
                    raise _not_kubernetes(answer)
                if (kept := item if keep is None else keep(item)) is not None:
                    items.append(kept)
            if not page.metadata.next_page:
                return items, page.metadata.version
            query["continue"] = page.metadata.next_page

    def watch(
        self,
        path: str,
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str,
        timeout_s: int,
        silence_s: float = 10.0,
    ) -> LineStream:
        """Watch changes since a resourceVersion, for ``timeout_s`` seconds.

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
        request = ApiRequest("watch", path, query)
        return LineStream(self.sender.send(request, read_s=timeout_s + silence_s))

    def create(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        dry_run: bool = False,
        again: bool = False,
        retry_s: float | None = None,
    ) -> KubeObject:
        """Create an object with strict field validation.

        After a fault without a status, or of the 500s, it may have been created all the same.
        ``again`` repeats the request all the same: the caller knows its own object by its name.
        """
        query = _query(
            fieldManager=FIELD_MANAGER, fieldValidation="Strict", dryRun="All" if dry_run else ""
        )
        request = ApiRequest("create", path, query, body, is_repeatable=again)
        return _with_metadata(self._ask(request, retry_s))

    def patch(
        self, path: str, body: Mapping[str, Any], *, retry_s: float | None = None
    ) -> KubeObject:
        """Change an object by a JSON merge patch."""
        query = _query(fieldManager=FIELD_MANAGER)
        return _with_metadata(self._ask(ApiRequest("patch", path, query, body), retry_s))

    def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        foreground: bool = False,
        retry_s: float | None = None,
    ) -> KubeObject | None:
        """Delete an object and its dependents; return None without one.

        Dependents are deleted in the background; with ``foreground`` the object stays until they
        are gone.

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
            return self._object(ApiRequest("delete", path, {}, body), retry_s)
        except ApiFault as fault:
            if fault.status == 404 or (fault.status == 409 and known.keys() == {"uid"}):
                return None
            raise

    def read(self, path: str, seconds: float, *, retry_s: float, **query: str) -> bytes:
        """Return a whole answer, each within a time; raises :class:`ApiFault`.

        A server that starts or is busy is asked again for ``retry_s``.
        """
        return self._ask(ApiRequest("get", path, query), retry_s, within_s=seconds)

    def stream(
        self,
        path: str,
        query: Mapping[str, str] = {},
        *,
        silence_s: float | None = None,
        headers: Mapping[str, str] = {},
    ) -> LineStream:
        """Return a streamed answer, such as a followed log."""
        connect_s = CONNECT_SECONDS if silence_s is None else min(CONNECT_SECONDS, silence_s)
        request = ApiRequest("get", path, query, headers=headers)
        return LineStream(self.sender.send(request, read_s=silence_s, connect_s=connect_s))

    def no_answer(
        self, seconds: float = QUICK_CONNECT_SECONDS, *, retry_s: float = 0.0
    ) -> ApiFault | None:
        """Request the server's version; return the fault without a timely answer.

        A server that runs accepts the connection at once, but its answer may be slow. Where there
        is none, or there are no credentials, soon after is as good as later.
        """
        try:
            answer = self._ask(ApiRequest("get", "/version"), retry_s, within_s=seconds)
            if not isinstance(_any_object(answer).get("gitVersion"), str):
                raise _not_kubernetes(answer)
        except ApiFault as fault:
            status = fault.status
            if status is None or status < 400 or status in {401, 403} or fault.passes:
                return fault
            # Every API server has a version.
            answered = f"it answers {status} to the request for its version"
            return ApiFault(None, faults.NOT_KUBERNETES, answered)
        return None

    def check_answers(
        self, seconds: float = QUICK_CONNECT_SECONDS, *, retry_s: float | None = None
    ) -> None:
        """Check that the server answers in time, and takes our credentials.

        It is asked again for as long, or for ``retry_s``. Raises :class:`BenchError`.
        """
        fault = self.no_answer(seconds, retry_s=seconds if retry_s is None else retry_s)
        if fault is not None:
            raise self.explained(fault, "its version be read")

    def explained(self, fault: ApiFault, doing: str) -> BenchError:
        """Return the user's error for a fault; see :func:`.faults.explained`."""
        return faults.explained(fault, doing, self.place)

    @contextlib.contextmanager
    def explaining(self, doing: str) -> Iterator[None]:
        """Raise the user's error for a fault; see :func:`.faults.explained`."""
        try:
            yield
        except ApiFault as fault:
            raise self.explained(fault, doing) from fault

    def pause(self, seconds: float) -> None:
        """Wait, at most until :meth:`close`."""
        self._is_closed.wait(random.uniform(seconds / 2, seconds))  # noqa: S311

    def close(self) -> None:
        """Close the connections; requests that wait to be repeated fail."""
        self._is_closed.set()
        self.sender.close()

    # -- sending --------------------------------------------------------------------------------

    def _object(self, request: ApiRequest, retry_s: float | None) -> KubeObject:
        return _any_object(self._ask(request, retry_s))

    def _ask(
        self, request: ApiRequest, retry_s: float | None, *, within_s: float | None = None
    ) -> bytes:
        """Send a request with retries; return the whole answer.

        It is retried for ``retry_s``; None: as long as the client retries. ``within_s`` limits each
        answer, and limits retries to a moment without a server and to none without credentials.
        Retry-After is obeyed up to the limit, followed by one last try.
        """
        began = time.monotonic()
        left = self.give_up_at - began
        longest = min(self.retry_s if retry_s is None else retry_s, self.retry_s, left)
        read_s = min(within_s or READ_SECONDS, self.retry_s, max(left, limits.now.request_last))
        connect_s = min(within_s, QUICK_CONNECT_SECONDS) if within_s else CONNECT_SECONDS
        soon = {faults.ABSENT: limits.now.request_absent, faults.CREDENTIALS: 0.0}
        pause = _FIRST_PAUSE
        while True:
            try:
                response = self.sender.send(request, read_s=read_s, connect_s=connect_s)
                whole_s = min(within_s or WHOLE_SECONDS, self.give_up_at - time.monotonic())
                return read(response, max(limits.now.request_last, whole_s), self.sender.proxy)
            except ApiFault as fault:
                limit = min(longest, soon.get(fault.reason, longest)) if within_s else longest
                left = began + limit - time.monotonic()
                # Else a creation is repeated only where the server says that it did not begin it.
                repeats = request.is_repeatable or request.verb != "create"
                again = fault.passes and (repeats or fault.retry_after is not None)
                if not again or left <= 0:
                    raise
                wait = fault.retry_after or random.uniform(pause / 2, pause)  # noqa: S311
                if wait > left:
                    wait, read_s = left, limits.now.request_last
                if wait > limits.now.request_note:
                    LOG.warning("%s; next try in %s.", fault.answer, times.duration(wait))
            if self._is_closed.wait(wait):
                raise ApiFault(None, "", "k8sbench closed the connection")
            pause = min(2 * pause, _LONGEST_PAUSE)


class _PageMetadata(msgspec.Struct, rename={"next_page": "continue", "version": "resourceVersion"}):
    """The part of a page that is not of its objects."""

    next_page: str = ""
    """Token of the next page; empty: this is the last one."""
    version: str = ""


class _Page(msgspec.Struct):
    """A page of a list."""

    metadata: _PageMetadata
    items: list[msgspec.Raw] | None = None
    """Decoded one by one: whole objects take ten times the memory of their text."""


def _decoded(answer: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Read an answer; raises :class:`ApiFault` for what no API server answers."""
    try:
        return decoder(kind).decode(answer)
    except msgspec.DecodeError as error:
        raise _not_kubernetes(bytes(answer)) from error


def _any_object(answer: bytes | msgspec.Raw) -> dict[str, Any]:
    """Read an object; raises :class:`ApiFault` for what no API server answers."""
    return _decoded(answer, dict[str, Any])


def _has_name(item: KubeObject) -> bool:
    return "name" in (item.get("metadata") or {})


def _with_metadata(answer: bytes) -> KubeObject:
    decoded = _any_object(answer)
    if "kind" not in decoded or not isinstance(decoded.get("metadata"), dict):
        raise _not_kubernetes(answer)
    return decoded


def _not_kubernetes(answer: bytes) -> ApiFault:
    is_page = answer.lstrip()[:1] == b"<"
    what = "a web page, such as a login" if is_page else "not an object of its API"
    return ApiFault(None, faults.NOT_KUBERNETES, f"its answer is {what}")


def _query(**values: str) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}
