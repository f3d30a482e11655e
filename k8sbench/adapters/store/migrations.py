"""How the database came to its present shape, step by step.

Every step is a numbered function that stays as it was when it was released: it defines its own
tables and knows nothing of the program's present ones; the one thing that a step takes from the
program is the case key, and it says why. Each is applied in a transaction of its
own, together with the row that records it. Several processes may open a new store at once: each
asks again inside its transaction, which excludes the others'.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
import urllib.parse
from collections.abc import Callable

import msgspec
import sqlalchemy as sa

from k8sbench.model.errors import StoreError
from k8sbench.model.identity import case_key
from k8sbench.model.plan import RunPlan

Step = Callable[[sa.Connection], None]


class NewerSchema(StoreError):
    """The database has had steps that this program does not know: reading it could lose some."""


APPLIED = sa.Table(
    "schema_migrations",
    sa.MetaData(),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("applied_at", sa.Double, nullable=False),
)
ADVISORY_LOCK = 0x6B38_7362
"""Of PostgreSQL: ``k8sb``; held by whoever applies a step."""
UPGRADE_SECONDS = 600
"""For one statement of a step, and for other processes' steps and transactions to end."""
STEPS: list[Step] = []
"""In order; number = place, from 1."""


def migration(step: Step) -> Step:
    """Append a step; its name carries its number, so that two branches cannot both be the third."""
    number = len(STEPS) + 1
    if not step.__name__.startswith(f"m{number:03}_"):
        raise ValueError(f"{step.__name__} is step {number}: name it m{number:03}_…")
    STEPS.append(step)
    return step


@migration
def m001_runs(db: sa.Connection) -> None:
    """Runs: what lists and filters need as columns, the whole values as JSON text."""
    metadata = sa.MetaData()
    runs = sa.Table(
        "runs",
        metadata,
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("set_name", sa.Text, nullable=False),
        sa.Column("case_key", sa.Text, nullable=False),
        sa.Column("repeat", sa.Integer, nullable=False),
        sa.Column("benchmark", sa.Text, nullable=False),
        sa.Column("framework", sa.Text, nullable=False),
        sa.Column("backend", sa.Text, nullable=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("artifacts", sa.Text, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("measurement", sa.Text),
        sa.UniqueConstraint("set_name", "case_key", "repeat", name="runs_one_of_each_repeat"),
    )
    sa.Index("runs_by_time", runs.c.created_at)
    metadata.create_all(db, checkfirst=False)


@migration
def m002_transitions(db: sa.Connection) -> None:
    """Histories: every change of state with its time and cause."""
    metadata = sa.MetaData()
    sa.Table("runs", metadata, sa.Column("run_id", sa.Text, primary_key=True))
    transitions = sa.Table(
        "transitions",
        metadata,
        sa.Column(
            "run_id", sa.Text, sa.ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("cause_id", sa.Text),
    )
    transitions.create(db, checkfirst=False)


@migration
def m003_clusters(db: sa.Connection) -> None:
    """Runs on a cluster: where the job is, which image ran; what to do about a state."""
    for table, column in (
        ("runs", "location TEXT"),
        ("runs", "image_digest TEXT"),
        ("transitions", "action TEXT"),
        ("transitions", "hopeless BOOLEAN NOT NULL DEFAULT FALSE"),
    ):
        db.execute(sa.text(f"ALTER TABLE {table} ADD COLUMN {column}"))


@migration
def m004_case_keys(db: sa.Connection) -> None:
    """Case keys by the list of fields of version 2.

    The column is no record but an index over the plans: it must hold what the program that opens
    the store computes for a plan, whichever version that is. The step therefore asks the program's
    present rule; a later version of the rule comes with another step that does the same. Plans of
    every released version stay readable, and the rows of those that are not keep what they have.

    Runs that were two cases may now be repeats of one. The oldest keeps its repeat number, the
    others get the next free one, here alone: their folders still say what was asked for.
    """
    runs = sa.Table(
        "runs",
        sa.MetaData(),
        *(sa.Column(name, sa.Text) for name in ("run_id", "set_name", "case_key", "plan")),
        sa.Column("repeat", sa.Integer),
        sa.Column("created_at", sa.Double),
    )
    rows = db.execute(sa.select(runs).order_by(runs.c.created_at, runs.c.run_id)).all()
    keys = {row.run_id: row.case_key for row in rows}
    for row in rows:
        with contextlib.suppress(msgspec.DecodeError):
            keys[row.run_id] = case_key(msgspec.json.decode(row.plan, type=RunPlan))
    # No two rows may have one key in between, either.
    db.execute(sa.update(runs).values(case_key=runs.c.run_id))
    holders: dict[tuple[str, str, int], str] = {}
    for row in rows:
        holders.setdefault((row.set_name, keys[row.run_id], row.repeat), row.run_id)
    for row in rows:
        case = (row.set_name, keys[row.run_id])
        values = {"case_key": case[1], "repeat": row.repeat, "plan": row.plan}
        if holders[*case, row.repeat] != row.run_id:
            free = next(n for n in range(1, len(rows) + 2) if (*case, n) not in holders)
            holders[*case, free] = row.run_id
            plan = json.dumps(json.loads(row.plan) | {"repeat": free}, ensure_ascii=False)
            values |= {"repeat": free, "plan": plan}
        db.execute(sa.update(runs).where(runs.c.run_id == row.run_id).values(values))


@migration
def m005_shared(db: sa.Connection) -> None:
    """Stores of a team: files named relative to the store's root, and claims with a heartbeat."""
    db.execute(sa.text("ALTER TABLE runs ADD COLUMN files_at TEXT"))
    for run_id, url in db.execute(sa.text("SELECT run_id, artifacts FROM runs")).all():
        parts = urllib.parse.urlsplit(url)
        folder = f"runs/{run_id}"
        values = {"run_id": run_id, "folder": folder, "files_at": None}
        if parts.scheme:
            # The host that the row named stays as a hint for people.
            path = urllib.parse.unquote(parts.path).removesuffix(f"/{folder}")
            values["files_at"] = f"{parts.netloc}:{path}"
        db.execute(
            sa.text(
                "UPDATE runs SET artifacts = :folder, files_at = :files_at WHERE run_id = :run_id"
            ),
            values,
        )
    claims = sa.Table(
        "claims",
        sa.MetaData(),
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("process", sa.Text, nullable=False),
        sa.Column("heartbeat", sa.Double, nullable=False),
    )
    claims.create(db, checkfirst=False)


@migration
def m006_unrecoverable(db: sa.Connection) -> None:
    """Rename a column as schema 2 of the documents renames its key."""
    db.execute(sa.text("ALTER TABLE transitions RENAME COLUMN hopeless TO unrecoverable"))


@migration
def m007_wishes(db: sa.Connection) -> None:
    """Wishes: what the cluster is still to be asked for, as JSON text; null where there is none."""
    db.execute(sa.text("ALTER TABLE runs ADD COLUMN wishes TEXT"))


@migration
def m008_identity(db: sa.Connection) -> None:
    """The store's identity: one row, drawn once."""
    identity = sa.Table("identity", sa.MetaData(), sa.Column("id", sa.Text, primary_key=True))
    identity.create(db, checkfirst=False)
    db.execute(sa.insert(identity).values(id=secrets.token_hex(8)))


@migration
def m009_baselines(db: sa.Connection) -> None:
    """Baselines: runs that are kept under a name, each whole as JSON text."""
    baselines = sa.Table(
        "baselines",
        sa.MetaData(),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("saved_at", sa.Double, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
    )
    baselines.create(db, checkfirst=False)


def version(db: sa.Connection) -> int:
    """Tell how many steps a database has had; 0 for an empty one.

    A database with tables but without a record of steps belongs to another program.
    """
    tables = set(sa.inspect(db).get_table_names())
    if APPLIED.name not in tables:
        if tables:
            raise StoreError(
                "The database holds tables of something else and none of k8sbench.",
                "Name another folder or database with --store or K8SBENCH_STORE.",
            )
        return 0
    return db.scalar(sa.select(sa.func.coalesce(sa.func.max(APPLIED.c.number), 0))) or 0


def check(found: int, steps: list[Step] | None = None) -> bool:
    """Say whether steps are missing; a database newer than this program is an error."""
    known = len(STEPS if steps is None else steps)
    if found > known:
        raise NewerSchema(
            f"The store was written by a newer k8sbench (schema {found}, this one knows {known}).",
            "Upgrade k8sbench, or name another store with --store or K8SBENCH_STORE.",
        )
    return found < known


def migrate(writing: sa.Engine, steps: list[Step] | None = None) -> int:
    """Apply the missing steps; returns how many this process applied."""
    steps = STEPS if steps is None else steps
    applied = 0
    while True:
        with writing.begin() as db:
            if db.dialect.name == "postgresql":
                for limit in ("statement_timeout", "lock_timeout"):
                    db.execute(sa.text(f"SET LOCAL {limit} = '{UPGRADE_SECONDS}s'"))
                db.execute(sa.select(sa.func.pg_advisory_xact_lock(ADVISORY_LOCK)))
            found = version(db)
            if not check(found, steps):
                return applied
            if found == 0:
                APPLIED.create(db, checkfirst=True)
            step = steps[found]
            step(db)
            row = {"number": found + 1, "name": step.__name__, "applied_at": time.time()}
            db.execute(sa.insert(APPLIED).values(row))
        applied += 1
