"""Lines as launchers, operators and terminals leave them; what the program printed comes out."""

import pytest

from k8sbench.reader import lines


def pieces(line: str) -> list[tuple[str, str]]:
    """The rank and the text of each piece of a line."""
    return [(piece.source, piece.text) for piece in lines.pieces(line)]


@pytest.mark.parametrize(
    ("line", "source", "text"),
    [
        ("loss: 1.0", "", "loss: 1.0"),
        ("Mon May 31 09:18:25 2021[1,0]<stderr>:loss: 1.0", "0", "loss: 1.0"),
        ("Mon May  3 09:18:25 2021[1,13]<stdout>:loss: 1.0", "13", "loss: 1.0"),
        ("[1,3]<stdout>:loss: 1.0", "3", "loss: 1.0"),
        ("[default0]:loss: 1.0", "0", "loss: 1.0"),
        ("128: loss: 1.0", "128", "loss: 1.0"),
        ("[rank5]: loss: 1.0", "5", "loss: 1.0"),
        ("2: loss: 1.0", "2", "loss: 1.0"),
        ("2026-11-20T08:15:30.123456Z loss: 1.0", "", "loss: 1.0"),
        ("2026-11-20T08:15:30.1+08:00 stderr F GPUs used: 4", "", "GPUs used: 4"),
        ("2026-11-20T08:15:30.1Z stdout P [default3]:loss: 1.0", "3", "loss: 1.0"),
        ("[pod/job-worker-1/pytorch] loss: 1.0", "job-worker-1/pytorch", "loss: 1.0"),
        ("[pod/w-1/p] 2026-11-20T08:15:30.1Z [default3]:loss: 1.0", "3", "loss: 1.0"),
        ("\x1b[95mtrain\x1b[0m \x1b[1;31mloss: 1.0\x1b[0m", "", "train loss: 1.0"),
        ("[95mtrain[0m loss: 1.0", "", "train loss: 1.0"),
        ("loading: \x1b[Aloss: 1.0", "", "loading: loss: 1.0"),
        ("lo\x00ss: 1.0", "", "loss: 1.0"),
        ("2026-11-20 08:15:30,123 - mmseg - text", "", "2026-11-20 08:15:30,123 - mmseg - text"),
    ],
)
def test_a_prefix_goes_and_its_rank_stays(line: str, source: str, text: str) -> None:
    assert pieces(line) == [(source, text)]


def test_lines_of_two_ranks_glued_together_come_apart() -> None:
    line = "[1,0]<stdout>:loss: 1.0Mon May 31 09:18:25 2021[1,4]<stderr>:warning"
    assert pieces(line) == [("0", "loss: 1.0"), ("4", "warning")]


def test_what_stands_before_the_first_rank_has_no_rank() -> None:
    assert pieces("a tail[1,1]<stdout>:head") == [("", "a tail"), ("1", "head")]


def test_a_carriage_return_begins_a_new_piece() -> None:
    assert pieces(" 10%|#\rloss: 1.0\r") == [("", " 10%|#"), ("", "loss: 1.0")]
