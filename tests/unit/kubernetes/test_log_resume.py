"""A log continues where its reading ended: no line lost or repeated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.model.replica_logs import LogMark
from k8sbench.store.stamped_lines import NewLineFilter, PodLogSplitter, StampedLine
from tests.unit.kubernetes.log_files import T0, served, stamp

SECOND = 1_000_000
Lines = list[tuple[int, str]]


def mark_of(lines: Lines) -> LogMark | None:
    resume = NewLineFilter(None)
    resume.feed(StampedLine(*line) for line in lines)
    return resume.mark


def go_on(mark: LogMark | None, file: Lines) -> tuple[Lines, NewLineFilter]:
    resume = NewLineFilter(mark, now=T0)
    new = resume.feed(PodLogSplitter().feed(served(file)))
    return [(line.at or 0, line.text) for line in new], resume


def numbered(count: int, *, step: int = SECOND, at: int = T0) -> Lines:
    return [(at + number * step, f"step {number}") for number in range(count)]


def set_back(seconds: int) -> Lines:
    """Thirty lines, one a second; the node's clock is set back after twenty."""
    return [*numbered(20), *[(at - seconds * SECOND, text) for at, text in numbered(30)[20:]]]


FILES: dict[str, Lines] = {
    "one line a second": numbered(100),
    "all lines of one time": numbered(150, step=0),
    "alike, of other times": [(T0 + number, ".") for number in range(150)],
    "alike, of one time": [(T0, ".")] * 150,
    "alike, five of a time": [(T0 + number // 5, ".") for number in range(150)],
    "a progress bar between lines": [
        (T0 + number // 50, "50%" if number % 50 else "epoch") for number in range(150)
    ],
    "two threads, out of order": [
        (T0 + at, text) for at, text in zip((0, 5, 3, 5, 4, 9), "abcdef", strict=True)
    ],
    "clock back by 2 s": set_back(2),
    "clock back by 30 s": set_back(30),
    "clock back by 1 h": set_back(3600),
    "clock set forward and back": [*numbered(5), *numbered(5, at=T0 + 10**10), *set_back(30)[5:]],
}


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_wherever_a_stream_breaks_the_rest_is_new(file: Lines) -> None:
    for ended in range(1, len(file)):
        new, resume = go_on(mark_of(file[:ended]), file)
        assert new == file[ended:], ended
        assert resume.mark == mark_of(file)


@given(
    steps=st.lists(st.sampled_from([-3600 * SECOND, 0, 0, 1, SECOND]), max_size=80),
    texts=st.sampled_from([".", "ab", "0123456789"]),
    ended=st.integers(1, 80),
    back=st.integers(1, 80),
)
def test_marks_are_right_or_absent(steps: list[int], texts: str, ended: int, back: int) -> None:
    """Lines that are alike bear one stamp only where they follow one another."""
    at, file = T0, [(T0, "first")]
    for number, step in enumerate(steps):
        at += step
        file.append((at, texts[number % len(texts)]))
    resume = NewLineFilter(mark_of(file[:ended]), near=True)
    new = resume.feed(StampedLine(*line) for line in file[-back:])
    assert [tuple(line) for line in new] == (file[ended:] if resume.found else [])


# -- text -----------------------------------------------------------------------------------------


def read(*pieces: bytes) -> list[StampedLine]:
    text = PodLogSplitter()
    return [line for piece in pieces for line in text.feed(piece)] + text.end()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"{stamp(T0 + 123456, nanos=999)} step 1\n", [StampedLine(T0 + 123456, "step 1")]),
        # Nodes stamp in their own zone.
        ("2026-11-20T08:15:30.123456789Z x\n", [StampedLine(T0 + 123456, "x")]),
        ("2026-11-20T09:15:30.123456789+01:00 x\n", [StampedLine(T0 + 123456, "x")]),
        ("2026-11-20T02:45:30.123456789-05:30 x\n", [StampedLine(T0 + 123456, "x")]),
        ("2026-11-20T08:15:30.123456Z x\n", [StampedLine(T0 + 123456, "x")]),
        (f"{stamp(T0)} \n", [StampedLine(T0, "")]),
        # States of a progress bar are lines of one time.
        (f"{stamp(T0)} 1%\r2%\r\n", [StampedLine(T0, "1%"), StampedLine(T0, "2%")]),
        # What comes without a stamp, or with what only looks like one, has no time.
        (f"the rest\n{stamp(T0)} x\n", [StampedLine(None, "the rest"), StampedLine(T0, "x")]),
        (f"{stamp(T0)} x\nand more\n", [StampedLine(T0, "x"), StampedLine(None, "and more")]),
        ("2026-99-20T08:15:30Z x\n", [StampedLine(None, "2026-99-20T08:15:30Z x")]),
    ],
)
def test_a_line_has_its_time(text: str, lines: list[StampedLine]) -> None:
    assert read(text.encode()) == lines


@pytest.mark.parametrize("before", ["", f"{stamp(T0)} x\n"])
@pytest.mark.parametrize("error", ["unable to retrieve container logs", "something new"])
def test_the_kubelets_error_is_recognised_by_its_missing_end(before: str, error: str) -> None:
    text = PodLogSplitter()
    assert len(text.feed(f"{before}{error}".encode())) == bool(before)
    assert text.end() == []
    assert text.error == error


@pytest.mark.parametrize("at", [T0, None])
def test_a_program_may_print_such_words_itself(at: int | None) -> None:
    text = PodLogSplitter()
    printed = f"{stamp(at)} " if at else ""
    assert text.feed(f"{printed}rpc error: code = 5\n".encode()) == [
        StampedLine(at, "rpc error: code = 5")
    ]
    assert text.end() == []
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
