"""Progress of a sweep and its estimated remaining time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from k8sbench.cli.terminal.live import Sweep
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from tests.unit.cli import live_runs
from tests.unit.store.examples import measurement, plan

SMALL, LARGE = plan("a"), plan("b", replicas=2)


def started(sweep: Sweep, run_id: str, at: float, *, large: bool = False) -> Run:
    run = live_runs.run(run_id, replicas=2 if large else 1)
    sweep.began(run, at)
    return run


def took(sweep: Sweep, seconds: Sequence[float], *, large: bool = False) -> None:
    for number, each in enumerate(seconds):
        run = started(sweep, f"{'l' if large else 's'}-{number}", 0.0, large=large)
        sweep.closed(live_runs.ended(run, measurement=measurement()), each)


def test_before_the_first_run_has_succeeded_there_is_no_estimate() -> None:
    sweep = Sweep([SMALL] * 3, [], 1)
    assert sweep.remaining(0.0) is None
    sweep.closed(live_runs.ended(started(sweep, "x", 0.0), Phase.FAILED), 5.0)
    assert sweep.remaining(5.0) is None
    assert (sweep.ended, sweep.wanted) == (1, 3)


def test_runs_to_come_take_as_long_as_those_of_their_case_or_else_as_the_others() -> None:
    sweep = Sweep([SMALL] * 4 + [LARGE] * 3, [], 1)
    took(sweep, [100.0, 120.0])
    # Two more small ones, and the large ones are not known yet.
    assert sweep.remaining(0.0) == pytest.approx((2 + 3) * 110)
    took(sweep, [300.0], large=True)
    assert sweep.remaining(0.0) == pytest.approx(2 * 110 + 2 * 300)


def test_what_goes_on_has_less_left_and_parallel_runs_share_the_time() -> None:
    sweep = Sweep([SMALL] * 5, [], 2)
    took(sweep, [100.0])
    started(sweep, "going", 1000.0)
    assert sweep.remaining(1060.0) == pytest.approx((40 + 3 * 100) / 2)
    # The last run is not shared, and one that takes longer than expected has no negative rest.
    alone = Sweep([SMALL] * 2, [], 8)
    took(alone, [100.0])
    started(alone, "going", 1000.0)
    assert alone.remaining(1030.0) == pytest.approx(70.0)
    assert alone.remaining(1500.0) == 0.0


def test_a_resumed_sweep_counts_what_its_set_has_and_does_not_estimate_from_it() -> None:
    before = live_runs.ended(live_runs.run("before"), measurement=measurement())
    sweep = Sweep([SMALL, LARGE], [before], 1)
    assert (sweep.ended, sweep.wanted) == (1, 3)
    assert sweep.remaining(0.0) is None
