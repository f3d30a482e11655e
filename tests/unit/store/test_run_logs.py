"""Timed log lines of a run survive a kill and stream."""

import contextlib
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.model.replica_logs import LogLine, LogMark
from k8sbench.store import log_archive
from k8sbench.store.log_archive import LogTails, LogWriter
from k8sbench.store.sql_store import SqlStore
from k8sbench.store.stamped_lines import NewLineFilter, StampedLine, digest
from tests.unit.store.examples import NOW, PROCESS, archive, plan


def test_log_lines_have_times_and_are_on_disk_when_written(tmp_path: Path) -> None:
    no_text = b"\xff\xfe \x1b[31m".decode(errors="surrogateescape")
    lines = [
        (1795162530.123456, "K8SBENCH {}"),
        (1795162530.9999999, ""),
        (1795162531.0, "  indented\ttext\r"),
        (1795162532.0, "one\ntwo"),
        (1795162533.0, no_text),
    ]
    writer = LogWriter(tmp_path)
    for at, text in lines:
        writer.write(LogLine(replica="master-0", at=at, text=text))
    assert (tmp_path / "logs" / "master-0.log").read_bytes() == (
        b"2026-11-20T08:15:30.123456Z K8SBENCH {}\n"
        b"2026-11-20T08:15:31.000000Z \n"
        b"2026-11-20T08:15:31.000000Z   indented\ttext\r\n"
        b"2026-11-20T08:15:32.000000Z one\n"
        b"2026-11-20T08:15:32.000000Z two\n"
        b"2026-11-20T08:15:33.000000Z \xff\xfe \x1b[31m\n"
    )


@given(at=st.floats(0, 4e9), text=st.text(st.characters(exclude_characters="\n"), max_size=50))
def test_a_stamped_line_is_parted_again(at: float, text: str) -> None:
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return  # a half character that no log can hold
    read, line = log_archive.split_stamp(log_archive.format_stamp(at) + b" " + raw)
    assert line == raw
    assert read == pytest.approx(at, abs=1e-6)


@pytest.mark.parametrize(
    "line", [b"", b"text", b"2026-11-20T08:15:30Z text", b"2026-99-20T08:15:30.123456Z text"]
)
def test_a_line_without_a_stamp_has_no_time(line: bytes) -> None:
    assert log_archive.split_stamp(line) == (None, line)


def test_a_tail_reads_what_has_come_and_keeps_half_a_line(tmp_path: Path) -> None:
    path = tmp_path / "master-0.log"
    path.write_bytes(b"1970-01-01T00:00:01.000000Z a\nno stamp\n1970-01-01T00:0")
    with contextlib.closing(LogTails()) as tails:

        def read(*, to_end: bool = False) -> list[tuple[float, str, bytes]]:
            return list(tails.lines([path], to_end=to_end))

        assert read() == [(1.0, "master-0", b"a"), (1.0, "master-0", b"no stamp")]
        assert read() == []
        with path.open("ab") as file:
            file.write(b"0:03.000000Z b\nrest")
        assert read() == [(3.0, "master-0", b"b")]
        assert read(to_end=True) == [(3.0, "master-0", b"rest")]
        assert read(to_end=True) == []


def test_times_never_go_back(tmp_path: Path) -> None:
    """Files of several replicas then merge despite clock changes."""
    path = tmp_path / "x.log"
    path.write_bytes(b"1970-01-01T00:00:09.000000Z a\n1970-01-01T00:00:01.000000Z b\n")
    with contextlib.closing(LogTails()) as tails:
        assert [at for at, *_ in tails.lines([path], to_end=False)] == [9.0, 9.0]


def test_no_log_file_stays_open_between_writes(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    for text in ("one", "two"):
        writer.write(LogLine(replica="master-0", at=1.0, text=text))
        assert open_files(tmp_path) == 0
    path = tmp_path / "logs" / "master-0.log"
    assert [line[-3:] for line in path.read_text().splitlines()] == ["one", "two"]


def open_files(under: Path) -> int:
    links = Path("/proc/self/fd").glob("*")
    return sum(os.path.realpath(link).startswith(str(under)) for link in links)


@pytest.fixture
def store(sqlite_store: SqlStore) -> SqlStore:
    """A store with a run."""
    sqlite_store.record(plan(), at=NOW, process=PROCESS)
    return sqlite_store


# -- how far a log is archived --------------------------------------------------------------------


def mark(at: float, lines: int, *texts: str) -> LogMark:
    return LogMark(at, lines, b"".join(map(digest, texts)))


def test_a_torn_last_line_does_not_count_and_goes(store: SqlStore) -> None:
    path = archive(store, "a", at=1.0)
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(b"1970-01-01T00:00:02.000000Z tor")
    assert store.log_marks("seg-1") == {"master-0": mark(1.0, 1, "a")}
    archive(store, "torn", at=2.0)
    assert path.read_bytes() == whole + b"1970-01-01T00:00:02.000000Z torn\n"
    assert store.log_marks("seg-1") == {"master-0": mark(2.0, 1, "a", "torn")}


def test_of_a_large_file_the_end_is_read(tmp_path: Path) -> None:
    """A hole of a gigabyte before it costs nothing."""
    path = tmp_path / "master-0.log"
    with path.open("wb") as file:
        file.seek(1 << 30)
        file.write(b"\n")
        file.writelines(log_archive.format_stamp(float(number)) + b" a\n" for number in range(100))
    assert log_archive.find_log_mark(path) == mark(99.0, 1, *"a" * 64)


@given(
    steps=st.lists(st.sampled_from([-3_600_000_000, -1, 0, 0, 1, 1_000_000]), max_size=100),
    texts=st.sampled_from([".", "ab\udcff", "0123456789"]),
)
def test_the_archive_tells_the_mark_that_the_stream_had(steps: list[int], texts: str) -> None:
    at, resume = round(NOW) * 1_000_000, NewLineFilter(None)
    with tempfile.TemporaryDirectory() as folder:
        writer = LogWriter(Path(folder))
        for number, step in enumerate(steps):
            at += step
            text = texts[number % len(texts)]
            resume.feed([StampedLine(at, text)])
            writer.write(LogLine(replica="master-0", at=at / 1_000_000, text=text))
        found = log_archive.find_log_mark(Path(folder, "logs", "master-0.log"))
    assert found == resume.mark


def test_marks_are_of_the_present_attempt_alone(store: SqlStore) -> None:
    """The next attempt's pods have the same names and new logs."""
    path = archive(store, "of the first", at=2.0)
    with path.open("ab") as file:
        file.write(b"2026-11-20T08:15:00.000001Z ha")  # where no attempt begins
    store.begin_attempt("seg-1")
    assert store.log_marks("seg-1") == {}
    archive(store, "of the second", at=3.0)
    archive(store, "of the second", at=1.0, replica="worker-0")
    marks = {"master-0": 3.0, "worker-0": 1.0}
    expected = {name: mark(at, 1, "of the second") for name, at in marks.items()}
    assert store.log_marks("seg-1") == expected
