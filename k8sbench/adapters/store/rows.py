"""The rows of the database's tables, and the runs that they hold.

What a database is asked stands here; when, and in which transaction, is the store's part
(:mod:`k8sbench.adapters.store.sql_store`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from k8sbench.adapters.store import artifacts
from k8sbench.adapters.store.artifacts import RunFolder, Wishes
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import FINAL, Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Location, Owner, Run
from k8sbench.ports import RunFilter

_T = TypeVar("_T", bound=msgspec.Struct)

_STEP = ("phase", "at", "cause", "cause_id", "action", "unrecoverable")
"""Columns of a change of state that are fields of :class:`Transition`."""
_OF_THE_PLAN = ("run_id", "set_name", "repeat", "benchmark", "framework", "backend")
"""Columns of a run that are fields of its plan, for lists and filters."""
_OTHERS = (
    *("case_key", "phase", "created_at", "artifacts", "plan", "owner", "measurement"),
    *("location", "image_digest", "files_at", "wishes"),
)
RUNS = sa.table("runs", *map(sa.column, (*_OF_THE_PLAN, *_OTHERS)))
"""As the steps in :mod:`k8sbench.adapters.store.migrations` left it; a test holds the two equal."""
TRANSITIONS = sa.table(
    "transitions",
    *map(sa.column, ("run_id", "number", *_STEP[:-1])),
    sa.column("unrecoverable", sa.Boolean),
)
IDENTITY = sa.table("identity", sa.column("id"))
BASELINES = sa.table("baselines", *map(sa.column, ("name", "saved_at", "content")))

# What each change of state sends is built once: that takes SQLAlchemy longer than SQLite.
RUN = sa.select(RUNS).where(RUNS.c.run_id == sa.bindparam("id"))
LOCKED_RUN = RUN.with_for_update()
HISTORY = (
    sa.select(TRANSITIONS)
    .where(TRANSITIONS.c.run_id == sa.bindparam("id"))
    .order_by(TRANSITIONS.c.number)
)
_SAME_CASE = (
    RUNS.c.set_name == sa.bindparam("set_name"),
    RUNS.c.case_key == sa.bindparam("case_key"),
)
_REPEATS = sa.select(sa.func.count(), sa.func.max(RUNS.c.repeat)).where(*_SAME_CASE)
_TAKEN_REPEATS = sa.select(RUNS.c.repeat).where(*_SAME_CASE)
_CHANGING = ("phase", "measurement", "image_digest", "wishes")
"""Columns of a run that change while it goes on."""
_UPDATED = (
    sa.update(RUNS)
    .where(RUNS.c.run_id == sa.bindparam("id"))
    .values({name: sa.bindparam(name) for name in _CHANGING})
)


def of_run(run: Run, here: str) -> dict[str, Any]:
    """Return the row of a run whose files are written ``here``."""
    plan = run.plan
    return {name: getattr(plan, name) for name in _OF_THE_PLAN} | {
        "case_key": run.case_key,
        "created_at": run.created_at,
        "artifacts": f"{artifacts.RUNS}/{plan.run_id}",
        "plan": _json(plan),
        "owner": _json(run.owner),
        "location": _json(run.location),
        "files_at": here,
        **_changing(run),
    }


def extended(db: sa.Connection, run: Run, **changes: Any) -> Run:
    """Change a run's rows, by its fields that change while it goes on; returns it as it is then."""
    new = msgspec.structs.replace(run, **changes)
    if new != run:
        db.execute(_UPDATED, {"id": run.run_id, **_changing(new)})
    if new.history != run.history:
        known = len(run.history)
        if new.history[:known] != run.history:
            known = 0
            db.execute(sa.delete(TRANSITIONS).where(TRANSITIONS.c.run_id == run.run_id))
        insert_history(db, new, known)
    return new


def run_of(row: sa.RowMapping, history: tuple[Transition, ...], folder: RunFolder) -> Run:
    """Read a run; raises :class:`StoreError` or ``ValueError`` for a row that is none."""
    missing = None
    if not folder.is_there:
        known = f"; they were last written on {row['files_at']}" if row["files_at"] else ""
        missing = f"The files of run {row['run_id']} are not in {folder.path}{known}."
    plan = _decoded(row, "plan", RunPlan)
    wishes = _decoded(row, "wishes", Wishes)
    assert plan is not None
    return Run(
        plan=plan,
        created_at=row["created_at"],
        owner=_decoded(row, "owner", Owner),
        history=history or (artifacts.created(row["created_at"]),),
        artifacts=None if missing else str(folder.path),
        artifacts_missing=missing,
        measurement=_decoded(row, "measurement", Measurement),
        location=_decoded(row, "location", Location),
        image_digest=row["image_digest"],
        wishes=() if wishes is None else wishes.wishes,
    )


def histories(db: sa.Connection, run_ids: Sequence[str]) -> dict[str, tuple[Transition, ...]]:
    """Read the changes of state of some runs, by their ids."""
    found: dict[str, tuple[Transition, ...]] = {}
    for start in range(0, len(run_ids), 500):  # databases limit the values of one question
        some = TRANSITIONS.c.run_id.in_(run_ids[start : start + 500])
        query = sa.select(TRANSITIONS).where(some)
        ordered = query.order_by(TRANSITIONS.c.run_id, TRANSITIONS.c.number)
        found |= by_run(db.execute(ordered).mappings())
    return found


def free_repeat(db: sa.Connection, set_name: str, case_key: str) -> int:
    """Find the first repeat number that no run of a case has in a set."""
    case = {"set_name": set_name, "case_key": case_key}
    count, most = db.execute(_REPEATS, case).one()
    if count == (most or 0):  # each number is there once: none is missing
        return int(count) + 1
    taken = set(db.scalars(_TAKEN_REPEATS, case))
    return next(n for n in range(1, len(taken) + 2) if n not in taken)


def filtered(wanted: RunFilter) -> sa.Select[Any]:
    """Ask for the runs that a filter lets through."""
    query = sa.select(RUNS)
    for column, value in (
        (RUNS.c.benchmark, wanted.benchmark),
        (RUNS.c.framework, wanted.framework),
        (RUNS.c.set_name, wanted.set_name),
        (RUNS.c.phase, wanted.phase and wanted.phase.value),
    ):
        if value is not None:
            query = query.where(column == value)
    if wanted.since is not None:
        query = query.where(RUNS.c.created_at >= wanted.since)
    if wanted.until is not None:
        query = query.where(RUNS.c.created_at <= wanted.until)
    wished = RUNS.c.wishes.is_not(sa.null())
    if wanted.wished:
        query = query.where(wished)
    if wanted.unfinished:
        owing = sa.and_(RUNS.c.phase == Phase.SUCCEEDED.value, RUNS.c.measurement.is_(sa.null()))
        going_on = RUNS.c.phase.not_in([phase.value for phase in FINAL])
        query = query.where(sa.or_(going_on, owing, wished))
    return query


def by_run(rows: Iterable[sa.RowMapping]) -> dict[str, tuple[Transition, ...]]:
    """Sort changes of state by their runs."""
    found: dict[str, tuple[Transition, ...]] = {}
    for row in rows:
        with contextlib.suppress(msgspec.ValidationError):  # a phase of another version
            step = msgspec.convert({name: row[name] for name in _STEP}, Transition)
            found[row["run_id"]] = (*found.get(row["run_id"], ()), step)
    return found


def insert_history(db: sa.Connection, run: Run, known: int = 0) -> None:
    """Insert a run's transitions but the first ``known``, which the database has."""
    rows = [
        {name: getattr(step, name) for name in _STEP}
        | {"run_id": run.run_id, "number": number, "phase": step.phase.value}
        for number, step in enumerate(run.history[known:], start=known + 1)
    ]
    db.execute(sa.insert(TRANSITIONS), rows)


def _changing(run: Run) -> dict[str, Any]:
    wishes = _json(Wishes(wishes=run.wishes)) if run.wishes else None
    values = (run.phase.value, _json(run.measurement), run.image_digest, wishes)
    return dict(zip(_CHANGING, values, strict=True))


def _json(value: msgspec.Struct | None) -> str | None:
    return None if value is None else artifacts.encoded(value).decode()


def _decoded(row: sa.RowMapping, column: str, kind: type[_T]) -> _T | None:
    where = f"The row of run {row['run_id']}"
    return None if row[column] is None else artifacts.decoded(row[column], kind, where)
