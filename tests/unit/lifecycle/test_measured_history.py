"""What the history of a run says of its figures, whatever its logs say."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from k8sbench.lifecycle import measuring
from k8sbench.model import attempts
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.run import Run
from tests.unit.measure.support import Lines, ids, lines_of
from tests.unit.measure.test_own_runs import PLAN

FIRST = lines_of("k8sbench_master.log")
CHANGED = "The replicas run. The job was changed: 3 Worker replicas, 1 planned."


def measured(*history: Transition, log: Sequence[str] = FIRST) -> Measurement:
    run = Run(plan=PLAN, created_at=1.0, owner=None, history=history, artifacts="file:///x")
    second = Lines(lines_of("k8sbench_worker.log"), "logs/worker-0.log")
    return measuring.measure_run(run, [Lines(log, "logs/master-0.log"), second])


@pytest.mark.parametrize("when", [Phase.RUNNING, Phase.SUCCEEDED])
def test_it_is_rejected_with_what_was_planned_and_what_was_found(when: Phase) -> None:
    changed = Transition(phase=when, at=1.0, cause=CHANGED, cause_id="job-changed")
    found = measured(changed, Transition(phase=Phase.SUCCEEDED, at=2.0, cause="Fine."))
    assert (found.verdict, ids(found, "reject")) == ("rejected", ["job-changed"])
    assert found.reasons[0].sentence == CHANGED
    assert (found.throughput, found.unverified is None) == (None, False)


def test_a_pause_before_a_training_was_continued_is_stated() -> None:
    end = Transition(phase=Phase.CANCELLED, at=100.0, cause="Cancelled.")
    again = attempts.continued(PLAN, 1, 7300.0)
    history = (end, again, Transition(phase=Phase.SUCCEEDED, at=9000.0, cause="It has ended."))
    found = measured(*history)
    (paused,) = [reason for reason in found.reasons if reason.id == "continued"]
    assert (paused.severity, "after 2h" in paused.sentence) == ("warn", True)
    assert "continued" not in ids(measured(*history[2:]))


@pytest.mark.parametrize(("in_history", "in_log", "restarts"), [(0, 1, 1), (2, 1, 2), (2, 0, 2)])
def test_attempts_that_printed_nothing_count(in_history: int, in_log: int, restarts: int) -> None:
    again = attempts.restarting(PLAN, 1, "It was killed.", 2.0)
    ended = Transition(phase=Phase.SUCCEEDED, at=3.0, cause="All replicas ended well.")
    log = [*FIRST[: 14 * in_log], *(line.replace("10:00", "10:01") for line in FIRST)]
    assert measured(*[again] * in_history, ended, log=log).restarts == restarts
