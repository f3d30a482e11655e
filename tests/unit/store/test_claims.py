"""One process among all of a store follows a run."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sbench.adapters import processes
from k8sbench.app import stores
from k8sbench.app.find import find_recorded
from k8sbench.lifecycle.lost_runs import mark_lost_runs
from k8sbench.model import times
from k8sbench.model.errors import NotFound, StoreError, UsageError
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Process
from k8sbench.store.interface import RunFilter
from k8sbench.store.open_store import open_store
from k8sbench.store.sql_store import SqlStore
from tests.harness import children
from tests.unit.presence import present
from tests.unit.store import programs
from tests.unit.store.examples import NOW, PROCESS, plan, step

Other = subprocess.Popen[str]
PATIENCE = 60.0
"""Seconds until something that does not happen counts as broken."""


def ask(other: Other, what: str, run_id: str = "seg-1") -> object:
    """Have the other process do something; returns what came of it."""
    present(other.stdin).write(f"{what} {run_id}\n")
    present(other.stdin).flush()
    return json.loads(present(other.stdout).readline())


@pytest.fixture
def other(sqlite_store: SqlStore) -> Iterator[Other]:
    """Another process, which shares nothing with this one but the store's place."""
    with children.ready(programs.answer, sqlite_store.root) as there:
        yield there
        there.kill()


def test_one_process_at_a_time_has_a_claim(sqlite_store: SqlStore, other: Other) -> None:
    claims = sqlite_store.claims
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
    sqlite_store.close()
    claims.close()
    assert ask(other, "claim", "seg-3") is True


def test_two_stores_of_one_process_exclude_each_other(sqlite_store: SqlStore) -> None:
    """The threads of a Python client have a store each."""
    with open_store(str(sqlite_store.root)) as second:
        assert sqlite_store.claims.claim("seg-1")
        assert not second.claims.claim("seg-1")
        assert second.claims.claim("seg-2")
        second.claims.release("seg-1")
        second.claims.close()
    with open_store(str(sqlite_store.root)) as third:
        assert not third.claims.claim("seg-1")
        assert third.claims.claim("seg-2")
        sqlite_store.claims.release("seg-1")
        assert third.claims.claim("seg-1")


def test_the_claim_of_a_process_that_was_killed_is_free(
    sqlite_store: SqlStore, other: Other
) -> None:
    assert ask(other, "claim") is True
    assert not sqlite_store.claims.claim("seg-1")
    other.kill()
    other.wait(PATIENCE)
    assert sqlite_store.claims.claim("seg-1")


# -- processes ------------------------------------------------------------------------------------


@pytest.fixture
def asleep() -> subprocess.Popen[str]:
    return children.ready(programs.sleep)


def test_a_process_that_was_killed_is_gone(asleep: subprocess.Popen[str]) -> None:
    owner = processes.describe(asleep.pid)
    assert processes.alive(owner) is True
    asleep.kill()
    os.waitid(os.P_PID, asleep.pid, os.WEXITED | os.WNOWAIT)  # dead, and still in the table
    assert processes.alive(owner) is False
    asleep.communicate()
    assert processes.alive(owner) is False


@pytest.mark.parametrize(
    ("change", "alive"),
    [
        ({}, True),
        ({"started": 1.0}, False),  # its pid was used again
        ({"boot_id": "another"}, False),
        # Of another machine or container, or of an impossible number, nothing is seen.
        ({"host": "elsewhere"}, None),
        ({"pid_space": "pid:[42]"}, None),
        ({"pid": 2**22 + 1}, False),
        ({"pid": 0}, False),
    ],
)
@pytest.mark.usefixtures("machine_id")
def test_a_process_is_known_by_pid_and_start(change: dict[str, Any], alive: bool | None) -> None:
    me = processes.this_process()
    assert (me.pid, me.started > 0) == (os.getpid(), True)
    assert me.machine
    assert "3d1219c7" not in me.machine
    theirs = msgspec.structs.replace(me, **change)
    assert processes.alive(theirs) is alive
    # Locks exclude the processes of one machine, containers and earlier boots included.
    assert processes.is_elsewhere(theirs) == ("host" in change)


@pytest.fixture
def machine_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a machine's id."""
    path = tmp_path / "machine-id"
    path.write_text("3d1219c7c4c5404aaa1f6d2a48adfda4\n")
    monkeypatch.setattr(processes, "MACHINE_ID", path)
    return path


@pytest.mark.parametrize("other", ["another\n", "", None])
def test_a_boot_of_a_namesake_says_nothing(machine_id: Path, other: str | None) -> None:
    theirs = msgspec.structs.replace(processes.this_process(), boot_id="another")
    if other is None:
        machine_id.unlink()
    else:
        machine_id.write_text(other)
    assert processes.alive(theirs) is None
    assert processes.is_elsewhere(theirs)
    # Nor does a row of a version that did not know the machine.
    assert processes.alive(msgspec.structs.replace(theirs, machine="")) is None


# -- a run whose process is gone ------------------------------------------------------------------


def gone(process: Process) -> bool:
    return False


def at_rest(store: SqlStore, run_id: str, when: float) -> None:
    """Let everything in a run's folder have been written at a given moment."""
    for path in [store.folder(run_id), *store.folder(run_id).rglob("*")]:
        os.utime(path, (when, when))


def test_a_run_whose_process_is_gone_is_lost_and_says_so(one_run: SqlStore) -> None:
    one_run.move("seg-1", step(Phase.RUNNING, NOW + 5))
    at_rest(one_run, "seg-1", NOW + 65)
    changed = mark_lost_runs(one_run, alive=gone, now=NOW + 3600)
    run = one_run.run("seg-1")
    assert changed == {"seg-1": run}
    assert run.history[-1] == Transition(
        phase=Phase.LOST,
        at=NOW + 65,
        cause="k8sbench (pid 4711 on here) ended at 2026-11-20T07:34:25Z or soon after, while the"
        " run was Running, without a last word (killed, the machine went down, or the disk"
        " was full); its processes were ended with it; what it printed until then is kept, see:"
        " k8sbench logs seg-1",
        cause_id="owner-killed",
    )
    assert run.ended_at == NOW + 65


@pytest.mark.parametrize("alive", [True, None])
def test_a_run_whose_process_may_run_is_left(one_run: SqlStore, alive: bool | None) -> None:
    assert mark_lost_runs(one_run, alive=lambda _: alive, now=NOW + 10) == {}
    assert one_run.run("seg-1").phase is Phase.CREATED


def test_a_run_of_a_cluster_goes_on_and_one_that_succeeded_stays_so(store: SqlStore) -> None:
    store.record(plan("pod", backend="kubernetes"), at=NOW, process=PROCESS)
    store.record(plan("nobodys", set_name="other"), at=NOW, process=None)
    store.record(plan("over", set_name="third"), at=NOW, process=PROCESS)
    over = store.move("over", step(Phase.SUCCEEDED))
    mark_lost_runs(store, alive=gone, now=NOW + 10)
    assert store.run("over") == over
    phases = {run.run_id: run.phase for run in store.runs(RunFilter())}
    assert phases == {"pod": Phase.CREATED, "nobodys": Phase.CREATED, "over": Phase.SUCCEEDED}


def test_its_end_is_not_before_its_last_state_nor_after_now(one_run: SqlStore) -> None:
    run = one_run.move("seg-1", step(Phase.RUNNING, NOW + 50))
    assert run.lost(None, now=NOW + 60).at == NOW + 50
    assert run.lost(NOW + 10, now=NOW + 60).at == NOW + 50
    assert run.lost(NOW + 55, now=NOW + 60).at == NOW + 55
    assert run.lost(NOW + 999, now=NOW + 60).at == NOW + 60
    assert run.lost(NOW + 999, now=NOW).at == NOW + 50  # the clock was set back


def test_a_read_only_store_still_tells(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "alive", gone)
    with open_store(str(root)) as store:
        store.record(plan(), at=NOW, process=PROCESS)
        store.database.read_only = StoreError("It can only be read.")
        runs = stores.current_runs(store)
        assert [run.phase for run in runs] == [Phase.LOST]
        assert find_recorded(store, "seg").phase is Phase.LOST
        assert store.run("seg-1").phase is Phase.CREATED


@pytest.mark.parametrize("text", ["seg-1", "seg-11", "se", "", "SEG-1", "%", "seg_1", "seg-1 "])
def test_a_run_is_found_by_its_id_or_an_unambiguous_part(store: SqlStore, text: str) -> None:
    with pytest.raises(NotFound, match="There are no runs"):
        find_recorded(store, text)
    for number, run_id in enumerate(("seg-1", "seg-11", "seg-12"), start=1):
        store.record(plan(run_id, repeat=number), at=NOW, process=None)
    if text in {"seg-1", "seg-11"}:
        assert find_recorded(store, text).run_id == text
        return
    says = "3 runs begin with 'se'" if text == "se" else "There is no run"
    with pytest.raises((UsageError, NotFound), match=says):
        find_recorded(store, text)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1.5h", NOW - 5400),
        (" 1d12h ", NOW - 1.5 * 86400),
        ("2026-11-20", 1795132800.0),
        ("2026-11-20T08:15:30Z", 1795162530.0),
        ("2026-11-20 09:15:30+01:00", 1795162530.0),
    ],
)
def test_since_is_a_length_of_time_or_a_date(text: str, at: float) -> None:
    assert times.parse_since(text, now=NOW) == at


@pytest.mark.parametrize(
    "text", ["", "h", "2", "2x", "-2h", "yesterday", "2026-13-01", "9" * 400 + "d", "1e3s", "２h"]
)
def test_a_since_that_is_neither_says_what_to_write(text: str) -> None:
    with pytest.raises(UsageError, match="neither a length of time nor a date") as caught:
        times.parse_since(text, now=NOW)
    assert "2h" in caught.value.action
