"""Leadership of one replica of the operator: Leases, token and CRD."""

from __future__ import annotations

import contextlib
import math
import platform
import threading
import time
import uuid
from collections.abc import Callable, Sequence

from k8sbench import limits
from k8sbench.adapters.kubernetes import benchmark_objects, operator_proxy
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.operator_lease import REQUEST_SECONDS, Lease
from k8sbench.model.errors import BenchError
from k8sbench.model.times import SERVER_SECONDS


class Leadership:
    """Holder of the Leases of all served namespaces.

    It renews them in its own thread while entered. One replica of the operator holds all of them
    or none; the others stand by. Where another operator serves one of the namespaces, this one
    serves none.
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
        """Reason why a Lease is not held or not renewed; empty without one."""
        self.stands_by = False
        """True if another replica held a Lease at the last attempt."""
        self.token = ""
        """Token that readers send; empty until it is read."""
        self._renewed_at = -math.inf
        """Time of the latest renewal of any Lease, monotonic seconds."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    @property
    def is_held(self) -> bool:
        """Return True if this process may serve the namespaces.

        Other replicas take all Leases or none, so one renewed Lease keeps them away.
        """
        return time.monotonic() - self._renewed_at < limits.now.lease_held

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
                    api.retry_s = REQUEST_SECONDS
                    place = f"{api.place.namespace}/{self._name}"
                    names = self._namespaces or [api.place.namespace]
                    self._renew(api, [Lease(api, n, place=place, holder=holder) for n in names])
            except BenchError as error:
                self.waits_for = str(error)
            self._stopped.wait(SERVER_SECONDS)

    def _renew(self, api: Api, leases: Sequence[Lease]) -> None:
        read_at, problem = 0.0, ""
        while not self._stopped.is_set():
            began = time.monotonic()
            try:
                if not self.token or began - read_at >= limits.now.operator_token:
                    self.token, read_at, problem = operator_proxy.token(api, self._name), began, ""
            except BenchError as error:
                if str(error) != problem:
                    problem = str(error)
                    self._note(f"warning: nobody can read this operator: {problem}")
            try:
                if self.is_held:
                    self._renew_all(leases)
                else:
                    benchmark_objects.check(api)
                    self._take_all(leases)
            except BenchError as error:
                self.waits_for, self.stands_by = f"{error.message} {error.action}".strip(), False
            self._stopped.wait(limits.now.lease_renew if self.is_held else SERVER_SECONDS)
        self._renewed_at = -math.inf
        for lease in leases:
            with contextlib.suppress(BenchError):  # it expires
                lease.release()

    def _take_all(self, leases: Sequence[Lease]) -> None:
        """Take all Leases or none."""
        taken = []
        try:
            # Nothing is written where another operator serves one of them. All are read each time:
            # their expiry counts from the first look.
            are_free = [lease.is_free() for lease in leases]
            if all(are_free):
                for lease in leases:
                    if not lease.attempt():
                        break
                    taken.append(lease)
        finally:
            self._look(leases)
            if len(taken) == len(leases):
                self._renewed_at = min(lease.renewed_at for lease in leases)
            else:
                for lease in taken:
                    lease.release(forget=True)

    def _renew_all(self, leases: Sequence[Lease]) -> None:
        """Renew all Leases; one lost to another process loses all.

        A failure in one namespace, such as a deleted one, does not end the others.
        """
        for lease in leases:
            with contextlib.suppress(BenchError):  # Lease.problem has it
                if not lease.attempt():
                    self._renewed_at = -math.inf
                    self._look(leases)
                    return
        self._renewed_at = max(lease.renewed_at for lease in leases)
        self._look(leases)

    def _look(self, leases: Sequence[Lease]) -> None:
        """Set the reason for not holding or not renewing a Lease."""
        blocked = next((lease for lease in leases if lease.reason), None)
        self.stands_by = blocked is not None and blocked.stands_by
        now = time.monotonic()
        late = [
            lease.problem for lease in leases if now - lease.renewed_at >= limits.now.lease_held
        ]
        problem = next(filter(None, late), "")
        self.waits_for = problem if blocked is None else blocked.reason
