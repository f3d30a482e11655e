"""Runs move between stores whole or not at all, and nothing else."""

import gzip
import io
import os
import shutil
import sqlite3
import stat
import subprocess
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from k8sbench.app import connections, stores
from k8sbench.cli.main import main
from k8sbench.model.errors import InputError, StoreError, UsageError
from k8sbench.model.facts import facts_of
from k8sbench.model.phase import Phase
from k8sbench.model.plan import ObservedJob
from k8sbench.model.profile import IterationRange
from k8sbench.model.run import Run, Wish
from k8sbench.model.series import AcceptedLevel, SeriesRange
from k8sbench.store import database, disk, exchange, index
from k8sbench.store.interface import RunFilter
from k8sbench.store.open_store import open_store
from k8sbench.store.sql_store import SqlStore
from tests.harness import children
from tests.unit.imports import foreign
from tests.unit.model.measurements import measurement
from tests.unit.presence import present
from tests.unit.store import programs
from tests.unit.store.conftest import OpenStore
from tests.unit.store.examples import NOW, PROCESS, archive, elsewhere, fill, plan, step
from tests.unit.store.index_checks import differences, reindexed

IDS = ["seg-1", "seg-2"]


def exported(store: SqlStore) -> bytes:
    out = io.BytesIO()
    exchange.export_runs(store, store.ids(), out)
    return out.getvalue()


def imported(store: SqlStore, data: bytes) -> tuple[list[str], list[str]]:
    return exchange.import_runs(store, io.BytesIO(data), "x.tar.gz")


def everything(store: SqlStore) -> tuple[list[Run], dict[str, bytes]]:
    """Read all runs, and every file of theirs, also of what is half done."""
    found = [path for name in ("runs", "incoming") for path in (store.root / name).rglob("*")]
    files = {str(one.relative_to(store.root)): one.read_bytes() for one in found if one.is_file()}
    return [elsewhere(run) for run in store.runs(RunFilter())], files


NOTHING: tuple[list[Run], dict[str, bytes]] = ([], {})


@pytest.fixture
def other(tmp_path: Path) -> Iterator[SqlStore]:
    """Another store, from which runs come."""
    with open_store(str(tmp_path / "other")) as store:
        fill(store, *IDS)
        yield store


@pytest.fixture
def data(other: SqlStore) -> bytes:
    return exported(other)


def test_runs_go_from_store_to_store(store: SqlStore, other: SqlStore, data: bytes) -> None:
    assert imported(store, data) == (IDS, [])
    assert everything(store) == everything(other)
    assert differences(store) == []
    for into, again in ((store, data), (other, exported(store))):
        assert imported(into, again) == ([], IDS)
    assert everything(store) == everything(other)


def level(case: str, set_name: str = "a") -> AcceptedLevel:
    return AcceptedLevel(
        case=case, line=(case, "", ""), set_name=set_name, began=NOW, accepted_at=NOW
    )


def over(case: str, end: int = 288) -> SeriesRange:
    return SeriesRange(
        case=case, line=(case, "", ""), over=IterationRange(begin=20, end=end), sets=("a",)
    )


def test_accepted_levels_and_ranges_come_along_and_replace_none(
    store: SqlStore, other: SqlStore
) -> None:
    other.accept_levels([level("1x8"), level("2x8")])
    other.fix_ranges([over("1x8"), over("2x8")])
    store.accept_levels([level("1x8", "mine")])
    store.fix_ranges([over("1x8", 96)])
    for _ in range(2):
        imported(store, exported(other))
        found = sorted(store.accepted_levels(), key=lambda one: one.case)
        assert found == [level("1x8", "mine"), level("2x8")]
        assert store.series_ranges() == (over("1x8", 96), over("2x8"))


@pytest.mark.parametrize("name", ["accepted-levels.json", "series-ranges.json"])
def test_kept_files_that_are_damaged_or_doubled_are_refused(
    sqlite_store: SqlStore, data: bytes, name: str
) -> None:
    with pytest.raises(InputError, match="does not belong there"):
        imported(sqlite_store, packed(*members(data), *[member(name, b"{}")] * 2))
    with pytest.raises(StoreError, match="cannot be read"):
        imported(sqlite_store, packed(*members(data), member(name, b"{")))
    assert everything(sqlite_store) == NOTHING


def test_imported_runs_with_a_dot_in_their_ids_leave_and_come_back(
    store: SqlStore, data: bytes
) -> None:
    former = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar,
        tarfile.open(fileobj=former, mode="w:gz", format=tarfile.GNU_FORMAT) as written,
    ):
        for info in tar:
            file = tar.extractfile(info)
            text = b"" if file is None else file.read()
            info.name = info.name.replace("seg-", "seg.")
            written.addfile(info, io.BytesIO(text.replace(b"seg-", b"seg.")))
    assert imported(store, former.getvalue()) == (["seg.1", "seg.2"], [])
    assert imported(store, exported(store)) == ([], ["seg.1", "seg.2"])


def test_another_run_of_that_name_is_named_and_left_alone(store: SqlStore, data: bytes) -> None:
    fill(store, "seg-2")
    before = everything(store)
    with pytest.raises(UsageError, match=r"another run seg-2 .*Nothing was imported"):
        imported(store, data)
    assert everything(store) == before


def test_a_run_with_other_figures_is_another_run(store: SqlStore, data: bytes) -> None:
    imported(store, data)
    store.save_measurement("seg-1", measurement(final_loss=7.0))
    before = everything(store)
    with pytest.raises(UsageError, match="another run seg-1"):
        imported(store, data)
    assert everything(store) == before


def test_a_run_keeps_its_repeat_number_where_another_has_it(store: SqlStore, data: bytes) -> None:
    fill(store, "mine")
    imported(store, data)
    store.save_measurement("seg-1", measurement(final_loss=7.0))
    repeats = {run.run_id: run.plan.repeat for run in store.runs(RunFilter())}
    assert repeats == {"mine": 1, "seg-1": 1, "seg-2": 2}
    assert reindexed(store) == (3, {})
    assert store.next_repeat("nightly", store.run("mine").case_key) == 3
    assert differences(store) == []


def test_only_files_of_runs_leave_and_wishes_stay(store: SqlStore, other: SqlStore) -> None:
    folder = other.folder("seg-1")
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "two words").write_text("")
    other.wish("seg-1", Wish(kind="delete", at=NOW, cause="It is over."))
    imported(store, exported(other))
    assert store.run("seg-1").wishes == ()
    left_out = {path.name for path in folder.iterdir()} - {
        path.name for path in store.folder("seg-1").iterdir()
    }
    assert left_out == {"link", "two words", "wishes.json"}


def test_lost_files_come_back(store: SqlStore, open_again: OpenStore, data: bytes) -> None:
    imported(store, data)
    before, folder = everything(store), store.folder("seg-1")
    shutil.rmtree(folder)
    again = open_again()
    assert imported(again, data) == (["seg-1"], ["seg-2"])
    assert everything(again) == before
    assert differences(again) == []
    (folder / "run.json").unlink()
    with pytest.raises(StoreError, match=r"seg-1 holds no run\.json"):
        imported(again, data)


# --- Files from anybody ---------------------------------------------------------------------------


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.GNU_FORMAT) as tar:
        for info, data in members:
            info.size = info.size or len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def unended(entries: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """Pack files without an end mark, so that more can be appended."""
    blocks = [info.tobuf() + data + bytes(-len(data) % 512) for info, data in entries]
    return gzip.compress(b"".join(blocks))


def member(name: str, data: bytes = b"x", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def members(data: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = [info for info in tar if info.isreg()]
        return [(info, tar.extractfile(info).read()) for info in files]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "added",
    [
        member("../outside"),
        member("runs/seg-1/logs/../../x"),
        member("runs/seg-1/.hidden"),
        member("runs/seg-1/wishes.json", b"{}"),
        member("runs/seg-1/a\nb"),
        member("runs/seg-1/run.json"),
        member("runs/seg-1/x", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("runs/seg-1/x", b"", type=tarfile.LNKTYPE, linkname="runs/seg-1/y"),
        member("runs/seg-1/logs/x", b"", type=tarfile.GNUTYPE_SPARSE),
        member("runs/seg-1/big.json", b"", size=exchange.MOST_BYTES + 1),
    ],
    ids=lambda value: repr(value[0].name)[:40],
)
def test_what_does_not_belong_into_an_export_is_refused(
    sqlite_store: SqlStore, data: bytes, added: tuple[tarfile.TarInfo, bytes]
) -> None:
    """A file of anybody's writes nothing outside, and nothing of it stays."""
    good = members(data)
    at = next(n for n, (info, _) in enumerate(good) if info.name == "runs/seg-2/events.jsonl")
    if added[0].size:  # its content is not there: the header alone is to be refused
        bad = unended(good[:at]) + gzip.compress(added[0].tobuf())
    else:
        bad = packed(*good[:at], added, *good[at:])
    with pytest.raises(InputError, match="does not belong there"):
        imported(sqlite_store, bad)
    assert everything(sqlite_store) == NOTHING
    assert {path.name for path in sqlite_store.root.parent.iterdir()} == {"k8sbench", "other"}


def header(kind: bytes, size: int, name: str = "runs/seg-2/logs/x") -> bytes:
    return member(name, type=kind, size=size)[0].tobuf(tarfile.GNU_FORMAT)


SPARSE = b"37 GNU.sparse.realsize=8796093022208\n22 GNU.sparse.major=0\n22 GNU.sparse.minor=1\n"
LONG = header(tarfile.GNUTYPE_LONGNAME, 17) + b"runs/seg-2/logs/x".ljust(512, b"\0")


@pytest.mark.parametrize(
    "added",
    [
        header(tarfile.GNUTYPE_LONGNAME, 1 << 24) + bytes(1 << 24),
        header(tarfile.XHDTYPE, 1 << 24) + bytes(1 << 24),
        header(tarfile.XGLTYPE, 1 << 24) + bytes(1 << 24),
        LONG * 3000,
        header(tarfile.XHDTYPE, len(SPARSE) + 27)
        + (SPARSE + b"27 GNU.sparse.map=1,words\n").ljust(512, b"\0"),
        header(tarfile.XHDTYPE, len(SPARSE) + 37)
        + (SPARSE + b"37 GNU.sparse.map=8796093022208,0\n").ljust(512, b"\0")
        + header(tarfile.REGTYPE, 0),
        header(tarfile.REGTYPE, -512),
    ],
    ids=["name", "PAX", "PAX of all", "names", "a bad sparse map", "a sparse file", "size"],
)
def test_headers_are_refused_before_what_they_announce_is_read(
    sqlite_store: SqlStore, data: bytes, added: bytes
) -> None:
    good = members(data)
    bad = unended(good) + gzip.compress(added)
    tracemalloc.start()
    with pytest.raises(InputError, match="not written by k8sbench store export"):
        imported(sqlite_store, bad)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()
    assert everything(sqlite_store) == NOTHING


def test_a_long_name_of_a_log_comes_along(store: SqlStore, other: SqlStore) -> None:
    log = f"{'x' * 200}.log"
    (other.folder("seg-1") / "logs" / log).write_text("hello")
    imported(store, exported(other))
    assert (store.folder("seg-1") / "logs" / log).read_text() == "hello"


def test_a_file_that_is_cut_off_or_changed_is_refused(sqlite_store: SqlStore, data: bytes) -> None:
    lengths = {0, 1, 20, *range(0, len(data), 97), len(data) - 1}
    flipped = (data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in (30, len(data) - 5))
    no_exports = (b"garbage " * 99, gzip.compress(b"\0" * (1 << 22)))
    for wrong in (*(data[:length] for length in lengths), *no_exports, *flipped):
        with pytest.raises(InputError, match="cut off or damaged"):
            imported(sqlite_store, wrong)
    for files in (members(data)[:-1], [*members(data), member("runs/new/run.json")]):
        with pytest.raises(InputError, match="is damaged, had not ended"):
            imported(sqlite_store, packed(*files))
    assert everything(sqlite_store) == NOTHING
    assert imported(sqlite_store, data)[0] == IDS


def test_memory_is_bounded(sqlite_store: SqlStore, other: SqlStore, tmp_path: Path) -> None:
    with (other.folder("seg-1") / "logs" / "worker-0.log").open("wb") as log:
        log.truncate(40 << 20)
    folders = packed(*[member("runs/seg-1", b"", type=tarfile.DIRTYPE)] * 10_000)
    file = tmp_path / "x.tar.gz"
    tracemalloc.start()
    with file.open("wb") as out:
        exchange.export_runs(other, other.ids(), out)
    with file.open("rb") as read:
        assert exchange.import_runs(sqlite_store, read, "x")[0] == IDS
    with pytest.raises(InputError):
        imported(sqlite_store, folders)
    assert tracemalloc.get_traced_memory()[1] < 3 << 20
    tracemalloc.stop()


# --- Imports that do not come to their end --------------------------------------------------------


@pytest.mark.parametrize("wrong", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_import_that_is_interrupted_leaves_nothing(
    store: SqlStore, data: bytes, monkeypatch: pytest.MonkeyPatch, wrong: BaseException
) -> None:
    real = index.put

    def put(db: sqlite3.Connection, run: Run) -> None:
        if run.run_id == "seg-2":
            raise wrong
        real(db, run)

    with monkeypatch.context() as patched:
        patched.setattr(index, "put", put)
        with pytest.raises((KeyboardInterrupt, StoreError)):
            imported(store, data)
    assert everything(store) == NOTHING
    assert imported(store, data)[0] == IDS


@pytest.mark.parametrize(("point", "left"), [(1, 2), (2, 1)])
def test_an_import_that_is_killed_is_taken_up_again(
    where: str, root: Path, other: SqlStore, data: bytes, tmp_path: Path, point: int, left: int
) -> None:
    file = tmp_path / "x.tar.gz"
    file.write_bytes(data)
    with open_store(where) as store:
        importing = programs.import_runs
        children.killed_at("os.rename", "incoming", importing, where, file, count=point)
        assert len(imported(store, data)[0]) == left
        assert everything(store) == everything(other)
        assert differences(store) == []
        assert list((root / "incoming").iterdir()) == []


# -- removal --------------------------------------------------------------------------------------


DAY = 86400.0
KEPT = {"run.json", "events.jsonl", "measurement.json", "manifest.yaml", "gpu/fetched.json"}


@pytest.fixture
def filled(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> SqlStore:
    """Provide runs of 1–3 hours after NOW; it is 90 days, 2.5 hours later."""
    monkeypatch.setattr(connections, "now", lambda: NOW + 90 * DAY + 9000)
    fill(store, "seg-1", "seg-2", "seg-3")
    return store


def names(store: SqlStore, run_id: str = "seg-1") -> set[str]:
    folder = store.root / "runs" / run_id
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_run_is_removed_with_its_row_and_its_folder(filled: SqlStore) -> None:
    exchange.remove_run(filled, "seg-2")
    assert filled.ids() == ["seg-1", "seg-3"]
    assert sorted(path.name for path in (filled.root / "runs").iterdir()) == ["seg-1", "seg-3"]
    assert not (filled.root / "removed").exists()
    assert differences(filled) == []


@pytest.mark.parametrize(
    ("event", "remove", "left"),
    [
        ("os.rename", programs.remove, ["seg-1", "seg-2"]),
        ("never", programs.remove_and_die, ["seg-2"]),
        ("os.rmdir", programs.remove, ["seg-2"]),
    ],
)
def test_a_removal_that_is_killed_has_happened_or_not_and_can_be_made_again(
    sqlite_store: SqlStore, event: str, remove: Callable[[str, str], None], left: list[str]
) -> None:
    store = sqlite_store
    fill(store, "seg-1", "seg-2")
    children.killed_at(event, "seg-1", remove, store.root, "seg-1")
    if event != "never":  # between the folder and the row there is a moment
        assert differences(store) == []
    reindexed(store)
    assert store.ids() == left
    for run_id in left:
        exchange.remove_run(store, run_id)
    assert store.ids() == []
    assert not (store.root / "removed").exists()


def test_logs_and_series_of_old_runs_go_and_measurements_stay(filled: SqlStore) -> None:
    before, whole = filled.runs(RunFilter()), names(filled, "seg-3")
    would = stores.prune(filled, 90 * DAY, dry_run=True)
    assert (names(filled), names(filled, "seg-3")) == (whole, whole)
    done = stores.prune(filled, 90 * DAY)
    assert done == would
    assert {run_id: one.files for run_id, one in done[0].items()} == {"seg-1": 2, "seg-2": 2}
    assert filled.runs(RunFilter()) == before
    assert names(filled) == whole - {"logs/master-0.log", "gpu/nvml.jsonl"} | {"pruned.json"}
    assert names(filled, "seg-3") == whole
    said = present(exchange.read_pruned(filled.folder("seg-1")))
    assert (said.rule, said.at, said.files) == ("--keep-logs-for 90d", connections.now(), 2)
    assert differences(filled) == []
    assert stores.prune(filled, 90 * DAY) == ({}, {}), "what is done is done"


def test_logs_of_observed_jobs_have_a_time_of_their_own(filled: SqlStore) -> None:
    job = ObservedJob(
        kind="Job", namespace="team-a", name="llama", replicas=("pod-0",), container="node"
    )
    filled.save_facts("seg-1", facts_of(plan(backend="observed", observed=job)))
    done, _ = stores.prune(filled, DAY, option="--observe-keep-logs-for", observed=True)
    assert list(done) == ["seg-1"]
    said = present(exchange.read_pruned(filled.folder("seg-1")))
    assert said.rule == "--observe-keep-logs-for 1d"
    assert filled.run("seg-1").measurement is not None


def test_a_full_disk_is_pruned_too(filled: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = disk.write_whole

    def write(path: Path, data: bytes) -> None:
        if exchange.find_printed_files(path.parent):
            raise StoreError("The disk is full.")
        real(path, data)

    monkeypatch.setattr(disk, "write_whole", write)
    assert list(stores.prune(filled, 90 * DAY)[0]) == ["seg-1", "seg-2"]
    assert present(exchange.read_pruned(filled.folder("seg-1"))).files == 2


def test_logs_that_are_still_needed_are_kept(filled: SqlStore) -> None:
    filled.wish("seg-2", Wish(kind="delete", at=NOW, cause="It is over."))
    filled.record(plan("seg-4", repeat=4), at=NOW, process=PROCESS)
    filled.move("seg-4", step(Phase.SUCCEEDED, NOW))
    archive(filled, "hello", run_id="seg-4")
    done, kept = stores.prune(filled, DAY)
    assert list(done) == ["seg-1", "seg-3"]
    assert kept == {
        "seg-2": "What is left of its job is to be deleted.",
        "seg-4": "It is not measured yet.",
    }


def test_a_prune_that_is_killed_is_ended_by_the_next(sqlite_store: SqlStore) -> None:
    store = sqlite_store
    fill(store, "seg-1")
    archive(store, "hello", replica="worker-0")
    children.killed_at("os.remove", "worker", programs.prune, store.root, "seg-1")
    assert exchange.find_printed_files(store.folder("seg-1")) != []
    exchange.prune_run(store, "seg-1", at=2.0, rule="second")
    assert names(store) == KEPT | {"pruned.json"}
    assert not (store.folder("seg-1") / "logs").exists()
    said = present(exchange.read_pruned(store.folder("seg-1")))
    assert (said.rule, said.files) == ("first", 3)


@pytest.mark.parametrize(
    ("event", "part"), [("open", ".pruned.json."), ("os.remove", "nvml"), ("os.rmdir", "logs")]
)
def test_logs_that_are_gone_have_a_record_whenever_the_process_is_killed(
    sqlite_store: SqlStore, event: str, part: str
) -> None:
    fill(sqlite_store, "seg-1")
    folder = sqlite_store.folder("seg-1")
    children.killed_at(event, part, programs.prune, sqlite_store.root, "seg-1")
    record = exchange.read_pruned(folder)
    assert len(exchange.find_printed_files(folder)) == 2 if record is None else record.files == 2


# -- private files --------------------------------------------------------------------------------


UMASKS = [0o022, 0o000]


@pytest.fixture(params=UMASKS, ids=oct)
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def seen_by_others(*paths: Path) -> dict[str, str]:
    """Return paths with modes other than 0600 or, for folders, 0700."""
    every = [each for path in paths for each in (path, *path.rglob("*"))]
    modes = {each: stat.S_IMODE(each.stat().st_mode) for each in every}
    wanted = {each: 0o700 if each.is_dir() else 0o600 for each in every}
    return {str(each): oct(mode) for each, mode in modes.items() if mode != wanted[each]}


@pytest.mark.usefixtures("_umask")
def test_all_that_a_store_writes_is_its_owners_alone(tmp_path: Path) -> None:
    root = tmp_path / "data" / "k8sbench"  # neither is there yet
    with open_store(str(root)) as store:
        fill(store, "seg-1", "seg-2")
        store.begin_attempt("seg-1")
        assert store.claims.claim("seg-1")
        assert {path.suffix for path in root.iterdir()} >= {".db", ".db-wal", ".db-shm", ".lock"}
        assert seen_by_others(tmp_path / "data") == {}
    (root / database.DATABASE).write_bytes(b"damaged" * 4096)
    stores.reindex(str(root), print)
    assert seen_by_others(root) == {}


@pytest.mark.usefixtures("_umask")
def test_so_is_what_is_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.txt").write_text(foreign.log())
    for store in ("here", "there"):
        monkeypatch.setenv("K8SBENCH_STORE", str(tmp_path / store))
        if store == "here":
            assert main(["import", "one.txt", *foreign.OF, "--set", "one"]) == 0
            assert main(["baseline", "save", "mine", "one"]) == 0
            assert main(["store", "export", "one", "runs.tar.gz"]) == 0
        else:
            assert main(["store", "import", "runs.tar.gz"]) == 0
        assert seen_by_others(tmp_path / store) == {}
    assert seen_by_others(tmp_path / "runs.tar.gz") == {}
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    subprocess.run(["tar", "-xpf", tmp_path / "runs.tar.gz", "-C", unpacked], check=True)
    files = [each for each in unpacked.rglob("*") if each.is_file()]
    assert files
    assert seen_by_others(*files) == {}
