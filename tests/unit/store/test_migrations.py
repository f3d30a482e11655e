"""The database's shape: numbered steps, each in its own transaction, applied once."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import time

import pytest
import sqlalchemy as sa

from k8sbench.adapters.store import database, migrations, rows
from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.model.errors import StoreError
from tests.harness import postgres


def m001_one(db: sa.Connection) -> None:
    db.execute(sa.text("CREATE TABLE one (x INTEGER)"))


def m002_two(db: sa.Connection) -> None:
    db.execute(sa.text("CREATE TABLE two (x INTEGER)"))
    raise RuntimeError("half way")


@pytest.fixture
def engine(tmp_path: pathlib.Path) -> sa.Engine:
    return database.open_sqlite(tmp_path).writing_engine


def test_the_program_reads_the_tables_that_the_steps_made(store: SqlStore) -> None:
    with store.database.reading() as db:
        seen = sa.inspect(db)
        for table in (rows.RUNS, rows.TRANSITIONS):
            there = {column["name"] for column in seen.get_columns(table.name)}
            assert there == {column.name for column in table.columns}
        assert [u["column_names"] for u in seen.get_unique_constraints("runs")] == [
            ["set_name", "case_key", "repeat"]
        ]


def test_every_step_is_recorded_with_its_name(store: SqlStore) -> None:
    with store.database.reading() as db:
        rows = db.execute(sa.select(migrations.APPLIED).order_by("number")).all()
    assert [(row.number, row.name) for row in rows] == [
        (number, step.__name__) for number, step in enumerate(migrations.STEPS, start=1)
    ]
    assert rows[0].applied_at > 1e9


def test_a_step_that_fails_leaves_those_before_it(engine: sa.Engine) -> None:
    with pytest.raises(RuntimeError):
        migrations.migrate(engine, [m001_one, m002_two])
    with engine.connect() as db:
        assert migrations.version(db) == 1
        assert set(sa.inspect(db).get_table_names()) == {"one", "schema_migrations"}


def test_steps_are_applied_once(engine: sa.Engine) -> None:
    assert migrations.migrate(engine, [m001_one]) == 1
    assert migrations.migrate(engine, [m001_one]) == 0


def test_a_store_of_an_earlier_version_keeps_its_rows(engine: sa.Engine) -> None:
    migrations.migrate(engine, [m001_one])
    with engine.begin() as db:
        db.execute(sa.text("INSERT INTO one VALUES (42)"))

    def m002_more(db: sa.Connection) -> None:
        db.execute(sa.text("ALTER TABLE one ADD COLUMN y INTEGER"))

    assert migrations.migrate(engine, [m001_one, m002_more]) == 1
    with engine.connect() as db:
        assert db.execute(sa.text("SELECT x, y FROM one")).one() == (42, None)


def test_more_steps_than_this_program_knows_are_an_error(engine: sa.Engine) -> None:
    migrations.migrate(engine, [m001_one])
    with pytest.raises(StoreError, match="newer"):
        migrations.migrate(engine, [])


def test_a_steps_name_carries_its_number() -> None:
    with pytest.raises(ValueError, match=r"name it m\d{3}_"):
        migrations.migration(m001_one)
    assert m001_one not in migrations.STEPS


OPEN = """
import pathlib, sys
from k8sbench.adapters.store.sql_store import open_store
print("ready", flush=True)
sys.stdin.readline()
with open_store(sys.argv[1], folder=pathlib.Path(sys.argv[2])) as store:
    print(len(store.ids()))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "steps"), [("sqlite", 0), ("postgres", 0), ("postgres", 4)])
def test_several_processes_may_bring_one_store_up_to_date(
    kind: str, steps: int, root: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    where = str(root)
    if kind == "postgres":
        server: postgres.Server = request.getfixturevalue("postgres_server")
        where = server.database()
    if steps:
        old = database.open_postgres(where)
        migrations.migrate(old.writing_engine, migrations.STEPS[:steps])
        old.close()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN, where, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(6 if kind == "sqlite" else 2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    ends = [process.communicate(timeout=60) for process in processes]
    assert [(end, process.returncode) for end, process in zip(ends, processes, strict=True)] == [
        (("0\n", ""), 0)
    ] * len(processes)
    with open_store(where, folder=root) as store, store.database.reading() as db:
        applied = db.scalars(sa.select(migrations.APPLIED.c.number)).all()
    assert sorted(applied) == list(range(1, len(migrations.STEPS) + 1))


def test_a_process_waits_for_the_steps_of_another(
    root: pathlib.Path, postgres_server: postgres.Server
) -> None:
    """However long they take: longer than it waits for a row."""
    where = postgres_server.database()
    lock = sa.select(sa.func.pg_advisory_xact_lock(migrations.ADVISORY_LOCK))
    other = database.open_postgres(where)
    with other.writing() as db:
        db.execute(lock)
        process = subprocess.Popen(
            [sys.executable, "-c", OPEN, f"{where}%20-clock_timeout%3D50ms", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        waits = sa.text(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            " AND age(clock_timestamp(), waitstart) > interval '100 ms'"
        )
        deadline = time.monotonic() + 60
        while not db.scalar(waits):
            assert process.poll() is None, "it did not wait"
            assert time.monotonic() < deadline
    assert process.communicate(timeout=60)[0] == "ready\n0\n"
    other.close()
