"""A sweep that is killed before each of its writes, and gone on with."""

from __future__ import annotations

import itertools

import pytest

from tests.cluster.test_every_write import killed
from tests.cluster.test_sweeps import CASE, listed, sweeping, two_nodes
from tests.harness.cluster import rack
from tests.harness.cluster.fault_proxy import FaultProxy
from tests.harness.cluster.shell import Shell

pytestmark = pytest.mark.soak

__all__ = ("sweeping", "two_nodes")
REPEATS = 2
MOST = 12
"""More writes than the sweep makes."""


@pytest.mark.timeout(1800)
def test_a_sweep_that_is_killed_before_any_write_is_gone_on_with_and_makes_no_run_twice(
    sweeping: Shell, proxy: FaultProxy
) -> None:
    words = (*CASE, f"--repeats={REPEATS}", "--parallel=1")
    rack.logs(sweeping, range(1, MOST * 2 * REPEATS))
    for writes in itertools.count():
        sweeping.environment["FIRST_RUN"] = str(len(listed(sweeping)) + 1)
        is_killed = killed(sweeping, proxy, writes, *words, f"--set=night-{writes}")
        sweeping.environment["FIRST_RUN"] = str(len(listed(sweeping)) + 1)
        sweeping.run(*words, f"--resume=night-{writes}")
        sweeping.run("collect", "--all")
        runs = [run for run in listed(sweeping) if run["set_name"] == f"night-{writes}"]
        assert [(run["phase"], run["verdict"]) for run in runs] == [
            ("Succeeded", "valid")
        ] * REPEATS
        assert sorted(run["repeat"] for run in runs) == [*range(1, REPEATS + 1)]
        assert sweeping.on_cluster() == []
        if not is_killed:
            break
        assert writes < MOST
    # Of each run the job: created, and deleted. The trainers are there since the first sweep.
    assert writes >= 2 * REPEATS
