"""A copy of a log does not count in the group of the log."""

from tests.reader.measuring.copied_logs import TWO_HOURS, log, varied
from tests.unit.measure.group_members import only
from tests.unit.report import factory


def test_neither_a_copy_nor_the_log_of_another_rank_counts() -> None:
    logs = [
        log(varied(1)),
        log(varied(1), at=TWO_HOURS),
        log(varied(2)),
        log(varied(3), seed=3, at=2 * TWO_HOURS),
    ]
    names = ("log_digest", "losses_digest", "window")
    runs = [
        factory.run(100.0 + n, repeat=n, measured={name: getattr(found, name) for name in names})
        for n, found in enumerate(logs, 1)
    ]
    found = {
        member.repeat: [reason.id for reason in member.reasons] for member in only(runs).members
    }
    twice = ["log-counted-twice"]
    assert found == {1: [], 2: twice, 3: twice, 4: []}
