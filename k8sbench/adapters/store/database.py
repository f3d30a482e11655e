"""One database: how it is opened, how a transaction begins, and its errors in our words.

SQLite and PostgreSQL differ here and nowhere else. With SQLite the folder also carries a lock
file: whoever has the store open holds it shared, a rebuild holds it alone, because a file that is
replaced under an open connection would swallow what that one writes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shlex
import sqlite3
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy import pool

from k8sbench.adapters.store import artifacts
from k8sbench.model.errors import StoreError, UsageError

DATABASE = "k8sbench.db"
LOCK = "k8sbench.lock"
BUSY_SECONDS = 30.0
"""How long to wait for another process's transaction or rebuild."""
POSTGRES_CONNECT_SECONDS = 10
_LOCK_POLL_SECONDS = 0.05
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENOTTY}
"""What file systems say that cannot lock; the database's own locks must do there."""
_WRITES = "k8sbench_writes"

SqliteMode = Literal["rwc", "rw", "ro", "immutable"]


class Database:
    """An open database with its transactions."""

    def __init__(
        self,
        engine: sa.Engine,
        *,
        shown: str,
        writable: bool = True,
        rebuild: str = "k8sbench store rebuild",
        secret: str | None = None,
        lock: FolderLock | None = None,
    ) -> None:
        self.engine = engine
        self.shown = shown
        """Where it is, for people; never with a password."""
        self.writable = writable
        self._rebuild = rebuild
        self._secret = secret
        self._lock = lock
        self._writing = engine.execution_options(**{_WRITES: True})

    @property
    def kind(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self.engine.dialect.name

    @property
    def writing_engine(self) -> sa.Engine:
        """The engine whose transactions take the write lock as they begin."""
        return self._writing

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that only reads, and sees one moment."""
        with self.translated(), self.engine.begin() as db:
            yield db

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that writes; no other process writes meanwhile."""
        if not self.writable:
            raise StoreError(
                f"The store {self.shown} can only be read.",
                "Name another place with --store or K8SBENCH_STORE.",
            )
        with self.translated(), self._writing.begin() as db:
            yield db

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Turn the database's errors into :class:`StoreError`."""
        try:
            yield
        except sa.exc.DBAPIError as wrong:
            raise self._error(wrong) from wrong
        except sa.exc.TimeoutError as wrong:  # more threads than connections, for half a minute
            raise StoreError(f"The store {self.shown} is too busy.", "Try again.") from wrong

    def close(self) -> None:
        """Let go of the database and of the lock."""
        self.engine.dispose()
        if self._lock is not None:
            self._lock.release()

    def _error(self, wrong: sa.exc.DBAPIError) -> StoreError:
        if isinstance(wrong.orig, sqlite3.Error):
            return sqlite_error(wrong.orig, self.shown, self._rebuild)
        text = " ".join(str(wrong.orig).split())
        if self._secret:
            text = text.replace(self._secret, "***")
        return StoreError(
            f"The database {self.shown} refused: {text[:300]}.",
            "Check that it runs, and that the URL's user may read and write it.",
        )


class FolderLock:
    """The lock file of a store's folder, held shared or alone until released."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, folder: Path, *, alone: bool, seconds: float | None = None) -> FolderLock:
        """Wait for the lock; :class:`StoreError` if another process keeps it."""
        path = folder / LOCK
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:  # a folder that can only be read, and never was written by us
                return cls(None)
        deadline = time.monotonic() + (BUSY_SECONDS if seconds is None else seconds)
        while True:
            try:
                fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                return cls(descriptor)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(descriptor)
                    raise _held(folder, alone=alone) from None
                time.sleep(_LOCK_POLL_SECONDS)
            except OSError as wrong:
                os.close(descriptor)
                if wrong.errno in _NO_LOCKS:
                    return cls(None)
                raise artifacts.store_error(wrong, f"lock {path}") from wrong

    def release(self) -> None:
        """Let go; idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _held(folder: Path, *, alone: bool) -> StoreError:
    if alone:
        return StoreError(
            f"Another k8sbench process has the store {folder} open.",
            "Wait until its runs have ended (k8sbench list shows them), then try again.",
        )
    return StoreError(
        f"The store {folder} is being rebuilt by another process.", "Try again when it has ended."
    )


def open_sqlite(folder: Path, *, lock: FolderLock | None = None) -> Database:
    """Open a folder's database, making it if need be.

    A folder that cannot be written is opened for reading if it has a database.
    """
    path = folder / DATABASE
    shown, rebuild = str(folder), rebuild_command(folder)
    if not (os.access(folder, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))):
        return _open_read_only(path, shown, rebuild, lock)
    engine = sqlite_engine(path, "rwc")
    try:
        with contextlib.closing(_connect(path, "rwc")) as raw:
            use_wal(raw)
    except sqlite3.Error as wrong:
        raise sqlite_error(wrong, shown, rebuild) from wrong
    return Database(engine, shown=shown, rebuild=rebuild, lock=lock)


def open_memory(shown: str) -> Database:
    """An empty database of no place: what a store that was never made reads like."""
    engine = _with_begin(
        sa.create_engine(
            "sqlite+pysqlite://", creator=_memory_connection, poolclass=pool.StaticPool
        )
    )
    return Database(engine, shown=shown)


def open_postgres(url: str) -> Database:
    """Open a PostgreSQL database by its URL."""
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        # Without the cause: it may quote the URL, and the URL may hold a password.
        raise UsageError(
            "The database URL cannot be understood.",
            "Write postgresql://USER:PASSWORD@HOST:5432/DATABASE.",
        ) from None
    if parsed.get_backend_name() not in {"postgresql", "postgres"}:
        raise UsageError(
            f"A database of kind {parsed.get_backend_name()!r} cannot be a store.",
            "Give a folder (SQLite) or a postgresql:// URL.",
        )
    if parsed.drivername in {"postgresql", "postgres"}:
        parsed = parsed.set(drivername="postgresql+psycopg")
    secrets = [str(value) for key, value in parsed.query.items() if "pass" in key]
    secret = parsed.password or (secrets[0] if secrets else None)
    shown = parsed.set(query={}).render_as_string(hide_password=True)
    try:
        engine = sa.create_engine(
            parsed,
            pool_pre_ping=True,
            connect_args={
                "connect_timeout": POSTGRES_CONNECT_SECONDS,
                # Of a database without an encoding (SQL_ASCII) the driver would give us bytes.
                "client_encoding": "utf8",
            },
        )
    except (ImportError, sa.exc.ArgumentError) as wrong:
        raise StoreError(
            f"The driver of {parsed.drivername} is not installed.",
            "Install it with: pip install 'psycopg[binary]'",
        ) from wrong
    return Database(engine, shown=shown, secret=str(secret) if secret else None)


def sqlite_engine(path: Path, mode: SqliteMode) -> sa.Engine:
    """Build an engine whose transactions begin as we say, not as the driver guesses."""
    return _with_begin(
        sa.create_engine(
            "sqlite+pysqlite://",
            creator=lambda: _connect(path, mode),
            poolclass=pool.QueuePool,
            pool_timeout=BUSY_SECONDS,
        )
    )


def use_wal(raw: sqlite3.Connection) -> str:
    """Ask for write-ahead logging: readers and the writer then do not wait for each other.

    Needs shared memory, which some network file systems lack: those keep the rollback journal.
    Returns the mode in force.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            (mode,) = raw.execute("PRAGMA journal_mode=WAL").fetchone()
            return str(mode)
        except sqlite3.OperationalError as wrong:
            # Changing the mode does not wait for a lock as other statements do.
            if not _is(wrong, "SQLITE_BUSY"):
                (mode,) = raw.execute("PRAGMA journal_mode=DELETE").fetchone()
                return str(mode)
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOCK_POLL_SECONDS)


def sqlite_error(wrong: sqlite3.Error, shown: str, rebuild: str) -> StoreError:
    """Say in our words what SQLite says in its own."""
    if _is(wrong, "SQLITE_BUSY", "SQLITE_LOCKED"):
        return StoreError(
            f"The store {shown} is locked by another process for more than {BUSY_SECONDS:g} s.",
            "Try again; if no other k8sbench runs, look who holds the file with: fuser -v "
            + shlex.quote(f"{shown}/{DATABASE}"),
        )
    if _is(wrong, "SQLITE_FULL"):
        return StoreError(
            f"The store {shown} cannot be written: the disk is full.",
            "Free some space and try again; what was recorded before is kept.",
        )
    if _is(wrong, "SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_ERROR"):
        # SQLITE_ERROR: a table or a column is not there.
        return StoreError(
            f"The database of the store {shown} is damaged: {wrong}.",
            f"Nothing is lost: every run has its folder. Make it anew with: {rebuild}",
        )
    if _is(wrong, "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH"):
        return StoreError(
            f"The store {shown} cannot be opened or written: {wrong}.",
            "Check the folder's and the files' rights, or name another place with --store.",
        )
    return StoreError(
        f"The store {shown} cannot be used: {wrong}.",
        "Check the disk; the runs' folders hold everything: " + rebuild,
    )


def rebuild_command(folder: Path) -> str:
    """Write the command that rebuilds this store."""
    return f"k8sbench store rebuild --store {shlex.quote(str(folder))}"


def is_url(where: str) -> bool:
    """Whether a place is a database's URL rather than a folder."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", where) is not None


def _open_read_only(path: Path, shown: str, rebuild: str, lock: FolderLock | None) -> Database:
    """Open without writing a byte.

    A database in WAL mode wants to make files beside it even to be read; where it cannot, it is
    read as a file that nobody changes, unless there is a log that would then be left out.
    """
    log = path.with_name(path.name + "-wal")
    try:
        settled = not log.exists() or log.stat().st_size == 0
        modes: tuple[SqliteMode, ...] = ("ro", "immutable") if settled else ("ro",)
        for mode in modes:
            try:
                with contextlib.closing(_connect(path, mode)) as raw:
                    raw.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.OperationalError:
                if mode == modes[-1]:
                    raise
            else:
                engine = sqlite_engine(path, mode)
                return Database(engine, shown=shown, writable=False, rebuild=rebuild, lock=lock)
        raise AssertionError("a mode is tried")
    except sqlite3.Error as wrong:
        raise sqlite_error(wrong, shown, rebuild) from wrong
    except OSError as wrong:
        raise artifacts.store_error(wrong, f"read {path}") from wrong


def _connect(path: Path, mode: SqliteMode) -> sqlite3.Connection:
    options = "mode=ro&immutable=1" if mode == "immutable" else f"mode={mode}"
    raw = sqlite3.connect(
        f"file:{urllib.parse.quote(os.fsencode(path))}?{options}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    raw.execute("PRAGMA foreign_keys=ON")
    # After a power failure the last commits may be missing, never torn. The runs' folders have
    # them: those are flushed to the disk at each change.
    raw.execute("PRAGMA synchronous=NORMAL")
    return raw


def _memory_connection() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


def _with_begin(engine: sa.Engine) -> sa.Engine:
    @sa.event.listens_for(engine, "begin")
    def begin(db: sa.Connection) -> None:
        # A transaction that will write takes the lock at once: one that read first and then
        # wants to write could only fail when another has written in between.
        writes = db.get_execution_options().get(_WRITES)
        db.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _is(wrong: Any, *names: str) -> bool:
    name = getattr(wrong, "sqlite_errorname", "")
    return any(name == wanted or name.startswith(wanted + "_") for wanted in names)
