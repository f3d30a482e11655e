"""Tables of the database: an index of the runs' folders, and baselines.

A run's row holds the whole run as JSON text, and as columns what is selected by.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import pool

from k8sbench import limits
from k8sbench.adapters.store import artifacts, disk
from k8sbench.model.errors import RepeatTaken, StoreError, UsageError
from k8sbench.model.run import Baseline, Run
from k8sbench.ports import RunFilter

BASELINE_FOLDER = "baselines"
LAYOUT = 15
"""Version of the tables."""

_TABLES = sa.MetaData()
LAYOUTS = sa.Table(
    "schema_migrations",
    _TABLES,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("applied_at", sa.Double, nullable=False),
)
RUNS = sa.Table(
    "runs",
    _TABLES,
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("set_name", sa.Text, nullable=False),
    sa.Column("case_key", sa.Text, nullable=False),
    sa.Column("repeat", sa.Integer, nullable=False),
    sa.Column("closed", sa.Boolean, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False, index=True),
    sa.Column("record", sa.Text, nullable=False),
    sa.Index("runs_by_case", "set_name", "case_key", "repeat"),
)
"""Runs.

``repeat``: imported, collected or copied runs may share one. ``closed``: nothing is left to do,
also on its cluster. ``record``: a :class:`~k8sbench.model.run.Run`.
"""
ROWS = sa.select(RUNS)
# Statements of each change of state, built once: building takes longer than SQLite.
RUN = ROWS.where(RUNS.c.run_id == sa.bindparam("id"))
_REPEATS = sa.select(RUNS.c.repeat).where(
    RUNS.c.set_name == sa.bindparam("set_name"), RUNS.c.case_key == sa.bindparam("case_key")
)
_CHANGED = sa.update(RUNS).where(RUNS.c.run_id == sa.bindparam("id"))
_ADDED = sa.insert(RUNS)


def layout(db: sa.Connection) -> int:
    """Return a database's layout, :data:`LAYOUT` or 0 if empty.

    A database with tables but without a record of their version belongs to another program.
    Raises :class:`StoreError` for every other version.
    """
    tables = sa.inspect(db).get_table_names()
    if LAYOUTS.name not in tables:
        if tables:
            raise StoreError(
                "The database holds tables of something else and none of k8sbench.",
                "Name another folder or database with --store or K8SBENCH_STORE.",
            )
        return 0
    number = db.scalar(sa.select(sa.func.max(LAYOUTS.c.number))) or 0
    if number != LAYOUT:
        sentence = f"Another version of k8sbench wrote the store (tables {number}, not {LAYOUT})."
        if number < LAYOUT and db.dialect.name == "sqlite":
            raise DamagedDatabase(sentence, "Rebuild its index: k8sbench store reindex")
        action = "Use that version, or name another store with --store or K8SBENCH_STORE."
        raise StoreError(sentence, action)
    return LAYOUT


def create(db: sa.Connection) -> None:
    """Make the tables of an empty database; processes take turns."""
    if layout(db) == LAYOUT:
        return
    _TABLES.create_all(db)
    row = {"number": LAYOUT, "name": "an index over folders", "applied_at": time.time()}
    db.execute(sa.insert(LAYOUTS).values(row))


def of_run(run: Run) -> dict[str, Any]:
    """Return a run's row."""
    record = msgspec.structs.replace(run, artifacts=None, artifacts_missing=None)
    return {
        "run_id": run.run_id,
        "set_name": run.plan.set_name,
        "case_key": run.case_key,
        "repeat": run.plan.repeat,
        "created_at": run.created_at,
        "closed": run.is_closed and run.wishes == (),
        "record": artifacts.encoded(record).decode(),
    }


def run_of(row: sa.RowMapping) -> Run:
    """Read a run from a row of :data:`ROWS`; StoreError for an invalid one."""
    run = artifacts.decoded(row["record"], Run, f"The row of run {row['run_id']}")
    if run.run_id != row["run_id"] or not run.history:
        raise StoreError(f"The row of run {row['run_id']} cannot be read: it is of another run.")
    return run


def ids(db: sa.Connection) -> list[str]:
    """Read all run ids, oldest first."""
    query = sa.select(RUNS.c.run_id).order_by(RUNS.c.created_at, RUNS.c.run_id)
    return list(map(str, db.scalars(query)))


def has(db: sa.Connection, run_id: str) -> bool:
    """Return True if a run has a row, even an unreadable one."""
    return db.scalar(sa.select(RUNS.c.run_id).where(RUNS.c.run_id == run_id)) is not None


def put(db: sa.Connection, run: Run) -> None:
    """Insert or replace a run's row, which counts only when the run's files exist."""
    row = of_run(run)
    if not db.execute(_CHANGED, {"id": run.run_id, **row}).rowcount:
        db.execute(_ADDED, row)


def clear(db: sa.Connection) -> None:
    """Delete the rows of all runs."""
    db.execute(sa.delete(RUNS))


def delete(db: sa.Connection, run_id: str) -> None:
    """Delete a run's row."""
    db.execute(sa.delete(RUNS).where(RUNS.c.run_id == run_id))


def repeats(db: sa.Connection, set_name: str, case_key: str) -> set[int]:
    """Return the taken repeats of a case in a set."""
    return set(db.scalars(_REPEATS, {"set_name": set_name, "case_key": case_key}))


def check_repeat(db: sa.Connection, run: Run) -> None:
    """Raise :class:`RepeatTaken` if another run has the repeat of a new run's case."""
    plan = run.plan
    if plan.repeat in repeats(db, plan.set_name, run.case_key):
        taken = f"Set {plan.set_name} has repeat {plan.repeat} of {run.case_key} already."
        raise RepeatTaken(taken, "Draw the next repeat.")


def filtered(wanted: RunFilter) -> sa.Select[Any]:
    """Select the runs that may match; :func:`matches` drops others."""
    query = ROWS.order_by(RUNS.c.created_at, RUNS.c.run_id)
    return query.where(sa.not_(RUNS.c.closed)) if wanted.wished or wanted.unfinished else query


def matches(run: Run, wanted: RunFilter) -> bool:
    """Return True if a run matches the filter."""
    return (
        wanted.fits(run.plan, run.created_at)
        and (wanted.phase is None or run.phase is wanted.phase)
        and (not wanted.wished or run.wishes != ())
        and (not wanted.unfinished or not run.is_closed or run.wishes != ())
    )


# --- baselines: a file each in the store's folder ------------------------------------------------


def baselines(root: Path) -> dict[str, bytes]:
    """Read what is kept of all baselines, by name."""
    with disk.translated(f"read {root / BASELINE_FOLDER}"):
        paths = sorted((root / BASELINE_FOLDER).glob("[!.]*.json"))
        return {path.name.removesuffix(".json"): path.read_bytes() for path in paths}


def baseline_of(name: str, content: bytes) -> Baseline:
    """Read a stored baseline; StoreError with an action if damaged."""
    action = f"Save it again with --replace, or: k8sbench baseline remove {name}"
    kept = artifacts.decoded(content, Baseline, f"The baseline {name}", action)
    return msgspec.structs.replace(kept, name=name)


# -- the database: opening, transactions and error messages ----------------------------------------
#
# SQLite and PostgreSQL, which is an operator's alone, differ here. While a PostgreSQL server is
# away, the operator ends its work, and begins it again every few seconds.

DATABASE = "k8sbench.db"
POSTGRES_CONNECT_SECONDS = 10
"""Connect timeout for a PostgreSQL server, seconds."""
POOL_SIZE = 5
"""Pooled PostgreSQL connections; twice as many for a moment."""
ADVISORY_LOCK = 0x6B38_7362
"""PostgreSQL's lock of whoever writes (``k8sb``)."""
LOCK_SECONDS = 30.0
"""Limit of a wait for another transaction's lock, seconds."""
STATEMENT_SECONDS = 60.0
"""Limit of one statement, s; the largest reads every row."""
IDLE_SECONDS = 30.0
"""Idle limit within a transaction; a suspended process locks out others."""


class DamagedDatabase(StoreError):
    """A SQLite database is damaged or old; a reindex rebuilds it."""


class NotWritable(StoreError):
    """The SQLite file or its companions cannot be written."""


class Database:
    """An open database with its transactions."""

    def __init__(self, engine: sa.Engine, *, shown: str) -> None:
        self.engine = engine
        self.kind = engine.dialect.name
        """``sqlite`` or ``postgresql``."""
        self.shown = shown
        """Location for people: SQLite's folder, or the URL without password."""
        self.read_only: StoreError | None = None
        """Reason why it can only be read; None if writable."""

    def reading(self) -> contextlib.AbstractContextManager[sa.Connection]:
        """A transaction that only reads."""
        return self._transaction("BEGIN")

    def writing(self) -> contextlib.AbstractContextManager[sa.Connection]:
        """A transaction that writes; no other process or thread writes meanwhile."""
        if self.read_only is not None:
            raise self.read_only
        # A transaction that will write takes SQLite's lock at once: one that read first and then
        # wants to write could only fail when another has written in between.
        return self._transaction("BEGIN IMMEDIATE")

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[sa.Connection]:
        with self.translated(), self.engine.connect() as db, db.begin():
            if self.kind == "sqlite":
                db.exec_driver_sql(begin)
            elif begin != "BEGIN":
                db.execute(sa.select(sa.func.pg_advisory_xact_lock(ADVISORY_LOCK)))
            yield db

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Turn the database's errors into :class:`StoreError`."""
        try:
            yield
        except sa.exc.DBAPIError as wrong:
            if isinstance(wrong.orig, sqlite3.Error):
                raise sqlite_error(wrong.orig, self.shown) from wrong
            raise explained(wrong, self.shown) from wrong
        except sa.exc.TimeoutError as wrong:  # more threads than connections, for half a minute
            raise StoreError(f"The store {self.shown} is too busy.", "Try again.") from wrong

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def open_sqlite(folder: Path) -> Database:
    """Open a folder's database, making the file if need be.

    Raises :class:`NotWritable` for one that cannot be written; a damaged one is an error when it is
    read first.
    """
    path = folder / DATABASE
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise NotWritable(
            f"The store {folder} can only be read.",
            "Name another place with --store or K8SBENCH_STORE.",
        )
    # SQLite makes it for all to read, and the files beside it with its own mode.
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    return _sqlite(path, str(folder), poolclass=pool.QueuePool, pool_timeout=limits.now.store_busy)


def open_memory(shown: str) -> Database:
    """Open an empty database in memory, for a missing or read-only store."""
    return _sqlite(":memory:", shown, poolclass=pool.StaticPool)


def _sqlite(path: Path | str, shown: str, **options: Any) -> Database:
    def connect() -> sqlite3.Connection:
        raw = sqlite3.connect(
            path,
            timeout=limits.now.store_busy,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        # After a power failure the last commits may be missing, never torn. The runs' folders have
        # them: those are flushed to the disk at each change.
        raw.execute("PRAGMA synchronous=NORMAL")
        # Readers and the writer then do not wait for each other. It needs shared memory, which some
        # network file systems lack: those keep the rollback journal.
        with contextlib.suppress(sqlite3.OperationalError):  # or another process is just asking
            raw.execute("PRAGMA journal_mode=WAL")
        return raw

    return Database(sa.create_engine("sqlite+pysqlite://", creator=connect, **options), shown=shown)


def open_postgres(url: str) -> Database:
    """Open a PostgreSQL database; the URL's password may have ``/`` and ``@``."""
    address, mark, query = url.partition("?")
    login, at, place = address.rpartition("@")
    try:
        parsed = sa.make_url(login.replace("@", "%40") + at + place + mark + query)
        is_ours = parsed.drivername in {"postgres", "postgresql", "postgresql+psycopg"}
    except (sa.exc.ArgumentError, ValueError):
        is_ours = False
    if not is_ours:  # without the cause: it may quote the URL, and the URL may hold a password
        raise UsageError(
            "The database URL cannot be understood.",
            "Give a folder (SQLite), or write postgresql://USER:PASSWORD@HOST:5432/DATABASE.",
        )
    parsed = parsed.set(drivername="postgresql+psycopg")
    try:
        engine = _postgres_engine(parsed)
    except ImportError as wrong:
        raise StoreError(
            "The driver of PostgreSQL is not installed.",
            "Install it with: pip install 'psycopg[binary]'",
        ) from wrong
    return Database(engine, shown=parsed.set(query={}).render_as_string(hide_password=True))


def _postgres_engine(url: sa.URL) -> sa.Engine:
    """Build an engine whose connections detect a lost network in 30 s."""
    engine = sa.create_engine(
        url,
        pool_size=POOL_SIZE,
        max_overflow=POOL_SIZE,
        pool_timeout=limits.now.store_busy,
        pool_pre_ping=True,
        connect_args={
            "connect_timeout": POSTGRES_CONNECT_SECONDS,
            # Of a database without an encoding (SQL_ASCII) the driver would give us bytes.
            "client_encoding": "utf8",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 25_000,  # milliseconds
        },
    )

    @sa.event.listens_for(engine, "connect")
    def limit(raw: Any, _: object) -> None:
        for name, seconds in (
            ("idle_in_transaction_session_timeout", IDLE_SECONDS),
            ("lock_timeout", LOCK_SECONDS),
            ("statement_timeout", STATEMENT_SECONDS),
        ):
            # A limit of the URL, the user or the database stays.
            asked = "SELECT set_config(%s, %s, false) WHERE current_setting(%s) = '0'"
            raw.execute(asked, (name, f"{seconds:g}s", name))
        raw.commit()

    return engine


def sqlite_error(wrong: sqlite3.Error, folder: str) -> StoreError:
    """Translate an error of SQLite."""
    # The general code: SQLITE_IOERR for SQLITE_IOERR_WRITE.
    code = "_".join(getattr(wrong, "sqlite_errorname", "").split("_")[:2])
    if code in {"SQLITE_BUSY", "SQLITE_LOCKED"}:
        return StoreError(
            f"The store {folder} is locked by another process for more than"
            f" {limits.now.store_busy:g} s.",
            f"Try again, or look who holds it with: fuser -v {shlex.quote(f'{folder}/{DATABASE}')}",
        )
    if code in {"SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_ERROR", ""}:
        # SQLITE_ERROR: a table or a column is not there; without a code: a text is no UTF-8.
        return DamagedDatabase(
            f"The database of the store {folder} is damaged: {wrong}.",
            "The run folders are complete. Rebuild the index: k8sbench store reindex --store"
            f" {shlex.quote(folder)}",
        )
    return NotWritable(
        f"The store {folder} cannot be opened or written: {wrong}.",
        "Check the rights to the files and that the disk is not full, or name another place with"
        " --store.",
    )


def explained(wrong: sa.exc.DBAPIError, shown: str) -> StoreError:
    """Explain an error of PostgreSQL, without the password."""
    state = getattr(wrong.orig, "sqlstate", None)
    # A server's refusal to connect comes after the names of all addresses that were tried.
    reason = " ".join(str(wrong.orig).split()).rpartition("FATAL: ")[2].strip().rstrip(".")[:300]
    # Failed connections have no code, and texts in the server's language.
    is_away = isinstance(wrong, sa.exc.OperationalError) and state is None
    if is_away or wrong.connection_invalidated:
        return StoreError(
            f"The database {shown} cannot be reached, or refused the connection: {reason}.",
            "Check that it runs, and the URL's host, port, user and password.",
        )
    return StoreError(
        f"The database {shown} refused: {reason}.",
        "Try again; if it refuses again, check that the URL names the primary server, that its user"
        " may create and change tables, and that its disk is not full.",
    )
