"""AI-Rank's event lines, with and without dash."""

import pytest

from k8sbench.reader import reading
from k8sbench.reader.lines import CleanLine
from tests.reader.family_logs import MMSEG
from tests.reader.support import items, marks


@pytest.mark.parametrize(
    ("words", "event", "value"),
    [
        ("load_data, checksum:234584", "load_data", 234584.0),
        ("test_begin", "test_begin", None),
        ("eval_accuracy:40.450405, total_epoch_cnt:0", "eval_accuracy", 40.450405),
        ("target_quality_time:23711.15sec", "target_quality_time", 23711.15),
        ("total_use_time: 44338.456 sec", "total_use_time", 44338.456),
        ("avg_ips:58.2images/sec", "avg_ips", 58.2),
    ],
)
@pytest.mark.parametrize("dash", ["- ", ""])
def test_an_event_is_read(words: str, event: str, value: float | None, dash: str) -> None:
    (mark,) = reading.airank_events(CleanLine(1, f"{dash}AI-Rank-log 1618109465.579 {words}", ""))
    assert (mark.values, mark.stamp) == ({"event": event, "value": value}, 1618109465.579)


def test_events_stand_in_the_log_of_any_family_before_and_after_its_first_record() -> None:
    found = items(
        "mmseg",
        "- AI-Rank-log 1618109465.704 test_begin",
        MMSEG,
        "- AI-Rank-log 1618133176.857 test_finishTesting Results: glued",
    )
    assert [mark.values["event"] for mark in marks(found)] == ["test_begin", "test_finish"]
