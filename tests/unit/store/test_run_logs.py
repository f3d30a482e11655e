"""The logs of a run: lines with their times that survive a kill, and are read as they come."""

from __future__ import annotations

import contextlib
import os
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.adapters.store import run_logs
from k8sbench.adapters.store.run_logs import LogTail, LogWriter
from k8sbench.adapters.store.sql_store import SqlStore
from k8sbench.model.sample import LogGap
from k8sbench.ports import LogLine
from tests.unit.store.examples import NOW, OWNER, plan


def test_log_lines_carry_their_time_and_are_on_disk_when_they_are_written(
    tmp_path: pathlib.Path,
) -> None:
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
    read, line = run_logs.split_stamp(run_logs.stamp(at) + b" " + raw)
    assert line == raw
    assert read == pytest.approx(at, abs=1e-6)


@pytest.mark.parametrize(
    "line", [b"", b"text", b"2026-11-20T08:15:30Z text", b"2026-99-20T08:15:30.123456Z text"]
)
def test_a_line_without_a_stamp_has_no_time(line: bytes) -> None:
    assert run_logs.split_stamp(line) == (None, line)


def test_a_tail_reads_what_has_come_and_keeps_half_a_line(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "master-0.log"
    path.write_bytes(b"1970-01-01T00:00:01.000000Z a\nno stamp\n1970-01-01T00:0")
    tail = LogTail(path)
    assert list(tail.lines()) == [(1.0, b"a"), (1.0, b"no stamp")]
    assert list(tail.lines()) == []
    with path.open("ab") as file:
        file.write(b"0:03.000000Z b\nrest")
    assert list(tail.lines()) == [(3.0, b"b")]
    assert list(tail.lines(to_end=True)) == [(3.0, b"rest")]
    assert list(tail.lines(to_end=True)) == []
    tail.close()


def test_times_never_go_back(tmp_path: pathlib.Path) -> None:
    """So that files of several replicas can be merged while a clock is being set."""
    path = tmp_path / "x.log"
    path.write_bytes(b"1970-01-01T00:00:09.000000Z a\n1970-01-01T00:00:01.000000Z b\n")
    with contextlib.closing(LogTail(path)) as tail:
        assert [at for at, _ in tail.lines()] == [9.0, 9.0]


def test_no_log_file_stays_open_between_writes(tmp_path: pathlib.Path) -> None:
    writer = LogWriter(tmp_path)
    for text in ("one", "two"):
        writer.write(LogLine(replica="master-0", at=1.0, text=text))
        assert open_files(tmp_path) == 0
    path = tmp_path / "logs" / "master-0.log"
    assert [line[-3:] for line in path.read_text().splitlines()] == ["one", "two"]


def open_files(under: pathlib.Path) -> int:
    links = pathlib.Path("/proc/self/fd").glob("*")
    return sum(os.path.realpath(link).startswith(str(under)) for link in links)


LINES = 10_000
"""Of 40 bytes each; a log may have 20,000 bytes here, and keeps 10,000 and 5,000 of them."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("MOST", 20_000), ("FIRST", 10_000), ("LAST", 5_000)):
        monkeypatch.setattr(run_logs, f"{name}_BYTES", size)


def grown(store: SqlStore, first: int, last: int) -> list[LogGap]:
    """Archive lines one by one; return the gaps that are recorded before each next one."""
    gaps = []
    with contextlib.closing(store.archive("seg-1")) as archive:
        for number in range(first, last):
            gap = archive.write(LogLine(replica="master-0", at=number, text=f"step {number:6}"))
            gaps += [gap] if gap is not None else []
            (path,) = store.log_files("seg-1")
            assert gap is not None or path.stat().st_size <= 20_000
    return gaps


def kept(store: SqlStore) -> list[int]:
    (path,) = store.log_files("seg-1")
    return [int(line.split()[-1]) for line in path.read_text().splitlines()]


@pytest.mark.usefixtures("small")
def test_of_a_log_that_grows_without_end_the_middle_is_left_out(sqlite_store: SqlStore) -> None:
    sqlite_store.record(plan(), at=NOW, owner=OWNER)
    gaps = grown(sqlite_store, 0, LINES)
    numbers = kept(sqlite_store)
    (jump,) = (i for i in range(1, len(numbers)) if numbers[i] != numbers[i - 1] + 1)
    assert (numbers[0], numbers[-1]) == (0, LINES - 1)
    assert jump * 40 == pytest.approx(10_000, abs=40)
    assert len(numbers) - jump >= 5_000 // 40
    assert {gap.after for gap in gaps} == {numbers[jump - 1]}
    assert gaps[-1].before == numbers[jump]
    assert "middle is left out" in gaps[-1].why


@pytest.mark.usefixtures("small")
def test_what_is_left_out_is_on_record_before_it_goes(sqlite_store: SqlStore) -> None:
    """A process that is killed in between leaves a whole log, which the next one shortens."""
    sqlite_store.record(plan(), at=NOW, owner=OWNER)
    archive = sqlite_store.archive("seg-1")
    lines = [
        LogLine(replica="master-0", at=number, text=f"step {number:6}") for number in range(600)
    ]
    assert archive.write(*lines) is not None
    assert kept(sqlite_store) == list(range(600))
    (gap,) = grown(sqlite_store, 600, 601)
    assert kept(sqlite_store)[249:251] == [gap.after, gap.before] == [249, 477]


@pytest.mark.parametrize(("begin", "end"), [(100, 700), (300, 700), (490, 520), (690, 700)])
@pytest.mark.usefixtures("small")
def test_the_marks_of_an_attempt_stay_its_own_when_lines_before_it_are_left_out(
    sqlite_store: SqlStore, begin: int, end: int
) -> None:
    sqlite_store.record(plan(), at=NOW, owner=OWNER)
    grown(sqlite_store, 0, begin)
    sqlite_store.begin_attempt("seg-1")
    assert sqlite_store.log_marks("seg-1") == {}
    grown(sqlite_store, begin, end)
    mark = sqlite_store.log_marks("seg-1")["master-0"]
    assert (mark.at, mark.lines, len(mark.texts)) == (end - 1, 1, 4 * min(end - begin, 64))
