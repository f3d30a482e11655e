"""PostgreSQL outages, locks and refusals lose and duplicate nothing."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from k8sbench.adapters.store import index
from k8sbench.adapters.store.artifacts import RunFolder
from k8sbench.adapters.store.opening import open_store
from k8sbench.adapters.store.sql_store import SqlStore
from k8sbench.model.errors import FilesElsewhere, StoreError, UsageError
from k8sbench.model.phase import Phase
from k8sbench.ports import RunFilter
from tests import tiers
from tests.docs import operating, pages
from tests.harness import postgres
from tests.unit.store.examples import (
    NOW,
    PROCESS,
    archive,
    elsewhere,
    plan,
    step,
)
from tests.unit.store.index_checks import differences


@pytest.fixture
def shared(url: str, root: Path) -> Iterator[SqlStore]:
    with open_store(url, is_operator=True) as store:
        assert store.root == root
        yield store


@pytest.mark.parametrize("counts", [False, True])
def test_a_change_whose_connection_is_lost_is_made_once_if_it_is_repeated(
    shared: SqlStore, monkeypatch: pytest.MonkeyPatch, counts: bool
) -> None:
    """The answer to the commit is lost, whether or not it counted."""
    shared.record(plan(), at=NOW, process=None)
    real, lost = psycopg.Connection.commit, list[bool]()

    def commit(self: psycopg.Connection[Any]) -> None:
        if counts or lost:
            real(self)
        if not lost:
            lost.append(True)
            self.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Connection, "commit", commit)
        with pytest.raises(StoreError, match="cannot be reached"):
            shared.move("seg-1", step(Phase.RUNNING))
        run = shared.move("seg-1", step(Phase.RUNNING))
    assert lost
    assert [one.phase for one in run.history] == [Phase.CREATED, Phase.RUNNING]
    assert RunFolder(shared.folder("seg-1")).run() == shared.run("seg-1")
    assert differences(shared) == []


def test_a_server_that_is_away_is_an_error_until_it_is_back(
    shared: SqlStore, postgres_server: postgres.Server
) -> None:
    shared.record(plan(), at=NOW, process=None)
    postgres_server.halt()
    try:
        with pytest.raises(StoreError, match="cannot be reached") as caught:
            shared.move("seg-1", step(Phase.RUNNING))
    finally:
        postgres_server.start()
    assert postgres.PASSWORD not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert shared.run("seg-1").phase is Phase.CREATED
    assert shared.move("seg-1", step(Phase.RUNNING)).phase is Phase.RUNNING


def test_waits_have_limits_which_the_url_may_set(url: str, shared: SqlStore) -> None:
    def limits(store: SqlStore) -> list[str]:
        names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
        with store.database.reading() as db:
            return [str(db.scalar(sa.text(f"SHOW {name}"))) for name in names]

    assert limits(shared) == ["1min", "30s", "30s"]
    shared.record(plan(), at=NOW, process=None)
    with open_store(f"{url}%20-clock_timeout%3D1s", is_operator=True) as impatient:
        assert limits(impatient) == ["1min", "1s", "30s"]
        with shared.database.writing() as db:
            db.execute(sa.text("LOCK TABLE runs"))
            with pytest.raises(StoreError, match="lock timeout") as caught:
                impatient.move("seg-1", step(Phase.RUNNING))
        assert caught.value.action.startswith("Try again")
        assert impatient.move("seg-1", step(Phase.RUNNING)).phase is Phase.RUNNING


# -- a backup -------------------------------------------------------------------------------------


def test_rows_that_are_lost_are_restored_from_a_dump(
    postgres_server: postgres.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("pg_dump") is None:
        tiers.absent("postgres", "there is no pg_dump (Debian: postgresql-client)")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    where = postgres_server.database_of_bytes()
    dump, restore = operating.commands("postgres")
    with open_store(where, is_operator=True) as store:
        store.record(plan("seg-1"), at=1e9, process=PROCESS)
        pages.run(dump, tmp_path, {"K8SBENCH_STORE": where})
        with store.database.writing() as db:
            index.clear(db)
        shutil.rmtree(store.root)
    pages.run(restore, tmp_path, {"K8SBENCH_STORE": where})
    with open_store(where, is_operator=True) as store:
        assert store.ids() == ["seg-1"]


# -- a volume -------------------------------------------------------------------------------------


def test_a_run_whose_folder_is_lost_goes_on_from_its_row(shared: SqlStore, url: str) -> None:
    shared.record(plan(backend="kubernetes"), at=NOW, process=PROCESS)
    running = shared.move("seg-1", step(Phase.RUNNING))
    shutil.rmtree(shared.root)
    with open_store(url, is_operator=True) as again:
        run = again.run("seg-1")
        assert elsewhere(run) == elsewhere(running)
        for ask in (again.folder, again.log_files, again.log_marks, again.archive):
            with pytest.raises(FilesElsewhere, match="seg-1 are not in"):
                ask("seg-1")
        again.ensure_folder("seg-1")
        archive(again, "hello")
        done = again.move("seg-1", step(Phase.SUCCEEDED, NOW + 5))
        assert RunFolder(again.folder("seg-1")).run() == done


def test_rows_that_are_lost_come_back_from_the_folders(shared: SqlStore, url: str) -> None:
    run = shared.record(plan(), at=NOW, process=PROCESS)
    with shared.database.writing() as db:
        index.clear(db)
    with open_store(url, is_operator=True) as again:
        assert again.runs(RunFilter()) == [run]


def test_a_database_is_the_store_of_an_operator_alone(url: str, root: Path) -> None:
    with pytest.raises(UsageError, match="the store of an operator alone") as caught:
        open_store(url)
    assert postgres.PASSWORD not in str(caught.value)
    assert "--store cluster" in caught.value.action
    assert not root.exists()
