"""The tables of the database: an index over the runs' folders, and what a team shares.

A run's row holds the whole run as JSON text, and as columns what lists and filters need. Requests
to a cluster, claims and (on PostgreSQL) baselines and the store's identity are rows of their own.
A SQLite database of another layout is made anew from the folders (:mod:`.reindexing`); one of
PostgreSQL is migrated here.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec
import sqlalchemy as sa

from k8sbench.adapters.store import artifacts
from k8sbench.model.errors import StoreError
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Location, Owner, Run, Wish
from k8sbench.ports import RunFilter

Row = tuple[dict[str, Any], tuple[Wish, ...]]
"""A row of the table ``runs``, and the requests of its run."""
LAYOUT = 10
"""Version of the tables."""
ADVISORY_LOCK = 0x6B38_7362
"""Of PostgreSQL: ``k8sb``; held by whoever migrates the tables."""
UPGRADE_SECONDS = 600
"""For one statement of a migration, and for other processes' migrations and transactions to end."""

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
    sa.Column("benchmark", sa.Text, nullable=False),
    sa.Column("framework", sa.Text, nullable=False),
    sa.Column("phase", sa.Text, nullable=False),
    sa.Column("closed", sa.Boolean, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False, index=True),
    sa.Column("files_at", sa.Text),
    sa.Column("record", sa.Text, nullable=False),
    sa.UniqueConstraint("set_name", "case_key", "repeat", name="runs_one_of_each_repeat"),
)
"""``closed``: final, and measured if it succeeded. ``files_at``: where its files were last written,
a hint for people, which nothing depends on. ``record``: a :class:`~k8sbench.model.run.Run`."""
REQUESTS = sa.Table(
    "requests",
    _TABLES,
    sa.Column("run_id", sa.ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("wish", sa.Text, nullable=False),
)
"""What is still to be asked of a run's cluster: a :class:`~k8sbench.model.run.Wish` each."""
CLAIMS = sa.Table(
    "claims",
    _TABLES,
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("process", sa.Text, nullable=False),
    sa.Column("heartbeat", sa.Double, nullable=False),
)
IDENTITY = sa.Table("identity", _TABLES, sa.Column("id", sa.Text, primary_key=True))
BASELINES = sa.Table(
    "baselines",
    _TABLES,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("saved_at", sa.Double, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
)

# What each change of state sends is built once: that takes SQLAlchemy longer than SQLite.
RUN = sa.select(RUNS).where(RUNS.c.run_id == sa.bindparam("id"))
LOCKED_RUN = RUN.with_for_update()
_REQUESTS_OF_RUN = sa.select(REQUESTS.c.wish).where(REQUESTS.c.run_id == sa.bindparam("id"))
_SAME_CASE = (
    RUNS.c.set_name == sa.bindparam("set_name"),
    RUNS.c.case_key == sa.bindparam("case_key"),
)
_REPEATS = sa.select(sa.func.count(), sa.func.max(RUNS.c.repeat)).where(*_SAME_CASE)
_TAKEN_REPEATS = sa.select(RUNS.c.repeat).where(*_SAME_CASE)
_CHANGING = ("phase", "closed", "record")
"""Columns that change while a run goes on."""
_UPDATED = (
    sa.update(RUNS)
    .where(RUNS.c.run_id == sa.bindparam("id"))
    .values({name: sa.bindparam(name) for name in _CHANGING})
)


class NewerLayout(StoreError):
    """The database was written by a newer program: reading it could lose some."""


def layout(db: sa.Connection) -> int:
    """Return the version of a database's tables; 0 for an empty database.

    A database with tables but without a record of their version belongs to another program.
    """
    tables = set(sa.inspect(db).get_table_names())
    if LAYOUTS.name not in tables:
        if tables:
            raise StoreError(
                "The database holds tables of something else and none of k8sbench.",
                "Name another folder or database with --store or K8SBENCH_STORE.",
            )
        return 0
    number = db.scalar(sa.select(sa.func.coalesce(sa.func.max(LAYOUTS.c.number), 0))) or 0
    if number > LAYOUT:
        raise NewerLayout(
            f"The store was written by a newer k8sbench (schema {number}, this one knows"
            f" {LAYOUT}).",
            "Upgrade k8sbench, or name another store with --store or K8SBENCH_STORE.",
        )
    return int(number)


def create(db: sa.Connection) -> None:
    """Create the tables that are not there."""
    _TABLES.create_all(db)
    row = {"number": LAYOUT, "name": "an index over folders", "applied_at": time.time()}
    db.execute(sa.insert(LAYOUTS).values(row))


def migrate(writing: sa.Engine) -> None:
    """Bring a PostgreSQL database to the present layout; processes take turns."""
    with writing.begin() as db:
        for limit in ("statement_timeout", "lock_timeout"):
            db.execute(sa.text(f"SET LOCAL {limit} = '{UPGRADE_SECONDS}s'"))
        db.execute(sa.select(sa.func.pg_advisory_xact_lock(ADVISORY_LOCK)))
        before = layout(db)
        if before == LAYOUT:
            return
        earlier = list(rows_of_any_layout(db)) if before else []
        for table in ("transitions", "runs") if before else ():
            db.execute(sa.text(f"DROP TABLE IF EXISTS {table}"))
        create(db)
        if db.scalar(sa.select(IDENTITY.c.id)) is None:
            db.execute(sa.insert(IDENTITY).values(id=secrets.token_hex(8)))
        restore(db, earlier)


def rows_of_any_layout(db: sa.Connection) -> Iterator[Row]:
    """Yield the rows of a database of this layout, or of that of 0.2.0, as this one has them.

    What cannot be read of a row stays as text: its run is shown as damaged, and not lost.
    """
    here = set(sa.inspect(db).get_table_names())
    wishes = requests(db) if REQUESTS.name in here else {}
    steps: dict[str, list[dict[str, Any]]] = {}
    if "transitions" in here:
        ordered = sa.text("SELECT * FROM transitions ORDER BY run_id, number")
        for step in db.execute(ordered).mappings():
            steps.setdefault(step["run_id"], []).append(dict(step))
    for row in db.execute(sa.text("SELECT * FROM runs ORDER BY created_at, run_id")).mappings():
        run_id, files_at = row["run_id"], row.get("files_at")
        if "record" in row:
            yield dict(row), wishes.get(run_id, ())
            continue
        try:
            yield of_run(_of_earlier_layout(row, steps.get(run_id, ())), files_at), ()
        except (StoreError, ValueError):
            names = ("run_id", "set_name", "case_key", "repeat", "benchmark", "framework", "phase")
            values = {name: row[name] for name in (*names, "created_at")}
            yield values | {"closed": False, "files_at": files_at, "record": row["plan"]}, ()


def _of_earlier_layout(row: sa.RowMapping, steps: Iterable[dict[str, Any]]) -> Run:
    # SQLite has numbers for what is true or false.
    history = tuple(msgspec.convert(step, Transition, strict=False) for step in steps)

    def value(column: str, kind: type[Any]) -> Any:
        text, where = row[column], f"The row of run {row['run_id']}"
        return None if text is None else artifacts.decoded(text, kind, where)

    return Run(
        plan=value("plan", RunPlan),
        created_at=row["created_at"],
        owner=value("owner", Owner),
        history=history or (artifacts.created(row["created_at"]),),
        artifacts=None,
        measurement=value("measurement", Measurement),
        location=value("location", Location),
        image_digest=row["image_digest"],
    )


def restore(db: sa.Connection, rows: Iterable[Row]) -> None:
    """Insert rows of :func:`rows_of_any_layout`.

    Runs that were two cases may now be repeats of one: the younger gets the next free number.
    """
    later = []
    for row, wishes in rows:
        if is_taken(db, row["set_name"], row["case_key"], row["repeat"]):
            later.append((row, wishes))
        else:
            _insert(db, row, wishes)
    for row, wishes in later:
        row["repeat"] = free_repeat(db, row["set_name"], row["case_key"])
        with contextlib.suppress(ValueError, LookupError, TypeError):
            record = json.loads(row["record"])
            record["plan"]["repeat"] = row["repeat"]
            row["record"] = json.dumps(record, ensure_ascii=False)
        _insert(db, row, wishes)


def of_run(run: Run, files_at: str | None) -> dict[str, Any]:
    """Return the row of a run whose files were last written at a place."""
    plan = run.plan
    return {
        "run_id": plan.run_id,
        "set_name": plan.set_name,
        "case_key": run.case_key,
        "repeat": plan.repeat,
        "benchmark": plan.benchmark,
        "framework": plan.framework,
        "created_at": run.created_at,
        "files_at": files_at,
        **_changing(run),
    }


def _changing(run: Run) -> dict[str, Any]:
    # Where its files are differs between machines, and requests have rows of their own.
    record = msgspec.structs.replace(run, artifacts=None, artifacts_missing=None, wishes=())
    closed = run.phase.final and not run.owes_measurement
    text = artifacts.encoded(record).decode()
    return dict(zip(_CHANGING, (run.phase.value, closed, text), strict=True))


def run_of(row: sa.RowMapping, wishes: tuple[Wish, ...]) -> Run:
    """Read a run of its row; :class:`StoreError` for a row that is none."""
    run = artifacts.decoded(row["record"], Run, f"The row of run {row['run_id']}")
    if run.run_id != row["run_id"] or not run.history:
        raise StoreError(f"The row of run {row['run_id']} cannot be read: it is of another run.")
    return msgspec.structs.replace(run, wishes=wishes)


def update(db: sa.Connection, run: Run) -> None:
    """Write what changes of a run while it goes on."""
    db.execute(_UPDATED, {"id": run.run_id, **_changing(run)})


def insert(db: sa.Connection, run: Run, files_at: str | None) -> None:
    """Insert a run's rows."""
    _insert(db, of_run(run, files_at), run.wishes)


def _insert(db: sa.Connection, row: dict[str, Any], wishes: Collection[Wish]) -> None:
    db.execute(sa.insert(RUNS).values(row))
    keep_requests(db, row["run_id"], wishes)


def keep_requests(db: sa.Connection, run_id: str, wishes: Collection[Wish]) -> None:
    """Replace what is still to be asked of a run's cluster."""
    db.execute(sa.delete(REQUESTS).where(REQUESTS.c.run_id == run_id))
    for wish in wishes:
        values = {"run_id": run_id, "kind": wish.kind, "wish": artifacts.encoded(wish).decode()}
        db.execute(sa.insert(REQUESTS).values(values))


def requests(db: sa.Connection) -> dict[str, tuple[Wish, ...]]:
    """Read everything that is still to be asked of clusters, by run."""
    by_run: dict[str, tuple[Wish, ...]] = {}
    for row in db.execute(sa.select(REQUESTS).order_by(REQUESTS.c.kind)):
        wish = artifacts.decoded(row.wish, Wish, f"A request of run {row.run_id}")
        by_run[row.run_id] = (*by_run.get(row.run_id, ()), wish)
    return by_run


def requests_of(db: sa.Connection, run_id: str) -> tuple[Wish, ...]:
    """Read what is still to be asked of one run's cluster."""
    texts = db.scalars(_REQUESTS_OF_RUN.order_by(REQUESTS.c.kind), {"id": run_id})
    return tuple(artifacts.decoded(text, Wish, f"A request of run {run_id}") for text in texts)


def is_taken(db: sa.Connection, set_name: str, case_key: str, repeat: int) -> bool:
    """Whether a run of a case has a repeat number in a set."""
    case = {"set_name": set_name, "case_key": case_key}
    return repeat in set(db.scalars(_TAKEN_REPEATS, case))


def free_repeat(db: sa.Connection, set_name: str, case_key: str) -> int:
    """Find the first repeat number that no run of a case has in a set."""
    case = {"set_name": set_name, "case_key": case_key}
    count, most = db.execute(_REPEATS, case).one()
    if count == (most or 0):  # each number is there once: none is missing
        return int(count) + 1
    taken = set(db.scalars(_TAKEN_REPEATS, case))
    return next(n for n in range(1, len(taken) + 2) if n not in taken)


def filtered(wanted: RunFilter) -> sa.Select[Any]:
    """Ask for the runs that a filter lets through, and others that :func:`matches` leaves out.

    The row of a run that goes on may be behind its folder.
    """
    query = sa.select(RUNS)
    for name in ("benchmark", "framework", "set_name"):
        if (value := getattr(wanted, name)) is not None:
            query = query.where(RUNS.c[name] == value)
    if wanted.since is not None:
        query = query.where(RUNS.c.created_at >= wanted.since)
    if wanted.until is not None:
        query = query.where(RUNS.c.created_at <= wanted.until)
    if wanted.wished or wanted.unfinished:
        wished = RUNS.c.run_id.in_(sa.select(REQUESTS.c.run_id))
        query = query.where(sa.or_(sa.not_(RUNS.c.closed), wished))
    return query


def matches(run: Run, wanted: RunFilter) -> bool:
    """Whether a filter lets a run through by what changes while it goes on."""
    owing = not run.phase.final or run.owes_measurement
    return (
        (wanted.phase is None or run.phase is wanted.phase)
        and (not wanted.wished or run.wishes != ())
        and (not wanted.unfinished or owing or run.wishes != ())
    )
