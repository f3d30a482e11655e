"""Recorded runs: lines that their logs lack, changed jobs, restarts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from k8sbench.model import creation
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import RESTARTING, Phase, Transition
from k8sbench.reader.measuring.recorded import is_result, measure_run
from tests.reader.measuring.own_runs import PLAN
from tests.reader.measuring.recorded_runs import WHY, gap, measured, run
from tests.reader.measuring.support import Lines, ids, lines_of, mmseg


@pytest.mark.parametrize(
    ("after", "before", "what"),
    [
        (None, None, "its beginning and its end"),
        (None, 5.1, "its beginning and 10:00:05 UTC"),
        (None, 12, "its beginning and 10:00:12 UTC"),
        (10.5, 11.5, "10:00:10 UTC and 10:00:11 UTC"),
        (9, 20, "10:00:09 UTC and 10:00:20 UTC"),
        (13.5, None, "10:00:13 UTC and its end"),
        (16, None, "10:00:16 UTC and its end"),
        (18.9, 30, "10:00:18 UTC and 10:00:30 UTC"),
    ],
)
def test_a_gap_in_the_window_rejects(after: float | None, before: float | None, what: str) -> None:
    """Lines of the window may be written up to 5 s later."""
    found = measured(gap(after, before))
    assert (found.verdict, ids(found, "reject")) == ("rejected", ["incomplete-log"])
    assert found.throughput is None
    assert found.unverified is not None
    assert found.missing["throughput"] == "Rejected; the figures are under unverified."
    (reason,) = found.reasons
    assert reason.sentence == f"The log of master-0 lacks lines between {what}: {WHY}"


def test_of_several_gaps_one_that_matters_is_named() -> None:
    gaps = [gap(2, 4), gap(10.5, 11.5), gap(10.5, 12, "worker-0")]
    (reason,) = measured(*gaps).reasons
    assert "10:00:10 UTC and 10:00:11 UTC" in reason.sentence
    assert reason.sentence.endswith("And 2 more gaps.")
    assert measured(*gaps[:2]).reasons[0].sentence.endswith("And 1 more gap.")


def test_a_failed_run_has_a_result_only_if_nothing_planned_is_missing() -> None:
    whole, none = measured(), measure_run(run(), [])
    ends = [Transition(phase=phase, at=2.0, cause="") for phase in (Phase.FAILED, Phase.SUCCEEDED)]
    found = [is_result(run(end), one) for end in ends for one in (whole, none)]
    assert found == [True, False, True, True]


# -- history --------------------------------------------------------------------------------------


FIRST = lines_of("k8sbench_master.log")


def of_history(*history: Transition, log: Sequence[str] = FIRST) -> Measurement:
    second = Lines(lines_of("k8sbench_worker.log"), "logs/worker-0.log")
    return measure_run(run(*history), [Lines(log, "logs/master-0.log"), second])


def test_a_pause_before_a_training_was_continued_is_stated() -> None:
    end = Transition(phase=Phase.CANCELLED, at=100.0, cause="Cancelled.")
    again = creation.training_continues(PLAN, 1, 7300.0)
    history = (end, again, Transition(phase=Phase.SUCCEEDED, at=9000.0, cause="It has ended."))
    found = of_history(*history)
    (paused,) = [reason for reason in found.reasons if reason.id == "continued"]
    assert (paused.severity, "after 2h" in paused.sentence) == ("warn", True)
    assert "continued" not in ids(of_history(*history[2:]))


def test_an_attempt_that_ended_before_its_first_line_is_a_restart_all_the_same() -> None:
    again = Transition(phase=Phase.PENDING, at=100.0, cause="Again.", cause_id=RESTARTING)
    assert of_history().restarts == 0
    assert of_history(again, again).restarts == 2


def test_of_a_clock_without_a_zone_nothing_is_known() -> None:
    upstream = run(plan=msgspec.structs.replace(PLAN, trainer=None, impl="upstream"))
    lines = [mmseg(number, at=number * 0.5) for number in range(1, 40)]
    found = measure_run(upstream, [Lines(lines, "master-0.log")], gaps=[gap(100, None)])
    assert "incomplete-log" in ids(found, "reject")
