"""The SQLite file of a store: opening, transactions and error messages."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from k8sbench import limits
from k8sbench.model.errors import StoreError

LAYOUT = 21
"""Version of the tables of an index, and of the groups in them."""
DATABASE = f"index-{LAYOUT}.db"
"""File of the index: each layout has its own, so that any version of k8sbench can open a store."""
FORMER = "k8sbench.db"
"""File of the index of 0.5.0 and before."""
_INDEX = re.compile(r"index-[0-9]+\.db")
COMPANIONS = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps beside a database."""
NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs"),
        *("gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"),
    }
)
"""File systems on which the processes of two machines share no memory."""


class DamagedDatabase(StoreError):
    """A database is damaged, or may be behind the folders; it can be rebuilt."""


class NotWritable(StoreError):
    """The database or its companions cannot be written."""


class Database:
    """An open database and its transactions.

    Any number of threads may use it: each transaction has a connection of its own. A database in
    memory has one connection, for one transaction at a time.
    """

    def __init__(self, uri: str, shown: str) -> None:
        self.shown = shown
        """Folder of the store, for people."""
        self.read_only: StoreError | None = None
        """Reason why it can only be read; None if writable."""
        self._uri = uri
        self._idle: deque[sqlite3.Connection] = deque()
        self._one_at_a_time = threading.Lock() if ":memory:" in uri else contextlib.nullcontext()

    def reading(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """Begin a transaction that only reads."""
        return self._transaction("BEGIN")

    def writing(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """Begin a transaction that writes; no other process or thread writes meanwhile."""
        if self.read_only is not None:
            raise self.read_only
        # A transaction that reads before it writes fails if another one writes in between, so this
        # one takes SQLite's lock at once.
        return self._transaction("BEGIN IMMEDIATE")

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._translated(), self._one_at_a_time:
            try:
                db = self._idle.pop()
            except IndexError:
                db = self._connect()
            try:
                db.execute(begin)
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            finally:
                self._idle.append(db)

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            self._uri,
            timeout=limits.now.store_busy,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        db.row_factory = sqlite3.Row
        # After a power failure the last commits may be missing, never torn. The runs' folders have
        # them, because they are flushed to the disk at each change.
        try:
            db.execute("PRAGMA synchronous=NORMAL")
        except BaseException:
            db.close()
            raise
        return db

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn SQLite's errors into :class:`StoreError`."""
        try:
            yield
        except sqlite3.Error as wrong:
            raise _explain_error(wrong, self.shown) from wrong

    def set_journal(self, mode: str) -> str:
        """Set the journal mode of the file; return the one that SQLite chose.

        With a write-ahead log readers and the writer do not wait for each other. Where the file
        system lacks the shared memory that it needs, SQLite keeps the rollback journal.
        """
        with self._translated():
            db = self._connect()
            self._idle.append(db)
            return str(db.execute(f"PRAGMA journal_mode={mode}").fetchone()[0])

    def close(self) -> None:
        """Close all connections."""
        while self._idle:
            self._idle.pop().close()


def open_file(folder: Path, name: str = DATABASE) -> Database:
    """Open a folder's database for writing; makes the file if it is missing.

    Raises :class:`NotWritable` for one that cannot be written. Damage is an error of the first
    transaction that meets it.
    """
    path = folder / name
    check_writable(folder, name)
    # SQLite would create it readable for all; companion files get the mode of the database.
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    return Database(_uri(path), str(folder))


def check_writable(folder: Path, name: str = DATABASE) -> None:
    """Raise :class:`NotWritable` if a folder or its database cannot be written."""
    path = folder / name
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise _not_writable(folder)


def open_to_read(folder: Path, name: str = DATABASE) -> Database:
    """Open a database of a folder that cannot be written.

    The writer's companion files are read if they exist. Without them nobody writes, so that SQLite
    need not look for changes.
    """
    path = folder / name
    has_companions = any(path.with_name(path.name + end).exists() for end in COMPANIONS)
    query = "mode=ro" if has_companions else "mode=ro&immutable=1"
    base = Database(f"{_uri(path)}?{query}", str(folder))
    base.read_only = _not_writable(folder)
    return base


def open_memory(shown: str) -> Database:
    """Open an empty database in memory, for a missing or read-only store."""
    return Database("file::memory:", shown)


def other_indexes(folder: Path) -> list[str]:
    """Return the names of a folder's indexes of other layouts."""
    names = {path.name for path in folder.glob("*.db")}
    return sorted(name for name in names - {DATABASE} if name == FORMER or _INDEX.fullmatch(name))


def delete_file(folder: Path, name: str = DATABASE) -> None:
    """Delete a database.

    The write-ahead log goes first, so that it is never applied to a new file.
    """
    for suffix in (*COMPANIONS, ""):
        (folder / f"{name}{suffix}").unlink(missing_ok=True)


def journal_mode(file_system: str) -> str:
    """Return SQLite's journal mode for a file system."""
    return "DELETE" if file_system in NETWORK_FILE_SYSTEMS else "WAL"


def file_system(folder: Path) -> str:
    """Return the type of a folder's file system, for example ``ext4``; empty if unknown."""
    import psutil

    resolved = folder.resolve()
    name = ""
    longest = -1
    for mounted in psutil.disk_partitions(all=True):
        place = Path(mounted.mountpoint)
        if resolved.is_relative_to(place) and len(place.parts) >= longest:
            name = mounted.fstype
            longest = len(place.parts)
    return name


def _uri(path: Path) -> str:
    return f"file:{quote(str(path))}"


def _not_writable(folder: Path) -> NotWritable:
    return NotWritable(
        f"The store {folder} can only be read.",
        "Name another place with --store or K8SBENCH_STORE.",
    )


def _explain_error(error: sqlite3.Error, folder: str) -> StoreError:
    """Translate an error of SQLite."""
    # The general code: SQLITE_IOERR for SQLITE_IOERR_WRITE.
    code = "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
    if code in {"SQLITE_BUSY", "SQLITE_LOCKED"}:
        return StoreError(
            f"The store {folder} is locked by another process for more than"
            f" {limits.now.store_busy:g} s.",
            f"Try again, or look who holds it with: fuser -v {shlex.quote(f'{folder}/{DATABASE}')}",
        )
    if code in {"SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_ERROR", ""}:
        # SQLITE_ERROR: a table or a column is not there; without a code: a text is no UTF-8.
        return DamagedDatabase(
            f"The database of the store {folder} is damaged: {error}.",
            "The run folders are complete. Rebuild the index: k8sbench store reindex --store"
            f" {shlex.quote(folder)}",
        )
    return NotWritable(
        f"The store {folder} cannot be opened or written: {error}.",
        "Check the rights to the files and that the disk is not full, or name another place with"
        " --store.",
    )
