"""PostgreSQL outages, locks and refusals lose and duplicate nothing."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from k8sbench.adapters.store import database, sql_store
from k8sbench.adapters.store.artifacts import RunFolder
from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.model.errors import FilesElsewhere, StoreError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Location, Run, Wish
from k8sbench.ports import RunFilter
from tests import tiers
from tests.docs import operating, pages
from tests.harness import postgres
from tests.unit.store.examples import (
    NOW,
    OWNER,
    append,
    archive,
    elsewhere,
    measurement,
    plan,
    step,
)
from tests.unit.store.index_checks import damage, differences


@pytest.fixture
def shared(url: str, root: Path) -> Iterator[SqlStore]:
    with open_store(url, folder=root) as store:
        yield store


def test_changes_are_made_over_restarts_of_the_server(
    shared: SqlStore, postgres_server: postgres.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes back only when the store has seen that it is away."""
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        postgres_server.start()

    monkeypatch.setattr(database, "wait", wait)
    shared.record(plan(), at=NOW, owner=None)
    for phase in (Phase.RUNNING, Phase.SUCCEEDED):
        postgres_server.halt()
        run = shared.move("seg-1", step(phase))
    assert len(waited) == 2
    assert [one.phase for one in run.history] == [Phase.CREATED, Phase.RUNNING, Phase.SUCCEEDED]
    assert run == shared.run("seg-1")
    assert differences(shared) == []


@pytest.mark.parametrize("counts", [False, True])
def test_a_change_whose_connection_is_lost_is_made_once(
    shared: SqlStore, monkeypatch: pytest.MonkeyPatch, counts: bool
) -> None:
    """The answer to the commit is lost, whether or not it counted."""
    shared.record(plan(), at=NOW, owner=None)
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
        run = shared.move("seg-1", step(Phase.RUNNING))
    assert lost
    assert [one.phase for one in run.history] == [Phase.CREATED, Phase.RUNNING]
    assert RunFolder(shared.folder("seg-1")).run() == shared.run("seg-1")
    assert differences(shared) == []


def test_a_server_that_stays_away_is_an_error(
    shared: SqlStore, postgres_server: postgres.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.record(plan(), at=NOW, owner=None)
    monkeypatch.setattr(database, "OUTAGE_SECONDS", 0.0)
    postgres_server.halt()
    try:
        with pytest.raises(StoreError, match="cannot be reached") as caught:
            shared.move("seg-1", step(Phase.RUNNING))
    finally:
        postgres_server.start()
    assert postgres.PASSWORD not in str(caught.value)
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    assert shared.run("seg-1").phase is Phase.CREATED


def test_waits_have_limits_which_the_url_may_set(url: str, shared: SqlStore, root: Path) -> None:
    def limits(store: SqlStore) -> list[str]:
        names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
        with store.database.reading() as db:
            return [str(db.scalar(sa.text(f"SHOW {name}"))) for name in names]

    assert limits(shared) == ["1min", "30s", "30s"]
    shared.record(plan(), at=NOW, owner=None)
    with open_store(f"{url}%20-clock_timeout%3D1s", folder=root) as impatient:
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
    with open_store(where) as store:
        store.record(plan("seg-1"), at=1e9, owner=OWNER)
        pages.run(dump, tmp_path, {"K8SBENCH_STORE": where})
        store.record(plan("seg-2", repeat=2), at=1e9, owner=OWNER)
    pages.run(restore, tmp_path, {"K8SBENCH_STORE": where})
    with open_store(where) as store:
        assert store.ids() == ["seg-1"]


# -- two machines ---------------------------------------------------------------------------------


LOCATION = Location(server="https://cluster.example:6443", namespace="bench")


@pytest.fixture
def laptop(url: str, tmp_path: Path) -> Iterator[SqlStore]:
    """Provide one machine's view of the store, with a cluster run."""
    with open_store(url, folder=tmp_path / "laptop") as store:
        store.record(plan(backend="kubernetes"), at=NOW, owner=OWNER, location=LOCATION)
        store.move("seg-1", step(Phase.RUNNING))
        yield store


@pytest.fixture
def pod(url: str, laptop: SqlStore, tmp_path: Path) -> Iterator[SqlStore]:
    """The same store as another machine sees it."""
    with open_store(url, folder=tmp_path / "pod" / "k8sbench") as store:
        yield store


def test_a_run_whose_files_are_elsewhere_goes_on(laptop: SqlStore, pod: SqlStore) -> None:
    here, there = laptop.run("seg-1"), pod.run("seg-1")
    assert elsewhere(here) == elsewhere(there)
    assert here.artifacts == str(laptop.root / "runs" / "seg-1")
    assert there.artifacts is None
    assert str(laptop.root) in (there.artifacts_missing or "")
    assert laptop.identity == pod.identity
    pod.move("seg-1", step(Phase.SUCCEEDED, NOW + 5))
    pod.measured("seg-1", measurement())
    assert elsewhere(laptop.run("seg-1")) == elsewhere(pod.run("seg-1"))
    assert laptop.run("seg-1").measurement == measurement()
    assert not (pod.root / "runs").exists()


def test_what_needs_the_files_says_where_they_are(laptop: SqlStore, pod: SqlStore) -> None:
    for ask in (
        pod.folder,
        pod.log_files,
        pod.log_marks,
        pod.archive,
        lambda run_id: pod.keep(run_id, "manifest.yaml", ""),
    ):
        with pytest.raises(FilesElsewhere, match=str(laptop.root)) as caught:
            ask("seg-1")
        assert "Ask for them there" in caught.value.action
    assert pod.last_written_at("seg-1") is None


def test_a_folder_is_made_from_the_row(laptop: SqlStore, pod: SqlStore) -> None:
    laptop.move("seg-1", step(Phase.RUNNING), image="sha256:abc")
    pod.ensure_folder("seg-1")
    run = pod.run("seg-1")
    assert RunFolder(pod.folder("seg-1")).run() == run
    assert elsewhere(run) == elsewhere(laptop.run("seg-1"))
    with pod.database.reading() as db:
        files_at = db.scalar(sa.text("SELECT files_at FROM runs"))
    assert files_at.endswith(f":{pod.root}")
    # What comes goes to both, and the folder alone tells it again.
    archive(pod, "hello")
    done = pod.move("seg-1", step(Phase.SUCCEEDED, NOW + 5))
    with pod.database.writing() as db:
        db.execute(sa.text("DELETE FROM runs"))
    assert sql_store.reindex(pod) == (1, {})
    assert pod.runs(RunFilter()) == [done]


def everything(store: SqlStore) -> list[Run]:
    return [elsewhere(run) for run in store.runs(RunFilter())]


def test_each_machine_reindexes_the_folders_it_has(laptop: SqlStore, pod: SqlStore) -> None:
    pod.record(plan("seg-2", repeat=2), at=NOW + 1, owner=None)
    laptop.wish("seg-2", Wish(kind="cancel", at=NOW + 2, cause="Enough."))
    assert pod.claims.claim("seg-2")
    before = everything(pod)
    for run_id in ("seg-1", "seg-2"):
        damage(pod, run_id, "{")
    assert list(sql_store.reindex(laptop)[1]) == ["seg-2"], "the row of the other"
    assert everything(laptop) == before[:1]
    assert sql_store.reindex(pod) == (2, {})
    assert everything(laptop) == everything(pod) == before, "with the wish"
    assert not laptop.claims.claim("seg-2"), "a reindex takes no claim away"


def test_a_reindex_takes_what_continues_the_other(laptop: SqlStore, pod: SqlStore) -> None:
    laptop.record(plan("seg-2", repeat=2), at=NOW, owner=None)
    for run_id in ("seg-1", "seg-2"):
        append(laptop.folder(run_id), step(Phase.RUNNING, NOW + 2))
    done = pod.move("seg-1", step(Phase.FAILED, NOW + 3))  # the other machine went on with it
    sql_store.reindex(laptop)
    assert laptop.run("seg-1").history == done.history
    assert laptop.run("seg-2").phase is Phase.RUNNING, "as after the rows came back from a backup"


def test_a_machine_with_another_name_on_the_same_volume_has_the_files(
    url: str, laptop: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = laptop.run("seg-1")
    monkeypatch.setattr("platform.node", lambda: "operator-7d9f-x2x4z")
    with open_store(url, folder=laptop.root) as again:
        assert again.run("seg-1") == before
        assert again.log_files("seg-1") == []
