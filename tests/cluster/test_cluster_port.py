"""The port to a cluster: creating, following and deleting jobs.

The user has only the permissions of ``role.yaml``.
"""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from k8sbench.model.phase import Phase
from tests.harness.cluster import following
from tests.harness.cluster.following import Port
from tests.harness.cluster.namespace import Namespace


@pytest.fixture
def port(user: Path) -> Iterator[Port]:
    with following.opened(user) as opened:
        yield opened


# -- from creation to the end -----------------------------------------------------------------


@pytest.mark.parametrize("sees_nodes", [True, False])
def test_node_facts_precede_the_end(namespace: Namespace, tmp_path: Path, sees_nodes: bool) -> None:
    user = namespace.user(tmp_path, "reader", sees_nodes=sees_nodes)
    with following.opened(user) as port:
        plan = port.submit(following.plan("2x1"))
        assert port.end_of(plan).phase is Phase.SUCCEEDED
    found = [event.nodes for event in port.events if event.nodes is not None]
    on = {one.replica.node for one in port.events if one.replica and one.replica.node}
    assert [set(nodes) for nodes in found] == [on] * sees_nodes
    assert all("kubelet" in facts for nodes in found for facts in nodes.values())


# -- ending -----------------------------------------------------------------------------------


def test_the_end_follows_all_lines(port: Port, user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread is delayed while it checks that all logs were read."""
    plan = port.submit(following.plan("2x1"))
    port.end_of(plan)
    with following.opened(user) as other:
        drained = other.cluster.logs.drained

        def held_up(run_id: str) -> bool:
            if threading.current_thread() is threading.main_thread():
                following.until(lambda: drained(run_id))
            return drained(run_id)

        monkeypatch.setattr(other.cluster.logs, "drained", held_up)
        other.resume(plan)
        other.end_of(plan)
        assert len(other.lines(plan)) == len(port.lines(plan)) == 2


# -- what keeps a job, or leaves it ------------------------------------------------------------


def test_a_run_ends_whose_job_is_deleted_without_its_pods(namespace: Namespace, user: Path) -> None:
    with following.opened(user, replicas_end=1.0) as port:
        kind = namespace.cluster.kind
        plan = port.submit(following.plan("2x1", kind), None)
        last = kind.names(2)[-1]
        port.until(lambda port: last in {line.replica for line in port.lines(plan)})
        namespace.kubectl("delete", namespace.job(plan.run_id), "--cascade=orphan")
        end = port.end_of(plan)
    assert (end.phase, end.cause_id) == (Phase.LOST, "job-deleted")
    assert len(namespace.get("pods")) == 2
