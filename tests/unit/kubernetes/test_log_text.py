"""What the kubelet serves becomes the program's lines again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.adapters.kubernetes.logs.text import Line, LogText
from tests.unit.kubernetes.log_files import T0, stamp


def read(*pieces: bytes) -> list[Line]:
    text = LogText()
    return [line for piece in pieces for line in text.feed(piece)] + text.end()


def test_a_line_has_its_time_cut_to_microseconds() -> None:
    assert read(f"{stamp(T0 + 123456, nanos=999)} step 1\n".encode()) == [
        Line(T0 + 123456, "step 1")
    ]


@pytest.mark.parametrize(
    "written",
    [
        "2026-11-20T08:15:30.123456789Z",
        "2026-11-20T09:15:30.123456789+01:00",
        "2026-11-20T02:45:30.123456789-05:30",
        "2026-11-20T08:15:30.123456Z",
    ],
)
def test_nodes_stamp_in_their_own_zone(written: str) -> None:
    assert read(f"{written} x\n".encode()) == [Line(T0 + 123456, "x")]


def test_an_empty_line_is_one() -> None:
    assert read(f"{stamp(T0)} \n".encode()) == [Line(T0, "")]


def test_states_of_a_progress_bar_are_lines_of_one_time() -> None:
    assert read(f"{stamp(T0)} 1%\r2%\r\n".encode()) == [Line(T0, "1%"), Line(T0, "2%")]


def test_bytes_that_are_no_text_are_kept() -> None:
    (line,) = read(f"{stamp(T0)} ".encode() + b"\xff\xfe\n")
    assert line.text.encode(errors="surrogateescape") == b"\xff\xfe"


def test_what_comes_without_a_stamp_has_no_time() -> None:
    assert read(f"the rest\n{stamp(T0)} x\nand more\n".encode()) == [
        Line(None, "the rest"),
        Line(T0, "x"),
        Line(None, "and more"),
    ]


def test_a_text_that_only_looks_like_a_stamp_is_text() -> None:
    assert read(b"2026-99-20T08:15:30Z x\n") == [Line(None, "2026-99-20T08:15:30Z x")]


def test_a_line_without_an_end_is_left_to_the_end() -> None:
    text = LogText()
    assert text.feed(f"{stamp(T0)} torn".encode()) == []
    assert text.end() == [Line(T0, "torn")]
    assert text.error is None


ERRORS = [
    "rpc error: code = NotFound desc = an error occurred when try to find container",
    'failed to watch directory "/var/log/pods/x": no space left on device',
    "failed to create fsnotify watcher: too many open files",
    'failed to try resolving symlinks in path "/var/log/pods/x/0.log": lstat: no such file',
    'failed to open log file "/var/log/pods/x/0.log": open: no such file or directory',
    "failed to get parse function: unsupported log format: \"x\"",
    "unable to retrieve container logs for containerd://0123",
    'container "pytorch" in pod "x" is not available',
    'previous terminated container "pytorch" in pod "x" not found',
    "context cancelled",
]  # fmt: skip


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("error", ERRORS)
def test_the_kubelets_errors_are_no_lines_of_the_program(error: str, end: str) -> None:
    text = LogText()
    lines = text.feed(f"{stamp(T0)} x\n{error}{end}".encode()) + text.end()
    assert lines == [Line(T0, "x")]
    assert text.error == error


def test_an_error_that_nobody_has_seen_yet_is_recognised_by_its_missing_end() -> None:
    text = LogText()
    assert text.feed(f"{stamp(T0)} x\nsomething new went wrong".encode()) == [Line(T0, "x")]
    assert text.end() == []
    assert text.error == "something new went wrong"


def test_a_program_may_print_such_words_itself() -> None:
    text = LogText()
    assert text.feed(f"{stamp(T0)} rpc error: code = 5\n".encode()) == [
        Line(T0, "rpc error: code = 5")
    ]
    assert text.error is None


@given(st.data())
def test_the_pieces_do_not_matter(data: st.DataObject) -> None:
    bodies = data.draw(st.lists(st.sampled_from(["", "a", "b\rc", "\r", "unstamped", "x" * 99])))
    whole = "".join(
        ("" if body == "unstamped" else f"{stamp(T0 + n)} ") + f"{body}\n"
        for n, body in enumerate(bodies)
    ).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    pieces = [whole[i:j] for i, j in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert read(*pieces) == read(whole)
