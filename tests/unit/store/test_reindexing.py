"""The database is an index over the folders: it is made anew from them, whatever became of it."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from k8sbench.adapters.store import database, index, sql_store
from k8sbench.adapters.store.artifacts import RunFolder, as_file
from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.model.errors import StoreError
from k8sbench.model.finding import Finding
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Run, Wish
from k8sbench.ports import RunFilter
from tests.harness import children, earlier_stores
from tests.tiers import ROOT
from tests.unit.store.conftest import OpenStore
from tests.unit.store.examples import (
    NOW,
    OWNER,
    REJECTION,
    append,
    archive,
    measurement,
    plan,
    step,
)
from tests.unit.store.index_checks import differences

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
    store.move(
        "seg-2",
        Transition(phase=Phase.FAILED, at=NOW + 30, cause="worker-1: 1", cause_id="replica-failed"),
    )
    store.measured("seg-2", measurement(throughput=None, verdict="rejected", reasons=(REJECTION,)))
    store.keep("seg-1", "manifest.yaml", "kind: PyTorchJob\n")
    store.wish("pod-1", CANCEL)
    archive(store, "hello")
    return store.runs(RunFilter())


def everything(root: pathlib.Path) -> list[Run]:
    with open_store(str(root)) as store:
        return store.runs(RunFilter())


def reindexed(root: pathlib.Path) -> list[Finding]:
    with open_store(str(root)) as store:
        _, findings = sql_store.reindex(store)
        assert differences(store) == []
    return findings


def ids(report: tuple[int, list[Finding]]) -> list[str]:
    return [finding.id for finding in report[1]]


@pytest.fixture
def filled(root: pathlib.Path) -> list[Run]:
    with open_store(str(root)) as store:
        return fill(store)


def test_a_whole_store_has_nothing_to_report(store: SqlStore) -> None:
    filled = fill(store)
    assert sql_store.reindex(store) == (len(filled), [])
    assert store.runs(RunFilter()) == filled


@pytest.mark.parametrize(
    "wrong", ["deleted", "garbage", "empty", "cut", "TABLE", "COLUMN", "BIT", "BLOB", "TEXT"]
)
def test_an_index_that_is_gone_or_damaged_is_made_anew_when_the_store_is_opened(
    root: pathlib.Path, filled: list[Run], wrong: str
) -> None:
    file = root / "k8sbench.db"
    if wrong == "deleted":
        file.unlink()
    elif wrong.isupper():
        changes = {
            "TABLE": "DROP TABLE requests",
            "COLUMN": "ALTER TABLE runs DROP COLUMN files_at",
            "BLOB": "UPDATE runs SET run_id = cast(run_id AS blob) WHERE run_id = 'seg-2'",
            "TEXT": "UPDATE runs SET repeat = 'x' WHERE run_id = 'seg-2'",
            "BIT": "UPDATE runs SET record = cast(cast(record AS blob) || x'ff' AS text)",
        }
        with contextlib.closing(sqlite3.connect(file)) as db, db:
            db.execute(changes[wrong])
    else:
        data = {"garbage": b"garbage" * 3000, "empty": b"", "cut": file.read_bytes()[:5000]}
        file.write_bytes(data[wrong])
    assert everything(root) == filled
    assert reindexed(root) == []
    if wrong == "garbage":
        assert (root / "k8sbench.db.old").read_bytes() == b"garbage" * 3000


def test_a_page_that_is_damaged_is_seen_by_a_reindex(root: pathlib.Path, filled: list[Run]) -> None:
    file = root / "k8sbench.db"
    data = bytearray(file.read_bytes())
    for at in range(3 * 4096, len(data)):
        data[at] = 0x5A
    with open_store(str(root)) as store:
        file.write_bytes(data)
        with pytest.raises(StoreError, match="damaged") as caught:
            store.runs(RunFilter())
        assert f"k8sbench store reindex --store {root}" in caught.value.action
        assert ids(sql_store.reindex(store)) == ["damaged-database"]
        assert store.runs(RunFilter()) == filled
    assert everything(root) == filled
    file.write_bytes(data)
    assert everything(root) == filled, "the next command mends it as well"


def test_a_log_of_the_damaged_database_does_not_reach_the_new_one(
    root: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """A write-ahead log belongs to its database, and SQLite would play it into any of that name."""
    store = open_store(str(root))
    filled, copy = fill(store), tmp_path / "copy"
    shutil.copytree(root, copy)
    store.close()
    assert (copy / "k8sbench.db-wal").stat().st_size > 0
    (copy / "k8sbench.db").write_bytes(b"garbage " * 1000)
    moved = [replace(run, artifacts=str(copy / "runs" / run.run_id)) for run in filled]
    assert everything(copy) == moved
    assert reindexed(copy) == []


def test_folders_that_cannot_be_read_are_named(root: pathlib.Path, filled: list[Run]) -> None:
    runs = root / "runs"
    (runs / "foreign").mkdir()
    (runs / "foreign" / "thesis.doc").write_text("")
    (runs / "file").write_text("")
    (runs / "\udcff" / "logs").mkdir(parents=True)  # a name that is no text
    (runs / "began").mkdir()
    (runs / "began" / "events.jsonl").write_text("")
    (runs / "half" / "logs").mkdir(parents=True)
    (runs / "bad-json").mkdir()
    (runs / "bad-json" / "run.json").write_text('{"plan": ')
    shutil.copytree(runs / "seg-1", runs / "copied")
    large = {"large-1": "repeat", "large-2": "replicas", "large-3": "created_at"}
    for run_id, name in large.items():
        text = (runs / "seg-1" / "run.json").read_text().replace("seg-1", run_id)
        text = re.sub(f'"{name}": [0-9.]+', f'"{name}": 1e30', text)
        (runs / run_id).mkdir()
        (runs / run_id / "run.json").write_text(text)
    with open_store(str(root)) as store:
        count, findings = sql_store.reindex(store)
        assert store.runs(RunFilter()) == filled
        assert set(store.unreadable) == {"bad-json", "copied", "half", *large}
    assert count == 6
    named = [(finding.id, finding.severity, finding.sentence) for finding in findings]
    assert [(id_, severity) for id_, severity, _ in named] == [("damaged-run", "fail")] * 6
    assert str(runs / "bad-json") in named[0][2]
    assert "belongs to run seg-1" in named[1][2]
    assert "half holds no run.json" in named[2][2]


def test_a_run_whose_folder_is_gone_is_kept_from_its_row(store: SqlStore) -> None:
    filled = fill(store)
    shutil.rmtree(store.root / "runs" / "seg-1")
    assert ids(sql_store.reindex(store)) == (["no-folder"] if store.has_all_folders else [])
    first, *others = store.runs(RunFilter())
    assert others == filled[1:]
    assert first == replace(filled[0], artifacts=None, artifacts_missing=first.artifacts_missing)


@pytest.mark.parametrize(
    ("run_id", "name", "text"),
    [
        ("seg-1", "run.json", "{"),
        ("seg-3", "events.jsonl", "{\n"),
        ("seg-3", "events.jsonl", ""),
        ("seg-2", "measurement.json", "{"),
        ("pod-1", "wishes.json", "{"),
        ("seg-3", "events.jsonl", None),
    ],
)
def test_a_file_that_cannot_be_read_is_written_anew_from_the_row(
    store: SqlStore, run_id: str, name: str, text: str | None
) -> None:
    filled = fill(store)
    path = store.root / "runs" / run_id / name
    before = path.read_bytes()
    if text is None:
        path.unlink()
        path.mkdir()
    else:
        path.write_text(text)
    report = sql_store.reindex(store)
    assert ids(report) == ["damaged-file"]
    assert str(path) in report[1][0].sentence
    assert path.read_bytes() == before
    kept = path.with_name(f"{name}.damaged")
    assert kept.is_dir() if text is None else kept.read_text() == text
    assert ids(sql_store.reindex(store)) == []
    assert store.runs(RunFilter()) == filled


@pytest.mark.parametrize("name", ["run.json", "events.jsonl"])
def test_the_next_command_mends_the_folder_of_a_run_that_goes_on(
    store: SqlStore, name: str
) -> None:
    filled = fill(store)
    path = store.root / "runs" / "seg-3" / name
    path.write_text("{\n")
    assert store.runs(RunFilter()) == filled
    assert differences(store) == []


def test_a_damaged_measurement_that_its_row_lacks_is_to_be_measured_again(store: SqlStore) -> None:
    fill(store)
    store.move("seg-3", step(Phase.SUCCEEDED, NOW + 20))
    (store.root / "runs" / "seg-3" / "measurement.json").write_text("{")
    assert ids(sql_store.reindex(store)) == ["damaged-file"]
    assert store.run("seg-3").owes_measurement
    assert ids(sql_store.reindex(store)) == []


def test_a_row_without_a_folder_outlives_its_database(
    root: pathlib.Path, filled: list[Run]
) -> None:
    shutil.rmtree(root / "runs" / "seg-1")
    before = everything(root)
    with contextlib.closing(sqlite3.connect(root / "k8sbench.db")) as db:
        db.execute("UPDATE schema_migrations SET number = 9")
        db.commit()
        asked = "SELECT rootpage - 1 FROM sqlite_master WHERE name = 'ix_runs_created_at'"
        page = db.execute(asked).fetchone()[0]
    assert everything(root) == before, "brought to the present layout"
    with (root / "k8sbench.db").open("r+b") as file:
        file.seek(page * 4096)
        file.write(b"garbage " * 512)
    assert everything(root) == before, "made anew"
    assert (root / "k8sbench.db.old").is_file()


def test_a_folder_that_knows_more_than_its_row_is_right(store: SqlStore) -> None:
    fill(store)
    folder = RunFolder(store.root / "runs" / "seg-2")
    folder.write("measurement.json", as_file(measurement()))
    assert differences(store) == ["seg-2"]
    sql_store.reindex(store)
    assert differences(store) == []
    # A team's row may know more than a folder of one machine.
    assert (store.run("seg-2").measurement == measurement()) is store.has_all_folders


@pytest.mark.parametrize(("name", "left"), [("measurement.json", 0), ("events.jsonl", -2)])
def test_what_a_folder_lacks_of_its_row_is_written_to_it(
    store: SqlStore, name: str, left: int
) -> None:
    fill(store)
    path = store.root / "runs" / "seg-1" / name
    before = path.read_bytes()
    path.unlink() if not left else path.write_bytes(before[:left])
    assert ids(sql_store.reindex(store)) == []
    assert path.read_bytes() == before


def test_a_folder_without_a_row_is_indexed_by_the_next_command(
    root: pathlib.Path, filled: list[Run], tmp_path: pathlib.Path
) -> None:
    """Killed before the row stood, or copied here."""
    with open_store(str(tmp_path / "other")) as other:
        other.record(plan("seg-9", set_name="mine"), at=NOW + 70, owner=OWNER)
    shutil.copytree(tmp_path / "other" / "runs" / "seg-9", root / "runs" / "seg-9")
    with open_store(str(root)) as store:
        assert store.run("seg-9").phase is Phase.CREATED
        assert differences(store) == []


def test_a_newer_database_is_left_alone(
    root: pathlib.Path, filled: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (root / "k8sbench.db").read_bytes()
    monkeypatch.setattr(index, "LAYOUT", index.LAYOUT - 1)
    with pytest.raises(StoreError, match="newer k8sbench"):
        open_store(str(root))
    assert (root / "k8sbench.db").read_bytes() == before


def test_a_store_that_can_only_be_read_knows_the_runs_whose_folders_are_gone(
    root: pathlib.Path, filled: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(root / "runs" / "seg-1")
    (root / "runs" / "seg-2" / "run.json").write_text("{")
    before = everything(root)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert everything(root) == before
    assert (root / "runs" / "seg-2" / "run.json").read_text() == "{"


KILLED = """
import os, signal, sys
from k8sbench.adapters.store.sql_store import open_store
left = int(sys.argv[2])
def die(event, _):
    global left
    if event in {"os.rename", "os.remove"}:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(die)
open_store(sys.argv[1]).close()
"""


@pytest.mark.parametrize("point", range(1, 8))
def test_killed_while_the_index_is_made_anew_the_next_command_makes_it(
    root: pathlib.Path, filled: list[Run], point: int
) -> None:
    """The points are: each file that is removed or put in its place."""
    (root / "k8sbench.db").write_bytes(b"garbage " * 1000)
    (root / "k8sbench.db-wal").write_bytes(b"garbage " * 1000)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(root), str(point)], check=False, capture_output=True
    )
    assert done.stderr == b""
    assert done.returncode in {0, -9}
    assert everything(root) == filled
    assert not list(root.glob("*.new*"))


def test_the_page_explains_every_finding() -> None:
    page = (ROOT / "docs" / "store.md").read_text()
    for name in sql_store.ACTIONS:
        assert f"| `{name}` |" in page


# --- Stores of before -----------------------------------------------------------------------------


@pytest.fixture
def earlier(where: str, root: pathlib.Path) -> Iterator[OpenStore]:
    """A store of 0.2.0 with the runs of :func:`fill`, of which one has no folder here."""
    with open_store(str(root)) as store:
        runs = [replace(run, wishes=()) for run in fill(store)]
    for path in root.glob("k8sbench.db*"):
        path.unlink()
    shutil.rmtree(root / "runs" / "seg-1")
    (root / "runs" / "pod-1" / "wishes.json").unlink()
    is_here = where == str(root)
    base = database.open_sqlite(root) if is_here else database.open_postgres(where)
    with base.writing() as db:
        earlier_stores.make(db, runs)
        db.execute(sa.text("UPDATE runs SET plan = '{' WHERE run_id = 'seg-5'"))
    base.close()
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(open_store(where, folder=root))


def test_a_store_of_0_2_0_keeps_all_its_runs(earlier: OpenStore, tmp_path: pathlib.Path) -> None:
    store = earlier()
    with open_store(str(tmp_path / "same")) as same:
        wanted = {run.run_id: replace(run, wishes=()) for run in fill(same)}
    runs = {run.run_id: run for run in store.runs(RunFilter())}
    assert runs.keys() == wanted.keys()
    for run_id, run in runs.items():
        assert (run.plan, run.history) == (wanted[run_id].plan, wanted[run_id].history)
        assert run.measurement == wanted[run_id].measurement
    assert "they were last written on a-laptop:/data" in (runs["seg-1"].artifacts_missing or "")
    assert store.move("seg-4", step(Phase.RUNNING)).phase is Phase.RUNNING
    assert earlier().runs(RunFilter(unfinished=True)) == store.runs(RunFilter(unfinished=True))


def test_a_step_of_the_upgrade_that_fails_leaves_the_tables_of_before(
    url: str, root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = database.open_postgres(url)
    with open_store(str(root)) as store:
        runs = [replace(run, wishes=()) for run in fill(store)]
    with base.writing() as db:
        earlier_stores.make(db, runs)
    with monkeypatch.context() as patched:
        patched.setattr(index, "add", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            open_store(url, folder=root)
    with base.reading() as db:
        assert index.layout(db) == earlier_stores.LAYOUT
        assert db.scalar(sa.text("SELECT count(*) FROM transitions")) == 11
    base.close()
    with open_store(url, folder=root) as store:
        assert len(store.runs(RunFilter())) == 6


OPEN = """
import pathlib, sys
from k8sbench.adapters.store.sql_store import open_store
print("ready", flush=True)
sys.stdin.readline()
with open_store(sys.argv[1], folder=pathlib.Path(sys.argv[2])) as store:
    print(len(store.ids()), store.identity)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "is_old"), [("sqlite", 0), ("postgres", 0), ("postgres", 1)])
def test_several_processes_may_open_one_store_for_the_first_time(
    kind: str, is_old: int, root: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    where = str(root) if kind == "sqlite" else request.getfixturevalue("url")
    if is_old:
        base = database.open_postgres(where)
        with base.writing() as db:
            earlier_stores.make(db, ())
        base.close()
    count = 4 if kind == "sqlite" else 2
    processes = [children.ready(OPEN, where, root) for _ in range(count)]
    children.begin(*processes)
    ends = [process.communicate(timeout=60) for process in processes]
    assert [err for _, err in ends] == [""] * count
    assert len({out for out, _ in ends}) == 1
    assert ends[0][0].startswith("0 ")


# --- Two machines on one PostgreSQL ---------------------------------------------------------------


@pytest.fixture
def machines(url: str, tmp_path: pathlib.Path) -> Iterator[tuple[SqlStore, SqlStore]]:
    with (
        open_store(url, folder=tmp_path / "one") as one,
        open_store(url, folder=tmp_path / "two") as two,
    ):
        yield one, two


def test_each_of_two_machines_reindexes_the_half_whose_folders_it_has(
    machines: tuple[SqlStore, SqlStore],
) -> None:
    one, two = machines
    for number, store in enumerate((one, two) * 3, start=1):
        run_id = f"seg-{number}"
        store.record(plan(run_id, repeat=number), at=NOW + number, owner=None)
        store.move(run_id, step(Phase.RUNNING, NOW + 10))
    one.wish("seg-2", CANCEL)  # from the machine without its folder
    assert two.claims.claim("seg-4")
    before = [replace(run, artifacts=None, artifacts_missing=None) for run in seen(two)]
    with two.database.writing() as db:
        for table in ("claims", "requests"):
            assert db.scalar(sa.text(f"SELECT count(*) FROM {table}")) == 1
        db.execute(sa.text("UPDATE runs SET record = '{'"))
    assert ids(sql_store.reindex(one)) == ["damaged-run"] * 3, "the rows of the others"
    assert [run.run_id for run in seen(one)] == ["seg-1", "seg-3", "seg-5"]
    assert ids(sql_store.reindex(two)) == []
    one.unreadable.clear()
    for store in (one, two):
        after = [replace(run, artifacts=None, artifacts_missing=None) for run in seen(store)]
        assert after == before
    assert two.run("seg-2").wishes == (CANCEL,)
    assert not one.claims.claim("seg-4"), "a reindex takes no claim away"
    assert json.loads((two.folder("seg-2") / "run.json").read_text())["plan"]["repeat"] == 2


def seen(store: SqlStore) -> list[Run]:
    return store.runs(RunFilter())


def test_a_reindex_does_not_bring_back_what_another_machine_went_on_with(
    machines: tuple[SqlStore, SqlStore],
) -> None:
    one, two = machines
    one.record(plan(), at=NOW, owner=None)
    two.ensure_folder("seg-1")
    # Killed between the file and the row, while the other went on.
    append(one.folder("seg-1"), step(Phase.RUNNING, NOW + 1))
    done = two.move("seg-1", step(Phase.FAILED, NOW + 2))
    assert ids(sql_store.reindex(one)) == []
    assert one.run("seg-1").history == done.history
    assert two.run("seg-1") == done
