"""How often a run was restarted: by its log, and by its history where attempts left no line."""

from __future__ import annotations

import pytest

from k8sbench.lifecycle import measuring
from k8sbench.model.phase import RESTARTING, Phase, Transition
from k8sbench.model.run import Run
from tests.unit.measure.support import Lines, lines_of
from tests.unit.measure.test_own_runs import PLAN


@pytest.mark.parametrize(("in_history", "in_log", "restarts"), [(0, 1, 1), (2, 1, 2), (2, 0, 2)])
def test_attempts_that_printed_nothing_count(in_history: int, in_log: int, restarts: int) -> None:
    again = Transition(
        phase=Phase.CREATED, at=2.0, cause="Attempt 2 of 4: it was killed.", cause_id=RESTARTING
    )
    created = Transition(phase=Phase.CREATED, at=1.0, cause="Recorded.")
    ended = Transition(phase=Phase.SUCCEEDED, at=3.0, cause="All replicas ended well.")
    history = (created, *[again] * in_history, ended)
    run = Run(plan=PLAN, created_at=1.0, owner=None, history=history, artifacts="file:///x")
    lines = lines_of("k8sbench_master.log")
    log = [*lines[: 14 * in_log], *(line.replace("10:00", "10:01") for line in lines)]
    found = measuring.measure_run(run, [Lines(log, "logs/master-0.log")])
    assert found.restarts == restarts
