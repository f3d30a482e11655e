"""Documents of runs."""

from k8sbench.model.phase import Phase, ReplicaState, Transition
from k8sbench.report import document


def test_a_jobs_present_state_is_the_first_reported_step_as_of_now() -> None:
    phases = (Phase.RUNNING, Phase.FAILED)
    steps = [Transition(phase=phase, at=1.0, cause="") for phase in phases]
    replicas = [ReplicaState(replica="master-0", phase=Phase.RUNNING)]
    found = document.on_cluster(steps, replicas, 9.0)
    assert found is not None
    assert (found.phase, found.at, found.replicas) == (Phase.RUNNING, 9.0, tuple(replicas))
    assert document.on_cluster([], replicas, 9.0) is None
