"""Claims: only one process of a store follows a run.

On SQLite a claim is a lock in the store's folder (:class:`FileClaims`). It covers one machine, and
the system ends it with the process. On PostgreSQL a claim is a row with a heartbeat
(:class:`PostgresClaims`). It covers every machine that uses the database.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from k8sbench.adapters import processes
from k8sbench.adapters.store import artifacts, database, disk
from k8sbench.adapters.store.database import Database
from k8sbench.model.errors import StoreError
from k8sbench.model.run import Owner

CLAIMS = "claims.lock"
HEARTBEAT_SECONDS = 5.0
"""Interval of heartbeats."""
LIMIT_SECONDS = 30.0
"""Age of a heartbeat that ends a claim, by the database's clock, s."""


class FileClaims:
    """Claims as locks on single bytes of one file of the store.

    The run's id decides the byte, so that any number of claims take one open file.
    """

    def __init__(self, root: Path) -> None:
        self._path = root / CLAIMS
        self._file: int | None = None

    def claim(self, run_id: str) -> bool:
        """Claim a run; False if another process has it. Again is the same claim."""
        with disk.translated(f"lock {self._path}"):
            if self._file is None:
                # Kept open: the system ends all our claims when any descriptor of it is closed.
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _offset(run_id))
            except (BlockingIOError, PermissionError):
                return False
        return True

    def release(self, run_id: str) -> None:
        """Release a claim; does nothing if there is none."""
        if self._file is not None:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _offset(run_id))

    def check(self, run_id: str, db: sa.Connection | None = None) -> None:
        """Do nothing: a file lock cannot be taken over."""

    def close(self) -> None:
        """Release all claims; idempotent."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


# Each returns the runs whose rows it has written.
_CLAIM = """
    INSERT INTO claims (run_id, owner, process, heartbeat)
    VALUES (:run_id, :owner, :process, extract(epoch FROM clock_timestamp()))
    ON CONFLICT (run_id) DO UPDATE
    SET owner = excluded.owner, process = excluded.process, heartbeat = excluded.heartbeat
    WHERE claims.owner IN (:owner, :dead) OR claims.heartbeat < excluded.heartbeat - :limit
    RETURNING run_id"""
_RENEW = """
    UPDATE claims SET heartbeat = extract(epoch FROM clock_timestamp())
    WHERE owner = :owner AND run_id = ANY(:runs)
    RETURNING run_id"""
_RELEASE = "DELETE FROM claims WHERE owner = :owner AND run_id = ANY(:runs) RETURNING run_id"


class PostgresClaims:
    """Claims as rows of the table ``claims``, kept fresh by a thread.

    Another process may take over a claim when its heartbeat is older than the limit, or at once
    when its process has certainly ended, which only its own machine can tell. A process that was
    suspended for so long, or cut off from the database, loses its claim: from then on :meth:`claim`
    returns False and :meth:`check` raises, until :meth:`release`.
    """

    def __init__(
        self, base: Database, *, interval: float = HEARTBEAT_SECONDS, limit: float = LIMIT_SECONDS
    ) -> None:
        self._base, self._interval, self._limit = base, interval, limit
        # Connections of its own: a heartbeat must not wait for one. Each statement commits at once,
        # so that a process that is suspended never leaves a claim's row locked.
        engine = database.postgres_engine(base.engine.url, connections=1)
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._process = processes.this_process()
        # A token: pids are used again, and one process may open a store twice.
        self._owner = f"{self._process.host}/{self._process.pid} {uuid.uuid4().hex}"
        self._claims: dict[str, bool] = {}
        """Run id → whether the claim is still ours."""
        self._mutex = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def claim(self, run_id: str) -> bool:
        """Claim a run; False if another process has it."""
        with self._mutex:
            if run_id in self._claims:
                self._renew()
            elif self._insert(run_id):
                self._claims[run_id] = True
                if self._thread is None:
                    self._thread = threading.Thread(target=self._keep_fresh, daemon=True)
                    self._thread.start()
            return self._claims.get(run_id, False)

    def release(self, run_id: str) -> None:
        """Release a claim; does nothing if there is none."""
        with self._mutex:
            if self._claims.pop(run_id, False):
                self._give_up([run_id])

    def check(self, run_id: str, db: sa.Connection | None = None) -> None:
        """Raise :class:`StoreError` if this process has lost its claim.

        Within a transaction ``db`` the claim's row is asked; else what the last heartbeat found.
        """
        if db is not None and self._claims.get(run_id):
            asked = sa.text("SELECT owner FROM claims WHERE run_id = :run_id")
            self._claims[run_id] = db.scalar(asked, {"run_id": run_id}) == self._owner
        if self._claims.get(run_id) is False:
            raise StoreError(
                f"Another k8sbench process has taken over run {run_id}: this one did not reach the"
                f" database for more than {self._limit:g} s.",
                f"Follow the run: k8sbench watch {run_id}",
            )

    def close(self) -> None:
        """Release all claims and end the thread; idempotent."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(database.POSTGRES_CONNECT_SECONDS)
        self._give_up(self._held())
        self._claims.clear()
        self._engine.dispose()

    def _insert(self, run_id: str) -> bool:
        dead, ours = "", artifacts.encoded(self._process).decode()
        for row in self._rows("SELECT owner, process FROM claims WHERE run_id = :id", id=run_id):
            # A process that ended on this machine is taken over at once.
            process = artifacts.decoded(row.process, Owner, "The claim's row")
            dead = row.owner if processes.alive(process) is False else ""
        asked = {"run_id": run_id, "process": ours, "limit": self._limit, "dead": dead}
        return self._rows(_CLAIM, **asked) != []

    def _rows(self, statement: str, **values: object) -> Sequence[sa.Row[Any]]:
        with self._base.translated(), self._engine.connect() as db:
            return db.execute(sa.text(statement), {"owner": self._owner, **values}).all()

    def _held(self) -> list[str]:
        return sorted(run_id for run_id, is_ours in self._claims.items() if is_ours)

    def _renew(self) -> None:
        if held := self._held():
            kept = {row.run_id for row in self._rows(_RENEW, runs=held)}
            self._claims |= {run_id: run_id in kept for run_id in held}

    def _give_up(self, run_ids: list[str]) -> None:
        # Without the database the row expires by itself.
        with contextlib.suppress(StoreError):
            if run_ids:
                self._rows(_RELEASE, runs=run_ids)

    def _keep_fresh(self) -> None:
        while not self._closed.wait(self._interval):
            # The database may restart or be unreachable: the next renewal may succeed.
            with contextlib.suppress(Exception), self._mutex:
                self._renew()


def _offset(run_id: str) -> int:
    """Return a run's own lock position among 2⁶²; it takes no disk space."""
    return int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8]) >> 2
