"""The database is an index over the folders: opening a store and a reindex keep it so."""

from __future__ import annotations

import contextlib
import pathlib
import re
import shutil
import sqlite3

import pytest
import sqlalchemy as sa

from k8sbench.adapters.store import database, index, sql_store
from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.app import stores
from k8sbench.model.errors import StoreError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run, Wish
from k8sbench.ports import RunFilter
from tests.harness import children
from tests.unit.store.conftest import OpenStore
from tests.unit.store.examples import (
    NOW,
    OWNER,
    REJECTION,
    archive,
    elsewhere,
    measurement,
    plan,
    step,
)
from tests.unit.store.index_checks import damage, differences

CANCEL = Wish(kind="cancel", at=NOW + 1, cause="Enough.")


def fill(store: SqlStore) -> list[Run]:
    """Record runs of every kind; returns them as the store has them."""
    for number in range(1, 6):
        store.record(plan(f"seg-{number}", repeat=number), at=NOW + number, owner=OWNER)
    store.record(plan("pod-1", set_name="weekly"), at=NOW + 9, owner=None)
    for run_id in ("seg-1", "seg-2", "seg-3"):
        store.move(run_id, step(Phase.RUNNING))
    store.move("seg-1", step(Phase.SUCCEEDED, NOW + 20))
    store.measured("seg-1", measurement())
    store.move("seg-2", step(Phase.FAILED, NOW + 30))
    store.measured("seg-2", measurement(throughput=None, verdict="rejected", reasons=(REJECTION,)))
    store.wish("pod-1", CANCEL)
    archive(store, "hello")
    return store.runs(RunFilter())


def everything(root: pathlib.Path) -> list[Run]:
    with open_store(str(root)) as store:
        return store.runs(RunFilter())


@pytest.fixture
def filled(root: pathlib.Path) -> list[Run]:
    with open_store(str(root)) as store:
        return fill(store)


# --- Every store ----------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [None, "{", '{"schema": 2}', "null"])
def test_rows_are_made_anew_from_the_folders(store: SqlStore, record: str | None) -> None:
    filled = fill(store)
    if record is not None:
        for run in filled:
            damage(store, run.run_id, record)
        with pytest.raises(StoreError, match="row of run seg-1 cannot be read") as caught:
            store.run("seg-1")
        assert "k8sbench store reindex" in caught.value.action
    assert sql_store.reindex(store) == (len(filled), {})
    assert store.runs(RunFilter()) == filled
    assert differences(store) == []


@pytest.mark.parametrize(
    ("run_id", "name", "text"),
    [
        ("seg-1", "run.json", "{"),
        ("seg-3", "events.jsonl", "{\n"),
        ("seg-3", "events.jsonl", ""),
        ("seg-3", "events.jsonl", None),
        ("seg-2", "measurement.json", "{"),
        ("pod-1", "wishes.json", "{"),
    ],
)
def test_a_damaged_file_is_named_and_left_as_it_is(
    store: SqlStore, run_id: str, name: str, text: str | None
) -> None:
    fill(store)
    path = store.root / "runs" / run_id / name
    if text is None:
        path.unlink()
        path.mkdir()
    else:
        path.write_text(text)
    _, damaged = sql_store.reindex(store)
    assert list(damaged) == [run_id]
    assert str(path) in damaged[run_id]
    assert path.is_dir() if text is None else path.read_text() == text
    assert {path.name for path in path.parent.parent.iterdir()} > {run_id}


def test_folders_that_hold_no_run_are_passed_over_and_damaged_ones_named(store: SqlStore) -> None:
    filled, runs = fill(store), store.root / "runs"
    (runs / "foreign").mkdir()
    (runs / "foreign" / "thesis.doc").write_text("")
    (runs / "file").write_text("")
    (runs / "\udcff" / "logs").mkdir(parents=True)  # a name that is no text
    (runs / "began").mkdir()
    (runs / "began" / "events.jsonl").write_text("")
    (runs / "half" / "logs").mkdir(parents=True)
    shutil.copytree(runs / "seg-1", runs / "copied")
    large = {"large-1": "repeat", "large-2": "replicas", "large-3": "created_at"}
    for run_id, name in large.items():
        text = (runs / "seg-1" / "run.json").read_text().replace("seg-1", run_id)
        (runs / run_id).mkdir()
        (runs / run_id / "run.json").write_text(
            re.sub(f'"{name}": [0-9.]+', f'"{name}": 1e30', text)
        )
    count, damaged = sql_store.reindex(store)
    assert (count, set(damaged)) == (6, {"copied", "half", *large})
    assert "belongs to run seg-1" in damaged["copied"]
    assert "half holds no run.json" in damaged["half"]
    assert store.runs(RunFilter()) == filled


def test_the_index_follows_folders_that_come_and_go(
    store: SqlStore, open_again: OpenStore, tmp_path: pathlib.Path
) -> None:
    """Killed before the row stood, copied here, or deleted; a team's rows have folders anywhere."""
    store.record(plan(), at=NOW, owner=OWNER)
    with open_store(str(tmp_path / "other")) as other:
        other.record(plan("seg-9", set_name="mine"), at=NOW + 70, owner=OWNER)
        shutil.copytree(other.folder("seg-9"), store.root / "runs" / "seg-9")
    shutil.rmtree(store.folder("seg-1"))
    again = open_again()
    assert again.ids() == (["seg-9"] if store.has_all_folders else ["seg-1"])
    sql_store.reindex(again)
    assert again.ids() == (["seg-9"] if store.has_all_folders else ["seg-1", "seg-9"])


OPEN = """
import pathlib, sys
from k8sbench.adapters.store.sql_store import open_store
print("ready", flush=True)
sys.stdin.readline()
with open_store(sys.argv[1], folder=pathlib.Path(sys.argv[2])) as store:
    print(len(store.ids()), store.identity)
"""


@pytest.mark.slow
def test_several_processes_may_open_one_store_for_the_first_time(
    where: str, root: pathlib.Path
) -> None:
    processes = [children.ready(OPEN, where, root) for _ in range(3)]
    children.begin(*processes)
    ends = [process.communicate(timeout=60) for process in processes]
    assert [err for _, err in ends] == ["", "", ""]
    assert len({out for out, _ in ends}) == 1
    assert ends[0][0].startswith("0 ")


@pytest.mark.parametrize(
    ("number", "says"), [(index.LAYOUT + 1, "newer k8sbench"), (6, "older k8sbench")]
)
def test_a_database_of_another_version_is_an_error_and_left_alone(
    where: str, root: pathlib.Path, number: int, says: str
) -> None:
    with open_store(where, folder=root) as store:
        run = store.record(plan(), at=NOW, owner=None)
        _execute(store, f"UPDATE schema_migrations SET number = {number}")
        for _ in range(2):
            with pytest.raises(StoreError, match=says) as caught:
                open_store(where, folder=root)
        _execute(store, f"UPDATE schema_migrations SET number = {index.LAYOUT}")
        assert store.run("seg-1") == run
    is_mended = "k8sbench store reindex" in caught.value.action
    assert is_mended is (where == str(root) and number < index.LAYOUT)


def _execute(store: SqlStore, statement: str) -> None:
    with store.database.writing() as db:
        db.execute(sa.text(statement))


# --- The index of a folder ------------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, b""])
def test_an_index_that_is_gone_is_made_when_the_store_is_opened(
    root: pathlib.Path, filled: list[Run], data: bytes | None
) -> None:
    (root / "k8sbench.db").unlink()
    if data is not None:
        (root / "k8sbench.db").write_bytes(data)
    assert everything(root) == filled


CHANGES = {
    "a table": "DROP TABLE requests",
    "a column": "ALTER TABLE runs DROP COLUMN files_at",
    "a text": "UPDATE runs SET record = cast(cast(record AS blob) || x'ff' AS text)",
    "the version": "UPDATE schema_migrations SET number = 6",
}


@pytest.mark.parametrize("wrong", ["all", "the end", "a page", *CHANGES])
def test_a_damaged_index_is_one_error_and_reindex_makes_it_anew(
    root: pathlib.Path, filled: list[Run], wrong: str
) -> None:
    file = root / "k8sbench.db"
    data = file.read_bytes()
    pages = {"all": b"garbage" * 3000, "the end": data[:5000]}
    pages["a page"] = data[: 3 * 4096] + b"Z" * (len(data) - 3 * 4096)
    if wrong in pages:
        file.write_bytes(pages[wrong])
    else:
        with contextlib.closing(sqlite3.connect(file)) as db, db:
            db.execute(CHANGES[wrong])
    with pytest.raises(database.DamagedDatabase) as caught:
        everything(root)
    assert "k8sbench store reindex" in caught.value.action
    assert stores.reindex(str(root)) == (str(root), len(filled), {})
    assert everything(root) == filled
    assert not list(root.glob("*.db.*"))


def test_a_log_of_the_damaged_database_does_not_reach_the_new_one(
    root: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """A write-ahead log belongs to its database; SQLite would play it into any of that name."""
    copy = tmp_path / "copy"
    with open_store(str(root)) as store:
        filled = fill(store)
        shutil.copytree(root, copy)  # as a kill leaves it
    assert (copy / "k8sbench.db-wal").stat().st_size > 0
    (copy / "k8sbench.db").write_bytes(b"garbage " * 1000)
    assert stores.reindex(str(copy)) == (str(copy), len(filled), {})
    assert [elsewhere(run) for run in everything(copy)] == [elsewhere(run) for run in filled]


@pytest.mark.parametrize("point", [1, 2, 4])
def test_a_reindex_that_is_killed_is_made_again(
    root: pathlib.Path, filled: list[Run], point: int
) -> None:
    """The points are: each file that is removed."""
    for name in ("k8sbench.db", "k8sbench.db-wal"):
        (root / name).write_bytes(b"garbage " * 1000)
    reindex = "stores.reindex(words[0])"
    children.killed_at("os.remove", "k8sbench.db", reindex, root, count=point)
    stores.reindex(str(root))
    assert everything(root) == filled


def test_a_database_of_something_else_is_left_alone(root: pathlib.Path) -> None:
    root.mkdir()
    with contextlib.closing(sqlite3.connect(root / "k8sbench.db")) as db:
        db.execute("CREATE TABLE runs (id INTEGER)")
        db.commit()
    for use in (open_store, stores.reindex):
        with pytest.raises(StoreError, match="something else"):
            use(str(root))
