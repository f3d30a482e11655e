"""Documents of runs."""

import msgspec

from k8sbench.model.group import Deviation
from k8sbench.model.phase import Phase, ReplicaState, Transition
from k8sbench.results.groups.grouping import groups
from k8sbench.results.groups.speedup import results
from k8sbench.results.report import document
from tests.results.report.factory import V100_16, run


def test_a_jobs_present_state_is_the_first_reported_step_as_of_now() -> None:
    phases = (Phase.RUNNING, Phase.FAILED)
    steps = [Transition(phase=phase, at=1.0, cause="") for phase in phases]
    replicas = [ReplicaState(replica="master-0", phase=Phase.RUNNING)]
    found = document.on_cluster(steps, replicas, 9.0)
    assert found is not None
    assert (found.phase, found.at, found.replicas) == (Phase.RUNNING, 9.0, tuple(replicas))
    assert document.on_cluster([], replicas, 9.0) is None


def test_the_csv_has_the_figure_as_published_also_where_its_own_logs_correct_it() -> None:
    deviation = Deviation(
        source="dlperf",
        title="DLPerf",
        case="1x8",
        precision="fp32",
        batch_size=128,
        gpu_model=V100_16,
        published=2900.0,
        estimator="median",
        ours=2600.0,
        corrected=2500.0,
        ratio=0.04,
    )
    (result,) = results(groups([run(2600.0)]))
    header, (row,) = document.flat([msgspec.structs.replace(result, deviations=(deviation,))])
    assert row[header.index("published dlperf")] == 2900.0
    assert row[header.index("deviation dlperf")] == 0.04
