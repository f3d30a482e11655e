"""What is removed is gone, and what is not stays whole, whenever the process ends."""

from __future__ import annotations

import pathlib

import pytest

from k8sbench.adapters.store import disk, exchange, sql_store
from k8sbench.adapters.store.sql_store import SqlStore
from k8sbench.app import context, stores
from k8sbench.model.errors import StoreError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Wish
from k8sbench.ports import LogLine, RunFilter
from tests.harness import children
from tests.unit.presence import present
from tests.unit.store.examples import NOW, OWNER, archive, measurement, plan, step
from tests.unit.store.index_checks import differences

DAY = 86400.0


@pytest.fixture
def filled(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> SqlStore:
    """Runs that ended 1, 2 and 3 hours after NOW; it is 90 days and 2.5 hours later."""
    monkeypatch.setattr(context, "now", lambda: NOW + 90 * DAY + 9000)
    for number in (1, 2, 3):
        run_id = f"seg-{number}"
        store.record(plan(run_id, repeat=number), at=NOW, owner=OWNER)
        archive(store, "hello", run_id=run_id)
        store.keep(run_id, "gpu/nvml.jsonl", "{}\n")
        store.keep(run_id, "gpu/fetched.json", "[]\n")
        store.move(run_id, step(Phase.SUCCEEDED, NOW + 3600 * number))
        store.measured(run_id, measurement())
    return store


def names(store: SqlStore, run_id: str = "seg-1") -> set[str]:
    folder = store.root / "runs" / run_id
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_run_is_removed_with_its_row_and_its_folder(filled: SqlStore) -> None:
    exchange.remove(filled, "seg-2")
    assert filled.ids() == ["seg-1", "seg-3"]
    assert sorted(path.name for path in (filled.root / "runs").iterdir()) == ["seg-1", "seg-3"]
    assert not (filled.root / "removed").exists()
    assert differences(filled) == []


def killed(store: SqlStore, event: str, before: str = "") -> None:
    remove = f"store = open_store(words[0])\n{before}\nexchange.remove(store, 'seg-1')"
    children.killed_at(event, "seg-1", remove, store.root)


AFTER_THE_RENAME = """
real = os.rename
os.rename = lambda *names: (real(*names), os.kill(os.getpid(), signal.SIGKILL))
"""


def over(store: SqlStore, *run_ids: str) -> None:
    for number, run_id in enumerate(run_ids, start=1):
        store.record(plan(run_id, repeat=number), at=NOW, owner=None)
        store.move(run_id, step(Phase.SUCCEEDED))


def test_a_removal_that_is_killed_is_made_again(sqlite_store: SqlStore) -> None:
    store = sqlite_store
    over(store, "seg-1", "seg-2")
    killed(store, "os.rename")
    assert differences(store) == [], "nothing has happened"
    killed(store, "never", AFTER_THE_RENAME)
    exchange.remove(store, "seg-1")
    assert store.ids() == ["seg-2"]
    assert not (store.root / "removed").exists()


def test_what_a_killed_removal_left_goes_with_the_next(sqlite_store: SqlStore) -> None:
    over(sqlite_store, "seg-1", "seg-2")
    killed(sqlite_store, "os.rmdir")
    assert sqlite_store.ids() == ["seg-2"]
    assert differences(sqlite_store) == []
    sql_store.reindex(sqlite_store)
    assert sqlite_store.ids() == ["seg-2"], "it does not come back"
    exchange.remove(sqlite_store, "seg-2")
    assert not (sqlite_store.root / "removed").exists()


def test_logs_and_series_of_old_runs_go_and_their_rows_and_measurements_stay(
    filled: SqlStore,
) -> None:
    before, whole = filled.runs(RunFilter()), names(filled, "seg-3")
    would = stores.prune(filled, 90 * DAY, dry_run=True)
    assert (names(filled), names(filled, "seg-3")) == (whole, whole)
    done = stores.prune(filled, 90 * DAY)
    assert done == would
    assert {run_id: one.files for run_id, one in done[0].items()} == {"seg-1": 2, "seg-2": 2}
    assert filled.runs(RunFilter()) == before
    assert names(filled) == whole - {"logs/master-0.log", "gpu/nvml.jsonl"} | {"pruned.json"}
    assert names(filled, "seg-3") == whole
    said = present(exchange.pruned(filled.folder("seg-1")))
    assert (said.rule, said.at, said.files) == ("--keep-logs-for 90d", context.now(), 2)
    assert differences(filled) == []
    assert stores.prune(filled, 90 * DAY) == ({}, {}), "what is done is done"


def test_a_full_disk_is_pruned_too(filled: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = disk.write_whole

    def write(path: pathlib.Path, data: bytes) -> None:
        if exchange.printed(path.parent):
            raise StoreError("The disk is full.")
        real(path, data)

    monkeypatch.setattr(disk, "write_whole", write)
    assert list(stores.prune(filled, 90 * DAY)[0]) == ["seg-1", "seg-2"]
    assert present(exchange.pruned(filled.folder("seg-1"))).files == 2


def test_logs_that_are_still_needed_are_kept(filled: SqlStore) -> None:
    filled.wish("seg-2", Wish(kind="delete", at=NOW, cause="It is over."))
    filled.record(plan("seg-4", repeat=4), at=NOW, owner=OWNER)
    filled.move("seg-4", step(Phase.SUCCEEDED, NOW))
    archive(filled, "hello", run_id="seg-4")
    done, kept = stores.prune(filled, DAY)
    assert list(done) == ["seg-1", "seg-3"]
    assert kept == {
        "seg-2": "What is left of its job is to be deleted.",
        "seg-4": "It is not measured yet.",
    }


def test_a_prune_that_is_killed_is_ended_by_the_next(sqlite_store: SqlStore) -> None:
    store = sqlite_store
    over(store, "seg-1")
    store.measured("seg-1", measurement())
    archive = store.archive("seg-1")
    for replica in ("master-0", "worker-0"):
        archive.write(LogLine(replica=replica, at=NOW, text="hello"))
    archive.close()
    store.keep("seg-1", "gpu/nvml.jsonl", "{}\n")
    prune = "exchange.prune(open_store(words[0]), 'seg-1', at=1.0, rule='first')"
    children.killed_at("os.remove", "worker", prune, store.root)
    assert exchange.printed(store.folder("seg-1")) != []
    exchange.prune(store, "seg-1", at=2.0, rule="second")
    assert names(store) == {"run.json", "events.jsonl", "measurement.json", "pruned.json"}
    assert not (store.folder("seg-1") / "logs").exists()
    said = present(exchange.pruned(store.folder("seg-1")))
    assert said.rule == "first"
