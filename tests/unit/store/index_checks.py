"""Comparison of a store's rows with its folders."""

import sqlalchemy as sa
from msgspec.structs import replace

from k8sbench.adapters.store import artifacts, index
from k8sbench.adapters.store.index import RUNS
from k8sbench.adapters.store.sql_store import SqlStore


def damage(store: SqlStore, run_id: str, record: str) -> None:
    """Write something else over a run's row."""
    with store.database.writing() as db:
        db.execute(sa.update(RUNS).where(RUNS.c.run_id == run_id).values(record=record))


def differences(store: SqlStore) -> list[str]:
    """Return runs whose row and folder differ or that lack one."""
    with store.database.reading() as db:
        found = [index.run_of(row) for row in db.execute(index.ROWS).mappings()]
    folders = map(store.run_folder, artifacts.run_ids(store.root))
    rows = {
        run.run_id: replace(run, artifacts=str(store.run_folder(run.run_id).path)) for run in found
    }
    kept = {folder.path.name: folder.run() for folder in folders if folder.is_there}
    return sorted(run_id for run_id in rows | kept if rows.get(run_id) != kept.get(run_id))
