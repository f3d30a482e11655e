"""Tables of the database: an index of the runs' folders, and baselines.

A run's row holds the whole run as JSON text, and as columns the values for lists and filters.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from k8sbench.adapters.store import artifacts, disk
from k8sbench.adapters.store.database import DamagedDatabase
from k8sbench.model.errors import RepeatTaken, StoreError
from k8sbench.model.run import Baseline, Run, Wish
from k8sbench.ports import RunFilter

BASELINE_FOLDER = "baselines"
LAYOUT = 14
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
    sa.Column("repeat", sa.Integer),
    sa.Column("closed", sa.Boolean, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False, index=True),
    sa.Column("wishes", sa.Text),
    sa.Column("record", sa.Text, nullable=False),
    sa.UniqueConstraint("set_name", "case_key", "repeat", name="runs_one_of_each_repeat"),
)
"""Runs.

``repeat``: null if another run has that of its plan, for imported, collected or copied runs.
``closed``: nothing is left to do, also on its cluster. ``wishes``: open requests to its cluster, a
list of :class:`~k8sbench.model.run.Wish`. ``record``: a :class:`~k8sbench.model.run.Run`.
"""

# Queries of each change of state, built once: building takes longer than SQLite.
ROWS = sa.select(RUNS)
RUN = ROWS.where(RUNS.c.run_id == sa.bindparam("id"))
_TAKEN_REPEATS = sa.select(RUNS.c.repeat).where(
    RUNS.c.set_name == sa.bindparam("set_name"), RUNS.c.case_key == sa.bindparam("case_key")
)
_COUNTED_REPEATS = _TAKEN_REPEATS.with_only_columns(
    sa.func.count(RUNS.c.repeat), sa.func.max(RUNS.c.repeat)
)
_INSERTED = sa.insert(RUNS)
_UPDATED = sa.update(RUNS).where(RUNS.c.run_id == sa.bindparam("id"))


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
    if number > LAYOUT:
        raise StoreError(
            f"The store was written by a newer k8sbench (tables {number}, not {LAYOUT}).",
            "Upgrade k8sbench, or name another store with --store or K8SBENCH_STORE.",
        )
    if number < LAYOUT:
        sentence = f"The store was written by an older k8sbench (tables {number}, not {LAYOUT})."
        if db.dialect.name == "postgresql":
            action = "Read it with that version, or name another database with --store."
            raise StoreError(sentence, action)
        raise DamagedDatabase(sentence, "Rebuild its index: k8sbench store reindex")
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
    plan = run.plan
    return _state_of(run) | {
        "set_name": plan.set_name,
        "case_key": run.case_key,
        "repeat": plan.repeat,
        "created_at": run.created_at,
    }


def _state_of(run: Run) -> dict[str, Any]:
    """Return what changes in the row of a run while its plan stays."""
    record = msgspec.structs.replace(run, artifacts=None, artifacts_missing=None, wishes=())
    return {
        "run_id": run.run_id,
        "closed": run.is_closed and run.wishes == (),
        "record": artifacts.encoded(record).decode(),
        "wishes": msgspec.json.encode(run.wishes).decode() if run.wishes else None,
    }


def run_of(row: sa.RowMapping) -> Run:
    """Read a run from a row of :data:`ROWS`; StoreError for an invalid one."""
    run = artifacts.decoded(row["record"], Run, f"The row of run {row['run_id']}")
    if run.run_id != row["run_id"] or not run.history:
        raise StoreError(f"The row of run {row['run_id']} cannot be read: it is of another run.")
    return msgspec.structs.replace(run, wishes=wishes_of(row))


def wishes_of(row: sa.RowMapping) -> tuple[Wish, ...]:
    """Read what is still to be asked of a run's cluster."""
    where = f"A request of run {row['run_id']}"
    return artifacts.decoded(row["wishes"] or "[]", tuple[Wish, ...], where)


def has(db: sa.Connection, run_id: str) -> bool:
    """Return True if a run has a row, even an unreadable one."""
    return db.scalar(sa.select(RUNS.c.run_id).where(RUNS.c.run_id == run_id)) is not None


def ids(db: sa.Connection) -> list[str]:
    """Read all run ids, oldest first."""
    query = sa.select(RUNS.c.run_id).order_by(RUNS.c.created_at, RUNS.c.run_id)
    return list(map(str, db.scalars(query)))


def update(db: sa.Connection, run: Run, before: Run, *, is_known: bool) -> None:
    """Replace what has changed of a run's row.

    ``is_known``: the row is certainly that of ``before``.
    """
    has_its_plan = run.plan == before.plan
    row = (_state_of if is_known and has_its_plan else of_run)(run)
    if has_its_plan:  # its repeat may be another run's
        row.pop("repeat", None)
    insert(db, {"id": run.run_id, **row}, _UPDATED)


def insert(db: sa.Connection, row: dict[str, Any], how: sa.Insert | sa.Update = _INSERTED) -> None:
    """Insert a run's row, unless its repeat is taken.

    The row counts only when the run's files exist.
    """
    try:
        db.execute(how, row)
    except sa.exc.IntegrityError as wrong:
        # Or another process recorded the id just now: with the next repeat the id is refused.
        taken = f"Set {row['set_name']} has repeat {row['repeat']} of {row['case_key']} already."
        raise RepeatTaken(taken, "Draw the next repeat.") from wrong


def clear(db: sa.Connection) -> None:
    """Delete the rows of all runs."""
    db.execute(sa.delete(RUNS))


def delete(db: sa.Connection, run_id: str) -> None:
    """Delete a run's row."""
    db.execute(sa.delete(RUNS).where(RUNS.c.run_id == run_id))


def free_repeat(db: sa.Connection, set_name: str, case_key: str) -> int:
    """Return the first free repeat of a case in a set."""
    case = {"set_name": set_name, "case_key": case_key}
    count, last = db.execute(_COUNTED_REPEATS, case).one()
    if count == (last or 0):  # a set of thousands has no gap
        return int(count) + 1
    taken: set[int] = set(db.scalars(_TAKEN_REPEATS, case))
    return min(set(range(1, len(taken) + 2)) - taken)


def add(db: sa.Connection, row: dict[str, Any]) -> None:
    """Insert or replace a run's row; its repeat may be taken."""
    delete(db, row["run_id"])
    names = ("set_name", "case_key")
    taken = row["repeat"] in db.scalars(_TAKEN_REPEATS, {name: row[name] for name in names}).all()
    insert(db, row | {"repeat": None} if taken else row)


def filtered(wanted: RunFilter) -> sa.Select[Any]:
    """Select the runs that may match; :func:`matches` drops others.

    The row of an active run may be behind its folder: a killed process may have left requests in
    the folder, and the run's next change writes them to the row.
    """
    query = ROWS.order_by(RUNS.c.created_at, RUNS.c.run_id)
    some = RUNS.c.wishes.is_not(None) if wanted.wished else sa.not_(RUNS.c.closed)
    return query.where(some) if wanted.wished or wanted.unfinished else query


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


def put_baseline(root: Path, name: str, new: Baseline | None) -> None:
    """Save or remove a baseline."""
    path = root / BASELINE_FOLDER / f"{name}.json"
    if new is not None:
        disk.write_whole(path, artifacts.as_file(new))
        return
    with disk.translated(f"remove the baseline {name}"):
        path.unlink(missing_ok=True)


def baseline_of(name: str, content: bytes) -> Baseline:
    """Read a stored baseline; StoreError with an action if damaged."""
    action = f"Save it again with --replace, or: k8sbench baseline remove {name}"
    kept = artifacts.decoded(content, Baseline, f"The baseline {name}", action)
    return msgspec.structs.replace(kept, name=name)
