"""How far a log is archived, so that another process goes on with it where this one ended."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile

from hypothesis import given
from hypothesis import strategies as st

from k8sbench.adapters.kubernetes.logs.resume import Resume
from k8sbench.adapters.kubernetes.logs.text import Line
from k8sbench.adapters.lines import digest
from k8sbench.adapters.store import run_logs
from k8sbench.adapters.store.run_logs import LogWriter
from k8sbench.adapters.store.sql_store import SqlStore
from k8sbench.ports import LogLine, LogMark
from tests.unit.store.examples import NOW, OWNER, plan


def archive(store: SqlStore, replica: str, *lines: tuple[float, str]) -> pathlib.Path:
    writer = store.archive("seg-1")
    for at, text in lines:
        writer.write(LogLine(replica=replica, at=at, text=text))
    writer.close()
    return store.folder("seg-1") / "logs" / f"{replica}.log"


def mark(at: float, lines: int, *texts: str) -> LogMark:
    return LogMark(at, lines, b"".join(map(digest, texts)))


def recorded(store: SqlStore) -> SqlStore:
    store.record(plan(), at=NOW, owner=OWNER)
    return store


def test_a_torn_last_line_does_not_count_and_goes(sqlite_store: SqlStore) -> None:
    store = recorded(sqlite_store)
    path = archive(store, "master-0", (1.0, "a"))
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(b"1970-01-01T00:00:02.000000Z tor")
    assert store.log_marks("seg-1") == {"master-0": mark(1.0, 1, "a")}
    archive(store, "master-0", (2.0, "torn"))
    assert path.read_bytes() == whole + b"1970-01-01T00:00:02.000000Z torn\n"
    assert store.log_marks("seg-1") == {"master-0": mark(2.0, 1, "a", "torn")}


def test_of_a_large_file_the_end_is_read(tmp_path: pathlib.Path) -> None:
    """What is not there to be read, a hole of a gigabyte, does no harm and takes no time."""
    path = tmp_path / "master-0.log"
    with path.open("wb") as file:
        file.seek(1 << 30)
        file.write(b"\n")
        file.writelines(run_logs.stamp(float(number)) + b" a\n" for number in range(100))
    assert run_logs.log_mark(path) == mark(99.0, 1, *"a" * 64)


@given(
    steps=st.lists(st.sampled_from([-3_600_000_000, -1, 0, 0, 1, 1_000_000]), max_size=100),
    texts=st.sampled_from([".", "ab\udcff", "0123456789"]),
)
def test_the_archive_tells_the_mark_that_the_stream_had(steps: list[int], texts: str) -> None:
    at, resume = round(NOW) * 1_000_000, Resume(None)
    with tempfile.TemporaryDirectory() as folder:
        writer = LogWriter(pathlib.Path(folder))
        for number, step in enumerate(steps):
            at += step
            text = texts[number % len(texts)]
            resume.feed([Line(at, text)])
            writer.write(LogLine(replica="master-0", at=at / 1_000_000, text=text))
        writer.close()
        found = run_logs.log_mark(pathlib.Path(folder, "logs", "master-0.log"))
    assert found == resume.mark


def test_marks_are_of_the_present_attempt_alone(sqlite_store: SqlStore) -> None:
    """The pods of the next attempt have the same names, and their logs begin anew."""
    store = recorded(sqlite_store)
    with contextlib.closing(store.archive("seg-1")) as archive:
        archive.write(LogLine(replica="master-0", at=2.0, text="of the first"))
        store.begin_attempt("seg-1")
        assert store.log_marks("seg-1") == {}
        archive.write(LogLine(replica="master-0", at=2.0, text="of the second"))
        archive.write(LogLine(replica="worker-0", at=1.0, text="of the second"))
    text = "of the second"
    marks = {"master-0": mark(2.0, 1, text), "worker-0": mark(1.0, 1, text)}
    assert store.log_marks("seg-1") == marks


def test_half_a_line_is_not_where_an_attempt_begins(sqlite_store: SqlStore) -> None:
    store = recorded(sqlite_store)
    with contextlib.closing(store.archive("seg-1")) as archive:
        archive.write(LogLine(replica="master-0", at=2.0, text="whole"))
    (path,) = store.log_files("seg-1")
    with path.open("ab") as file:
        file.write(b"2026-11-20T08:15:00.000001Z ha")
    store.begin_attempt("seg-1")
    with contextlib.closing(store.archive("seg-1")) as archive:
        archive.write(LogLine(replica="master-0", at=3.0, text="of the second"))
    assert store.log_marks("seg-1") == {"master-0": mark(3.0, 1, "of the second")}
