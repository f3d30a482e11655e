"""State of one Benchmark object in the process that reconciles it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from k8sbench.lifecycle.object_runs import Recording
from k8sbench.lifecycle.planned_case import PlannedCase
from k8sbench.model.benchmark_object import Benchmark
from k8sbench.model.errors import BenchError
from k8sbench.model.group import Group
from k8sbench.model.run import Run


class KnownObject(msgspec.Struct, kw_only=True):
    """State of one object in this process; its times are monotonic seconds."""

    benchmark: Benchmark
    is_over: bool = False
    """True if its status says that all of its runs have ended, and no run on record is open."""
    is_checked: bool = False
    """True if the runs on record have ended as its status says, or none is on record."""
    runs: dict[str, Run] = {}
    """Its recorded runs by id, in the order of their numbers."""
    planned: int | None = None
    """Number of its runs; None until all are recorded."""
    retried: int
    """Value of ``retry`` for which its runs are recorded."""
    problem: BenchError | None = None
    """Reason why its runs cannot be planned."""
    is_left: bool = False
    """True if nobody begins those of its runs that are not recorded."""
    work: Future[Sequence[PlannedCase]] | None = None
    """Pending planning."""
    recording: Recording | None = None
    """Recording of its planned runs; None without one."""
    later: deque[PlannedCase] = msgspec.field(default_factory=deque)
    """One for each run that is recorded when its turn has come."""
    plan_at: float = -math.inf
    """Next time to plan it."""
    delay: str = ""
    """Reason why it could not be planned yet; empty without one."""
    delayed_at: float = math.inf
    """Time when it first could not be planned; infinite without a delay."""
    is_denied: bool = False
    """True if the reason is its own: others are planned."""
    writes: Future[None] | None = None
    """Pending write of its status."""
    write_at: float = -math.inf
    """Next time to write it."""
    status: Mapping[str, Any] = {}
    """Status that was written last."""
    repeat_at: float = -math.inf
    """Time to write it once more if the object still has another."""
    facts: tuple[Any, ...] = ()
    """Facts that the latest status, ``made``, was made from."""
    made: Mapping[str, Any] = {}
    make_at: float = -math.inf
    """Time to make it again from the same facts."""
    grouped: tuple[Sequence[Run], Sequence[Group]] = ((), ())
    """The runs of the latest status, and their groups: most statuses are of the same runs."""
    expires: tuple[float, float] | None = None
    """Time to delete the object: by its status, Unix seconds, and by this clock."""

    @property
    def is_planned(self) -> bool:
        """True if all of its runs are recorded, or cannot be planned."""
        is_known = self.planned is not None or self.problem is not None
        return is_known and self.retried >= self.benchmark.spec.retry

    @property
    def is_open(self) -> bool:
        """True if one of its runs is not closed."""
        return any(not run.is_closed for run in self.runs.values())

    @property
    def active(self) -> list[Run]:
        """Its runs that have not ended."""
        return [run for run in self.runs.values() if not run.phase.final]
