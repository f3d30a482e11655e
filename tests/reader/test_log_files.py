"""Finding, opening and reading log files, and refusing what is none."""

import bz2
import gzip
import io
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.model.errors import InputError
from k8sbench.reader.lines import OrderedLines
from k8sbench.reader.log_files import LONGEST_LINE, LogFile, find

PRINTED = st.characters(exclude_categories=("Cc", "Cs"))
"""Printable characters."""


ENCODINGS = ("utf-8", "utf-8-sig", "utf-16")


def read(path: Path) -> list[tuple[int, str]]:
    return pieces(LogFile(str(path)))


def pieces(blocks: Iterable[str]) -> list[tuple[int, str]]:
    """Every piece of a line, with the line's number."""
    every = frozenset({""})
    lines = OrderedLines(blocks).holding(every)
    return [(number, piece) for number, line in lines for piece in line.split("\r") if piece]


def written(folder: Path, data: bytes, name: str = "train.log") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


# Finding.


def test_a_folder_is_all_logs_below_it_in_natural_order(tmp_path: Path) -> None:
    inner = ["b/workerlog.9", "b/workerlog.10", "b/deep/x.txt"]
    every = ["a.log", "noending", "z.log.gz", *inner]
    for name in reversed(every):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        written(tmp_path, b"x", name)
    assert [str(Path(each).relative_to(tmp_path)) for each in find([str(tmp_path)])] == every


@pytest.mark.parametrize(
    "name", [".hidden.log", "plan.json", "README.md", "model.pth", "figures.csv", "x.json.gz"]
)
def test_what_is_no_log_does_not_count_in_a_folder(tmp_path: Path, name: str) -> None:
    written(tmp_path, b"x", name)
    written(tmp_path, b"x", "a.log")
    assert [Path(each).name for each in find([str(tmp_path)])] == ["a.log"]


@pytest.mark.parametrize("path", ["gone.log", "gone/deeper.log"])
def test_a_path_that_leads_nowhere_is_an_error_that_names_it(tmp_path: Path, path: str) -> None:
    with pytest.raises(InputError) as caught:
        find([str(tmp_path / path)])
    assert caught.value.action


# Naming.


# Refusing.


@pytest.mark.parametrize(
    "data",
    [
        bz2.compress(b"Iter [1/2]" * 99),
        b"\x80\x04\x95rest",
        bytes(range(256)) * 8,
        b"\x00" * 100,
        b"Iter\x00\x00\x00\x00" * 10,
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InputError, match="is not text") as caught:
        read(written(tmp_path, data))
    assert "train.log" in caught.value.message


@pytest.mark.parametrize("lost", [1, 30_000])
def test_a_gzip_file_that_ends_in_the_middle_is_an_error(tmp_path: Path, lost: int) -> None:
    packed = gzip.compress(os.urandom(50_000).hex().encode())
    with pytest.raises(InputError, match="damaged gzip data"):
        read(written(tmp_path, packed[:-lost], "train.log.gz"))


def test_a_device_is_no_log() -> None:
    with pytest.raises(InputError, match="neither file nor pipe"):
        list(LogFile("/dev/zero"))


# Reading.


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\n\nb\r\nc", [(1, "a"), (3, "b"), (4, "c")]),
        (b" 1%\r 2%\rloss: 1.0\nnext\n", [(1, " 1%"), (1, " 2%"), (1, "loss: 1.0"), (2, "next")]),
        (
            gzip.compress(b"one\n", mtime=0) + gzip.compress(b"two\n", mtime=0),
            [(1, "one"), (2, "two")],
        ),
        *(("größe 3×4\nx".encode(name), [(1, "größe 3×4"), (2, "x")]) for name in ENCODINGS),
    ],
)
def test_lines_have_numbers(tmp_path: Path, data: bytes, lines: list[tuple[int, str]]) -> None:
    assert read(written(tmp_path, data)) == lines


def test_endless_lines_are_cut(tmp_path: Path) -> None:
    path = written(tmp_path, b"x" * (5 * LONGEST_LINE) + b"\nnext\n")
    log = LogFile(str(path))
    found = pieces(log)
    assert [(number, len(text)) for number, text in found] == [(1, LONGEST_LINE), (2, 4)]


@given(st.lists(st.text(PRINTED, min_size=1), min_size=1), st.integers(1, 40))
def test_however_the_bytes_arrive_the_lines_are_the_same(lines: list[str], size: int) -> None:
    data = "\n".join(lines).encode()

    class Slow(io.BytesIO):
        """A pipe that gives a few bytes at a time."""

        def readinto(self, buffer: Any) -> int:
            return super().readinto(memoryview(buffer)[:size])

    raw: Any = io.BufferedReader(Slow(data))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=raw))
        found = pieces(LogFile("-"))
    assert found == list(enumerate(lines, 1))


def test_standard_input_is_read_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BufferedReader(io.BytesIO(gzip.compress(b"loss: 1.0\n")))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=raw))
    log = LogFile("-")
    assert pieces(log) == [(1, "loss: 1.0")]
    assert log.name == "<stdin>"
