"""What the checks of one run look at."""

from __future__ import annotations

import msgspec

from k8sbench.measure.run.log_clock import ClockReading
from k8sbench.measure.run.log_facts import LogFacts
from k8sbench.measure.run.rank_records import RankRecords
from k8sbench.measure.run.time_to_train import TimeToTrain
from k8sbench.model.measurement import Throughput

FEWEST_RECORDS = 5
"""In a window that is measured, and for a check of many lines."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One run's logs, and what follows from them and from what was expected."""

    log: LogFacts
    rank: RankRecords | None
    gpus: int
    batch: int | None
    precision: str | None
    seconds_per_unit: float | None
    """Seconds in one unit of the rank's times: 1, or samples per iteration of the printed scope."""
    throughput: Throughput | None
    clock: ClockReading
    """What the log's stamps say of its printed times."""
    goal: TimeToTrain

    @property
    def rate(self) -> float | None:
        """The headline."""
        return self.throughput.time_weighted if self.throughput else None

    @property
    def ended_at_target(self) -> bool:
        """Whether it was to end at the target, and did."""
        return self.log.fact("ended_by") == "target" and self.goal.reached is not None

    @property
    def smoke(self) -> bool:
        """Whether the run only checks the path, with a small model."""
        return self.log.expected.smoke or self.log.fact("preset") == "smoke"
