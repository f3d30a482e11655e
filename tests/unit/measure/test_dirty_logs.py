"""Logs as they are found: several ranks, interleaved, coloured, torn, glued."""

from __future__ import annotations

from typing import Any

import pytest

from k8sbench.measure.run.expectation import Expectation
from k8sbench.measure.run.measuring import measure
from k8sbench.model.measurement import Measurement
from tests.unit.measure.support import Lines, ids, measured, mmseg, run
from tests.unit.presence import present

STEADY = run([0.5] * 12)


def mpirun(rank: int, text: str) -> str:
    return f"Mon Mar  2 10:00:00 2026[1,{rank}]<stdout>:{text}"


DRESSED: dict[str, list[str]] = {
    "mpirun": [mpirun(0, line) for line in STEADY],
    "torchrun": [f"[default0]:{line}" for line in STEADY],
    "kubectl": [f"2026-03-02T10:00:00.123456789Z {line}" for line in STEADY],
    "pods": [f"[pod/job-master-0/pytorch] {line}" for line in STEADY],
    "carriage returns": [f"{line}\r" for line in STEADY],
    "colours": [f"\x1b[32m{line}\x1b[0m" for line in STEADY],
    "colours without their escape": [f"[32m{line}[0m" for line in STEADY],
    "progress bars": [f"  1%|#  |\r 99%|###|\r{line}" for line in STEADY],
    "an evaluation's bar": [f"[>>>] 500/500, 5.6 task/s, ETA: 0s{line}" for line in STEADY],
    "AI-Rank prefix": [f"AI-Rank-log {line}" for line in STEADY],
    "NULs": ["\x00" * 50, *STEADY],
    "noise": [text for line in STEADY for text in ("warnings.warn(", line, "", "  0%|")],
    "glued": ["".join(STEADY)],
    "glued with ranks": ["".join(mpirun(0, line) for line in STEADY)],
}


@pytest.mark.parametrize("lines", DRESSED.values(), ids=DRESSED)
def test_however_it_is_dressed_it_measures_the_same(lines: list[str]) -> None:
    """The digest, by which a log that is counted twice is found, is of the records alone."""
    plain, found = measured(STEADY, warmup=20), measured(lines, warmup=20)
    assert (found.throughput, found.log_digest) == (plain.throughput, plain.log_digest)
    assert (found.records, found.verdict, ids(found)) == (plain.records, "valid", [])


def test_of_several_ranks_the_one_with_the_most_records_speaks_for_the_job() -> None:
    slow = [line.replace("time: 0.500", "time: 0.502") for line in STEADY]
    lines = []
    for index, line in enumerate(STEADY):
        lines.append(f"[1,3]<stdout>:{slow[index]}")
        if index != 5:
            lines.append(f"[1,0]<stdout>:{line}")
    found = measured(lines, gpus=4, warmup=20)
    assert present(found.throughput).time_weighted == pytest.approx(16 / 0.502)
    assert (found.records, found.verdict) == (10, "valid")


def test_workers_whose_outputs_follow_one_another_count_once() -> None:
    """``cat workerlog.*``: each begins again, at times that have been."""
    workers = [line for _ in range(4) for line in STEADY]
    found = measured(workers, gpus=4)
    assert (found.records, found.verdict, ids(found)) == (12, "valid", ["repeated-lines"])


def test_workers_that_run_ahead_of_each_other_a_little_count_once() -> None:
    mixed: list[str] = []
    for index, line in enumerate(STEADY):
        mixed.append(line)
        if index:
            mixed.append(STEADY[index - 1])
    found = measured(mixed, gpus=2)
    assert (found.records, found.verdict) == (12, "valid")


@pytest.mark.parametrize("end", [20, 60, 100, 130])
def test_a_last_line_that_broke_off_is_left_out_and_no_number_of_it_is_believed(end: int) -> None:
    torn = [*STEADY[:-1], STEADY[-1][:end]]
    found = measured(torn, warmup=20)
    whole = measured(STEADY[:-1], warmup=20)
    assert found.throughput == whole.throughput
    assert found.verdict == "valid"


def test_a_record_of_another_shape_in_between_is_another_runs() -> None:
    lines = [*STEADY, mmseg(10, 0.5).replace("Iter [10/1000]", "Epoch [1][10/100]")]
    assert "iterations-back" in ids(measured(lines), "reject")


# Several runs in one file.

RESUMED = "2026-03-02 11:00:00,000 - mmseg - INFO - resumed from epoch: 0, iter 120"


def head(*, batch: int = 4, model: str = "ASPPHead") -> list[str]:
    return [
        "2026-03-02 09:59:00,000 - mmseg - INFO - Environment info:",
        "PyTorch: 1.10.1",
        f"        type='{model}',",
        f"    samples_per_gpu={batch},",
    ]


def why(found: Measurement, name: str = "two-runs") -> str:
    (reason,) = (each for each in found.reasons if each.id == name)
    return reason.sentence


def test_a_second_header_without_a_restart_is_another_run_and_rejected_with_its_line() -> None:
    found = measured([*head(), *STEADY, *head(), *run([0.25] * 12, at=500)])
    assert ids(found, "reject") == ["two-runs", "iterations-back"]
    assert "a second header" in why(found)
    assert [place.line for place in found.reasons[0].evidence] == [17]
    # A third one says the same.
    third = measured([*head(), *STEADY, *(2 * [*head(), *run([0.25] * 12, at=500)])])
    assert why(third).endswith("more than one run: a second header.")


@pytest.mark.parametrize(
    ("second", "what"),
    [
        (head(batch=8), "batch_size 4 and 8"),
        (head(model="FCNHead"), "model ASPPHead and FCNHead"),
    ],
)
def test_another_batch_or_model_is_another_run_whether_it_was_restarted_or_not(
    second: list[str], what: str
) -> None:
    later = run([0.5] * 6, first=120, at=500, total=120)
    for again in ([], [RESUMED]):
        found = measured([*head(), *STEADY, *second, *again, *later], batch_size=None)
        assert "two-runs" in ids(found, "reject")
        assert what in why(found)


def test_another_total_without_a_restart_is_another_run() -> None:
    found = measured([*STEADY, *run([0.5] * 6, first=120, at=60, total=500)])
    assert ids(found, "reject") == ["two-runs"]
    assert "a total of 120 and of 500 iterations" in why(found)
    resumed = measured([*STEADY, RESUMED, *run([0.5] * 6, first=120, at=500, total=180)])
    assert (resumed.verdict, ids(resumed)) == ("valid", ["restarted"])


def test_an_earlier_run_behind_a_later_one_is_no_copy_of_it() -> None:
    found = measured([*run([0.5] * 12, at=500), *STEADY])
    assert ids(found, "reject") == ["iterations-back"]


@pytest.mark.parametrize(("later", "what"), [(0.6, "iterations-back"), (0.3, "repeated-lines")])
def test_a_run_of_less_than_a_second_was_over_as_another_began_or_not(
    later: float, what: str
) -> None:
    """Another rank's copy would have been written meanwhile: it takes 0.35 s."""
    short = [run([0.05] * 8, interval=1, at=at) for at in (later, 0.0)]
    found = measured([line for lines in short for line in lines])
    assert ids(found)[0] == what


def test_after_a_restart_of_the_same_run_its_header_is_read_anew() -> None:
    later = run([0.5] * 6, first=120, at=500, total=120)
    for again in ([RESUMED], []):
        # A program that prints nothing of it goes on where it was.
        found = measured([*STEADY, *head(batch=8), *again, *later], batch_size=None)
        assert (found.verdict, ids(found)) == ("valid", ["restarted"])
        assert (found.records, found.batch_size_per_gpu) == (18, 8)


def test_lines_that_were_glued_behind_a_second_header_all_count() -> None:
    later = run([0.5] * 6, first=120, at=500, total=120)
    before, behind = ([f"[1,0]<stdout>:{line}" for line in part] for part in (STEADY, later))
    found = measured([*before, *head(), behind[0] + behind[1], *behind[2:]])
    assert (found.verdict, ids(found), found.records) == ("valid", ["restarted"], 18)


def test_workers_outputs_with_their_headers_are_one_run() -> None:
    workers = [line for _ in range(4) for line in [*head(), *STEADY]]
    found = measured(workers, gpus=4)
    assert (found.records, found.verdict, ids(found)) == (12, "valid", ["repeated-lines"])


# One run in several files.


def repeats(*logs: list[str], **expected: Any) -> Measurement:
    known: dict[str, Any] = {"format": "mmseg", "gpus": 1, "batch_size": 4, "warmup": 0}
    sources = [Lines(lines, f"{index}.log") for index, lines in enumerate(logs, 1)]
    return measure(sources, Expectation(**(known | expected)))


def pieces(*logs: list[str]) -> list[str]:
    found = repeats(*logs)
    return [found.verdict, *ids(found), str(found.records)]


def test_the_files_of_several_ranks_are_one_run() -> None:
    assert pieces(STEADY, STEADY, STEADY) == ["valid", "repeated-lines", "12"]


def test_the_pieces_of_a_resumed_run_are_one_run() -> None:
    second = run([0.5] * 6, first=120, at=500)
    assert pieces(STEADY, second) == ["valid", "18"]


def test_a_piece_that_takes_up_again_at_a_checkpoint_counts_iterations_once() -> None:
    second = run([0.5] * 6, first=100, at=500)
    assert pieces(STEADY, second) == ["valid", "restarted", "16"]


def test_pieces_between_which_iterations_are_lost_are_rejected() -> None:
    second = run([0.5] * 6, first=500, at=500)
    assert pieces(STEADY, second)[:2] == ["rejected", "iterations-missing"]


def test_of_several_repeats_as_one_run_the_first_gives_the_figure() -> None:
    found = repeats(*(run([0.5 + 0.1 * i] * 12, at=500 * i) for i in range(3)))
    assert found.rate == pytest.approx(8.0)
    assert "restarted" in ids(found, "warn")


def test_files_that_say_something_else_are_not_of_one_run() -> None:
    other = run([0.5] * 12, at=500)
    found = repeats([*head(), *STEADY], [*head(batch=8), *other], batch_size=None)
    assert ids(found, "reject") == ["two-runs"]
    assert [place.file for place in found.reasons[0].evidence] == ["1.log", "2.log"]
    shorter = repeats(STEADY, run([0.5] * 6, at=500))
    assert "a total of 120 and of 60 iterations" in why(shorter)
    # Another rank's file has no header, and a piece may go on to a later end.
    assert repeats([*head(), *STEADY], STEADY).verdict == "valid"
    assert repeats(STEADY, run([0.5] * 6, first=120, at=500)).verdict == "valid"


def test_all_files_are_named() -> None:
    found = repeats(STEADY, STEADY)
    assert found.files == ("1.log", "2.log")
    assert found.reasons[0].evidence[0].file == "2.log"
