"""Lease of the operator in each namespace that it serves.

The Lease alone says whether an operator serves a namespace. Annotations hold the operator's place
and version. The Lease has no ownerReference: after the operator's end it shows the last renewal.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from k8sbench import __version__, limits
from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import Tolerated
from k8sbench.model.errors import BenchError
from k8sbench.model.identity import LABEL_DOMAIN
from k8sbench.model.kube import KubeObject, annotations_of, moment

LEASE = "k8sbench-operator"
"""Name of the Lease, one in each served namespace."""
PLACE_ANNOTATION = f"{LABEL_DOMAIN}/operator"
"""Namespace and name of the operator's Service, ``NAMESPACE/NAME``."""
VERSION_ANNOTATION = f"{LABEL_DOMAIN}/operator-version"
REQUEST_SECONDS = 5.0
"""Limit of retries of one request for a Lease, seconds."""


class OperatorSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The operator of a namespace, as its Lease shows it."""

    namespace: str
    """Namespace in which the operator runs."""
    name: str
    """Name of its Service; with the namespace its identity."""
    version: str
    """Its version of k8sbench."""
    age_s: float
    """Seconds since its last renewal, by the API server's clock."""

    @property
    def is_alive(self) -> bool:
        """True if it renewed its Lease lately."""
        return self.age_s <= limits.now.lease_alive


def seen(api: Api) -> OperatorSeen | None:
    """Return the operator that serves the namespace; None without one.

    Retries for a few seconds, then raises :class:`BenchError`. A Lease without a place belongs to
    no operator.
    """
    here = api.place.namespace
    with api.explaining(f"Lease {LEASE} be read"):
        found = api.find(kinds.path("Lease", here, LEASE), retry_s=limits.now.lease_seen)
    annotations = {} if found is None else annotations_of(found)
    namespace, _, name = annotations.get(PLACE_ANNOTATION, "").partition("/")
    if found is None or not name:
        return None
    renewed_at = moment(_spec(found).get("renewTime"))
    return OperatorSeen(
        namespace=namespace,
        name=name,
        version=annotations.get(VERSION_ANNOTATION, ""),
        age_s=max(0.0, api.time() - (renewed_at or 0.0)),
    )


class Lease:
    """Lease of one served namespace, as one process of an operator holds it.

    One thread uses it. A holder that does not renew the Lease for its duration has lost it to
    another replica. The time counts from the last change seen here, as in client-go: the clocks of
    machines differ.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        *,
        place: str,
        holder: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self.namespace, self._clock = api, namespace, clock
        self._place, self._holder = place, holder
        self._seen: tuple[str, float] | None = None
        """Last known version and when it was first seen, monotonic seconds."""
        self._was_free = False
        """True if the Lease named no operator before this process took it."""
        self.reason = ""
        """Reason why this process may not take the Lease; empty if it may."""
        self.stands_by = False
        """True if another replica of the operator holds it."""
        self.problem = ""
        """Error of the last attempt; empty without one."""
        self.renewed_at = -math.inf
        """Start of the last successful renewal, monotonic seconds."""

    def is_free(self) -> bool:
        """Return True if this process holds the Lease or may take it; reads it.

        Raises :class:`BenchError`.
        """
        with self._explaining("read"):
            return self._is_free(self._find())

    def attempt(self) -> bool:
        """Take or renew the Lease; return True if this process holds it.

        Raises :class:`BenchError`.
        """
        began = self._clock()
        with self._explaining("renewed"):
            found = self._find()
            if not self._is_free(found) or not self._take(found):
                return False
        self.renewed_at, self.problem = began, ""
        return True

    def release(self, *, forget: bool = False) -> None:
        """Release the Lease, so that the next replica need not wait.

        With ``forget`` it names the operator no more if it did not before. Raises
        :class:`BenchError`.
        """
        with self._explaining("released"):
            found = self._find()
            if found is None or _spec(found).get("holderIdentity") != self._holder:
                return
            gone = dict.fromkeys((PLACE_ANNOTATION, VERSION_ANNOTATION))
            named: Mapping[str, object] = gone if forget and self._was_free else {}
            self._write(found, {"holderIdentity": "", "leaseDurationSeconds": 1}, named)

    @contextlib.contextmanager
    def _explaining(self, done: str) -> Iterator[None]:
        """Raise the user's error for a fault, and keep it as the problem."""
        try:
            with self._api.explaining(f"Lease {self.namespace}/{LEASE} be {done}"):
                yield
        except BenchError as error:
            self.problem = error.message
            raise

    def _is_free(self, found: KubeObject | None) -> bool:
        self.reason, self.stands_by = "", False
        if found is None:
            return True
        place = annotations_of(found).get(PLACE_ANNOTATION, "")
        if place not in {"", self._place}:
            self.reason = (
                f"operator {place} serves namespace {self.namespace}. If it is uninstalled:"
                f" kubectl delete lease {LEASE} --namespace {self.namespace}"
            )
            return False
        spec = _spec(found)
        other = str(spec.get("holderIdentity") or "")
        version = found["metadata"]["resourceVersion"]
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, self._clock())
        expires_at = self._seen[1] + float(spec.get("leaseDurationSeconds") or limits.now.lease)
        self.stands_by = other not in {"", self._holder} and self._clock() < expires_at
        if self.stands_by:
            self.reason = f"{other} holds Lease {self.namespace}/{LEASE}"
        return not self.stands_by

    def _take(self, found: KubeObject | None) -> bool:
        """Write the Lease; False if another process changed it first."""
        at = datetime.datetime.fromtimestamp(self._api.time(), datetime.UTC)
        now = at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if found is not None and _spec(found).get("holderIdentity") == self._holder:
            return self._write(found, {"renewTime": now}, {})
        spec: dict[str, object] = {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": limits.now.lease,
            "acquireTime": now,
            "renewTime": now,
        }
        named = {PLACE_ANNOTATION: self._place, VERSION_ANNOTATION: __version__}
        if found is not None:
            self._was_free = PLACE_ANNOTATION not in annotations_of(found)
            spec["leaseTransitions"] = int(_spec(found).get("leaseTransitions") or 0) + 1
            return self._write(found, spec, named)
        self._was_free = True
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE, "annotations": named},
            "spec": spec,
        }
        return self._is_first(lambda: self._api.create(self._path(), body, retry_s=0.0), 409)

    def _path(self, name: str = "") -> str:
        return kinds.path("Lease", self.namespace, name)

    def _find(self) -> KubeObject | None:
        return self._api.find(self._path(LEASE), retry_s=REQUEST_SECONDS)

    def _write(
        self, found: KubeObject, spec: Mapping[str, object], named: Mapping[str, object]
    ) -> bool:
        version = found["metadata"]["resourceVersion"]
        metadata = {"resourceVersion": version, "annotations": named}
        body = {"metadata": metadata, "spec": spec}
        return self._is_first(
            lambda: self._api.patch(self._path(LEASE), body, retry_s=0.0), 404, 409
        )

    def _is_first(self, request: Callable[[], object], *late: int) -> bool:
        """Send a request; False if another process was faster.

        The HTTP statuses in ``late`` say so.
        """
        with Tolerated(*late):
            request()
            return True
        self.reason = f"another process changed Lease {self.namespace}/{LEASE}"
        return False


def _spec(found: KubeObject) -> Mapping[str, Any]:
    return found.get("spec") or {}
