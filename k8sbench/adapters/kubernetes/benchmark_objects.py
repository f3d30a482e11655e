"""Benchmark objects of a namespace, and their CRD.

The operator watches them, writes their status and deletes expired ones; commands create, change and
delete them.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from k8sbench import limits
from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault, Tolerated
from k8sbench.adapters.kubernetes.watch_events import (
    ObjectChanged,
    ObjectDeleted,
    ObjectsListed,
    WatchEvent,
    WatchFailed,
    WatchWorks,
)
from k8sbench.adapters.kubernetes.watching.reflector import Reflector
from k8sbench.model import benchmark_object, times
from k8sbench.model.benchmark_object import API_VERSION, KIND, SCHEMA, Benchmark, StatusEvent
from k8sbench.model.errors import Unreachable, UsageError
from k8sbench.model.kube import KubeObject, name_of

REPORTER = "k8sbench-operator"
"""Source of the events."""
MESSAGE = 1024
"""Characters that the message of an event may have."""
PAUSE = 0.2
"""Pause between tries to change an object that others change, too, seconds."""
MISSING = "the API server does not know Benchmark objects: their CRD is not installed."


class BenchmarkObjects:
    """The objects of a connection's namespace, as its watch last saw them."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._found: dict[str, Benchmark | None] = {}
        """By uid; None for one that was never read."""
        self._unreadable: dict[str, str] = {}
        """uid → why an object is not read."""
        self._is_listed = False
        self._fault: ApiFault | None = None
        self._fails_since = 0.0
        """Time of the first of its failures in a row, monotonic seconds."""
        self._watch = Reflector(api, KIND, lambda found: found, self.take)

    def current(self) -> dict[str, Benchmark | None] | None:
        """Return all objects by uid; None before the first complete list.

        An object that cannot be read is as it was read before, or None.
        """
        with self._lock:
            return dict(self._found) if self._is_listed else None

    @property
    def problem(self) -> str:
        """Reason why the objects are not known or not all served; empty without one.

        A watch that breaks off and works again at once is none.
        """
        with self._lock:
            fault = self._fault
            if time.monotonic() - self._fails_since < limits.now.fault_note:
                fault = None
            unreadable = next(iter(self._unreadable.values()), "")
        if fault is None:
            return unreadable
        if fault.status == 404:
            return MISSING
        return str(self._api.explained(fault, "the Benchmark objects be watched"))

    def beside(self, is_live: Callable[[str], bool]) -> Sequence[Benchmark]:  # noqa: ARG002
        """Return none: an operator has all objects."""
        return ()

    def write(
        self, known: Benchmark, status: Mapping[str, Any], events: Iterable[StatusEvent] = ()
    ) -> None:
        """Replace the status of an object, and write events of what changes.

        An object that is gone is left. Raises :class:`BenchError`.
        """
        # A uid that is not the object's is a conflict.
        body = {"metadata": {"uid": known.uid}, "status": status}
        doing = f"the status of Benchmark {known.name} be written"
        with self._api.explaining(doing), Tolerated(404, 409):
            path = kinds.path(KIND, self._api.place.namespace, known.name, "status")
            self._api.patch(path, body)
        for event in events:
            self._tell(known, event)

    def _tell(self, known: Benchmark, event: StatusEvent) -> None:
        """Write an event, once: its name is the change's."""
        stamp = times.utc(self._api.time())
        place = self._api.place.namespace
        of = {"apiVersion": API_VERSION, "kind": KIND, "namespace": place}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{known.name}.{known.uid}.{event.key}"},
            "involvedObject": {**of, "name": known.name, "uid": known.uid},
            "type": "Warning" if event.is_warning else "Normal",
            "reason": event.reason,
            "message": event.message[:MESSAGE],
            "source": {"component": REPORTER},
            "reportingComponent": REPORTER,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        # Lost ones do no harm: the status says the same.
        with contextlib.suppress(ApiFault):
            self._api.create(kinds.path("Event", place), body, retry_s=0.0)

    def delete(self, known: Benchmark) -> None:
        """Delete an object; raises :class:`BenchError`."""
        delete(self._api, known)

    def close(self) -> None:
        """End the watch."""
        self._watch.close()

    def take(self, event: WatchEvent) -> None:
        """Follow a change of an object, or of the watch."""
        with self._lock:
            match event:
                case ObjectChanged(object=found):
                    self._read(found)
                case ObjectDeleted(uid=uid):
                    self._found.pop(uid, None)
                    self._unreadable.pop(uid, None)
                case ObjectsListed():
                    self._is_listed, self._fault = True, None
                case WatchFailed(fault=fault):
                    if self._fault is None:
                        self._fails_since = time.monotonic()
                    self._fault = fault
                case WatchWorks():
                    self._fault = None

    def _read(self, found: Mapping[str, Any]) -> None:
        uid, name = found["metadata"]["uid"], found["metadata"]["name"]
        self._unreadable.pop(uid, None)
        try:
            self._found[uid] = benchmark_object.read(found)
        except msgspec.ValidationError as error:
            if "deletionTimestamp" in found["metadata"]:
                self._found.pop(uid, None)
                return
            # Of a newer CRD: its runs go on.
            self._found.setdefault(uid, None)
            self._unreadable[uid] = f"Benchmark {name} cannot be read: {error}."


# -- what users do with them -----------------------------------------------------------------------


def create(api: Api, asked: Mapping[str, Any]) -> Benchmark:
    """Create an object; one that asks for the same is returned as it is.

    A refused or lost request is sent again for a while. Raises :class:`UsageError` where the name
    is another object's, and another :class:`BenchError` if nothing was created.
    """
    name = name_of(asked)
    path = kinds.path(KIND, api.place.namespace)
    try:
        return benchmark_object.read(api.create(path, asked, again=True))
    except ApiFault as fault:
        found = find(api, name) if fault.reason == "AlreadyExists" else None
        if found is None:
            error = api.explained(fault, f"Benchmark {name} be created")
            if error.cause_id == "operator-missing":
                raise Unreachable(
                    f"Benchmark {name} was not created: {MISSING}",
                    f"Have an administrator run: {APPLY}",
                ) from fault
            raise error from fault
        if found.is_deleted:
            raise UsageError(
                f"Benchmark {name} in namespace {api.place.namespace} is being deleted, and stays"
                f" until its finalizers are removed: {', '.join(found.held_by)}.",
                "Choose another --run-id.",
            ) from fault
        if not benchmark_object.asks_for_same(asked, found):
            raise UsageError(
                f"Benchmark {name} exists in namespace {api.place.namespace}, and asks for"
                " something else.",
                "Choose another --run-id.",
            ) from fault
        return found


def find(api: Api, name: str) -> Benchmark | None:
    """Return the object of a name; None without one. Raises :class:`BenchError`."""
    with api.explaining(f"Benchmark {name} be read"):
        found = api.find(kinds.path(KIND, api.place.namespace, name))
    return None if found is None else _understood(found)


def every(api: Api) -> list[Benchmark]:
    """Return all objects of the namespace, oldest first; raises :class:`BenchError`."""
    with api.explaining("the Benchmark objects be listed"):
        found, _ = api.list(kinds.path(KIND, api.place.namespace))
    return sorted(map(_understood, found), key=lambda one: (one.created_at, one.name))


def change(
    api: Api, known: Benchmark, decide: Callable[[Benchmark], Mapping[str, Any]]
) -> Benchmark | None:
    """Change the spec of an object; None if it is gone.

    ``decide`` returns the fields to change, by their names in the object; none: nothing is sent.
    Raises :class:`BenchError`.
    """
    path = kinds.path(KIND, api.place.namespace, known.name)
    until = time.monotonic() + limits.now.change_job
    with api.explaining(f"Benchmark {known.name} be changed"):
        while True:
            found = api.find(path)
            if found is None or found["metadata"]["uid"] != known.uid:
                return None
            current = _understood(found)
            wanted = decide(current)
            if not wanted:
                return current
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            try:
                return _understood(api.patch(path, {"metadata": version, "spec": wanted}))
            except ApiFault as fault:
                if fault.status != 409 or time.monotonic() > until:
                    raise
            api.pause(PAUSE)


def delete(api: Api, known: Benchmark) -> tuple[str, ...]:
    """Delete an object; its operator ends its runs. Raises :class:`BenchError`.

    Returns the finalizers, of others, that still hold it.
    """
    with api.explaining(f"Benchmark {known.name} be deleted"):
        left = api.delete(kinds.path(KIND, api.place.namespace, known.name), uid=known.uid)
    is_object = left is not None and left.get("kind") == KIND
    return tuple(left["metadata"].get("finalizers") or ()) if left and is_object else ()


def _understood(found: KubeObject) -> Benchmark:
    try:
        return benchmark_object.read(found)
    except msgspec.ValidationError as error:
        raise Unreachable(
            f"Benchmark {name_of(found)} cannot be read by this version of k8sbench: {error}.",
            "Use the operator's version; k8sbench doctor compares them.",
        ) from error


# -- their CRD -------------------------------------------------------------------------------------

APPLY = "k8sbench operator crd | kubectl apply --server-side -f -"
"""Command that installs or upgrades the CRD."""
_NUMBER = re.compile(r"\(schema ([0-9]{1,9})\)")


def schema(api: Api) -> int | None:
    """Return the schema number of the cluster's CRD; None without the CRD.

    Everybody may read it. A CRD without a number is 0. Raises :class:`ApiFault`, also for a while
    after the API server's start: it serves the objects then, and does not describe them yet.
    """
    with Tolerated(404):
        found = api.get(f"/openapi/v3/apis/{API_VERSION}")
        types = (found.get("components") or {}).get("schemas") or {}
        return max((number(str(one.get("description") or "")) for one in types.values()), default=0)
    with Tolerated(404):
        api.get(f"/apis/{API_VERSION}")
        raise ApiFault(503, "", "it does not describe Benchmark objects yet")
    return None


def number(description: str) -> int:
    """Return the schema number that a description states; 0 if it states none."""
    found = _NUMBER.search(description)
    return 0 if found is None else int(found[1])


def check(api: Api) -> None:
    """Raise :class:`Unreachable` without a CRD that this version can serve."""
    with api.explaining("the CRD of Benchmark be read"):
        found = schema(api)
    if found is None:
        raise Unreachable(
            "The API server has no CRD of Benchmark objects.",
            f"Run: {APPLY}",
        )
    if found < SCHEMA:
        raise Unreachable(
            f"The cluster's CRD of Benchmark objects has schema {found}; schema {SCHEMA} is"
            " needed.",
            f"Run: {APPLY}",
        )
