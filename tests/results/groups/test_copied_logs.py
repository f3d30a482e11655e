"""A copy of a log does not count in the group of the log."""

from typing import Any

import pytest

from k8sbench.model.measurement import MeasuredWindow
from k8sbench.results.groups import rejections
from k8sbench.results.groups.rejections import LOG_COUNTED_TWICE, Candidate
from tests.results.report import factory


@pytest.mark.parametrize(
    ("losses", "begins", "fields", "is_rejected"),
    [
        ("a", 1.0, {}, True),
        ("b", 1.0, {}, False),
        ("a", 600.0, {}, False),
        ("a", 1.0, {"batch_size": 64}, False),
    ],
    ids=["another rank", "other losses", "a later run of the seed", "another case"],
)
def test_equal_losses_of_a_case_at_the_same_time_are_of_two_ranks(
    losses: str, begins: float, fields: dict[str, Any], is_rejected: bool
) -> None:
    def candidate(repeat: int, losses: str, begins: float, **fields: Any) -> Candidate:
        window = MeasuredWindow(
            first_iteration=21, last_iteration=120, seconds=50.0, started_at=factory.START + begins
        )
        measured = {"losses_digest": losses, "window": window}
        one = factory.run(100.0, repeat=repeat, measured=measured, **fields)
        return Candidate(one, frozenset())

    first = candidate(1, "a", 0.0)
    other = candidate(2, losses, begins, **fields)
    rejections.logs_counted_twice([first, other])
    assert first.reasons == []
    assert [reason.id for reason in other.reasons] == [LOG_COUNTED_TWICE.id] * is_rejected
