"""A store's index, beside its folders and built anew."""

from k8sbench.app import stores
from k8sbench.store import index, run_folder
from k8sbench.store.sql_store import SqlStore


def differences(store: SqlStore) -> list[str]:
    """Return runs whose row and folder differ or that lack one."""
    with store.database.reading() as db:
        rows = {row["run_id"]: dict(row) for row in db.execute("SELECT * FROM runs")}
    folders = map(store.run_folder, run_folder.run_ids(store.root))
    kept = {one.path.name: index.row_of(one.run()) for one in folders if one.is_there}
    return sorted(run_id for run_id in rows | kept if rows.get(run_id) != kept.get(run_id))


def reindexed(store: SqlStore) -> tuple[int, dict[str, str]]:
    """Build the index anew; returns the number of runs, and the unreadable ones."""
    store.close()
    _, count, damaged = stores.reindex(str(store.root), lambda _: None)
    return count, damaged
