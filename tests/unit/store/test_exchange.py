"""Runs go from store to store whole or not at all, and nothing else comes with them."""

from __future__ import annotations

import gzip
import io
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tracemalloc
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from k8sbench.adapters.store import exchange, index, sql_store
from k8sbench.adapters.store.sql_store import SqlStore, open_store
from k8sbench.model.errors import FilesElsewhere, InputError, StoreError, UsageError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run, Wish
from k8sbench.ports import RunFilter
from tests.unit.store.conftest import OpenKind
from tests.unit.store.examples import NOW, OWNER, archive, measurement, plan, step
from tests.unit.store.index_checks import differences


@pytest.fixture
def filled(opens: OpenKind) -> SqlStore:
    store = opens("sqlite")
    fill(store)
    return store


def fill(store: SqlStore, *names: str) -> None:
    """Record runs that are over, with files of every kind."""
    for number, run_id in enumerate(names or ("seg-1", "seg-2"), start=1):
        store.record(plan(run_id, repeat=number), at=NOW + number, owner=OWNER)
        archive(store, f"hello from {run_id}", run_id=run_id)
        store.keep(run_id, "manifest.yaml", "kind: PyTorchJob\n")
        store.keep(run_id, "gpu/nvml.jsonl", "{}\n")
        store.move(run_id, step(Phase.SUCCEEDED, NOW + 20))
        store.measured(run_id, measurement())


def exported(store: SqlStore, *run_ids: str) -> bytes:
    out = io.BytesIO()
    exchange.export(store, run_ids or store.ids(), out)
    return out.getvalue()


def imported(store: SqlStore, data: bytes) -> tuple[list[str], list[str]]:
    return exchange.import_runs(store, io.BytesIO(data), "x.tar.gz")


def everything(store: SqlStore) -> list[Run]:
    """Read all runs, as they are anywhere."""
    return [msgspec.structs.replace(run, artifacts=None) for run in store.runs(RunFilter())]


def files(store: SqlStore) -> dict[str, bytes]:
    """Read every file of runs below the store's folder, also of what is half done."""
    found = [path for name in ("runs", "incoming") for path in (store.root / name).rglob("*")]
    return {str(one.relative_to(store.root)): one.read_bytes() for one in found if one.is_file()}


@pytest.mark.parametrize("kinds", [("sqlite", "postgres"), ("postgres", "sqlite")])
def test_runs_go_from_one_kind_of_store_to_another_and_back(
    opens: OpenKind, kinds: tuple[str, str]
) -> None:
    one, other = map(opens, kinds)
    fill(one)
    data = exported(one)
    assert imported(other, data)[0] == ["seg-1", "seg-2"]
    assert everything(other) == everything(one)
    assert differences(other) == []
    assert files(other) == files(one)
    assert imported(other, data) == ([], ["seg-1", "seg-2"])
    assert imported(one, exported(other))[1] == ["seg-1", "seg-2"]
    assert everything(one) == everything(other)


def test_a_run_of_that_name_with_other_content_is_named_and_nothing_is_imported(
    filled: SqlStore, opens: OpenKind
) -> None:
    other = opens("sqlite")
    fill(other, "seg-2")
    before, rows = files(other), everything(other)
    with pytest.raises(UsageError, match=r"another run seg-2 .*Nothing was imported") as caught:
        imported(other, exported(filled))
    assert caught.value.exit_code == 2
    assert (files(other), everything(other)) == (before, rows)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_run_keeps_its_repeat_number_where_another_has_it(
    filled: SqlStore, opens: OpenKind, kind: str
) -> None:
    other = opens(kind)
    fill(other, "mine")
    imported(other, exported(filled))
    other.measured("seg-1", measurement(final_loss=7.0))
    assert {run.run_id: run.plan.repeat for run in other.runs(RunFilter())} == {
        "mine": 1,
        "seg-1": 1,
        "seg-2": 2,
    }
    assert sql_store.reindex(other) == (3, [])
    assert other.next_repeat("nightly", other.run("mine").case_key) == 3
    assert differences(other) == []


def test_what_a_store_owes_its_cluster_stays_there(filled: SqlStore, opens: OpenKind) -> None:
    filled.wish("seg-1", Wish(kind="delete", at=NOW, cause="It is over."))
    other = opens("sqlite")
    imported(other, exported(filled))
    assert other.run("seg-1").wishes == ()
    assert imported(other, exported(filled))[1] == ["seg-1", "seg-2"]


def test_files_that_are_gone_come_back_to_their_row(filled: SqlStore) -> None:
    data, rows = exported(filled), everything(filled)
    shutil.rmtree(filled.root / "runs" / "seg-1")
    assert imported(filled, data)[0] == ["seg-1"]
    assert everything(filled) == rows
    assert differences(filled) == []
    # But not into a folder that is left, nor to a row that knows more.
    (filled.root / "runs" / "seg-1" / "run.json").unlink()
    with pytest.raises(StoreError, match="seg-1 is there, and is no whole run"):
        imported(filled, data)
    shutil.rmtree(filled.root / "runs" / "seg-1")
    filled.measured("seg-1", measurement(final_loss=7.0))
    with pytest.raises(UsageError, match="seg-1"):
        imported(filled, data)


def test_a_run_whose_files_are_elsewhere_is_exported_there(
    opens: OpenKind, tmp_path: pathlib.Path
) -> None:
    store = opens("postgres")
    store.record(plan("seg-1"), at=NOW, owner=OWNER)
    url = store.database.engine.url.render_as_string(hide_password=False)
    with open_store(url, folder=tmp_path / "elsewhere") as other:
        with pytest.raises(FilesElsewhere, match=str(store.root)):
            exported(other)
        other.ensure_folder("seg-1")
        other.move("seg-1", step(Phase.SUCCEEDED))
        assert exported(other)
    with pytest.raises(StoreError, match="does not hold all that is known of run seg-1"):
        exported(store)


def test_files_that_are_none_of_ours_are_left_out(filled: SqlStore, opens: OpenKind) -> None:
    folder = filled.root / "runs" / "seg-1"
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "two words").write_text("")
    other = opens("sqlite")
    imported(other, exported(filled))
    assert not [
        name for name in ("link", "two words") if (other.root / "runs/seg-1" / name).exists()
    ]


def packed(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.GNU_FORMAT) as tar:
        for info, data in members:
            info.size = info.size or len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


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
    ("added", "says"),
    [
        (member("../outside"), "belong"),
        (member("/tmp/outside"), "belong"),
        (member("runs/seg-1/../../../outside"), "belong"),
        (member("runs/../store.id"), "belong"),
        (member("runs/seg-1/logs/../../x"), "belong"),
        (member("runs/seg-1/.hidden"), "belong"),
        (member("runs/seg-1/wishes.json", b"{}"), "belong"),
        (member("runs/seg-1/a\nb"), "belong"),
        (member("runs/seg-1/deeper/x"), "belong"),
        (member("runs/never-stated/run.json"), "is damaged"),
        (member("runs/seg-1/run.json"), "belong"),
        (member("runs/seg-1/x", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "belong"),
        (member("runs/seg-1/x", b"", type=tarfile.LNKTYPE, linkname="runs/seg-1/y"), "belong"),
        (member("runs/seg-1/x", b"", type=tarfile.CHRTYPE), "belong"),
        (member("runs/seg-1/x", b"", type=tarfile.FIFOTYPE), "belong"),
        (member("runs/seg-1/logs/x", b"", type=tarfile.GNUTYPE_SPARSE), "belong"),
        (member(f"runs/seg-1/{'x' * 120}"), "belong"),
        (member("runs/seg-1/big.json", b"", size=exchange.MOST_BYTES + 1), "belong"),
        (member("k8sbench-export.json", b"{}"), "belong"),
    ],
    ids=lambda value: repr(value[0].name)[:40] if isinstance(value, tuple) else None,
)
def test_what_does_not_belong_into_an_export_is_refused(
    filled: SqlStore, opens: OpenKind, added: tuple[tarfile.TarInfo, bytes], says: str
) -> None:
    """A file of anybody's writes nothing outside, and nothing of it stays."""
    good = members(exported(filled))
    at = next(n for n, (info, _) in enumerate(good) if info.name == "runs/seg-2/events.jsonl")
    if added[0].size:  # its content is not there: the header alone is to be refused
        bad = packed_prefix(good[:at]) + gzip.compress(added[0].tobuf())
    else:
        bad = packed(*good[:at], added, *good[at:])
    other = opens("sqlite")
    with pytest.raises(InputError, match=says):
        imported(other, bad)
    assert files(other) == {}
    assert everything(other) == []
    assert {path.name for path in other.root.parent.iterdir()} <= {"store-0", "store-1"}


def packed_prefix(entries: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """Pack files without an end mark, so that more can be appended."""
    blocks = b""
    for info, data in entries:
        blocks += info.tobuf() + data + bytes(-len(data) % 512)
    return gzip.compress(blocks)


def test_a_file_that_is_cut_off_anywhere_is_refused_whole(
    filled: SqlStore, opens: OpenKind
) -> None:
    data, other = exported(filled), opens("sqlite")
    lengths = {0, 1, 20, *range(0, len(data), 97), len(data) - 1}
    no_exports = (b"garbage " * 99, gzip.compress(b"\0" * (1 << 22)))
    for wrong in (*(data[:length] for length in lengths), *no_exports):
        with pytest.raises(InputError, match="cut off"):
            imported(other, wrong)
    without_its_record = packed(*members(data)[:-1])
    with pytest.raises(InputError, match="seg-2 is damaged"):
        imported(other, without_its_record)
    assert files(other) == {}
    assert imported(other, data)[0] == ["seg-1", "seg-2"]


@pytest.mark.parametrize("at", [30, -30, -5])
def test_a_bit_that_was_changed_is_noticed(filled: SqlStore, opens: OpenKind, at: int) -> None:
    changed, other = bytearray(exported(filled)), opens("sqlite")
    changed[at] ^= 1
    with pytest.raises(InputError, match="cut off or damaged"):
        imported(other, bytes(changed))
    assert files(other) == {}


def test_an_export_that_tar_unpacks_and_packs_again_is_read(
    filled: SqlStore, opens: OpenKind, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "by-hand"
    folder.mkdir()
    unpack = ["tar", "-xzf", "-", "-C", str(folder)]
    subprocess.run(unpack, input=exported(filled), check=True)
    tar = ["tar", "-czf", "-", "--format=gnu", "-C", str(folder), "runs"]
    again = subprocess.run(tar, check=True, capture_output=True).stdout
    assert imported(opens("sqlite"), again)[0] == ["seg-1", "seg-2"]


def test_headers_without_end_take_no_memory(filled: SqlStore, opens: OpenKind) -> None:
    folders = [member("runs/seg-1", b"", type=tarfile.DIRTYPE)] * 10_000
    data, other = packed(*members(exported(filled)), *folders), opens("sqlite")
    tracemalloc.start()
    imported(other, data)
    assert tracemalloc.get_traced_memory()[1] < 3 << 20
    tracemalloc.stop()


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


@pytest.mark.parametrize("wrong", [KeyboardInterrupt(), OSError(5, "Input/output error")])
def test_an_import_that_is_interrupted_leaves_nothing(
    filled: SqlStore, opens: OpenKind, wrong: BaseException
) -> None:
    data, other = exported(filled), opens("sqlite")
    with pytest.raises((KeyboardInterrupt, StoreError)):
        exchange.import_runs(other, Breaks(data[:-40], wrong), "x")
    assert (files(other), everything(other)) == ({}, [])
    assert imported(other, data)[0] == ["seg-1", "seg-2"]


def test_a_row_that_is_refused_takes_back_all_of_them(
    filled: SqlStore, opens: OpenKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, other = exported(filled), opens("sqlite")
    real = index.insert

    def insert(db: sa.Connection, row: dict[str, Any]) -> None:
        if row["run_id"] == "seg-2":
            raise OSError(28, "No space left on device")
        real(db, row)

    with monkeypatch.context() as patched:
        patched.setattr(index, "insert", insert)
        with pytest.raises(StoreError, match="disk is full"):
            imported(other, data)
    assert (files(other), everything(other)) == ({}, [])


KILLED = """
import os, pathlib, signal, sys
from k8sbench.adapters.store import exchange
from k8sbench.adapters.store.sql_store import open_store
left = int(sys.argv[3])
def die(event, arguments):
    global left
    if event == "os.rename" and "incoming" in str(arguments[0]):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(die)
with (
    open_store(sys.argv[1], folder=pathlib.Path(sys.argv[4])) as store,
    open(sys.argv[2], "rb") as file,
):
    exchange.import_runs(store, file, "x")
"""


@pytest.mark.parametrize(("point", "left"), [(1, 2), (2, 1)])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_an_import_that_is_killed_is_taken_up_again(
    filled: SqlStore, opens: OpenKind, tmp_path: pathlib.Path, kind: str, point: int, left: int
) -> None:
    data, other = exported(filled), opens(kind)
    (tmp_path / "x.tar.gz").write_bytes(data)
    where = str(other.root)
    if kind == "postgres":
        where = other.database.engine.url.render_as_string(hide_password=False)
    words = [where, str(tmp_path / "x.tar.gz"), str(point), str(other.root)]
    done = subprocess.run([sys.executable, "-c", KILLED, *words], check=False)
    assert done.returncode == -9
    assert len(imported(other, data)[0]) == left
    assert everything(other) == everything(filled)
    assert differences(other) == []
    assert list((other.root / "incoming").iterdir()) == []


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
def test_a_large_log_takes_little_memory(filled: SqlStore, tmp_path: pathlib.Path) -> None:
    with (filled.root / "runs" / "seg-1" / "logs" / "worker-0.log").open("wb") as log:
        log.truncate(100 << 20)
    words = [str(filled.root), str(tmp_path / "other"), str(tmp_path / "x.tar.gz")]
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, *words], check=True, capture_output=True, text=True
    )
    assert "seg-1" in done.stderr
    assert float(done.stdout) < 60, "MiB"
