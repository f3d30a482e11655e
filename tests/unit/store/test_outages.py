"""A PostgreSQL that goes away and comes back, is busy, or refuses: nothing is lost or doubled."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from k8sbench.adapters.store import database
from k8sbench.adapters.store.artifacts import RunFolder
from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.model.errors import StoreError
from k8sbench.model.phase import Phase
from k8sbench.ports import JobEvent
from tests.harness import postgres
from tests.unit.lifecycle import played
from tests.unit.store.examples import NOW, plan, step
from tests.unit.store.index_checks import differences


@pytest.fixture
def shared(url: str, root: pathlib.Path) -> Iterator[SqlStore]:
    with open_store(url, folder=root) as store:
        yield store


class GoesAway(played.FakeCluster):
    """Before each event that is a change of state the database's server goes down."""

    server: postgres.Server

    def wait(self, seconds: float | None) -> Sequence[JobEvent]:
        events = super().wait(seconds)
        if any(event.transition is not None for event in events):
            self.server.halt()
        return events


def test_a_run_is_followed_over_restarts_of_the_server(
    shared: SqlStore, postgres_server: postgres.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes back only when the store has seen that it is away."""
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        postgres_server.start()

    monkeypatch.setattr(database, "wait", wait)
    cluster = GoesAway(
        played.line("one"),
        played.at(Phase.RUNNING),
        played.line("two"),
        played.at(Phase.SUCCEEDED),
        outlives=True,
    )
    cluster.server = postgres_server
    (run,) = played.submit(shared, cluster, backend="kubernetes")
    assert len(waited) == 2
    assert [one.phase for one in run.history] == [
        *(Phase.CREATED, Phase.CREATED, Phase.RUNNING, Phase.SUCCEEDED)
    ]
    assert run == shared.run(run.run_id)
    assert run.measurement is not None
    (log,) = shared.log_files(run.run_id)
    assert [text.split(" ", 1)[1] for text in log.read_text().splitlines()] == ["one", "two"]
    assert differences(shared) == []


@pytest.mark.parametrize("counts", [False, True])
def test_a_change_whose_connection_is_lost_is_made_once(
    shared: SqlStore, monkeypatch: pytest.MonkeyPatch, counts: bool
) -> None:
    """Whether or not its transaction counted: the answer to the commit is lost."""
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


def test_locks_and_statements_have_limits_which_the_url_may_set(
    url: str, shared: SqlStore, root: pathlib.Path
) -> None:
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


def test_what_the_users_rights_do_not_permit_is_said(shared: SqlStore, root: pathlib.Path) -> None:
    shared.record(plan(), at=NOW, owner=None)
    schema = "test_reader"
    with shared.database.writing() as db:
        here = db.scalar(sa.text("SELECT current_schema()"))
        db.execute(sa.text(f"CREATE ROLE {schema} LOGIN"))
        db.execute(sa.text(f"GRANT USAGE ON SCHEMA {here} TO {schema}"))
        db.execute(sa.text(f"GRANT SELECT ON ALL TABLES IN SCHEMA {here} TO {schema}"))
    reader = shared.database.engine.url.set(username=schema)
    with open_store(reader.render_as_string(hide_password=False), folder=root) as store:
        assert store.ids() == ["seg-1"]
        with pytest.raises(StoreError, match="permission denied") as caught:
            store.move("seg-1", step(Phase.RUNNING))
    assert postgres.PASSWORD not in str(caught.value)
    with shared.database.writing() as db:
        db.execute(sa.text(f"DROP OWNED BY {schema}"))
        db.execute(sa.text(f"DROP ROLE {schema}"))
