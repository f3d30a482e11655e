"""Which process follows which run: one, among all that use a store, whatever becomes of it."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from k8sbench.adapters.store.sql_store import SqlStore, open_store
from tests.harness import children, postgres
from tests.tiers import ROOT
from tests.unit.presence import present
from tests.unit.store.examples import NOW, plan

Other = subprocess.Popen[str]
PATIENCE = 60.0
"""Seconds until something that does not happen counts as broken."""

OTHER = """
import json, pathlib, sys
sys.path.insert(0, sys.argv[3])
from k8sbench.adapters.store.claims import PostgresClaims
from k8sbench.adapters.store.sql_store import open_store
from k8sbench.model.errors import StoreError
from k8sbench.model.phase import Phase
from k8sbench.ports import LogLine
from tests.unit.store.examples import NOW, step

store = open_store(sys.argv[1], folder=pathlib.Path(sys.argv[2]))
if store.database.kind == "postgresql":
    store.claims = PostgresClaims(store.database, interval=0.05)
print("ready", flush=True)
for line in sys.stdin:
    asked, run_id = line.split()
    try:
        if asked == "move":
            said = store.move(run_id, step(Phase.RUNNING)).phase
        elif asked == "log":
            store.ensure_folder(run_id)
            said = store.archive(run_id).write(LogLine(replica="master-0", at=NOW, text="x"))
        else:
            said = getattr(store.claims, asked)(run_id)
    except StoreError as wrong:
        said = wrong.message
    print(json.dumps(said), flush=True)
"""


def ask(other: Other, what: str, run_id: str = "seg-1") -> object:
    """Have the other process do something; returns what came of it."""
    present(other.stdin).write(f"{what} {run_id}\n")
    present(other.stdin).flush()
    return json.loads(present(other.stdout).readline())


def killed(other: Other) -> None:
    other.kill()
    other.wait(PATIENCE)


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


@pytest.fixture
def here(where: str, root: pathlib.Path) -> Iterator[SqlStore]:
    """A store of each kind, as this process has it open."""
    with open_store(where, folder=root) as store:
        yield store


@pytest.fixture
def other(where: str, tmp_path: pathlib.Path, here: SqlStore) -> Iterator[Other]:
    """Another process, which shares nothing with this one but the store's place."""
    with children.ready(OTHER, where, tmp_path / "elsewhere", ROOT) as there:
        yield there
        there.kill()


on_postgres = pytest.mark.parametrize("where", ["postgres"], indirect=True)


def heartbeat(store: SqlStore) -> float:
    with store.database.reading() as db:
        return float(db.scalar(sa.text("SELECT heartbeat FROM claims")) or 0.0)


def change(store: SqlStore, what: str) -> None:
    with store.database.writing() as db:
        db.execute(sa.text(f"UPDATE claims SET {what}"))


def test_one_process_at_a_time_has_a_claim(here: SqlStore, other: Other) -> None:
    claims = here.claims
    assert claims.claim("seg-1")
    assert claims.claim("seg-1"), "again is the same claim"
    assert ask(other, "claim") is False
    assert ask(other, "claim", "seg-2") is True
    assert not claims.claim("seg-2")
    claims.release("seg-1")
    claims.release("seg-1")
    assert ask(other, "claim") is True
    assert not claims.claim("seg-1")
    assert claims.claim("seg-3")
    here.close()
    claims.close()
    assert ask(other, "claim", "seg-3") is True


def test_the_claim_of_a_process_that_was_killed_is_free(here: SqlStore, other: Other) -> None:
    assert ask(other, "claim") is True
    assert not here.claims.claim("seg-1")
    killed(other)
    # This machine sees that it is gone: no need to wait for its heartbeat to grow old.
    assert here.claims.claim("seg-1")


def test_a_process_that_holds_a_claim_can_end(here: SqlStore, other: Other) -> None:
    assert ask(other, "claim") is True
    other.communicate(timeout=PATIENCE)
    assert other.returncode == 0


@on_postgres
def test_a_process_of_another_machine_is_waited_for(here: SqlStore, other: Other) -> None:
    """Only its own machine can tell whether a process is gone; another may have the same name."""
    ask(other, "claim")
    killed(other)
    for part in ("machine", "boot_id"):
        change(here, f"process = replace(process, '{part}\":\"', '{part}\":\"x')")
    assert not here.claims.claim("seg-1")
    change(here, "heartbeat = heartbeat - 25")
    assert not here.claims.claim("seg-1")
    change(here, "heartbeat = heartbeat - 10")
    assert here.claims.claim("seg-1")


@on_postgres
def test_a_claim_is_renewed_while_it_is_held_over_restarts_of_the_server(
    here: SqlStore, other: Other, postgres_server: postgres.Server
) -> None:
    ask(other, "claim")
    first = heartbeat(here)
    until(lambda: heartbeat(here) > first)
    postgres_server.halt()
    postgres_server.start()
    again = heartbeat(here)
    until(lambda: heartbeat(here) > again)
    ask(other, "release")
    assert heartbeat(here) == 0.0


@on_postgres
def test_who_was_suspended_for_long_has_lost_its_claim_and_knows(
    here: SqlStore, other: Other
) -> None:
    here.record(plan(), at=NOW, owner=None)
    assert ask(other, "claim") is True
    assert ask(other, "move") == "Running"
    assert ask(other, "log") is None
    other.send_signal(signal.SIGSTOP)
    assert not here.claims.claim("seg-1"), "it is there, and its heartbeat is young"
    until(lambda: _stopped(other.pid))
    change(here, "heartbeat = heartbeat - 3600")
    assert here.claims.claim("seg-1")
    other.send_signal(signal.SIGCONT)
    assert "taken over run seg-1" in str(ask(other, "move"))
    assert "taken over run seg-1" in str(ask(other, "log"))
    assert ask(other, "claim") is False
    assert here.claims.claim("seg-1")
    # That nobody has the run now does not tell what became of it meanwhile.
    here.claims.release("seg-1")
    assert ask(other, "claim") is False
    ask(other, "release")
    assert ask(other, "claim") is True


def _stopped(pid: int) -> bool:
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"
