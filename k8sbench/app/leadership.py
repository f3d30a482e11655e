"""Which of several collectors collects: the one that holds a Lease; the others wait."""

from __future__ import annotations

import contextlib
import platform
import threading
import time
import uuid
from typing import TYPE_CHECKING

from k8sbench.app import connections
from k8sbench.model.errors import BenchError
from k8sbench.model.limits import SERVER_SECONDS
from k8sbench.model.request import ClusterAccess

if TYPE_CHECKING:
    from collections.abc import Callable

    from k8sbench.adapters.kubernetes.lease import Lease

RENEW_SECONDS = 4.0
"""Between two renewals."""
HELD_SECONDS = 10.0
"""After the last renewal: the collector stops before others may begin, 15 s after it."""


class Leadership:
    """Takes and renews a Lease in a thread of its own while it is entered."""

    def __init__(self, name: str, note: Callable[[str], None]) -> None:
        self.name, self._note = name, note
        self.waits_for = ""
        """Who holds it, or why it cannot be had; empty where it is ours."""
        self._renewed_at: float | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    @property
    def is_held(self) -> bool:
        """Whether this process may collect."""
        at = self._renewed_at
        return at is not None and time.monotonic() - at < HELD_SECONDS

    def __enter__(self) -> Leadership:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(HELD_SECONDS)

    def _keep(self) -> None:
        from k8sbench.adapters.kubernetes.lease import REQUEST_SECONDS, Lease

        holder = f"{platform.node()}_{uuid.uuid4().hex[:8]}"
        while not self._stopped.is_set():
            with contextlib.suppress(BenchError):  # it was noted
                try:
                    api = connections.connect(ClusterAccess())
                except BenchError as error:
                    self._say(str(error))
                    raise
                with contextlib.closing(api):
                    api.retry_s = REQUEST_SECONDS
                    self._renew(Lease(api, self.name, holder))
            self._stopped.wait(SERVER_SECONDS)

    def _renew(self, lease: Lease) -> None:
        while not self._stopped.is_set():
            began = time.monotonic()
            try:
                is_ours = lease.attempt()
            except BenchError as error:
                self._say(f"warning: {error}")
            else:
                self._renewed_at = began if is_ours else None
                waits = f"{lease.other or 'another one'} holds Lease {self.name}"
                self._say("" if is_ours else waits)
            self._stopped.wait(RENEW_SECONDS if self.is_held else SERVER_SECONDS)
        if self.is_held:
            self._renewed_at = None
            with contextlib.suppress(BenchError):  # it expires
                lease.release()

    def _say(self, text: str) -> None:
        if text and text != self.waits_for:
            self._note(text)
        self.waits_for = text
