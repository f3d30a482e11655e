"""Recorded runs with archived logs and their gaps."""

from __future__ import annotations

from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run
from k8sbench.model.sample import LogGap
from k8sbench.reader.measuring.recorded import measure_run
from tests.reader.measuring.own_runs import PLAN
from tests.reader.measuring.support import Lines, lines_of

START = 1772445600.0
"""Start of the fixtures' run, 2026-03-02T10:00:00Z.

Its window is from 10 to 14 s later.
"""
WHY = "Its node had put it away."


def gap(after: float | None, before: float | None, replica: str = "master-0") -> LogGap:
    """A gap between two moments, in seconds after the run began."""
    at = [None if moment is None else START + moment for moment in (after, before)]
    return LogGap(replica=replica, after=at[0], before=at[1], why=WHY)


def run(*history: Transition, plan: RunPlan = PLAN) -> Run:
    return Run(planned=plan, created_at=START, process=None, history=history, artifacts="file:///x")


def measured(*gaps: LogGap, accept: tuple[str, ...] = ()) -> Measurement:
    first = lines_of("k8sbench_master.log")
    logs = [
        Lines([*first[:2], *first[10:]], "logs/master-0.log"),  # no stamp before the window
        Lines(lines_of("k8sbench_worker.log"), "logs/worker-0.log"),
    ]
    return measure_run(run(), logs, accept=accept, gaps=gaps)
