"""A log that is followed again goes on where it ended: nothing lost, nothing twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k8sbench.adapters.kubernetes.logs.resume import DISORDER, Mark, Resume, advanced
from k8sbench.adapters.kubernetes.logs.text import Line, LogText
from tests.unit.kubernetes.log_files import T0, served, stamp

Lines = list[tuple[int, str]]


def mark_of(lines: Lines) -> Mark | None:
    mark = None
    for at, _ in lines:
        mark = advanced(mark, at)
    return mark


def go_on(mark: Mark | None, file: Lines) -> tuple[list[Line], Resume]:
    resume = Resume(mark, now=T0)
    since = 0 if mark is None else mark.since
    return resume.feed(LogText().feed(served(file, since))), resume


def test_without_a_mark_everything_is_new() -> None:
    new, resume = go_on(None, [(T0, "a"), (T0, "b")])
    assert [line.text for line in new] == ["a", "b"]
    assert resume.mark == Mark(T0, 2)


def test_lines_of_one_time_are_distinguished_by_their_number() -> None:
    file = [(T0, str(number)) for number in range(1000)]
    new, _ = go_on(mark_of(file[:400]), file)
    assert [line.text for line in new] == [str(number) for number in range(400, 1000)]


def test_two_threads_may_stamp_out_of_order() -> None:
    """stdout's and stderr's lines: the time is taken before the line is written."""
    file = [(T0, "a"), (T0 + 5, "b"), (T0 + 3, "c"), (T0 + 5, "d"), (T0 + 4, "e"), (T0 + 9, "f")]
    for ended in range(1, len(file)):
        new, _ = go_on(mark_of(file[:ended]), file)
        assert [line.text for line in new] == [text for _, text in file[ended:]]


@given(
    steps=st.lists(st.integers(-DISORDER // 3, DISORDER), max_size=40),
    ended=st.integers(0, 40),
)
def test_wherever_a_stream_breaks_nothing_is_lost_or_doubled(steps: list[int], ended: int) -> None:
    latest, file = T0, []
    for number, step in enumerate(steps):
        file.append((latest + step, str(number)))
        latest = max(latest, latest + step)
    new, resume = go_on(mark_of(file[:ended]), file)
    assert [line.text for line in new] == [text for _, text in file[ended:]]
    assert resume.mark == mark_of(file)
    assert not resume.lost


def test_a_log_that_begins_behind_the_mark_has_lost_it() -> None:
    new, resume = go_on(Mark(T0, 1), [(T0 + 10, "later")])
    assert (new, resume.lost, resume.found) == ([], True, False)


def test_a_log_that_serves_nothing_has_neither_found_nor_lost_it() -> None:
    _, resume = go_on(Mark(T0, 1), [])
    assert (resume.lost, resume.found) == (False, False)


def test_a_log_that_begins_amid_the_lines_of_the_marks_time_has_lost_it() -> None:
    file = [(T0, "a"), (T0, "b"), (T0, "c"), (T0 + 10, "later")]
    new, resume = go_on(mark_of(file[:3]), file[1:])
    assert (new, resume.lost) == ([], True)


def test_another_containers_log_is_all_new() -> None:
    resume = Resume(Mark(T0, 3), anew=True)
    assert resume.feed([Line(T0 + 5, "a"), Line(T0 + 5, "b")]) == [
        Line(T0 + 5, "a"),
        Line(T0 + 5, "b"),
    ]
    assert resume.mark == Mark(T0 + 5, 2)


def test_the_rest_of_a_line_that_began_before_is_not_new() -> None:
    """Of a line in parts those before sinceTime are left out, the stamp with them."""
    resume = Resume(Mark(T0, 1))
    text = f"of a long line\n{stamp(T0)} a\n{stamp(T0 + 1)} b\n".encode()
    assert [line.text for line in resume.feed(LogText().feed(text))] == ["b"]


def test_a_line_without_a_stamp_has_the_time_of_the_one_before() -> None:
    resume = Resume(None, now=T0)
    assert resume.feed([Line(T0, "a"), Line(None, "b")]) == [Line(T0, "a"), Line(T0, "b")]
    assert resume.mark == Mark(T0, 2)


def test_a_clock_that_was_set_back_is_followed() -> None:
    file = [(T0, "a"), (T0 - 10 * DISORDER, "b"), (T0 - 10 * DISORDER + 1, "c")]
    assert mark_of(file) == Mark(T0 - 10 * DISORDER + 1, 1)
