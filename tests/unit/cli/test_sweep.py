"""Progress of a sweep and its estimated remaining time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from k8sbench.cli.terminal.live import Sweep
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from tests.unit.cli import live_runs
from tests.unit.model.measurements import measurement


def started(sweep: Sweep, run_id: str, at: float) -> Run:
    run = live_runs.run(run_id)
    sweep.began(run, at)
    return run


def took(sweep: Sweep, seconds: Sequence[float]) -> None:
    for number, each in enumerate(seconds):
        run = started(sweep, f"run-{number}", 0.0)
        sweep.closed(live_runs.ended(run, measurement=measurement()), each)


def test_before_the_first_run_has_succeeded_there_is_no_estimate() -> None:
    sweep = Sweep(3, 0, 1)
    assert sweep.remaining(0.0) is None
    sweep.closed(live_runs.ended(started(sweep, "x", 0.0), Phase.FAILED), 5.0)
    assert sweep.remaining(5.0) is None
    assert (sweep.ended, sweep.wanted) == (1, 3)


def test_runs_to_come_take_as_long_as_the_others() -> None:
    sweep = Sweep(4, 0, 1)
    took(sweep, [100.0, 120.0])
    assert sweep.remaining(0.0) == pytest.approx(2 * 110)


def test_what_goes_on_has_less_left_and_parallel_runs_share_the_time() -> None:
    sweep = Sweep(5, 0, 2)
    took(sweep, [100.0])
    started(sweep, "going", 1000.0)
    assert sweep.remaining(1060.0) == pytest.approx((40 + 3 * 100) / 2)
    # The last run is not shared, and one that takes longer than expected has no negative rest.
    alone = Sweep(2, 0, 8)
    took(alone, [100.0])
    started(alone, "going", 1000.0)
    assert alone.remaining(1030.0) == pytest.approx(70.0)
    assert alone.remaining(1500.0) == 0.0


def test_a_resumed_sweep_counts_what_its_set_has_and_does_not_estimate_from_it() -> None:
    sweep = Sweep(2, 1, 1)
    assert (sweep.ended, sweep.wanted) == (1, 3)
    assert sweep.remaining(0.0) is None
