"""Benchmark objects of a namespace: watched, their status written, deleted at their end."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import msgspec

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault, Tolerated
from k8sbench.adapters.kubernetes.watching.reflector import (
    Changed,
    Deleted,
    Failed,
    Listed,
    Reflector,
    WatchEvent,
    Works,
)
from k8sbench.model import benchmark_object
from k8sbench.model.benchmark_object import KIND, Benchmark

MISSING = "the cluster does not know Benchmark objects: their CRD is not installed."


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
        self._watch = Reflector(api, KIND, lambda found: found, self._take)

    def current(self) -> dict[str, Benchmark | None] | None:
        """Return all objects by uid; None before the first complete list.

        An object that cannot be read is as it was read before, or None.
        """
        with self._lock:
            return dict(self._found) if self._is_listed else None

    @property
    def problem(self) -> str:
        """Reason why the objects are not known or not all served; empty without one."""
        with self._lock:
            fault = self._fault
            unreadable = next(iter(self._unreadable.values()), "")
        if fault is None:
            return unreadable
        if fault.status == 404:
            return MISSING
        return str(self._api.explained(fault, "the Benchmark objects be watched"))

    def write(self, known: Benchmark, status: Mapping[str, Any]) -> None:
        """Replace the status of an object; one that is gone is left.

        Raises :class:`BenchError`.
        """
        # A uid that is not the object's is a conflict.
        body = {"metadata": {"uid": known.uid}, "status": status}
        doing = f"the status of Benchmark {known.name} be written"
        with self._api.explaining(doing), Tolerated(404, 409):
            self._api.patch(self._path(known, "status"), body)

    def delete(self, known: Benchmark) -> None:
        """Delete an object; raises :class:`BenchError`."""
        with self._api.explaining(f"Benchmark {known.name} be deleted"):
            self._api.delete(self._path(known), uid=known.uid)

    def close(self) -> None:
        """End the watch."""
        self._watch.close()

    def _path(self, known: Benchmark, subresource: str = "") -> str:
        return kinds.path(KIND, self._api.place.namespace, known.name, subresource)

    def _take(self, event: WatchEvent) -> None:
        with self._lock:
            match event:
                case Changed(object=found):
                    self._read(found)
                case Deleted(uid=uid):
                    self._found.pop(uid, None)
                    self._unreadable.pop(uid, None)
                case Listed():
                    self._is_listed, self._fault = True, None
                case Failed(fault=fault):
                    self._fault = fault
                case Works():
                    self._fault = None

    def _read(self, found: Mapping[str, Any]) -> None:
        uid, name = found["metadata"]["uid"], found["metadata"]["name"]
        self._unreadable.pop(uid, None)
        try:
            self._found[uid] = benchmark_object.read(found)
        except msgspec.ValidationError as error:
            # Of a newer CRD: its runs go on.
            self._found.setdefault(uid, None)
            self._unreadable[uid] = f"Benchmark {name} cannot be read: {error}."
