"""Bytes become whole lines, whatever the pieces in which they arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.store import stamped_lines
from k8sbench.store.stamped_lines import LineSplitter


def split(*pieces: bytes) -> list[str]:
    splitter = LineSplitter()
    found = [line for piece in pieces for line in splitter.feed(piece)]
    return found + splitter.end()


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"one\ntwo\r\n\nfour\n"], ["one", "two", "", "four"]),
        ([b"one\ntw", b"o"], ["one", "two"]),
        # States of a progress bar are lines.
        ([b"\r 1%\r 2%\r", b" 3%\ndone\n"], [" 1%", " 2%", " 3%", "done"]),
        ([b"one\r", b"\ntwo\r", b"\r\n"], ["one", "two"]),
        # A line of nothing but overwriting is empty.
        ([b"\r\r\n"], [""]),
        ([b"\r\n\r\n"], ["", ""]),
        (["4 × 32".encode()[:3], "4 × 32".encode()[3:]], ["4 × 32"]),
        ([b"a\xffb\n"], ["a\N{REPLACEMENT CHARACTER}b"]),
    ],
)
def test_bytes_become_lines(pieces: list[bytes], expected: list[str]) -> None:
    assert split(*pieces) == expected


def test_an_endless_line_is_cut_and_says_so() -> None:
    splitter = LineSplitter()
    for _ in range(100):
        assert splitter.feed(b"x" * stamped_lines.LIMIT) == []
    (line,) = splitter.feed(b"\n")
    assert (
        line
        == "x" * stamped_lines.LIMIT
        + f" [k8sbench: line cut, {99 * stamped_lines.LIMIT} more bytes]"
    )
    assert splitter.feed(b"next\n") == ["next"]


@given(st.lists(st.binary(max_size=8) | st.sampled_from([b"\r", b"\n", b"\r\n"])))
def test_the_pieces_do_not_matter(pieces: list[bytes]) -> None:
    assert split(*pieces) == split(b"".join(pieces))


@given(st.binary())
def test_without_overwriting_nothing_is_lost_or_added(data: bytes) -> None:
    data = data.replace(b"\r", b"")
    whole = data.decode(errors="replace").split("\n")
    assert split(data) == (whole[:-1] if not whole[-1] else whole)
