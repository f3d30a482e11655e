"""Where a store is, how it is opened, and what is said where it cannot be."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import sqlite3
import subprocess
import sys

import pytest

from k8sbench.adapters.store import database, disk
from k8sbench.adapters.store.sql_store import open_store
from k8sbench.model.errors import StoreError, UsageError
from k8sbench.model.phase import Phase
from k8sbench.ports import RunFilter
from tests.harness import postgres
from tests.unit.store.examples import NOW, plan, step


def test_the_default_place_is_the_users_data_folder(private_home: pathlib.Path) -> None:
    with open_store() as store:
        assert store.root == private_home / ".local" / "share" / "k8sbench"
    assert (store.root / "k8sbench.db").is_file()


def test_the_xdg_data_home_is_honoured(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, private_home: pathlib.Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with open_store() as store:
        assert store.root == tmp_path / "data" / "k8sbench"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")  # to be ignored, says the specification
    with open_store() as store:
        assert store.root == private_home / ".local" / "share" / "k8sbench"


def test_the_variable_goes_before_the_default_and_the_argument_before_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / "variable"))
    with open_store() as store:
        assert store.root == tmp_path / "variable"
    with open_store(str(tmp_path / "argument")) as store:
        assert store.root == tmp_path / "argument"


def test_an_empty_variable_is_as_good_as_none(
    monkeypatch: pytest.MonkeyPatch, private_home: pathlib.Path
) -> None:
    monkeypatch.setenv("K8SBENCH_STORE", "")
    with open_store() as store:
        assert store.root.is_relative_to(private_home)


def test_a_home_relative_and_a_relative_place_are_made_absolute(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, private_home: pathlib.Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store("~/mine") as store:
        assert store.root == private_home / "mine"
    with open_store("here/there") as store:
        assert store.root == tmp_path / "here" / "there"


@pytest.mark.parametrize(
    "name", ["with space", "per%41cent", "question?mark#hash", "ünïcode", "a&b"]
)
def test_any_folder_name_will_do(tmp_path: pathlib.Path, name: str) -> None:
    with open_store(str(tmp_path / name)) as store:
        store.record(plan(), at=NOW, owner=None)
    assert (tmp_path / name / "k8sbench.db").is_file()
    with open_store(str(tmp_path / name)) as store:
        assert store.folder("seg-1") == tmp_path / name / "runs" / "seg-1"


def test_reading_makes_nothing(root: pathlib.Path) -> None:
    with open_store(str(root), create=False) as store:
        assert store.absent
        assert store.runs(RunFilter()) == []
        assert store.ids() == []
    assert not root.exists()


def test_a_store_may_be_moved(root: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with open_store(str(root)) as store:
        store.record(plan(), at=NOW, owner=None)
    root.rename(tmp_path / "moved")
    with open_store(str(tmp_path / "moved")) as store:
        assert store.folder("seg-1") == tmp_path / "moved" / "runs" / "seg-1"
        assert store.move("seg-1", step(Phase.RUNNING)).artifacts == str(store.folder("seg-1"))


def test_a_file_is_no_store(tmp_path: pathlib.Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(StoreError, match="is a file"):
        open_store(str(tmp_path / "x"))
    with pytest.raises(StoreError, match="Not a directory"):
        open_store(str(tmp_path / "x" / "y"))


@pytest.mark.parametrize("where", ["a\0b", "x" * 300, "~nobody-of-that-name/x", "   "])
def test_what_can_be_no_path_is_refused(
    where: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UsageError, StoreError)):
        open_store(where)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_database_file_is_a_new_store(root: pathlib.Path) -> None:
    """A process that was killed as it made the store leaves this."""
    root.mkdir()
    (root / "k8sbench.db").touch()
    with open_store(str(root), create=False) as store:
        assert store.runs(RunFilter()) == []


def test_a_database_of_something_else_is_left_alone(root: pathlib.Path) -> None:
    root.mkdir()
    with contextlib.closing(sqlite3.connect(root / "k8sbench.db")) as db:
        db.execute("CREATE TABLE runs (id INTEGER)")
        db.commit()
    with pytest.raises(StoreError, match="something else"):
        open_store(str(root))


def test_a_database_of_a_newer_version_is_left_alone(root: pathlib.Path) -> None:
    open_store(str(root)).close()
    with contextlib.closing(sqlite3.connect(root / "k8sbench.db")) as db:
        db.execute("INSERT INTO schema_migrations VALUES (99, 'm099_future', 0)")
        db.commit()
    with pytest.raises(StoreError, match=r"newer k8sbench \(schema 99") as caught:
        open_store(str(root))
    assert "Upgrade" in caught.value.action


def test_a_locked_database_is_waited_for_and_then_said(
    root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.2)
    with open_store(str(root)) as store:
        store.record(plan(), at=NOW, owner=None)
        with contextlib.closing(sqlite3.connect(root / "k8sbench.db", isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            assert store.run("seg-1").phase is Phase.CREATED  # reading goes on
            with pytest.raises(StoreError, match="locked by another process"):
                store.move("seg-1", step(Phase.RUNNING))
        assert store.move("seg-1", step(Phase.RUNNING)).phase is Phase.RUNNING


def test_a_file_system_without_shared_memory_keeps_the_rollback_journal(
    tmp_path: pathlib.Path,
) -> None:
    assert _journal(f"file:{tmp_path}/a.db") == "wal"
    # SQLite's own layer for file systems that cannot lock has no shared memory either.
    assert _journal(f"file:{tmp_path}/b.db?vfs=unix-dotfile") == "delete"


def _journal(uri: str) -> str:
    with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as raw:
        raw.execute("CREATE TABLE t (x)")
        database.use_wal(raw)
        raw.execute("INSERT INTO t VALUES (1)")
        return str(raw.execute("PRAGMA journal_mode").fetchone()[0])


READS = """
import sys
from k8sbench.adapters.store.sql_store import open_store
from k8sbench.model.errors import StoreError
from k8sbench.model.phase import Phase, Transition
from k8sbench.ports import RunFilter
with open_store(sys.argv[1], create=False) as store:
    print([run.run_id for run in store.runs(RunFilter())], store.database.writable)
    try:
        store.move("seg-1", Transition(phase=Phase.RUNNING, at=1.0, cause="x"))
    except StoreError as wrong:
        print(wrong.message)
"""


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
def test_a_store_that_can_only_be_read_is_read(
    root: pathlib.Path, killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one with a write-ahead log that a killed process left."""
    store = open_store(str(root))
    store.record(plan(), at=NOW, owner=None)
    if killed:  # copied while open: what a kill leaves behind
        copy = root.with_name("copy")
        subprocess.run(["cp", "-r", root, copy], check=True)
        store.close()
        assert (copy / "k8sbench.db-wal").stat().st_size > 0
        root = copy
    store.close()
    _without_write_permission(root, monkeypatch)
    with open_store(str(root), create=False) as read_only:
        assert read_only.ids() == ["seg-1"]
        assert not read_only.database.writable
        with pytest.raises(StoreError, match="can only be read"):
            read_only.move("seg-1", step(Phase.RUNNING))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_read_only_file_system_is_read(root: pathlib.Path) -> None:
    with open_store(str(root)) as store:
        store.record(plan(), at=NOW, owner=None)
    mounted = subprocess.run(["mount", "--bind", root, root], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.decode().strip()}")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", root], check=True)
        done = subprocess.run(
            [sys.executable, "-c", READS, str(root)], check=True, capture_output=True, text=True
        )
        assert done.stdout.splitlines() == [
            "['seg-1'] False",
            f"The store {root} can only be read.",
        ]
        with pytest.raises(StoreError, match="Read-only"):
            open_store(str(root / "new"))
    finally:
        subprocess.run(["umount", root], check=True)


def test_a_store_without_an_index_that_can_only_be_read_is_read(
    root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(str(root)) as store:
        run = store.record(plan(), at=NOW, owner=None)
    (root / "k8sbench.db").unlink()
    _without_write_permission(root, monkeypatch)
    with open_store(str(root), create=False) as store:
        assert store.runs(RunFilter()) == [run]
        assert not store.database.writable
    assert not (root / "k8sbench.db").exists()


def test_a_folder_that_may_not_be_made_says_so(
    root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(pathlib.Path, "mkdir", refuse)
    with pytest.raises(StoreError, match="Permission denied") as caught:
        open_store(str(root))
    assert "K8SBENCH_STORE" in caught.value.action


def _without_write_permission(root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may run as root, whom no permission bits stop: the system's answer is replaced."""
    real = os.access

    def access(path: str | os.PathLike[str], mode: int) -> bool:
        inside = pathlib.Path(path).is_relative_to(root)
        return real(path, mode) and not (inside and mode & os.W_OK)

    monkeypatch.setattr(os, "access", access)


def test_a_database_that_knows_no_encoding_keeps_any_text(
    postgres_server: postgres.Server, root: pathlib.Path
) -> None:
    with open_store(postgres_server.database_of_bytes(), folder=root) as store:
        run = store.record(plan(data="path:/data/深度学习"), at=NOW, owner=None)
        assert store.run("seg-1") == run


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://", "refused"),
        ("postgresql://u:hemmelig@127.0.0.1:1/db", "refused"),
        ("postgresql://u:hemmelig@127.0.0.1:99999999/db", "refused|understood"),
        ("postgresql://u:hemmelig@127.0.0.1:port/db", "understood"),
        ("postgres://u:hemmelig@127.0.0.1:1/db", "refused"),
        ("postgresql://127.0.0.1:1/db?user=u&password=hemmelig", "refused"),
        ("postgresql+nodriver://u:hemmelig@h/db", "not installed"),
        ("mysql://u:hemmelig@h/db", "'mysql' cannot be a store"),
        ("sqlite:///x.db", "'sqlite' cannot be a store"),
        ("http://u:hemmelig@h/db", "'http' cannot be a store"),
    ],
)
def test_a_url_that_cannot_be_opened_says_why_without_its_password(url: str, says: str) -> None:
    with pytest.raises((StoreError, UsageError), match=says) as caught:
        open_store(url)
    assert "hemmelig" not in str(caught.value)


def test_a_missing_driver_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match="driver") as caught:
        open_store("postgresql://u:hemmelig@h/db")
    assert "pip install" in caught.value.action


def test_the_place_of_a_url_is_shown_without_its_password() -> None:
    base = database.open_postgres("postgresql://u:hemmelig@h:5432/db?password=hemmelig&x=1")
    assert base.shown == "postgresql+psycopg://u:***@h:5432/db"
    base.close()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "Read-only"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_the_systems_errors_are_said_in_our_words(code: int, says: str) -> None:
    wrong = disk.store_error(OSError(code, os.strerror(code)), "write x")
    assert says in wrong.message
    assert wrong.action


def test_a_store_stays_the_same_one_on_another_host_and_at_another_place(
    root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that is started again, or a volume that is mounted elsewhere: its marks are its own."""
    with open_store(str(root)) as store:
        before = store.identity
    assert before.isalnum()
    assert before == before.lower()
    monkeypatch.setattr("platform.node", lambda: "collector-7d9f-x2x4z")
    moved = root.rename(root.with_name("moved"))
    with open_store(str(moved)) as again:
        assert again.identity == before
    with open_store(str(root)) as other:
        assert other.identity != before
