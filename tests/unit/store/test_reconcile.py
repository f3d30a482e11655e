"""A run whose process is gone says what became of it, to whoever asks next."""

from __future__ import annotations

import os
import pathlib

import pytest

from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.lifecycle import records
from k8sbench.model import times
from k8sbench.model.errors import NotFound, StoreError, UsageError
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Owner
from k8sbench.ports import RunFilter
from tests.unit.store.examples import NOW, OWNER, archive, plan, step


def gone(owner: Owner) -> bool:
    return False


def running(owner: Owner) -> bool:
    return True


def unknown(owner: Owner) -> None:
    return None


def at_rest(store: SqlStore, run_id: str, when: float) -> None:
    """Let everything in a run's folder have been written at a given moment."""
    for path in [store.folder(run_id), *store.folder(run_id).rglob("*")]:
        os.utime(path, (when, when))


def test_a_run_whose_process_is_gone_is_lost_and_says_so(store: SqlStore) -> None:
    store.record(plan(), at=NOW, owner=OWNER)
    store.move("seg-1", step(Phase.RUNNING, NOW + 5))
    at_rest(store, "seg-1", NOW + 65)
    changed = records.reconcile(store, alive=gone, now=NOW + 3600)
    run = store.run("seg-1")
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


@pytest.mark.parametrize("alive", [running, unknown])
def test_a_run_whose_process_runs_or_cannot_be_seen_is_left_alone(
    store: SqlStore, alive: records.Alive
) -> None:
    store.record(plan(), at=NOW, owner=OWNER)
    assert records.reconcile(store, alive=alive, now=NOW + 10) == {}
    assert store.run("seg-1").phase is Phase.CREATED


def test_a_run_of_a_cluster_goes_on_without_us(store: SqlStore) -> None:
    store.record(plan("pod", backend="kubernetes"), at=NOW, owner=OWNER)
    store.record(plan("nobodys", set_name="other"), at=NOW, owner=None)
    assert records.reconcile(store, alive=gone, now=NOW + 10) == {}


def test_a_run_that_succeeded_and_was_not_measured_stays_succeeded(store: SqlStore) -> None:
    store.record(plan(), at=NOW, owner=OWNER)
    succeeded = store.move("seg-1", step(Phase.SUCCEEDED))
    records.reconcile(store, alive=gone, now=NOW + 10)
    assert store.run("seg-1") == succeeded


def test_its_end_is_not_before_its_last_state_nor_after_now(store: SqlStore) -> None:
    store.record(plan(), at=NOW, owner=OWNER)
    run = store.move("seg-1", step(Phase.RUNNING, NOW + 50))
    assert records.lost(run, None, now=NOW + 60).at == NOW + 50
    assert records.lost(run, NOW + 10, now=NOW + 60).at == NOW + 50
    assert records.lost(run, NOW + 55, now=NOW + 60).at == NOW + 55
    assert records.lost(run, NOW + 999, now=NOW + 60).at == NOW + 60
    assert records.lost(run, NOW + 999, now=NOW).at == NOW + 50  # the clock was set back


def test_a_store_that_can_only_be_read_still_tells(
    root: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(str(root)) as store:
        store.record(plan(), at=NOW, owner=OWNER)
        store.database.read_only = StoreError("It can only be read.")
        runs = records.listing(store, RunFilter(), alive=gone, now=NOW + 10)
        assert [run.phase for run in runs] == [Phase.LOST]
        assert records.find(store, "seg", alive=gone, now=NOW + 10).phase is Phase.LOST
        assert store.run("seg-1").phase is Phase.CREATED


@pytest.mark.parametrize("text", ["seg-1", "seg-11", "se", "", "SEG-1", "%", "seg_1", "seg-1 "])
def test_a_run_is_found_by_its_id_or_by_a_beginning_that_no_other_has(
    store: SqlStore, text: str
) -> None:
    for number, run_id in enumerate(("seg-1", "seg-11", "seg-12"), start=1):
        store.record(plan(run_id, repeat=number), at=NOW, owner=None)
    if text in {"seg-1", "seg-11"}:
        assert records.find(store, text, alive=gone, now=NOW).run_id == text
    elif text == "se":
        with pytest.raises(UsageError, match="3 runs begin with 'se'"):
            records.find(store, text, alive=gone, now=NOW)
    else:
        with pytest.raises(NotFound, match="There is no run"):
            records.find(store, text, alive=gone, now=NOW)


def test_an_empty_store_says_that_it_is_empty(store: SqlStore) -> None:
    with pytest.raises(NotFound, match="There are no runs"):
        records.find(store, "seg-1", alive=gone, now=NOW)


def test_the_status_lists_the_log_files(store: SqlStore) -> None:
    run = store.record(plan(), at=NOW, owner=OWNER)
    archive(store, "hello")
    said = records.status(store, run, alive=running)
    assert said.log_files == (str(store.folder("seg-1") / "logs" / "master-0.log"),)
    assert said.owner_alive is True


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("0s", NOW),
        ("90s", NOW - 90),
        ("30m", NOW - 1800),
        ("2h", NOW - 7200),
        ("1.5h", NOW - 5400),
        ("3d", NOW - 3 * 86400),
        ("2w", NOW - 14 * 86400),
        ("1d12h", NOW - 1.5 * 86400),
        (" 2h ", NOW - 7200),
        ("2026-11-20", 1795132800.0),
        ("2026-11-20T08:15:30Z", 1795162530.0),
        ("2026-11-20T08:15:30", 1795162530.0),
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
