"""The database indexes the folders; opening and reindexing keep it current."""

import contextlib
import os
import re
import shutil
import sqlite3
import sys
import urllib.parse
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from k8sbench.adapters.store import index, opening
from k8sbench.adapters.store.opening import open_store
from k8sbench.adapters.store.sql_store import SqlStore
from k8sbench.app import stores
from k8sbench.model.errors import StoreError, UsageError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run, Wish
from k8sbench.ports import RunFilter
from tests.harness import children, postgres
from tests.harness.cluster.limits import shorten
from tests.unit.store.conftest import OpenStore
from tests.unit.store.examples import (
    NOW,
    PROCESS,
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
        store.record(plan(f"seg-{number}", repeat=number), at=NOW + number, process=PROCESS)
    store.record(plan("pod-1", set_name="weekly"), at=NOW + 9, process=None)
    for run_id in ("seg-1", "seg-2", "seg-3"):
        store.move(run_id, step(Phase.RUNNING))
    store.move("seg-1", step(Phase.SUCCEEDED, NOW + 20))
    store.measured("seg-1", measurement())
    store.move("seg-2", step(Phase.FAILED, NOW + 30))
    store.measured("seg-2", measurement(throughput=None, verdict="rejected", reasons=(REJECTION,)))
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


@pytest.mark.parametrize("record", [None, "{", '{"schema": 2}', "null"])
def test_rows_are_made_anew_from_the_folders(store: SqlStore, record: str | None) -> None:
    filled = fill(store)
    if record is not None:
        for run in filled:
            damage(store, run.run_id, record)
        with pytest.raises(StoreError, match="row of run seg-1 cannot be read") as caught:
            store.run("seg-1")
        assert "k8sbench store reindex" in caught.value.action
    assert opening.reindex(store) == (len(filled), {})
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
    _, damaged = opening.reindex(store)
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
    count, damaged = opening.reindex(store)
    assert (count, set(damaged)) == (6, {"copied", "half", *large})
    assert "belongs to run seg-1" in damaged["copied"]
    assert "half holds no run.json" in damaged["half"]
    assert store.runs(RunFilter()) == filled


def test_the_index_follows_folders_that_come_and_go(
    one_run: SqlStore, open_again: OpenStore, tmp_path: Path
) -> None:
    """A killed write, copies, deletions; a row of PostgreSQL outlives its folder."""
    with open_store(str(tmp_path / "other")) as other:
        other.record(plan("seg-9", set_name="mine"), at=NOW + 70, process=PROCESS)
        shutil.copytree(other.folder("seg-9"), one_run.root / "runs" / "seg-9")
    shutil.rmtree(one_run.folder("seg-1"))
    again = open_again()
    assert again.ids() == (["seg-9"] if one_run.is_cache else ["seg-1", "seg-9"])


OPEN = """
import sys
from k8sbench.adapters.store.opening import open_store
print("ready", flush=True)
sys.stdin.readline()
with open_store(sys.argv[1]) as store:
    print(len(store.ids()), store.identity)
"""


@pytest.mark.slow
def test_several_processes_may_open_a_store_first(root: Path) -> None:
    processes = [children.ready(OPEN, root) for _ in range(3)]
    children.begin(*processes)
    ends = [process.communicate(timeout=100) for process in processes]
    assert [err for _, err in ends] == ["", "", ""]
    assert len({out for out, _ in ends}) == 1
    assert ends[0][0].startswith("0 ")


def test_the_index_of_a_newer_version_is_left(store: SqlStore, open_again: OpenStore) -> None:
    run = store.record(plan(), at=NOW, process=None)
    _execute(store, f"UPDATE schema_migrations SET number = {index.LAYOUT + 1}")
    with pytest.raises(StoreError, match="Another version of k8sbench"):
        open_again()
    _execute(store, f"UPDATE schema_migrations SET number = {index.LAYOUT}")
    assert store.run("seg-1") == run


def _execute(store: SqlStore, statement: str) -> None:
    with store.database.writing() as db:
        db.execute(sa.text(statement))


# --- The index of a folder ------------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, b""])
def test_a_missing_index_is_made(root: Path, filled: list[Run], data: bytes | None) -> None:
    (root / "k8sbench.db").unlink()
    if data is not None:
        (root / "k8sbench.db").write_bytes(data)
    assert everything(root) == filled


def change(root: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(root / "k8sbench.db")) as db, db:
        db.execute(statement)


@pytest.mark.parametrize("wrong", ["all", "the end", "a version"])
def test_an_index_that_cannot_be_opened_is_made_anew(
    root: Path, filled: list[Run], wrong: str
) -> None:
    file = root / "k8sbench.db"
    if wrong == "a version":
        change(root, "UPDATE schema_migrations SET number = 6")
    else:
        file.write_bytes(b"garbage" * 3000 if wrong == "all" else file.read_bytes()[:5000])
    assert everything(root) == filled
    assert not list(root.glob("*.db.*"))


CHANGES = {
    "a column": "ALTER TABLE runs DROP COLUMN closed",
    "a text": "UPDATE runs SET record = cast(cast(record AS blob) || x'ff' AS text)",
}


@pytest.mark.parametrize("wrong", CHANGES)
def test_one_that_is_damaged_elsewhere_is_named(root: Path, filled: list[Run], wrong: str) -> None:
    change(root, CHANGES[wrong])
    with pytest.raises(index.DamagedDatabase) as caught:
        everything(root)
    assert "k8sbench store reindex" in caught.value.action
    assert stores.reindex(str(root)) == (str(root), len(filled), {})
    assert everything(root) == filled


def test_a_damaged_database_takes_its_log_along(root: Path, tmp_path: Path) -> None:
    """SQLite would replay a write-ahead log into any database of its name."""
    copy = tmp_path / "copy"
    with open_store(str(root)) as store:
        filled = fill(store)
        shutil.copytree(root, copy)  # as a kill leaves it
    assert (copy / "k8sbench.db-wal").stat().st_size > 0
    (copy / "k8sbench.db").write_bytes(b"garbage " * 1000)
    assert stores.reindex(str(copy)) == (str(copy), len(filled), {})
    assert [elsewhere(run) for run in everything(copy)] == [elsewhere(run) for run in filled]


@pytest.mark.parametrize("point", [1, 2, 4])
def test_a_killed_reindex_is_made_again(root: Path, filled: list[Run], point: int) -> None:
    """The points are: each file that is removed."""
    for name in ("k8sbench.db", "k8sbench.db-wal"):
        (root / name).write_bytes(b"garbage " * 1000)
    reindex = "stores.reindex(words[0])"
    children.killed_at("os.remove", "k8sbench.db", reindex, root, count=point)
    stores.reindex(str(root))
    assert everything(root) == filled


def test_a_database_of_something_else_is_left_alone(root: Path) -> None:
    root.mkdir()
    with contextlib.closing(sqlite3.connect(root / "k8sbench.db")) as db:
        db.execute("CREATE TABLE runs (id INTEGER)")
        db.commit()
    for use in (open_store, stores.reindex):
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
    assert (store.root / "k8sbench.db").is_file()


@pytest.mark.parametrize(
    "name", ["with space", "per%41cent", "question?mark#hash", "ünïcode", "a&b"]
)
def test_any_folder_name_will_do(tmp_path: Path, name: str) -> None:
    with open_store(str(tmp_path / name)) as store:
        store.record(plan(), at=NOW, process=None)
    assert (tmp_path / name / "k8sbench.db").is_file()
    with open_store(str(tmp_path / name)) as store:
        assert store.folder("seg-1") == tmp_path / name / "runs" / "seg-1"


def test_what_is_left_of_a_run_is_named_where_there_is_no_other(root: Path) -> None:
    (root / "runs" / "half" / "logs").mkdir(parents=True)
    with open_store(str(root), create=False) as store:
        assert store.absent
        assert store.runs(RunFilter()) == []
        assert list(store.unreadable) == ["half"]
    assert not (root / "k8sbench.db").exists()


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
        with contextlib.closing(sqlite3.connect(root / "k8sbench.db", isolation_level=None)) as db:
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
    base = index._sqlite(uri, "", poolclass=StaticPool)
    with contextlib.closing(base), base.writing() as db:
        db.exec_driver_sql("CREATE TABLE t (x)")
        return str(db.exec_driver_sql("PRAGMA journal_mode").scalar())


@pytest.mark.parametrize("index", ["of a killed process", "gone", "damaged"])
def test_a_read_only_store_is_read(root: Path, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = root.with_name("copy")
    with open_store(str(root)) as store:
        run = store.record(plan(), at=NOW, process=None)
        shutil.copytree(root, copy)  # what a kill leaves behind
    if index == "gone":
        (copy / "k8sbench.db").unlink()
    elif index == "damaged":
        (copy / "k8sbench.db").write_bytes(b"garbage " * 1000)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    # Tests may run as root, whom no permission bits stop: the system's answer is replaced.
    monkeypatch.setattr(os, "access", lambda path, _: not Path(path).is_relative_to(copy))
    with open_store(str(copy), create=False) as read_only:
        assert [elsewhere(one) for one in read_only.runs(RunFilter())] == [elsewhere(run)]
        with pytest.raises(StoreError, match=f"The store {copy} can only be read"):
            read_only.move("seg-1", step(Phase.RUNNING))
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


@pytest.mark.usefixtures("root")
def test_a_database_of_bytes_keeps_any_text(postgres_server: postgres.Server) -> None:
    with open_store(postgres_server.database_of_bytes(), is_operator=True) as store:
        run = store.record(plan(data="path:/data/深度学习"), at=NOW, process=None)
        assert store.run("seg-1") == run


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://", "refused"),
        ("postgresql://u:hemmelig@127.0.0.1:1/db", "refused"),
        ("postgresql://u:hemmelig@127.0.0.1:99999999/db", "refused|understood"),
        ("postgres://u:hemmelig@127.0.0.1:1/db", "refused"),
        ("postgresql://127.0.0.1:1/db?user=u&password=hemmelig", "refused"),
        ("postgresql+nodriver://u:hemmelig@h/db", "understood"),
        ("http://u:hemmelig@h/db", "understood"),
    ],
)
def test_a_url_that_cannot_be_opened_says_why_without_its_password(url: str, says: str) -> None:
    with pytest.raises((StoreError, UsageError), match=says) as caught:
        open_store(url, is_operator=True)
    assert "hemmelig" not in str(caught.value)


@pytest.mark.parametrize("password", ["a/b@c", "%2Fa%40", "@/:@", "plain"])
def test_a_password_may_hold_what_parts_a_url(password: str, root: Path) -> None:
    base = index.open_postgres(f"postgresql://u:{password}@[::1]:1/db?sslmode=prefer")
    url = base.engine.url
    assert url.password == urllib.parse.unquote(password)
    assert (url.username, url.host, url.port, url.database) == ("u", "::1", 1, "db")


def test_a_rotated_password_is_read_anew(
    postgres_server: postgres.Server, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = root.parent / "url"
    monkeypatch.delenv("K8SBENCH_STORE", raising=False)
    monkeypatch.setenv("K8SBENCH_STORE_FILE", str(file))
    with pytest.raises(StoreError, match="K8SBENCH_STORE_FILE"):
        open_store(is_operator=True)
    file.write_text(postgres_server.with_password("fir/st@") + "\n")
    with open_store(is_operator=True) as store:
        store.record(plan(), at=NOW, process=None)
        url = postgres_server.with_password("sec@nd/")
        assert store.ids() == ["seg-1"], "who is connected stays so"
    with pytest.raises(StoreError, match="password"):
        open_store(is_operator=True)
    file.write_text(url)
    with open_store(is_operator=True) as store:
        assert store.ids() == ["seg-1"]


def test_a_missing_driver_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match="driver") as caught:
        open_store("postgresql://u:hemmelig@h/db", is_operator=True)
    assert "pip install" in caught.value.action


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
