"""Which process follows which run: one, among all that use a store, whatever becomes of it."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.ports import Claims
from tests.tiers import ROOT
from tests.unit.presence import present
from tests.unit.store.examples import NOW, plan

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


class Other:
    """Another process that has the store open, and does what it is asked to."""

    def __init__(self, where: str, folder: pathlib.Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OTHER, where, str(folder), str(ROOT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready\n"

    def ask(self, what: str, run_id: str = "seg-1") -> object:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what} {run_id}\n")
        self.process.stdin.flush()
        return json.loads(self._line())

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(PATIENCE)

    def _line(self) -> str:
        return present(self.process.stdout).readline()


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


@pytest.fixture
def open_here(root: pathlib.Path) -> Iterator[Callable[[str], SqlStore]]:
    opened: list[SqlStore] = []

    def open_it(where: str) -> SqlStore:
        opened.append(open_store(where, folder=root))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def other(tmp_path: pathlib.Path) -> Iterator[Callable[[str], Other]]:
    """Start processes that share nothing with this one but the store's place."""
    started: list[Other] = []

    def start(where: str) -> Other:
        started.append(Other(where, tmp_path / "elsewhere"))
        return started[-1]

    yield start
    for one in started:
        one.end(signal.SIGKILL)
        present(one.process.stdin).close()
        present(one.process.stdout).close()


Opens = Callable[[str], SqlStore]
Starts = Callable[[str], Other]


def heartbeat(store: SqlStore, run_id: str = "seg-1") -> float | None:
    with store.database.reading() as db:
        found = db.scalar(
            sa.text("SELECT heartbeat FROM claims WHERE run_id = :id"), {"id": run_id}
        )
    return None if found is None else float(found)


def change(store: SqlStore, sql: str) -> None:
    with store.database.writing() as db:
        db.execute(sa.text(sql))


def test_one_process_at_a_time_has_a_claim(where: str, open_here: Opens, other: Starts) -> None:
    store, there = open_here(where), other(where)
    claims: Claims = store.claims
    assert claims.claim("seg-1")
    assert claims.claim("seg-1"), "again is the same claim"
    assert there.ask("claim") is False
    assert there.ask("claim", "seg-2") is True
    assert not claims.claim("seg-2")
    claims.release("seg-1")
    claims.release("seg-1")
    assert there.ask("claim") is True
    assert not claims.claim("seg-1")
    assert claims.claim("seg-3")
    store.close()
    claims.close()
    assert there.ask("claim", "seg-3") is True


def test_the_claim_of_a_process_that_was_killed_is_free(
    where: str, open_here: Opens, other: Starts
) -> None:
    store, there = open_here(where), other(where)
    assert there.ask("claim") is True
    assert not store.claims.claim("seg-1")
    there.end(signal.SIGKILL)
    # This machine sees that it is gone: no need to wait for its heartbeat to grow old.
    assert store.claims.claim("seg-1")


def test_a_process_of_another_machine_is_waited_for(
    url: str, open_here: Opens, other: Starts
) -> None:
    """Only its own machine can tell whether a process is gone; another may have the same name."""
    store, there = open_here(url), other(url)
    there.ask("claim")
    there.end(signal.SIGKILL)
    for part in ("machine", "boot_id"):
        change(
            store, f"UPDATE claims SET process = replace(process, '{part}\":\"', '{part}\":\"x')"
        )
    assert not store.claims.claim("seg-1")
    change(store, "UPDATE claims SET heartbeat = heartbeat - 25")
    assert not store.claims.claim("seg-1")
    change(store, "UPDATE claims SET heartbeat = heartbeat - 10")
    assert store.claims.claim("seg-1")


def test_a_claim_is_renewed_while_it_is_held(url: str, open_here: Opens, other: Starts) -> None:
    store, there = open_here(url), other(url)
    there.ask("claim")
    first = present(heartbeat(store))
    until(lambda: (heartbeat(store) or 0.0) > first)
    there.ask("release")
    assert heartbeat(store) is None


def test_who_was_suspended_for_long_has_lost_its_claim_and_knows(
    url: str, open_here: Opens, other: Starts
) -> None:
    store, there = open_here(url), other(url)
    store.record(plan(), at=NOW, owner=None)
    assert there.ask("claim") is True
    assert there.ask("move") == "Running"
    assert there.ask("log") is None
    there.process.send_signal(signal.SIGSTOP)
    assert not store.claims.claim("seg-1"), "it is there, and its heartbeat is young"
    until(lambda: _stopped(there.process.pid))
    change(store, "UPDATE claims SET heartbeat = heartbeat - 3600")
    assert store.claims.claim("seg-1")
    there.process.send_signal(signal.SIGCONT)
    assert "taken over run seg-1" in str(there.ask("move"))
    assert "taken over run seg-1" in str(there.ask("log"))
    assert there.ask("claim") is False
    assert store.claims.claim("seg-1")
    # That nobody has the run now does not tell what became of it meanwhile.
    store.claims.release("seg-1")
    assert there.ask("claim") is False
    there.ask("release")
    assert there.ask("claim") is True


def test_heartbeats_go_on_after_the_database_was_away(
    url: str, open_here: Opens, other: Starts
) -> None:
    """Its answers are errors, and its connections are gone."""
    store, there = open_here(url), other(url)
    there.ask("claim")
    change(store, "CREATE SEQUENCE tries")
    change(
        store,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM nextval('tries'); RAISE EXCEPTION 'not now'; END $$",
    )
    change(
        store,
        "CREATE TRIGGER away BEFORE UPDATE ON claims FOR EACH ROW EXECUTE FUNCTION refuse()",
    )

    def tries() -> int:
        with store.database.reading() as db:
            return int(db.scalar(sa.text("SELECT last_value FROM tries")) or 0)

    until(lambda: tries() > 2)
    change(
        store,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        " AND query LIKE '%UPDATE claims SET%'",
    )
    until(lambda: tries() > 4)
    before = heartbeat(store) or 0.0
    change(store, "DROP TRIGGER away ON claims")
    until(lambda: (heartbeat(store) or 0.0) > before)
    assert there.ask("claim") is True


def test_a_process_ends_though_it_holds_a_claim(url: str, root: pathlib.Path) -> None:
    code = (
        "import pathlib, sys; from k8sbench.adapters.store.sql_store import open_store;"
        " store = open_store(sys.argv[1], folder=pathlib.Path(sys.argv[2]));"
        " print(store.claims.claim('seg-1'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, url, str(root)],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout == "True\n"


def _stopped(pid: int) -> bool:
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"
