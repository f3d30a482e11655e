"""Runs go from store to store whole or not at all, and nothing else comes with them."""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from k8sbench.adapters.store import exchange, index, sql_store
from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.model.errors import FilesElsewhere, InputError, StoreError, UsageError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run, Wish
from k8sbench.ports import RunFilter
from tests.harness import children
from tests.unit.store.conftest import OpenStore
from tests.unit.store.examples import NOW, OWNER, archive, elsewhere, measurement, plan, step
from tests.unit.store.index_checks import differences

IDS = ["seg-1", "seg-2"]


def fill(store: SqlStore, *run_ids: str) -> None:
    """Record runs that are over, with files of every kind."""
    for number, run_id in enumerate(run_ids or IDS, start=1):
        store.record(plan(run_id, repeat=number), at=NOW + number, owner=OWNER)
        archive(store, f"hello from {run_id}", run_id=run_id)
        store.keep(run_id, "manifest.yaml", "kind: PyTorchJob\n")
        store.keep(run_id, "gpu/nvml.jsonl", "{}\n")
        store.move(run_id, step(Phase.SUCCEEDED, NOW + 20))
        store.measured(run_id, measurement())


def exported(store: SqlStore) -> bytes:
    out = io.BytesIO()
    exchange.export(store, store.ids(), out)
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
        fill(store)
        yield store


@pytest.fixture
def data(other: SqlStore) -> bytes:
    return exported(other)


def test_runs_go_from_one_store_to_another_and_back(
    store: SqlStore, other: SqlStore, data: bytes
) -> None:
    assert imported(store, data) == (IDS, [])
    assert everything(store) == everything(other)
    assert differences(store) == []
    for into, again in ((store, data), (other, exported(store))):
        assert imported(into, again) == ([], IDS)
    assert everything(store) == everything(other)


def test_a_run_of_that_name_with_other_content_is_named_and_nothing_is_imported(
    store: SqlStore, data: bytes
) -> None:
    fill(store, "seg-2")
    before = everything(store)
    with pytest.raises(UsageError, match=r"another run seg-2 .*Nothing was imported"):
        imported(store, data)
    assert everything(store) == before


def test_a_run_keeps_its_repeat_number_where_another_has_it(store: SqlStore, data: bytes) -> None:
    fill(store, "mine")
    imported(store, data)
    store.measured("seg-1", measurement(final_loss=7.0))
    repeats = {run.run_id: run.plan.repeat for run in store.runs(RunFilter())}
    assert repeats == {"mine": 1, "seg-1": 1, "seg-2": 2}
    assert sql_store.reindex(store) == (3, {})
    assert store.next_repeat("nightly", store.run("mine").case_key) == 3
    assert differences(store) == []


def test_only_files_of_runs_leave_and_what_a_store_owes_its_cluster_stays(
    store: SqlStore, other: SqlStore
) -> None:
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


def test_files_that_are_gone_come_back_but_not_into_a_folder_that_is_left(
    store: SqlStore, open_again: OpenStore, data: bytes
) -> None:
    imported(store, data)
    before, folder = everything(store), store.folder("seg-1")
    shutil.rmtree(folder)
    again = open_again()
    assert imported(again, data) == (["seg-1"], ["seg-2"])
    assert everything(again) == before
    assert differences(again) == []
    (folder / "run.json").unlink()
    with pytest.raises(StoreError, match="seg-1 is there, and is no whole run"):
        imported(again, data)


def test_a_run_whose_files_are_elsewhere_is_exported_there(url: str, tmp_path: Path) -> None:
    with (
        open_store(url, folder=tmp_path / "one") as one,
        open_store(url, folder=tmp_path / "two") as two,
    ):
        one.record(plan("seg-1"), at=NOW, owner=OWNER)
        with pytest.raises(FilesElsewhere, match=str(one.root)):
            exported(two)
        two.ensure_folder("seg-1")
        two.move("seg-1", step(Phase.SUCCEEDED))
        assert exported(two)
        with pytest.raises(StoreError, match="does not hold all that is known of run seg-1"):
            exported(one)


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
        member("/tmp/outside"),
        member("runs/../store.id"),
        member("runs/seg-1/logs/../../x"),
        member("runs/seg-1/.hidden"),
        member("runs/seg-1/wishes.json", b"{}"),
        member("runs/seg-1/a\nb"),
        member("runs/seg-1/deeper/x"),
        member("runs/seg-1/run.json"),
        member("runs/seg-1/x", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("runs/seg-1/x", b"", type=tarfile.LNKTYPE, linkname="runs/seg-1/y"),
        member("runs/seg-1/x", b"", type=tarfile.CHRTYPE),
        member("runs/seg-1/logs/x", b"", type=tarfile.GNUTYPE_SPARSE),
        member(f"runs/seg-1/{'x' * 120}"),
        member("runs/seg-1/big.json", b"", size=exchange.MOST_BYTES + 1),
        member("k8sbench-export.json", b"{}"),
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
    assert {path.name for path in sqlite_store.root.parent.iterdir()} == {"store", "other"}


def test_a_file_that_is_cut_off_or_changed_anywhere_is_refused_whole(
    sqlite_store: SqlStore, data: bytes
) -> None:
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


def test_an_export_that_tar_unpacks_and_packs_again_is_read(
    sqlite_store: SqlStore, data: bytes, tmp_path: Path
) -> None:
    folder = tmp_path / "by-hand"
    folder.mkdir()
    subprocess.run(["tar", "-xzf", "-", "-C", str(folder)], input=data, check=True)
    tar = ["tar", "-czf", "-", "--format=gnu", "-C", str(folder), "runs"]
    again = subprocess.run(tar, check=True, capture_output=True).stdout
    assert imported(sqlite_store, again)[0] == IDS


def test_headers_without_end_take_no_memory(sqlite_store: SqlStore, data: bytes) -> None:
    folders = [member("runs/seg-1", b"", type=tarfile.DIRTYPE)] * 10_000
    many = packed(*members(data), *folders)
    tracemalloc.start()
    imported(sqlite_store, many)
    assert tracemalloc.get_traced_memory()[1] < 3 << 20
    tracemalloc.stop()


# --- Imports that do not come to their end --------------------------------------------------------


class Breaks(io.BytesIO):
    """A stream that ends in an error."""

    def __init__(self, data: bytes, wrong: BaseException) -> None:
        super().__init__(data)
        self._wrong = wrong

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(min(size or 64, 64) if size != -1 else 64)
        if not data:
            raise self._wrong
        return data


@pytest.mark.parametrize("wrong", [KeyboardInterrupt(), OSError(5, "Input/output error"), None])
def test_an_import_that_is_interrupted_leaves_nothing(
    store: SqlStore, data: bytes, monkeypatch: pytest.MonkeyPatch, wrong: BaseException | None
) -> None:
    """While it unpacks, or (None) when the disk is full at the second row."""
    real = index.insert

    def insert(db: sa.Connection, row: dict[str, Any]) -> None:
        if row["run_id"] == "seg-2":
            raise OSError(28, "No space left on device")
        real(db, row)

    with monkeypatch.context() as patched:
        if wrong is None:
            patched.setattr(index, "insert", insert)
        file = io.BytesIO(data) if wrong is None else Breaks(data[:-40], wrong)
        with pytest.raises((KeyboardInterrupt, StoreError)):
            exchange.import_runs(store, file, "x")
    assert everything(store) == NOTHING
    assert imported(store, data)[0] == IDS


IMPORT = """
with open_store(words[0], folder=pathlib.Path(words[1])) as store, open(words[2], "rb") as file:
    exchange.import_runs(store, file, "x")
"""


@pytest.mark.parametrize(("point", "left"), [(1, 2), (2, 1)])
def test_an_import_that_is_killed_is_taken_up_again(
    where: str, root: Path, other: SqlStore, data: bytes, tmp_path: Path, point: int, left: int
) -> None:
    file = tmp_path / "x.tar.gz"
    file.write_bytes(data)
    with open_store(where, folder=root) as store:
        children.killed_at("os.rename", "incoming", IMPORT, where, root, file, count=point)
        assert len(imported(store, data)[0]) == left
        assert everything(store) == everything(other)
        assert differences(store) == []
        assert list((root / "incoming").iterdir()) == []


MEMORY = """
import os, pathlib, resource, sys
from k8sbench.adapters.store import exchange
from k8sbench.adapters.store.sql_store import open_store
one, other, file = sys.argv[1:]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open_store(one) as store, open(file, "wb") as out:
    exchange.export(store, store.ids(), out)
with open_store(other) as store, open(file, "rb") as read:
    print(exchange.import_runs(store, read, file)[0], file=sys.stderr)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.slow
def test_a_large_log_takes_little_memory(other: SqlStore, root: Path, tmp_path: Path) -> None:
    with (other.folder("seg-1") / "logs" / "worker-0.log").open("wb") as log:
        log.truncate(100 << 20)
    words = [str(other.root), str(root), str(tmp_path / "x.tar.gz")]
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, *words], check=True, capture_output=True, text=True
    )
    assert "seg-1" in done.stderr
    assert float(done.stdout) < 60, "MiB"
