"""Where a store is, how it is opened, and what is said where it cannot be."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest
from sqlalchemy.pool import StaticPool

from k8sbench.adapters.store import database
from k8sbench.adapters.store.sql_store import open_store
from k8sbench.model.errors import StoreError, UsageError
from k8sbench.model.phase import Phase
from k8sbench.ports import RunFilter
from tests.harness import postgres
from tests.unit.store.examples import NOW, elsewhere, plan, step


@pytest.mark.parametrize(
    ("variables", "named", "place"),
    [
        ({}, None, "home/.local/share/k8sbench"),
        ({"XDG_DATA_HOME": "{tmp}/data"}, None, "data/k8sbench"),
        # To be ignored, says the specification.
        ({"XDG_DATA_HOME": "relative"}, None, "home/.local/share/k8sbench"),
        ({"K8SBENCH_STORE": ""}, None, "home/.local/share/k8sbench"),
        ({"K8SBENCH_STORE": "{tmp}/variable\n"}, None, "variable"),
        ({"K8SBENCH_STORE": "{tmp}/variable"}, "{tmp}/argument", "argument"),
        ({}, "~/mine", "home/mine"),
        ({}, "here/there", "here/there"),
    ],
)
def test_a_store_is_where_it_is_named_and_in_the_users_data_folder_otherwise(
    variables: dict[str, str],
    named: str | None,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for name, value in ({"HOME": "{tmp}/home"} | variables).items():
        monkeypatch.setenv(name, value.format(tmp=tmp_path))
    with open_store(named and named.format(tmp=tmp_path)) as store:
        assert store.root == tmp_path / place
    assert (store.root / "k8sbench.db").is_file()


@pytest.mark.parametrize(
    "name", ["with space", "per%41cent", "question?mark#hash", "ünïcode", "a&b"]
)
def test_any_folder_name_will_do(tmp_path: Path, name: str) -> None:
    with open_store(str(tmp_path / name)) as store:
        store.record(plan(), at=NOW, owner=None)
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


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(StoreError, match="is a file"):
        open_store(str(tmp_path / "x"))
    with pytest.raises(StoreError, match="Not a directory"):
        open_store(str(tmp_path / "x" / "y"))


@pytest.mark.parametrize("where", ["a\0b", "x" * 300, "~nobody-of-that-name/x", "   "])
def test_what_can_be_no_path_is_refused(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UsageError, StoreError)):
        open_store(where)
    assert list(tmp_path.iterdir()) == []


def test_a_locked_database_is_waited_for_and_then_said(
    root: Path, monkeypatch: pytest.MonkeyPatch
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
    tmp_path: Path,
) -> None:
    assert _journal(f"file:{tmp_path}/a.db") == "wal"
    # SQLite's own layer for file systems that cannot lock has no shared memory either.
    assert _journal(f"file:{tmp_path}/b.db?vfs=unix-dotfile") == "delete"


def _journal(uri: str) -> str:
    base = database._sqlite(uri, "", poolclass=StaticPool)
    with contextlib.closing(base), base.writing() as db:
        db.exec_driver_sql("CREATE TABLE t (x)")
        return str(db.exec_driver_sql("PRAGMA journal_mode").scalar())


@pytest.mark.parametrize("index", ["of a killed process", "gone", "damaged"])
def test_a_store_that_can_only_be_read_is_read_from_its_folders(
    root: Path, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = root.with_name("copy")
    with open_store(str(root)) as store:
        run = store.record(plan(), at=NOW, owner=None)
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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_read_only_file_system_can_only_be_read(root: Path) -> None:
    with open_store(str(root)) as store:
        store.record(plan(), at=NOW, owner=None)
    mounted = subprocess.run(["mount", "--bind", root, root], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.decode().strip()}")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", root], check=True)
        with open_store(str(root)) as store:
            assert store.ids() == ["seg-1"]
            assert store.database.read_only
        with pytest.raises(StoreError, match="Read-only"):
            open_store(str(root / "new"))
    finally:
        subprocess.run(["umount", root], check=True)


def test_a_database_that_knows_no_encoding_keeps_any_text(
    postgres_server: postgres.Server, root: Path
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
        ("postgresql+nodriver://u:hemmelig@h/db", "understood"),
        ("mysql://u:hemmelig@h/db", "understood"),
        ("sqlite:///x.db", "understood"),
        ("http://u:hemmelig@h/db", "understood"),
    ],
)
def test_a_url_that_cannot_be_opened_says_why_without_its_password(url: str, says: str) -> None:
    with pytest.raises((StoreError, UsageError), match=says) as caught:
        open_store(url)
    assert "hemmelig" not in str(caught.value)


@pytest.mark.parametrize("password", ["a/b@c", "%2Fa%40", "@/:@", "plain"])
def test_a_password_may_hold_what_parts_a_url(password: str, root: Path) -> None:
    base = database.open_postgres(f"postgresql://u:{password}@[::1]:1/db?sslmode=prefer")
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
        open_store(folder=root)
    file.write_text(postgres_server.with_password("fir/st@") + "\n")
    with open_store(folder=root) as store:
        store.record(plan(), at=NOW, owner=None)
        url = postgres_server.with_password("sec@nd/")
        assert store.ids() == ["seg-1"], "who is connected stays so"
    with pytest.raises(StoreError, match="password"):
        open_store(folder=root)
    file.write_text(url)
    with open_store(folder=root) as store:
        assert store.ids() == ["seg-1"]


def test_a_missing_driver_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match="driver") as caught:
        open_store("postgresql://u:hemmelig@h/db")
    assert "pip install" in caught.value.action


def test_a_store_stays_the_same_one_on_another_host_and_at_another_place(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that is started again, or a volume that is mounted elsewhere: its marks are its own."""
    with open_store(str(root)) as store:
        before = store.identity
    monkeypatch.setattr("platform.node", lambda: "collector-7d9f-x2x4z")
    moved = root.rename(root.with_name("moved"))
    with open_store(str(moved)) as again:
        assert again.identity == before
    with open_store(str(root)) as other:
        assert other.identity != before
        (root / "store.id").write_text("\x1b]0;\n")
        with pytest.raises(StoreError, match=r"store\.id does not hold"):
            _ = other.identity
