"""The database indexes the folders; opening and reindexing keep it current."""

import contextlib
import os
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from k8sbench.app import stores
from k8sbench.model.errors import StoreError, UsageError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run, Wish
from k8sbench.store import database, indexing
from k8sbench.store.interface import RunFilter
from k8sbench.store.open_store import open_store, reindex
from k8sbench.store.run_folder import RUNS
from k8sbench.store.sql_store import SqlStore
from tests.harness import children, old_store
from tests.harness.cluster.limits import shorten
from tests.unit.model.measurements import measurement
from tests.unit.store import programs
from tests.unit.store.conftest import OpenStore
from tests.unit.store.examples import NOW, PROCESS, REJECTION, archive, elsewhere, plan, step
from tests.unit.store.index_checks import differences, reindexed

CANCEL = Wish(kind="cancel", at=NOW + 1, cause="Enough.")


def fill(store: SqlStore) -> list[Run]:
    """Record runs of every kind; returns them as the store has them."""
    for number in range(1, 6):
        store.record(plan(f"seg-{number}", repeat=number), at=NOW + number, process=PROCESS)
    store.record(plan("pod-1", set_name="weekly"), at=NOW + 9, process=None)
    for run_id in ("seg-1", "seg-2", "seg-3"):
        store.move(run_id, step(Phase.RUNNING))
    store.move("seg-1", step(Phase.SUCCEEDED, NOW + 20))
    store.save_measurement("seg-1", measurement())
    store.move("seg-2", step(Phase.FAILED, NOW + 30))
    store.save_measurement(
        "seg-2", measurement(throughput=None, verdict="rejected", reasons=(REJECTION,))
    )
    store.wish("pod-1", CANCEL)
    archive(store, "hello")
    return store.runs(RunFilter())


def everything(root: Path) -> list[Run]:
    with open_store(str(root)) as store:
        return store.runs(RunFilter())


@pytest.fixture
def filled(root: Path) -> list[Run]:
    with open_store(str(root)) as store:
        return fill(store)


# --- Every store ----------------------------------------------------------------------------------


def test_rows_are_made_anew_from_the_folders(store: SqlStore) -> None:
    filled = fill(store)
    with store.database.writing() as db:
        db.execute("UPDATE runs SET benchmark = 'another', state = 'Succeeded', closed = 1")
    assert differences(store) == sorted(run.run_id for run in filled)
    assert reindexed(store) == (len(filled), {})
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
def test_a_damaged_file_is_named(store: SqlStore, run_id: str, name: str, text: str | None) -> None:
    fill(store)
    path = store.root / "runs" / run_id / name
    if text is None:
        path.unlink()
        path.mkdir()
    else:
        path.write_text(text)
    _, damaged = reindexed(store)
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
    count, damaged = reindexed(store)
    assert (count, set(damaged)) == (6, {"copied", "half", *large})
    assert "belongs to run seg-1" in damaged["copied"]
    assert "half holds no run.json" in damaged["half"]
    assert store.runs(RunFilter()) == filled


def test_the_index_follows_folders_that_come_and_go(
    one_run: SqlStore, open_again: OpenStore, tmp_path: Path
) -> None:
    """A killed write, copies, deletions."""
    with open_store(str(tmp_path / "other")) as other:
        other.record(plan("seg-9", set_name="mine"), at=NOW + 70, process=PROCESS)
        shutil.copytree(other.folder("seg-9"), one_run.root / "runs" / "seg-9")
    shutil.rmtree(one_run.folder("seg-1"))
    again = open_again()
    assert again.ids() == ["seg-9"]


@pytest.mark.slow
@pytest.mark.parametrize("is_missing", [True, False])
def test_whoever_opens_a_store_is_told_how_far_its_index_is(
    root: Path, filled: list[Run], monkeypatch: pytest.MonkeyPatch, is_missing: bool
) -> None:
    """Also if the index is there, and somebody has copied folders into the store."""
    monkeypatch.setattr(indexing, "SHOWN_SECONDS", 0.0)
    told: list[str] = []
    if is_missing:
        (root / database.DATABASE).unlink()
    else:
        for number in range(len(filled)):
            run_id = f"copy-{number}"
            shutil.copytree(root / RUNS / filled[number].run_id, root / RUNS / run_id)
    with open_store(str(root), tell=told.append):
        pass
    assert [re.findall(r"\d+", each)[-2:] for each in told] == [
        [str(number), str(len(filled))] for number in range(len(filled))
    ]


def test_several_processes_may_open_a_store_first(root: Path) -> None:
    processes = [children.ready(programs.open_at_once, root) for _ in range(3)]
    children.begin(*processes)
    ends = [process.communicate(timeout=100) for process in processes]
    assert [err for _, err in ends] == ["", "", ""]
    assert len({out for out, _ in ends}) == 1
    assert ends[0][0].startswith("0 ")


# --- The index of a folder ------------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, b""])
def test_a_missing_index_is_made(root: Path, filled: list[Run], data: bytes | None) -> None:
    (root / database.DATABASE).unlink()
    if data is not None:
        (root / database.DATABASE).write_bytes(data)
    assert everything(root) == filled


def change(root: Path, statement: str, name: str = database.DATABASE) -> None:
    with contextlib.closing(sqlite3.connect(root / name)) as db, db:
        db.execute(statement)


@pytest.mark.parametrize("left", ["of 0.4.0", "of 0.5.0", "of a newer version", "of 0.5.0 alone"])
def test_an_index_of_another_version_is_deleted_when_ours_is_made_anew(
    root: Path, filled: list[Run], left: str
) -> None:
    """It shows that the other version has used the store since."""
    number = database.LAYOUT + 1
    name = f"index-{number}.db" if "newer" in left else database.FORMER
    change(root, "UPDATE runs SET set_name = 'before it was used by another version'")
    if "0.4.0" in left:
        for statement in old_store.TABLES:
            change(root, statement, name)
    else:
        shutil.copy(root / database.DATABASE, root / name)
        change(root, f"PRAGMA user_version = {number}", name)
    if "alone" in left:
        (root / database.DATABASE).unlink()
    assert everything(root) == filled
    assert [path.name for path in root.glob("*.db*")] == [database.DATABASE]
    with open_store(str(root)) as store:
        assert differences(store) == []


@pytest.mark.parametrize("file", [database.DATABASE, database.FORMER, "index-99.db"])
def test_the_tables_of_another_program_are_left(root: Path, filled: list[Run], file: str) -> None:
    (root / file).unlink(missing_ok=True)
    change(root, "CREATE TABLE theirs (name TEXT)", file)
    if file == database.DATABASE:
        with pytest.raises(StoreError):
            everything(root)
    else:
        assert everything(root) == filled
    change(root, "INSERT INTO theirs VALUES ('kept')", file)


@pytest.mark.parametrize("wrong", ["all", "the end", "a version"])
def test_an_index_that_cannot_be_opened_is_made_anew(
    root: Path, filled: list[Run], wrong: str
) -> None:
    file = root / database.DATABASE
    if wrong == "a version":
        change(root, "PRAGMA user_version = 6")
    else:
        file.write_bytes(b"garbage" * 3000 if wrong == "all" else file.read_bytes()[:5000])
    assert everything(root) == filled
    assert not list(root.glob("*.db.*"))


@pytest.mark.parametrize(
    "change_of_tables",
    ["ALTER TABLE runs RENAME COLUMN set_name TO sets", "DROP TABLE facts", "DROP TABLE damaged"],
)
def test_an_index_that_lacks_something_is_made_anew(
    root: Path, filled: list[Run], change_of_tables: str
) -> None:
    change(root, change_of_tables)
    assert everything(root) == filled


def test_damage_that_is_found_later_is_an_error_with_the_way_to_mend_it(
    root: Path, filled: list[Run]
) -> None:
    change(root, "CREATE TABLE filler AS SELECT randomblob(900000) AS bytes")
    file = root / database.DATABASE
    file.write_bytes(file.read_bytes()[:-500_000])
    with (
        open_store(str(root)) as store,
        pytest.raises(database.DamagedDatabase) as caught,
        store.database.reading() as db,
    ):
        db.execute("SELECT count(*) FROM filler WHERE bytes > 'a'").fetchone()
    assert "k8sbench store reindex" in caught.value.action
    assert stores.reindex(str(root), print) == (root, len(filled), {})
    assert everything(root) == filled


def test_a_damaged_database_takes_its_log_along(root: Path, tmp_path: Path) -> None:
    """SQLite would replay a write-ahead log into any database of its name."""
    copy = tmp_path / "copy"
    with open_store(str(root)) as store:
        filled = fill(store)
        shutil.copytree(root, copy)  # as a kill leaves it
    assert (copy / f"{database.DATABASE}-wal").stat().st_size > 0
    (copy / database.DATABASE).write_bytes(b"garbage " * 1000)
    assert stores.reindex(str(copy), print) == (copy, len(filled), {})
    assert [elsewhere(run) for run in everything(copy)] == [elsewhere(run) for run in filled]


@pytest.mark.parametrize("point", [1, 2, 4])
def test_a_killed_reindex_is_made_again(root: Path, filled: list[Run], point: int) -> None:
    """The points are: each file that is removed."""
    for name in (database.DATABASE, f"{database.DATABASE}-wal"):
        (root / name).write_bytes(b"garbage " * 1000)
    children.killed_at("os.remove", database.DATABASE, programs.reindex, root, count=point)
    stores.reindex(str(root), print)
    assert everything(root) == filled


def test_a_database_of_something_else_is_left_alone(root: Path) -> None:
    root.mkdir()
    with contextlib.closing(sqlite3.connect(root / database.DATABASE)) as db:
        db.execute("CREATE TABLE runs (id INTEGER)")
        db.commit()
    (root / "runs").mkdir()
    for use in (open_store, reindex):
        with pytest.raises(StoreError, match="something else"):
            use(str(root))


# -- opening --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "place"),
    [
        ({}, "home/.local/share/k8sbench"),
        ({"XDG_DATA_HOME": "{tmp}/data"}, "data/k8sbench"),
        # To be ignored, says the specification.
        ({"XDG_DATA_HOME": "relative"}, "home/.local/share/k8sbench"),
        ({"K8SBENCH_STORE": "{tmp}/variable\n"}, "variable"),
        ({"K8SBENCH_STORE": "{tmp}/variable", "--store": "{tmp}/argument"}, "argument"),
        ({"--store": "~/mine"}, "home/mine"),
        ({"--store": "here/there"}, "here/there"),
    ],
)
def test_a_store_is_where_it_is_named_or_in_the_users_data(
    named: dict[str, str], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    words = {name: text.format(tmp=tmp_path) for name, text in named.items()}
    given = words.pop("--store", None)
    for name, value in ({"HOME": f"{tmp_path}/home"} | words).items():
        monkeypatch.setenv(name, value)
    with open_store(given) as store:
        assert store.root == tmp_path / place
    assert (store.root / database.DATABASE).is_file()


@pytest.mark.parametrize(
    "name", ["with space", "per%41cent", "question?mark#hash", "ünïcode", "a&b"]
)
def test_any_folder_name_will_do(tmp_path: Path, name: str) -> None:
    with open_store(str(tmp_path / name)) as store:
        store.record(plan(), at=NOW, process=None)
    assert (tmp_path / name / database.DATABASE).is_file()
    with open_store(str(tmp_path / name)) as store:
        assert store.folder("seg-1") == tmp_path / name / "runs" / "seg-1"


def test_what_is_left_of_a_run_is_named_where_there_is_no_other(root: Path) -> None:
    (root / "runs" / "half" / "logs").mkdir(parents=True)
    with open_store(str(root), create=False) as store:
        assert store.absent
        assert store.runs(RunFilter()) == []
        assert list(store.unreadable) == ["half"]
    assert not (root / database.DATABASE).exists()


@pytest.mark.parametrize("where", ["a\0b", "x" * 300, "~nobody-of-that-name/x", "   ", "f", "f/y"])
def test_a_file_is_no_store(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UsageError, StoreError)):
        open_store(where)
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]


def test_a_locked_database_is_an_error_later(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch, store_busy=0.2)
    with open_store(str(root)) as store:
        store.record(plan(), at=NOW, process=None)
        with contextlib.closing(
            sqlite3.connect(root / database.DATABASE, isolation_level=None)
        ) as db:
            db.execute("BEGIN IMMEDIATE")
            assert store.run("seg-1").phase is Phase.CREATED  # reading goes on
            with pytest.raises(StoreError, match="locked by another process"):
                store.move("seg-1", step(Phase.RUNNING))
        assert store.move("seg-1", step(Phase.RUNNING)).phase is Phase.RUNNING


def test_a_file_system_without_shared_memory_keeps_the_rollback_journal(tmp_path: Path) -> None:
    assert _journal(f"file:{tmp_path}/a.db") == "wal"
    # SQLite's own layer for file systems that cannot lock has no shared memory either.
    assert _journal(f"file:{tmp_path}/b.db?vfs=unix-dotfile") == "delete"


def _journal(uri: str) -> str:
    base = database.Database(uri, "")
    with contextlib.closing(base):
        return base.set_journal("WAL")


@pytest.mark.parametrize(
    ("file_system", "mode"), [("ext4", "WAL"), ("", "WAL"), ("nfs4", "DELETE"), ("cifs", "DELETE")]
)
def test_a_network_file_system_has_no_write_ahead_log(file_system: str, mode: str) -> None:
    assert database.journal_mode(file_system) == mode


def test_the_file_system_of_a_folder_is_that_of_its_mount(tmp_path: Path) -> None:
    assert database.file_system(Path("/proc/self")) == "proc"
    assert database.file_system(tmp_path / "not" / "made") not in {"", "proc"}


def contents(folder: Path) -> dict[Path, bytes]:
    """Read the files of a folder, except for the memory that SQLite's processes share."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path.suffix != ".db-shm"}


@pytest.mark.parametrize("index", ["of a killed process", "of older folders", "gone", "damaged"])
def test_a_read_only_store_is_read(root: Path, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = root.with_name("copy")
    with open_store(str(root)) as store:
        run = store.record(plan(), at=NOW, process=None)
        shutil.copytree(root, copy)  # what a kill leaves behind
    if index == "gone":
        (copy / database.DATABASE).unlink()
    elif index == "of older folders":
        change(copy, "DELETE FROM runs")
    elif index == "damaged":
        (copy / database.DATABASE).write_bytes(b"garbage " * 1000)
    before = contents(copy)
    # Tests may run as root, whom no permission bits stop: the system's answer is replaced.
    monkeypatch.setattr(os, "access", lambda path, _: not Path(path).is_relative_to(copy))
    with open_store(str(copy), create=False) as read_only:
        assert [elsewhere(one) for one in read_only.runs(RunFilter())] == [elsewhere(run)]
        with pytest.raises(StoreError, match=f"The store {copy} can only be read"):
            read_only.move("seg-1", step(Phase.RUNNING))
    assert contents(copy) == before


def test_a_url_is_no_store_and_its_password_is_not_printed() -> None:
    with pytest.raises(UsageError, match="A store is a folder") as caught:
        open_store("postgresql://u:hemmelig@h/db")
    assert "hemmelig" not in str(caught.value)
    assert "--store cluster" in caught.value.action


def test_a_store_that_is_moved_stays_the_same(root: Path) -> None:
    """A restarted pod or another mount: it recognises its own marks."""
    with open_store(str(root)) as store:
        before = store.identity
    moved = root.rename(root.with_name("moved"))
    with open_store(str(moved)) as again:
        assert again.identity == before
    with open_store(str(root)) as other:
        assert other.identity != before
        (root / "store.id").write_text("\x1b]0;\n")
        with pytest.raises(StoreError, match=r"store\.id does not hold"):
            _ = other.identity
