"""The database is made anew from the folders, and held against them."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import typing

import msgspec
import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from k8sbench.adapters.store import database, migrations, sql_store, upkeep
from k8sbench.adapters.store.artifacts import RunFolder
from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.adapters.store.upkeep import StoreFinding, StoreReport
from k8sbench.model.errors import StoreError, UsageError
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Run
from k8sbench.ports import LogLine, RunFilter
from tests.tiers import ROOT
from tests.unit.store.examples import NOW, OWNER, REJECTION, measurement, plan, step


def fill(store: SqlStore) -> list[Run]:
    """Record runs of every kind; returns them as the store has them."""
    for number in range(1, 6):
        store.record(plan(f"seg-{number}", repeat=number), at=NOW + number, owner=OWNER)
    store.record(plan("pod-1", set_name="weekly"), at=NOW + 9, owner=None)
    for run_id in ("seg-1", "seg-2", "seg-3"):
        store.move(run_id, step(Phase.RUNNING))
    store.move("seg-1", step(Phase.SUCCEEDED, NOW + 20))
    store.measured("seg-1", measurement())
    store.move(
        "seg-2",
        Transition(phase=Phase.FAILED, at=NOW + 30, cause="worker-1: 1", cause_id="replica-failed"),
    )
    store.measured("seg-2", measurement(throughput=None, verdict="rejected", reasons=(REJECTION,)))
    store.keep("seg-1", "manifest.yaml", "kind: PyTorchJob\n")
    archive = store.archive("seg-1")
    archive.write(LogLine(replica="master-0", at=NOW, text="hello"))
    archive.close()
    return store.runs(RunFilter())


def everything(root: pathlib.Path) -> list[Run]:
    with open_store(str(root)) as store:
        return store.runs(RunFilter())


def ids(report: StoreReport) -> list[str]:
    return [finding.id for finding in report.findings]


@pytest.fixture
def filled(root: pathlib.Path) -> list[Run]:
    with open_store(str(root)) as store:
        return fill(store)


def test_a_rebuilt_database_equals_the_one_before(root: pathlib.Path, filled: list[Run]) -> None:
    (root / "k8sbench.db").unlink()
    report = upkeep.rebuild(str(root))
    assert report.runs == len(filled) == 6
    assert report.findings == ()
    assert everything(root) == filled


@pytest.mark.parametrize("damage", ["deleted", "garbage", "empty", "truncated"])
def test_a_database_that_is_gone_or_damaged_is_made_anew(
    root: pathlib.Path, filled: list[Run], damage: str
) -> None:
    file = root / "k8sbench.db"
    if damage == "deleted":
        file.unlink()
    elif damage == "garbage":
        file.write_bytes(os.urandom(20_000))
    elif damage == "empty":
        file.write_bytes(b"")
    else:
        file.write_bytes(file.read_bytes()[:5000])
    report = upkeep.rebuild(str(root))
    assert report.runs == 6
    assert ids(report) == (["damaged-database"] if damage in {"garbage", "truncated"} else [])
    assert everything(root) == filled
    if damage == "garbage":
        assert report.backup == str(root / "k8sbench.db.backup-1")
        assert pathlib.Path(report.backup).stat().st_size == 20_000


def test_a_log_of_the_damaged_database_does_not_reach_the_new_one(
    root: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """A write-ahead log belongs to its database, and SQLite would play it into any of that name."""
    with open_store(str(root)) as store:
        fill(store)
    store = open_store(str(root))
    store.move("seg-4", step(Phase.STARTING))  # in the log alone, on one page of the database
    filled = store.runs(RunFilter())
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    store.close()
    assert (copy / "k8sbench.db-wal").stat().st_size > 0
    (copy / "k8sbench.db").write_bytes(b"garbage " * 1000)
    assert ids(upkeep.rebuild(str(copy))) == ["damaged-database"]
    moved = [replace(run, artifacts=str(copy / "runs" / run.run_id)) for run in filled]
    assert everything(copy) == moved
    with open_store(str(copy)) as again:
        assert upkeep.check(again).findings == ()


def test_folders_that_cannot_be_read_are_reported_and_passed_over(
    root: pathlib.Path, filled: list[Run]
) -> None:
    runs = root / "runs"
    (runs / "foreign").mkdir()
    (runs / "foreign" / "thesis.doc").write_text("")
    (runs / "file").write_text("")
    (runs / "empty").mkdir()
    (runs / "bad-json").mkdir()
    (runs / "bad-json" / "run.json").write_text('{"plan": ')
    (runs / "other-shape").mkdir()
    (runs / "other-shape" / "run.json").write_text('{"schema": 7}')
    shutil.copytree(runs / "seg-1", runs / "copied")
    report = upkeep.rebuild(str(root))
    assert report.runs == 6
    assert sorted((finding.id, pathlib.Path(finding.path).name) for finding in report.findings) == [
        ("damaged-run", "bad-json"),
        ("damaged-run", "copied"),
        ("damaged-run", "other-shape"),
    ]
    assert everything(root) == filled


def test_a_run_whose_folder_is_gone_or_damaged_is_kept_from_its_row(
    root: pathlib.Path, filled: list[Run]
) -> None:
    shutil.rmtree(root / "runs" / "seg-1")
    (root / "runs" / "seg-2" / "run.json").write_text("{")
    report = upkeep.rebuild(str(root))
    assert report.runs == 6
    assert ids(report) == ["damaged-run"]
    first, *others = everything(root)
    assert others == filled[1:]
    assert first == replace(filled[0], artifacts=None, artifacts_missing=first.artifacts_missing)


def test_lines_and_files_that_the_folder_lost_are_taken_from_the_row(
    root: pathlib.Path, filled: list[Run]
) -> None:
    (root / "runs" / "seg-1" / "events.jsonl").write_text("")
    (root / "runs" / "seg-1" / "measurement.json").unlink()
    (root / "runs" / "seg-2" / "measurement.json").write_text("{")
    report = upkeep.rebuild(str(root))
    assert ids(report) == ["damaged-run"]
    assert everything(root) == filled


def test_a_folder_that_knows_more_than_its_row_is_right(
    root: pathlib.Path, filled: list[Run]
) -> None:
    folder = RunFolder(root / "runs" / "seg-3")
    folder.append(step(Phase.SUCCEEDED, NOW + 50))
    folder.keep_measurement(measurement())
    with open_store(str(root)) as store:
        report = upkeep.check(store)
        assert ids(report) == ["row-differs"]
        assert "says Running, the folder says Succeeded" in report.findings[0].message
    upkeep.rebuild(str(root))
    run = next(run for run in everything(root) if run.run_id == "seg-3")
    assert run.phase is Phase.SUCCEEDED
    assert run.measurement == measurement()


def test_a_run_that_was_killed_before_its_row_stood_is_found(
    root: pathlib.Path, filled: list[Run], tmp_path: pathlib.Path
) -> None:
    with open_store(str(tmp_path / "other")) as other:
        other.record(plan("seg-9", set_name="mine"), at=NOW + 70, owner=OWNER)
    shutil.copytree(tmp_path / "other" / "runs" / "seg-9", root / "runs" / "seg-9")
    with open_store(str(root)) as store:
        assert ids(upkeep.check(store)) == ["no-row"]
    assert upkeep.rebuild(str(root)).runs == 7
    assert everything(root)[-1].run_id == "seg-9"


def test_two_runs_that_claim_one_repeat_both_stay(
    root: pathlib.Path, filled: list[Run], tmp_path: pathlib.Path
) -> None:
    """Somebody deleted the database and went on with the set."""
    with open_store(str(tmp_path / "other")) as other:
        other.record(plan("later", repeat=1), at=NOW + 70, owner=OWNER)
    shutil.copytree(tmp_path / "other" / "runs" / "later", root / "runs" / "later")
    (root / "k8sbench.db").unlink()
    report = upkeep.rebuild(str(root))
    assert ids(report) == ["repeat-taken"]
    repeats = {run.run_id: run.plan.repeat for run in everything(root)}
    assert repeats["later"] == 6
    assert {repeats[f"seg-{n}"] for n in range(1, 6)} == set(range(1, 6))
    again = upkeep.rebuild(str(root))
    assert again.findings == ()
    assert {run.run_id: run.plan.repeat for run in everything(root)} == repeats
    with open_store(str(root)) as store:
        assert upkeep.check(store).findings == ()


def test_a_rebuild_goes_on_beside_a_process_that_has_the_store_open(
    root: pathlib.Path, filled: list[Run]
) -> None:
    with open_store(str(root)) as store:
        assert upkeep.rebuild(str(root)).runs == 6
        store.move("seg-4", step(Phase.RUNNING))
    assert everything(root)[3].phase is Phase.RUNNING


def test_a_rebuild_leaves_a_newer_database_alone(
    root: pathlib.Path, filled: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (root / "k8sbench.db").read_bytes()
    monkeypatch.setattr("k8sbench.adapters.store.migrations.STEPS", [])
    with pytest.raises(StoreError, match="newer k8sbench"):
        upkeep.rebuild(str(root))
    assert (root / "k8sbench.db").read_bytes() == before


def test_a_place_without_a_store_is_not_rebuilt(root: pathlib.Path) -> None:
    with pytest.raises(UsageError, match="no store"):
        upkeep.rebuild(str(root))
    assert not root.exists()
    root.mkdir()
    with pytest.raises(UsageError, match="no store"):
        upkeep.rebuild(str(root))
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("damaged", [False, True])
def test_a_rebuild_that_fails_leaves_the_old_database(
    root: pathlib.Path, filled: list[Run], monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    folder = RunFolder(root / "runs" / "seg-3")
    folder.append(step(Phase.SUCCEEDED, NOW + 50))
    if damaged:
        (root / "k8sbench.db").write_bytes(b"garbage " * 1000)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = (root / "k8sbench.db").read_bytes()
    monkeypatch.setattr(upkeep, "numbered", full)
    with pytest.raises((StoreError, OSError), match="space"):
        upkeep.rebuild(str(root))
    assert not list(root.glob("*.new*"))
    assert damaged or everything(root) == filled
    assert not damaged or (root / "k8sbench.db").read_bytes() == before


KILLED = """
import os, signal, sys
from k8sbench.adapters.store import upkeep
left = int(sys.argv[2])
def die(event, _):
    global left
    if event in {"shutil.copyfile", "os.rename", "os.remove"}:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(die)
upkeep.rebuild(sys.argv[1])
"""


@pytest.mark.parametrize("point", range(1, 8))
def test_a_rebuild_that_is_killed_leaves_the_old_or_the_new_database(
    root: pathlib.Path, filled: list[Run], point: int
) -> None:
    """The points are: each file that is copied, removed or put in its place."""
    (root / "k8sbench.db").write_bytes(b"garbage " * 1000)
    (root / "k8sbench.db-wal").write_bytes(b"garbage " * 1000)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(root), str(point)], check=False, capture_output=True
    )
    assert done.stderr == b""
    assert done.returncode in {0, -9}
    if done.returncode == -9:
        with pytest.raises(StoreError, match="store rebuild"):
            everything(root)
    upkeep.rebuild(str(root))
    assert everything(root) == filled
    assert not list(root.glob("*.new*"))


def test_a_whole_store_has_nothing_to_report(store: SqlStore) -> None:
    filled = fill(store)
    assert upkeep.check(store) == StoreReport(store=store.where, runs=len(filled), findings=())


def test_a_check_finds_what_is_not_as_it_should_be(store: SqlStore) -> None:
    fill(store)
    shutil.rmtree(store.folder("seg-1"))
    RunFolder(store.folder("seg-2")).keep_measurement(measurement())
    RunFolder(store.folder("seg-3")).append(step(Phase.SUCCEEDED, NOW + 50))
    with store.database.writing() as db:
        db.execute(sa.text("UPDATE runs SET plan = '[]' WHERE run_id = 'seg-5'"))
    report = upkeep.check(store)
    found = {(finding.id, pathlib.Path(finding.path).name) for finding in report.findings}
    assert found == {
        ("row-differs", "seg-2"),
        ("row-differs", "seg-3"),
        ("unreadable-row", "seg-5"),
    } | ({("no-folder", "seg-1")} if store.database.kind == "sqlite" else set())
    assert report.runs == 6


def test_rows_are_brought_up_to_the_folders_in_place(store: SqlStore) -> None:
    """What a rebuild does with a database that is not ours to replace."""
    filled = fill(store)
    with store.database.writing() as db:
        db.execute(sa.text("DELETE FROM transitions WHERE run_id = 'seg-2'"))
        db.execute(sa.text("DELETE FROM runs WHERE run_id = 'seg-2'"))
        db.execute(sa.text("UPDATE runs SET measurement = NULL WHERE run_id = 'seg-1'"))
    report = upkeep.rebuild_rows(store)
    assert report.runs == 6
    assert store.runs(RunFilter()) == filled


def test_the_info_counts_what_is_there(store: SqlStore) -> None:
    fill(store)
    said = upkeep.info(store)
    assert said.exists
    assert said.writable
    assert (said.runs, said.sets) == (6, 2)
    assert said.phases == {"Created": 3, "Failed": 1, "Running": 1, "Succeeded": 1}
    assert said.kind == store.database.kind
    assert said.database_schema == len(migrations.STEPS)


def test_the_info_of_no_store_says_so(root: pathlib.Path) -> None:
    with open_store(str(root), create=False) as store:
        said = upkeep.info(store)
    assert not said.exists
    assert said.runs == 0
    assert said.store == str(root)


def test_the_page_explains_every_finding() -> None:
    page = (ROOT / "docs" / "store.md").read_text()
    for name in typing.get_args(typing.get_type_hints(StoreFinding)["id"]):
        assert f"| `{name}` |" in page


def test_a_report_can_be_written_as_json(root: pathlib.Path, filled: list[Run]) -> None:
    report = upkeep.rebuild(str(root))
    assert msgspec.json.decode(msgspec.json.encode(report), type=StoreReport) == report


def test_the_damaged_database_is_all_that_a_rebuild_adds(
    root: pathlib.Path, filled: list[Run]
) -> None:
    (root / "k8sbench.db").write_bytes(b"garbage " * 1000)
    upkeep.rebuild(str(root))
    assert {path.name for path in root.iterdir()} == {
        "runs",
        database.DATABASE,
        "k8sbench.db.backup-1",
        sql_store.IDENTITY_FILE,
    }


def test_the_last_five_damaged_databases_are_kept(root: pathlib.Path, filled: list[Run]) -> None:
    for number in range(1, 8):
        (root / "k8sbench.db").write_bytes(b"garbage %d " % number * 1000)
        upkeep.rebuild(str(root))
        assert everything(root) == filled
    kept = {path.name: path.read_bytes()[:9] for path in root.glob("k8sbench.db.backup-*")}
    assert kept == {f"k8sbench.db.backup-{n}": b"garbage %d" % n for n in range(3, 8)}


def backup(store: SqlStore, report: StoreReport) -> list[Run]:
    """Read the runs of the database as it was before a rebuild; puts it back in place."""
    assert report.backup is not None
    if store.database.kind == "sqlite":
        store.close()
        shutil.copyfile(report.backup, store.root / database.DATABASE)
        return everything(store.root)
    runs, _, transitions = report.backup.split()
    with store.database.writing() as db:
        for statement in (
            "DELETE FROM runs",
            f"INSERT INTO runs TABLE {runs}",
            f"INSERT INTO transitions TABLE {transitions}",
        ):
            db.execute(sa.text(statement))
    return store.runs(RunFilter())


def test_rows_that_a_rebuild_changes_are_kept_as_they_were(store: SqlStore) -> None:
    filled = fill(store)
    assert upkeep.rebuild_rows(store).backup is None, "nothing changes"
    RunFolder(store.folder("seg-3")).append(step(Phase.SUCCEEDED, NOW + 50))
    report = upkeep.rebuild_rows(store)
    assert upkeep.rebuild_rows(store).backup is None
    assert store.run("seg-3").phase is Phase.SUCCEEDED
    assert backup(store, report) == filled


def test_five_backups_of_tables_are_kept(store: SqlStore) -> None:
    fill(store)
    for number in range(7):
        RunFolder(store.folder("seg-3")).append(step(Phase.STARTING, NOW + number))
        report = upkeep.rebuild_rows(store)
    assert (report.backup or "").endswith("7")
    if store.database.kind == "postgresql":
        with store.database.reading() as db:
            kept = {name for name in sa.inspect(db).get_table_names() if "backup" in name}
        assert kept == {f"{t}_backup_{n}" for t in ("runs", "transitions") for n in range(3, 8)}
        assert upkeep.check(store).findings == ()


def identity(root: pathlib.Path) -> str:
    with open_store(str(root)) as store:
        return store.identity


@pytest.mark.parametrize("damage", ["gone", "garbage"])
def test_a_database_made_anew_keeps_the_identity_of_the_store(
    root: pathlib.Path, filled: list[Run], damage: str
) -> None:
    """Its marks on jobs stay its own."""
    before = identity(root)
    path = root / database.DATABASE
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"garbage " * 1000)
    upkeep.rebuild(str(root))
    assert identity(root) == before


@pytest.mark.parametrize("kept", [None, b"", b"\xff../etc"])
def test_without_its_file_a_store_gets_a_new_identity(
    root: pathlib.Path, filled: list[Run], kept: bytes | None
) -> None:
    before, file = identity(root), root / sql_store.IDENTITY_FILE
    (root / database.DATABASE).unlink()
    file.unlink()
    if kept is not None:
        file.write_bytes(kept)
    upkeep.rebuild(str(root))
    assert identity(root) not in {before, ""}
    assert file.read_text() == f"{identity(root)}\n"
