"""Copies of a log are found by its times and losses, whatever its stamps and its length."""

import pytest

from k8sbench.catalog.imported_logs import LogOrigin, MeasuredLog
from k8sbench.model.measurement import Measurement
from tests.reader.measuring.copied_logs import TWO_HOURS, log, varied

STEADY = [0.5] * 30


@pytest.mark.parametrize(
    "copy",
    [
        log(varied(1), at=TWO_HOURS),
        log(varied(1), records=16),
        log(varied(1), at=TWO_HOURS, records=20),
    ],
    ids=["other stamps", "cut off", "both"],
)
def test_a_copy_is_the_same_log(copy: Measurement) -> None:
    assert log(varied(1)).is_same_log(copy)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (log(varied(1)), log(varied(2))),
        (log(varied(1)), log(varied(1), seed=2)),
        # Runs whose times do not differ in the printed digits.
        (log(STEADY), log(STEADY, at=TWO_HOURS)),
        (log(varied(1), records=8), log(varied(1), records=8, at=TWO_HOURS)),
    ],
    ids=["other times", "other losses", "constant times", "few records"],
)
def test_logs_that_may_be_of_two_runs_are_two(one: Measurement, other: Measurement) -> None:
    assert not one.is_same_log(other)
    assert one.is_same_log(one)


def test_the_log_of_another_rank_has_the_losses_at_the_same_time() -> None:
    rank_0 = log(varied(1))
    assert rank_0.is_of_same_job(log(varied(2)))
    assert rank_0.is_of_same_job(log(varied(2), at=1.0, records=20))
    assert not rank_0.is_of_same_job(log(varied(2), at=60.0)), "another run of the same seed"
    assert not rank_0.is_of_same_job(log(varied(2), seed=2)), "another run at the same time"


def test_a_file_that_differs_and_has_all_records_of_another_is_the_same_log() -> None:
    def found(digest: str, measurement: Measurement) -> MeasuredLog:
        origin = LogOrigin(file=f"{digest}.log")
        return MeasuredLog(measurement, origin, recognised=None, digests=(digest,))

    one = found("a", log(varied(1)))
    assert one.is_same(found("b", log(varied(1), at=TWO_HOURS)))
    assert one.is_same(found("a", log(varied(2))))
    assert not one.is_same(found("b", log(varied(2))))
