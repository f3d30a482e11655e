"""A run's folder: whole files or none, lines that survive a kill, logs with their times."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.adapters.store import artifacts
from k8sbench.adapters.store.artifacts import LogTail, LogWriter, RunFolder
from k8sbench.model.errors import StoreError
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.ports import LogLine
from tests.unit.store.examples import NOW, OWNER, measurement, plan, step


def new_run(at: float = NOW) -> Run:
    return Run(
        plan=plan(),
        created_at=at,
        owner=OWNER,
        history=(artifacts.created(at),),
        artifacts=None,
    )


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> RunFolder:
    made = RunFolder(tmp_path / "runs" / "seg-1")
    made.create(new_run())
    return made


def test_a_folder_tells_its_whole_run(folder: RunFolder) -> None:
    folder.append(step(Phase.RUNNING))
    folder.keep_measurement(measurement())
    run, problems = folder.run()
    assert problems == []
    assert run.plan == plan()
    assert run.owner == OWNER
    assert run.created_at == NOW
    assert [one.phase for one in run.history] == ["Created", "Running"]
    assert run.measurement == measurement()
    assert run.artifacts == str(folder.path)


@pytest.mark.parametrize(
    "torn",
    [
        b'{"phase":"Succ',
        b"{",
        b'{"phase":"Succeeded","at":1.0,"cause":"x"',
        b"\0\0\0\0",
        b"\xff\xfe",
    ],
)
def test_a_torn_last_event_is_passed_over(folder: RunFolder, torn: bytes) -> None:
    """A kill, or a machine that went down, leaves half a line or zeros."""
    folder.append(step(Phase.RUNNING))
    with (folder.path / "events.jsonl").open("ab") as file:
        file.write(torn)
    history, problems = folder.events()
    assert [one.phase for one in history] == ["Created", "Running"]
    assert problems == []
    folder.append(step(Phase.FAILED, NOW + 5))
    history, _ = folder.events()
    assert [one.phase for one in history] == ["Created", "Running", "Failed"]


def test_a_damaged_event_in_the_middle_is_reported_and_passed_over(folder: RunFolder) -> None:
    with (folder.path / "events.jsonl").open("ab") as file:
        file.write(b'{"phase": "Dancing", "at": 1, "cause": ""}\n')
    folder.append(step(Phase.RUNNING))
    history, problems = folder.events()
    assert [one.phase for one in history] == ["Created", "Running"]
    assert len(problems) == 1
    assert "events.jsonl:2" in problems[0]


def test_nothing_follows_a_final_event(folder: RunFolder) -> None:
    for phase in (Phase.SUCCEEDED, Phase.FAILED):
        folder.append(step(phase))
    assert [one.phase for one in folder.events()[0]] == ["Created", "Succeeded"]


def test_a_folder_without_events_was_created_at_least(folder: RunFolder) -> None:
    (folder.path / "events.jsonl").unlink()
    run, problems = folder.run()
    assert [one.phase for one in run.history] == ["Created"]
    assert problems == []


def test_a_damaged_measurement_is_reported_and_the_run_stays(folder: RunFolder) -> None:
    (folder.path / "measurement.json").write_text('{"schema": 1}')
    run, problems = folder.run()
    assert run.measurement is None
    assert len(problems) == 1
    assert "measurement.json" in problems[0]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"plan": 1}', "\0", "[" * 100_000, '{"schema": 2, "plan": {}}']
)
def test_a_run_file_that_is_none_is_an_error_that_names_it(folder: RunFolder, text: str) -> None:
    (folder.path / "run.json").write_text(text)
    with pytest.raises(StoreError, match=r"run\.json"):
        folder.run()


def test_a_folder_under_another_name_is_an_error(folder: RunFolder) -> None:
    folder.path.rename(folder.path.with_name("seg-2"))
    with pytest.raises(StoreError, match="belongs to run seg-1"):
        RunFolder(folder.path.with_name("seg-2")).run()


def test_what_was_killed_before_it_was_recorded_is_taken_over(folder: RunFolder) -> None:
    (folder.path / ".run.json.1234.tmp").write_text("{")
    folder.create(new_run(NOW + 9))
    run, problems = folder.run()
    assert problems == []
    assert run.created_at == run.history[0].at == NOW + 9
    assert len(run.history) == 1


@pytest.mark.parametrize("trace", ["manifest.yaml", "logs", "event"])
def test_what_ever_started_is_not_taken_over(folder: RunFolder, trace: str) -> None:
    if trace == "event":
        folder.append(step(Phase.STARTING))
    else:
        (folder.path / trace).mkdir()
    with pytest.raises(StoreError, match="does not know"):
        folder.create(new_run(NOW + 9))
    assert folder.record().created_at == NOW


def test_a_file_that_cannot_be_written_leaves_the_old_one(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("manifest.yaml", b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="disk is full"):
        folder.write("manifest.yaml", b"new")
    assert (folder.path / "manifest.yaml").read_bytes() == b"old"
    assert not list(folder.path.glob(".*"))


def test_log_lines_carry_their_time(folder: RunFolder) -> None:
    writer = LogWriter(folder.path)
    writer.write(LogLine(replica="master-0", at=1795162530.123456, text="K8SBENCH {}"))
    writer.write(LogLine(replica="master-0", at=1795162530.9999999, text=""))
    writer.write(LogLine(replica="master-0", at=1795162531.0, text="  indented\ttext\r"))
    writer.close()
    assert (folder.path / "logs" / "master-0.log").read_bytes() == (
        b"2026-11-20T08:15:30.123456Z K8SBENCH {}\n"
        b"2026-11-20T08:15:31.000000Z \n"
        b"2026-11-20T08:15:31.000000Z   indented\ttext\r\n"
    )


def test_a_text_of_several_lines_is_several_stamped_lines(folder: RunFolder) -> None:
    writer = LogWriter(folder.path)
    writer.write(LogLine(replica="master-0", at=NOW, text="one\ntwo"))
    writer.close()
    lines = (folder.path / "logs" / "master-0.log").read_bytes().splitlines()
    assert [artifacts.split_stamp(line) for line in lines] == [(NOW, b"one"), (NOW, b"two")]


def test_bytes_that_are_no_text_are_kept(folder: RunFolder) -> None:
    writer = LogWriter(folder.path)
    writer.write(
        LogLine(
            replica="master-0", at=NOW, text=b"\xff\xfe \x1b[31m".decode(errors="surrogateescape")
        )
    )
    writer.close()
    assert (folder.path / "logs" / "master-0.log").read_bytes().endswith(b"Z \xff\xfe \x1b[31m\n")


def test_a_line_is_on_disk_when_it_is_written(folder: RunFolder) -> None:
    writer = LogWriter(folder.path)
    writer.write(LogLine(replica="master-0", at=NOW, text="hello"))
    assert (folder.path / "logs" / "master-0.log").read_bytes().endswith(b"hello\n")
    writer.close()


def test_a_torn_last_log_line_is_cut_off_by_the_next_writer(folder: RunFolder) -> None:
    """It is in no mark, so that whoever goes on with the log gets it once more."""
    (folder.path / "logs").mkdir()
    path = folder.path / "logs" / "master-0.log"
    path.write_bytes(b"2026-11-20T08:15:30.123456Z whole\n2026-11-20T08:15:3")
    writer = LogWriter(folder.path)
    writer.write(LogLine(replica="master-0", at=NOW, text="next"))
    writer.close()
    with contextlib.closing(LogTail(path)) as tail:
        lines = [line for _, line in tail.lines()]
    assert lines == [b"whole", b"next"]


LIMITED = """
import pathlib, resource, sys
from k8sbench.adapters.store.artifacts import LogWriter
from k8sbench.model.errors import StoreError
from k8sbench.model.run import Run
from k8sbench.ports import LogLine
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
writer = LogWriter(pathlib.Path(sys.argv[1]))
errors = []
for number in range(100):
    try:
        writer.write(LogLine(replica="master-0", at=1.0, text="x" * 50))
    except StoreError as wrong:
        errors.append(wrong.message)
writer.close()
print(len(errors), errors[0])
"""


def test_a_full_disk_is_one_error(folder: RunFolder) -> None:
    """The limit on a file's size stands for the disk: the same short write, the same error."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(folder.path)],
        check=True,
        capture_output=True,
        text=True,
    )
    count, message = done.stdout.split(maxsplit=1)
    assert count == "1"
    assert "disk is full" in message
    path = folder.path / "logs" / "master-0.log"
    assert path.stat().st_size == 1000


@given(at=st.floats(0, 4e9), text=st.text(st.characters(exclude_characters="\n"), max_size=50))
def test_a_stamped_line_is_parted_again(at: float, text: str) -> None:
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return  # a half character that no log can hold
    read, line = artifacts.split_stamp(artifacts.stamp(at) + b" " + raw)
    assert line == raw
    assert read == pytest.approx(at, abs=1e-6)


@pytest.mark.parametrize(
    "line", [b"", b"text", b"2026-11-20T08:15:30Z text", b"2026-99-20T08:15:30.123456Z text"]
)
def test_a_line_without_a_stamp_has_no_time(line: bytes) -> None:
    assert artifacts.split_stamp(line) == (None, line)


def test_a_tail_reads_what_has_come_and_keeps_half_a_line(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "master-0.log"
    tail = LogTail(path)
    path.write_bytes(b"1970-01-01T00:00:01.000000Z a\nno stamp\n1970-01-01T00:0")
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


def test_few_log_files_are_open_at_a_time_and_no_line_is_lost(tmp_path: pathlib.Path) -> None:
    files = artifacts.LogFiles(limit=2)
    writers = [LogWriter(tmp_path / f"run-{number}", files=files) for number in range(3)]
    for text in ("one", "two"):
        for writer in writers:
            writer.write(LogLine(replica="master-0", at=1.0, text=text))
            writer.write(LogLine(replica="worker-0", at=1.0, text=text))
            assert open_files(tmp_path) <= 2
    for writer in writers:
        writer.close()
    assert open_files(tmp_path) == 0
    for path in tmp_path.glob("*/logs/*.log"):
        assert [line[-3:] for line in path.read_text().splitlines()] == ["one", "two"]
    assert len(list(tmp_path.glob("*/logs/*.log"))) == 6


def open_files(under: pathlib.Path) -> int:
    links = pathlib.Path("/proc/self/fd").glob("*")
    return sum(os.path.realpath(link).startswith(str(under)) for link in links)
