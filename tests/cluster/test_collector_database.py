"""Collectors with a PostgreSQL: it goes away and comes back, and two of them upgrade it at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from k8sbench.adapters.store import database, index
from k8sbench.adapters.store.sql_store import open_store
from k8sbench.model.phase import Phase
from k8sbench.ports import RunFilter
from tests.harness import earlier_stores, postgres
from tests.harness.cluster import collectors
from tests.harness.cluster.collectors import Collector
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.shell import Shell, until
from tests.harness.cluster.trainer_logs import TrainerLogs
from tests.unit.store.examples import NOW, plan, step

BEFORE = ("seg-1", "seg-2")
"""Runs of a store of before."""
IMPATIENT = {"adapters__store__database__OUTAGE_SECONDS": 1.0}
"""A collector that waits a second for a database which is away, instead of two minutes."""


def on_postgres(namespace: Namespace, folder: Path, url: str) -> Collector:
    """Make a collector with its rows in a database and its files in a folder of its own."""
    made = collectors.make(namespace, folder)
    made.environment |= {"K8SBENCH_STORE": url, "XDG_DATA_HOME": str(folder / "data")}
    made.store = folder / "data" / "k8sbench"
    return made


@contextlib.contextmanager
def away(server: postgres.Server) -> Iterator[None]:
    """Have the database's server down until the end of the block."""
    server.halt()
    try:
        yield
    finally:
        server.start()


def end(shell: Shell, run_id: str, logs: TrainerLogs) -> None:
    """Let the job of a run come to its end; a collector may delete it at once."""
    logs.end()
    shell.finish(run_id)


def over(shell: Shell, run_id: str, logs: TrainerLogs) -> None:
    """Wait for the end of a job, which no collector can delete now."""
    end(shell, run_id, logs)
    shell.namespace.wait("condition=Succeeded", f"pytorchjob/{run_id}")


@pytest.mark.parametrize("patience", ["long", pytest.param("short", marks=pytest.mark.soak)])
def test_a_database_that_goes_away_and_comes_back_loses_and_doubles_nothing(
    own_shell: Shell, postgres_server: postgres.Server, tmp_path: Path, patience: str
) -> None:
    collector = on_postgres(own_shell.namespace, tmp_path / "machine", postgres_server.database())
    if patience == "short":
        collector.limits = {**collector.limits, **IMPATIENT}
    runs = {"ends": own_shell.printing("ends"), "goes-on": own_shell.printing("goes-on")}
    with collector.collecting() as running:
        for run_id in runs:
            until(partial(collector.archived, run_id), f"lines of {run_id}")
        with away(postgres_server):
            over(own_shell, "ends", runs["ends"])
            runs["new"] = own_shell.printing("new")
            if patience == "short":
                running.until("warning run ends is passed over: The database")
                running.until("warning new jobs are not seen for now: The database")
        collectors.check_collected(collector, "ends", runs["ends"])
        until(lambda: collector.archived("new"), "lines of the new run")
        collectors.end(running)
        assert postgres.PASSWORD not in running.out + running.err
    # One that begins while it is away waits, too.
    with contextlib.ExitStack() as stack:
        with away(postgres_server):
            running = stack.enter_context(collector.collecting())
            running.until("warning collecting has ended: The database")
            over(own_shell, "goes-on", runs["goes-on"])
        collectors.check_collected(collector, "goes-on", runs["goes-on"])
        end(own_shell, "new", runs["new"])
        collectors.check_collected(collector, "new", runs["new"])
        collectors.end(running)
    assert sorted(run["run_id"] for run in collector.json("list")) == sorted(runs)
    collector.run("store", "reindex")


@pytest.fixture
def old_url(postgres_server: postgres.Server, tmp_path: Path) -> str:
    """Make a database as version 0.2.0 left it, with runs."""
    url = postgres_server.database()
    with open_store(str(tmp_path / "before")) as store:
        for number, run_id in enumerate(BEFORE, start=1):
            store.record(plan(run_id, repeat=number), at=NOW, owner=None)
            store.move(run_id, step(Phase.FAILED))
        runs = store.runs(RunFilter())
    old = database.open_postgres(url)
    with old.writing() as db:
        earlier_stores.make(db, runs)
    old.close()
    return url


def test_two_collectors_upgrade_one_database_at_once(
    new_namespace: Callable[..., Namespace], old_url: str, tmp_path: Path
) -> None:
    machines = {
        name: on_postgres(new_namespace(), tmp_path / name, old_url) for name in ("one", "two")
    }
    shells = {
        name: Shell(one.namespace, one.namespace.user(one.folder), one.folder / "laptop")
        for name, one in machines.items()
    }
    logs = {name: shell.printing(name) for name, shell in shells.items()}
    base = database.open_postgres(old_url)
    with contextlib.ExitStack() as stack:
        with base.writing() as db:
            # As one that has begun: both wait for it, and then begin at the same moment.
            db.execute(sa.select(sa.func.pg_advisory_xact_lock(index.ADVISORY_LOCK)))
            running = [stack.enter_context(one.collecting()) for one in machines.values()]
            waiting = sa.text(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            )
            until(lambda: db.scalar(waiting) == len(machines), "both collectors")
        for name, shell in shells.items():
            until(partial(machines[name].archived, name), f"lines of {name}")
            end(shell, name, logs[name])
            collectors.check_collected(machines[name], name, logs[name])
        for one in running:
            collectors.end(one)
            assert "warning collecting has ended" not in one.err
    with base.reading() as db:
        assert index.layout(db) == index.LAYOUT
    base.close()
    for machine in machines.values():
        assert {run["run_id"] for run in machine.json("list")} == {*BEFORE, "one", "two"}
