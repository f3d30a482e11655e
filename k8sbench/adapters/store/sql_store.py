"""Opening a store, and making its index anew from the runs' folders.

A store is a folder with a SQLite index, or a PostgreSQL database by its URL. A database of an
earlier version is brought to the present layout in one transaction. A SQLite database that is
damaged is put aside once, as ``k8sbench.db.old``, and made anew; what only its rows know, runs
whose folders are gone, is carried over. Where the store can only be read the index is made in
memory. On PostgreSQL only the rows of runs whose folders are here are written.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from k8sbench.adapters.store import artifacts, database, disk, index
from k8sbench.adapters.store.artifacts import DAMAGED
from k8sbench.adapters.store.database import DamagedDatabase, Database, NotWritable
from k8sbench.adapters.store.index import RUNS
from k8sbench.adapters.store.run_store import SqlStore
from k8sbench.model.errors import StoreError, UsageError
from k8sbench.model.finding import Finding

__all__ = ["SqlStore", "open_store"]

STORE_VARIABLE = "K8SBENCH_STORE"
FILE_VARIABLE = "K8SBENCH_STORE_FILE"
"""Names a file that holds the same: a mounted Secret, whose password may be rotated."""
OLD = "k8sbench.db.old"
ACTIONS = {
    "damaged-run": "Bring the file back from a copy, or remove the run.",
    "no-folder": "Bring it back from a copy: its row is all that is left of it.",
}
"""What to do, by the id of a reindex's finding; the others are mended."""
ANEW = "was damaged, or gone: what the run's row knows is written anew"
TEXT_IDS = "UPDATE OR REPLACE runs SET run_id = CAST(run_id AS TEXT) WHERE typeof(run_id) = 'blob'"
"""A bit that changed may make a blob of a text."""
SIDE_FILES = ("-wal", "-shm", "-journal")
"""What SQLite writes beside a database."""


def open_store(
    where: str | None = None, *, create: bool = True, folder: Path | None = None
) -> SqlStore:
    """Open a store: a folder, or a ``postgresql://`` URL.

    Without ``where`` it is ``$K8SBENCH_STORE``, else what the file ``$K8SBENCH_STORE_FILE`` holds
    now, else ``$XDG_DATA_HOME/k8sbench``. With
    ``create=False`` a place without a store reads as an empty one, and is not made. ``folder`` is
    where a PostgreSQL store keeps the runs' folders; by default that same data folder.
    """
    root = _place(where)
    if isinstance(root, str):
        folder = folder or _folder()
        _keep_private(folder)
        return opened(database.open_postgres(root), folder)
    with disk.translated(f"open the store {root}"):
        if root.exists() and not root.is_dir():
            raise StoreError(f"{root} is a file, not a store.", "Name the store's folder.")
        runs = (root / artifacts.RUNS).glob(f"*/{artifacts.RUN_FILE}")
        if (root / database.DATABASE).exists() or any(runs):
            _keep_private(root)
        elif not create:
            store = opened(database.open_memory(str(root)), root)
            store.absent = True
            return store
        else:
            disk.make_folder(root / artifacts.RUNS)
        return opened_folder(root)


def _place(where: str | None) -> Path | str:
    """Return what a ``--store`` means: a folder, or (as text) a database's URL."""
    if where is None:
        # From a file or a Secret it may come with a line end.
        where = os.environ.get(STORE_VARIABLE, "").strip() or None
        file = os.environ.get(FILE_VARIABLE)
        if where is None and file:
            with disk.translated(f"read {file} ({FILE_VARIABLE})"):
                where = Path(file).read_text(encoding="utf-8").strip()
    if where is not None and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", where):
        return where
    return _folder(where)


def _folder(named: str | None = None) -> Path:
    """Return a folder by its name, or where a user's data lies by default."""
    data = os.environ.get("XDG_DATA_HOME", "")
    try:
        if named is not None:
            if not named.strip() or "\0" in named:
                raise RuntimeError("It is empty, or holds a NUL.")
            return Path(named).expanduser().absolute()
        # A relative one is to be ignored, says the XDG specification.
        base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    except RuntimeError as error:  # no home
        raise UsageError(
            f"{named or 'The home folder'!r} cannot name a store: {error}",
            f"Name a folder, or a postgresql:// URL, with --store or {STORE_VARIABLE}.",
        ) from error
    return base / "k8sbench"


def _keep_private(root: Path) -> None:
    """Restrict what a version of before made for all to read."""
    for path in (root / artifacts.RUNS, *root.glob(f"{database.DATABASE}*")):
        with contextlib.suppress(OSError):  # somebody else's, or gone
            if (mode := path.stat().st_mode) & 0o077:
                path.chmod(mode & 0o700)


def reindex(store: SqlStore) -> tuple[int, list[Finding]]:
    """Write the rows of all folders anew, and what their files lack of their rows.

    Returns how many runs are in the index then, what is wrong with runs, and what was changed
    besides rows: store.md explains each id.
    """
    said = list[tuple[str, str]]()
    if store.has_all_folders and not _is_sound(store.database):
        store.database.close()
        with disk.locked(store.root):
            _made_anew(store.root).close()
        said.append(("damaged-database", f"It was damaged, and is kept as {store.root / OLD}."))
    with alone(store) as db:
        if store.has_all_folders:
            db.exec_driver_sql(TEXT_IDS)
        store.unreadable.clear()
        said += index_folders(store, db, artifacts.run_ids(store.root))
        runs = store.load(db, index.ROWS.order_by(RUNS.c.created_at, RUNS.c.run_id))
        count = len(index.ids(db))
    said += [("damaged-run", why) for _, why in sorted(store.unreadable.items())]
    if store.has_all_folders:  # a run of a PostgreSQL store has its files anywhere
        said += [("no-folder", why) for run in runs if (why := run.artifacts_missing)]
    return count, [
        Finding(id=id_, severity="fail" if action else "warn", sentence=sentence, action=action)
        for id_, sentence in said
        for action in [ACTIONS.get(id_)]
    ]


def index_folders(
    store: SqlStore, db: sa.Connection, run_ids: Iterable[str]
) -> list[tuple[str, str]]:
    """Write the rows of folders anew, and what their files lack of their rows.

    Returns what was wrong with files, by the id of a finding.
    """
    wrong = list[tuple[str, str]]()
    for folder in map(store.run_folder, sorted(run_ids)):
        run_id = folder.path.name
        if not folder.holds_a_run:
            continue
        row = db.execute(index.RUN, {"id": run_id}).mappings().first()
        try:
            run, kept, lost = store.read(folder, row)
        except (StoreError, ValueError) as damage:
            store.unreadable[run_id] = str(damage)
            continue
        index.add(db, index.of_run(run, store.here))
        store.unreadable.pop(run_id, None)
        store.behind.discard(run_id)
        wrong += [("damaged-run", why) for why in lost]
        if run == kept or store.database.read_only:
            continue
        with contextlib.suppress(StoreError):  # of a full disk: a later command does it
            wrong += [
                ("damaged-file", f"{folder.path / name} {ANEW}, and kept as {name}{DAMAGED}.")
                for name in folder.save(run)
            ]
    return wrong


def index_orphans(store: SqlStore, run_ids: Collection[str]) -> None:
    """Write the rows of folders that have none: a process was killed before it wrote the row."""
    with store.database.reading() as db:
        orphans = set(run_ids).difference(index.ids(db))
    if any(store.run_folder(run_id).holds_a_run for run_id in orphans):
        with store.database.writing() as db:
            index_folders(store, db, orphans)


@contextlib.contextmanager
def alone(store: SqlStore) -> Iterator[sa.Connection]:
    """A transaction that writes rows of many runs, and excludes all others that write."""
    with store.database.writing() as db:
        if store.database.kind == "postgresql":
            db.execute(sa.text("LOCK TABLE runs IN EXCLUSIVE MODE"))
        yield db


def opened(base: Database, root: Path, rows: Iterable[dict[str, Any]] = ()) -> SqlStore:
    """Open a store on a database, which is brought to the present layout; an empty one gets rows.

    On PostgreSQL somebody may have removed a run on another machine: there only a reindex that the
    user asks for brings the row of a folder back.
    """
    store = SqlStore(base, root)
    try:
        with base.reading() as db:
            is_present = index.layout(db) == index.LAYOUT
            if is_present:
                db.execute(index.ROWS.limit(1))  # an error where a table or a column is gone
        if not is_present:
            with base.reading() if base.read_only else base.writing() as db:
                index.migrate(db, rows)
                if store.has_all_folders:
                    index_folders(store, db, artifacts.run_ids(root))
        elif store.has_all_folders:
            index_orphans(store, artifacts.run_ids(root))
    except BaseException:
        base.close()
        raise
    return store


def opened_folder(root: Path) -> SqlStore:
    """Open a SQLite store, whose index is made anew if it cannot be used.

    Where it cannot be written, the index is made in memory.
    """
    try:
        with contextlib.suppress(DamagedDatabase):
            return opened(database.open_sqlite(root), root)
        with disk.locked(root):
            with contextlib.suppress(DamagedDatabase):  # another process may have made it meanwhile
                return opened(database.open_sqlite(root), root)
            return _made_anew(root)
    except NotWritable as why:
        base = database.open_memory(str(root))
        base.read_only = why
        return opened(base, root, _rows_of(database.open_sqlite(root, as_is=True)))


def _is_sound(base: Database) -> bool:
    with contextlib.suppress(DamagedDatabase), base.reading() as db:
        return str(db.exec_driver_sql("PRAGMA quick_check(1)").scalar()) == "ok"
    return False


def _made_anew(root: Path) -> SqlStore:
    """Put a damaged database aside, and make another of the folders and of what its rows know."""
    path = root / database.DATABASE
    rows = _rows_of(database.open_sqlite(root))
    with disk.translated(f"put {path} aside"):
        # The log of the old file must not be taken for the new one's.
        for suffix in SIDE_FILES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        path.replace(root / OLD)
    return opened(database.open_sqlite(root), root, rows)


def _rows_of(base: Database) -> list[dict[str, Any]]:
    """Read what can be read of a database's rows: the folders of some runs may be gone."""
    try:
        with base.reading() as db:
            return index.earlier_rows(db) if index.layout(db) else []
    except StoreError:
        return []
    finally:
        base.close()
