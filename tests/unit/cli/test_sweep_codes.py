"""The end of a sweep over batch sizes: exit code, and status of its Benchmark."""

import msgspec
import pytest

from k8sbench.cli.rows import code_of_runs
from k8sbench.lifecycle import benchmark_status
from k8sbench.model.benchmark_object import Benchmark
from k8sbench.model.benchmark_object import ObjectSpec as Asked
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run
from k8sbench.results.groups.grouping import groups
from tests.results.groups.test_sweeps import SWEEP, TOO_LARGE, size
from tests.results.report.factory import run

FAILED = run(phase=Phase.FAILED, batch_size=512)


@pytest.mark.parametrize(
    ("runs", "code"),
    [
        (SWEEP, 0),
        ((size(64), size(128)), 3),
        ((size(64),), 3),
        ((*SWEEP, FAILED), 3),
        # Not of the same sweep, or of the same size: something else is wrong there.
        ((size(64, 700.0), size(128, case="1x1")), 3),
        ((size(64, 700.0), size(64, repeat=2)), 3),
        ((size(64, measured={"verdict": "rejected"}), size(128)), 5),
    ],
)
def test_out_of_memory_is_no_failure_where_another_size_was_measured(
    runs: tuple[Run, ...], code: int
) -> None:
    assert code_of_runs(runs) == code
    wanted = Benchmark(name="a", uid="u", generation=1, created_at=0.0, spec=Asked())
    found = benchmark_status.status_of(
        wanted, runs, planned=len(runs), now=2e9, groups=groups(runs)
    )
    assert found["phase"] == ("Failed" if code == 3 else "Succeeded")
    if runs is SWEEP:
        assert found["conditions"][1]["reason"] == "RowsValid"


def test_an_end_after_the_window_keeps_its_figure_and_fails() -> None:
    measured = msgspec.structs.replace(TOO_LARGE, measurement=size(256, 950.0).measurement)
    assert code_of_runs([*SWEEP[:-1], measured]) == 3
