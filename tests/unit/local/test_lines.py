"""Bytes become whole lines, whatever the pieces in which they arrive."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k8sbench.adapters import lines
from k8sbench.adapters.lines import Lines


def split(*pieces: bytes) -> list[str]:
    splitter = Lines()
    found = [line for piece in pieces for line in splitter.feed(piece)]
    return found + splitter.end()


def test_lines_come_without_their_ends() -> None:
    assert split(b"one\ntwo\r\n\nfour\n") == ["one", "two", "", "four"]


def test_a_last_line_without_an_end_counts() -> None:
    assert split(b"one\ntw", b"o") == ["one", "two"]


def test_a_line_comes_as_soon_as_it_is_whole() -> None:
    splitter = Lines()
    assert splitter.feed(b"on") == []
    assert splitter.feed(b"e\ntwo") == ["one"]


def test_a_progress_bars_states_are_lines() -> None:
    assert split(b"\r 1%\r 2%\r", b" 3%\ndone\n") == [" 1%", " 2%", " 3%", "done"]


def test_a_line_end_may_be_torn_apart() -> None:
    assert split(b"one\r", b"\ntwo\r", b"\r\n") == ["one", "two"]


def test_a_line_of_nothing_but_overwriting_is_empty() -> None:
    assert split(b"\r\r\n") == [""]
    assert split(b"\r\n\r\n") == ["", ""]


def test_a_progress_bars_state_does_not_wait_for_the_next() -> None:
    assert Lines().feed(b" 1%\r") == [" 1%"]


def test_a_letter_may_be_torn_apart() -> None:
    assert split("4 × 32".encode()[:3], "4 × 32".encode()[3:]) == ["4 × 32"]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert split(b"a\xffb\n") == ["a\N{REPLACEMENT CHARACTER}b"]


def test_an_endless_line_is_cut_and_says_so() -> None:
    splitter = Lines()
    for _ in range(100):
        assert splitter.feed(b"x" * lines.LIMIT) == []
    (line,) = splitter.feed(b"\n")
    assert line == "x" * lines.LIMIT + f" [k8sbench: line cut, {99 * lines.LIMIT} more bytes]"
    assert splitter.feed(b"next\n") == ["next"]


def test_a_long_line_in_one_piece_is_cut_as_well() -> None:
    long, short = split(b"x" * (lines.LIMIT + 1) + b"\nshort\n")
    assert long.endswith("[k8sbench: line cut, 1 more bytes]")
    assert short == "short"


@given(st.lists(st.binary(max_size=8) | st.sampled_from([b"\r", b"\n", b"\r\n"])))
def test_the_pieces_do_not_matter(pieces: list[bytes]) -> None:
    assert split(*pieces) == split(b"".join(pieces))


@given(st.binary())
def test_without_overwriting_nothing_is_lost_or_added(data: bytes) -> None:
    data = data.replace(b"\r", b"")
    whole = data.decode(errors="replace").split("\n")
    assert split(data) == (whole[:-1] if not whole[-1] else whole)
