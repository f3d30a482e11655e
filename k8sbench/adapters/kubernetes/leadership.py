"""Leadership of one replica of the operator: Leases, token and CRD."""

from __future__ import annotations

import contextlib
import datetime
import math
import platform
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from k8sbench import __version__, limits
from k8sbench.adapters.kubernetes import benchmark_objects, kinds, operator_proxy
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import Tolerated
from k8sbench.adapters.kubernetes.operator_proxy import (
    LEASE,
    PLACE_ANNOTATION,
    VERSION_ANNOTATION,
)
from k8sbench.model.errors import BenchError
from k8sbench.model.kube import KubeObject, annotations_of
from k8sbench.model.times import SERVER_SECONDS

NOT_ASKED = "its Lease was not asked for yet."
"""Reason for not serving a namespace before the first attempt."""


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
        """Reason why this process does not hold the Lease; empty if it may take it."""
        self.stands_by = False
        """True if another replica of the operator holds it."""
        self.renewed_at = -math.inf
        """Start of the last successful renewal, monotonic seconds."""

    @property
    def is_held(self) -> bool:
        """Return True if this process may serve the namespace: no other can have the Lease yet."""
        return self._clock() - self.renewed_at < limits.now.lease_held

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
            is_taken = self._is_free(found) and self._take(found)
        self.renewed_at = began if is_taken else -math.inf
        return is_taken

    def release(self, *, forget: bool = False) -> None:
        """Release the Lease, so that the next replica need not wait.

        With ``forget`` it names the operator no more if it did not before. Raises
        :class:`BenchError`.
        """
        self.renewed_at = -math.inf
        with self._explaining("released"):
            found = self._find()
            if found is None or _spec(found).get("holderIdentity") != self._holder:
                return
            gone = dict.fromkeys((PLACE_ANNOTATION, VERSION_ANNOTATION))
            named: Mapping[str, object] = gone if forget and self._was_free else {}
            self._write(found, {"holderIdentity": "", "leaseDurationSeconds": 1}, named)

    def _explaining(self, done: str) -> contextlib.AbstractContextManager[None]:
        """Raise the user's error for a fault."""
        return self._api.explaining(f"Lease {self.namespace}/{LEASE} be {done}")

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
        return self._api.find(self._path(LEASE), retry_s=limits.now.request_short)

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


class Leadership:
    """Holder of the Leases of all served namespaces.

    It renews them in its own thread while entered. One replica of the operator holds all that it
    can get; the others stand by. A namespace whose Lease it does not get is not served: another
    operator serves it, its permissions are missing, or it is gone. The others are.
    """

    def __init__(
        self,
        connect: Callable[[], Api],
        name: str,
        namespaces: Sequence[str],
        note: Callable[[str], None],
    ) -> None:
        self._connect, self._name, self._note = connect, name, note
        self._namespaces = sorted(set(namespaces))
        self.waits_for = ""
        """Reason why no Lease is held; empty without one."""
        self.token = ""
        """Token that readers send; empty until it is read."""
        self._token_read_at = 0.0
        """Monotonic seconds."""
        self._token_problem = ""
        self._leases: Sequence[Lease] = ()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    @property
    def is_held(self) -> bool:
        """Return True if this process may serve a namespace.

        Other replicas take no Lease while one is held.
        """
        return any(lease.is_held for lease in self._leases)

    @property
    def stands_by(self) -> bool:
        """Return True if another replica held a Lease at the last attempt."""
        return not self.is_held and any(lease.stands_by for lease in self._leases)

    def why_not(self, namespace: str) -> str:
        """Return the reason why a namespace may not be served; empty if it may."""
        lease = next((one for one in self._leases if one.namespace == namespace), None)
        if lease is None:
            return NOT_ASKED
        return "" if lease.is_held else lease.reason or NOT_ASKED

    def __enter__(self) -> Leadership:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(limits.now.lease_held)

    def _keep(self) -> None:
        holder = f"{platform.node()}_{uuid.uuid4().hex[:8]}"
        while not self._stopped.is_set():
            try:
                with contextlib.closing(self._connect()) as api:
                    api.retry_s = limits.now.request_short
                    place = f"{api.place.namespace}/{self._name}"
                    names = self._namespaces or [api.place.namespace]
                    self._renew(api, [Lease(api, n, place=place, holder=holder) for n in names])
            except BenchError as error:
                self.waits_for = str(error)
            self._stopped.wait(SERVER_SECONDS)

    def _renew(self, api: Api, leases: Sequence[Lease]) -> None:
        while not self._stopped.is_set():
            self.take_turn(api, leases)
            self._stopped.wait(limits.now.lease_renew if self.is_held else SERVER_SECONDS)
        self._leases = ()
        for lease in leases:
            with contextlib.suppress(BenchError):  # it expires
                lease.release()

    def take_turn(self, api: Api, leases: Sequence[Lease]) -> None:
        """Take the Leases, or renew them; read the token where it is due."""
        self._read_token(api)
        self._leases = leases
        problem = ""
        try:
            if self.is_held:
                for lease in leases:
                    _answer(lease, lease.attempt)
            else:
                benchmark_objects.check(api)
                _take_free(leases)
        except BenchError as error:
            problem = _sentence(error)
        reasons = [problem, *(lease.reason for lease in leases)]
        self.waits_for = "" if self.is_held else next(filter(None, reasons), "")

    def _read_token(self, api: Api) -> None:
        """Read the token again where it is due; a failure is noted once."""
        began = time.monotonic()
        if self.token and began - self._token_read_at < limits.now.operator_token:
            return
        try:
            self.token = operator_proxy.token(api, self._name)
            self._token_read_at = began
            self._token_problem = ""
        except BenchError as error:
            if str(error) != self._token_problem:
                self._token_problem = str(error)
                self._note(f"warning: nobody can read this operator: {error}")


def _take_free(leases: Sequence[Lease]) -> None:
    """Take the Leases that no operator holds, unless another replica of this one holds some."""
    # All are read each time: their expiry counts from the first look.
    free = [lease for lease in leases if _answer(lease, lease.is_free)]
    if any(lease.stands_by for lease in leases):
        return
    taken = []
    for lease in free:
        if _answer(lease, lease.attempt):
            taken.append(lease)
        elif not _answer(lease, lease.is_free) and lease.stands_by:
            for one in taken:
                one.release(forget=True)
            return


def _answer(lease: Lease, ask: Callable[[], bool]) -> bool:
    """Ask for or about a Lease; False after an error, which becomes its reason."""
    try:
        return ask()
    except BenchError as error:
        lease.reason = _sentence(error)
        return False


def _sentence(error: BenchError) -> str:
    return f"{error.message} {error.action}".strip()
