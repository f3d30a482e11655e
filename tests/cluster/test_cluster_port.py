"""The port to a cluster: creating, following and deleting jobs.

The user has only the permissions of ``k8sbench/role.yaml``.
"""

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from k8sbench.model.errors import UsageError
from k8sbench.model.phase import LOGS_BEING_READ, Phase
from k8sbench.model.plan import RunPlan
from tests.harness.cluster import fault_proxy, following
from tests.harness.cluster.following import Port
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import RUN_FOR


@pytest.fixture
def port(user: Path) -> Iterator[Port]:
    with following.opened(user) as opened:
        yield opened


def finish_master(namespace: Namespace, run_id: str) -> None:
    """End rank 0 alone; the workers are running and go on."""
    namespace.kubectl("annotate", "pod", f"{run_id}-master-0", f"{RUN_FOR}=0s")


# -- from creation to the end -----------------------------------------------------------------


@pytest.mark.parametrize("framework", ["pytorch", "paddle"])
def test_a_job_is_followed_to_its_end(port: Port, namespace: Namespace, framework: str) -> None:
    plan = port.submit(following.plan("4x8", framework=framework), None)
    port.until_phase(plan, Phase.RUNNING)
    namespace.finish(plan.run_id)
    end = port.end_of(plan)
    assert (end.phase, end.cause_id) == (Phase.SUCCEEDED, None)
    phases, times = port.phases(plan), [one.at for one in port.transitions(plan)]
    assert len(list(itertools.groupby(phases))) == len(set(phases)), "it never goes back"
    assert times == sorted(times)
    assert port.events[-1].transition == end


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


def test_an_endless_worker_does_not_delay_success(user: Path, namespace: Namespace) -> None:
    with following.opened(user, replicas_end=5.0) as port:
        plan = port.submit(following.plan("2x1"), None)
        port.until_phase(plan, Phase.RUNNING)
        finish_master(namespace, plan.run_id)
        end = port.end_of(plan)
    # Nobody waits a minute, as it may be, to read that the job has ended.
    *_, ending, _ = port.transitions(plan)
    assert not ending.phase.final
    assert ending.cause_id == LOGS_BEING_READ
    assert end.phase is Phase.SUCCEEDED
    assert "worker-0 still ran" in end.cause
    assert {line.replica for line in port.lines(plan)} == {"master-0", "worker-0"}


def test_pods_missed_by_the_watch_are_read_before_the_end(user: Path, namespace: Namespace) -> None:
    with (
        fault_proxy.before(user) as (proxy, path),
        following.opened(path) as port,
        proxy.hold("/pods[?].*watch=") as held,
    ):
        plan = port.submit(following.plan("2x1"), None)
        port.until(lambda _: held.hits)
        namespace.finish(plan.run_id)
        assert port.end_of(plan).phase is Phase.SUCCEEDED
        assert {line.replica for line in port.lines(plan)} == {"master-0", "worker-0"}
        assert len(proxy.requests(f"/pods[?].*{plan.run_id}")) == 1


# -- creating ---------------------------------------------------------------------------------


def test_a_foreign_job_is_neither_joined_nor_deleted(port: Port, namespace: Namespace) -> None:
    plan = following.plan("1x1", trainers_by="image")
    (job,) = following.objects(plan)
    del job["metadata"]["labels"]
    namespace.create(job)
    with pytest.raises(UsageError, match="is not k8sbench's"):
        port.submit(plan)
    port.cluster.remove(plan.run_id)
    assert namespace.get("pytorchjob", plan.run_id)


# -- ending -----------------------------------------------------------------------------------


def test_the_end_follows_all_lines(port: Port, user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread is delayed while it checks that all logs were read."""
    plan = port.submit(following.plan("2x1"))
    port.end_of(plan)
    with following.opened(user) as other:
        drained = other.cluster._logs.drained

        def held_up(run_id: str) -> bool:
            if threading.current_thread() is threading.main_thread():
                following.until(lambda: drained(run_id))
            return drained(run_id)

        monkeypatch.setattr(other.cluster._logs, "drained", held_up)
        other.resume(plan)
        other.end_of(plan)
        assert len(other.lines(plan)) == len(port.lines(plan)) == 2


def test_followers_read_why_it_was_cancelled(port: Port, user: Path, namespace: Namespace) -> None:
    plan = port.submit(following.plan("2x1"), None)
    port.until_phase(plan, Phase.RUNNING)
    with following.opened(user) as other:
        other.resume(plan)
        other.until_phase(plan, Phase.RUNNING)
        port.cluster.cancel(plan.run_id, "Not wanted any more.", "asked")
        port.cluster.cancel(plan.run_id, "Not wanted any more.", "asked")
        for one in (port, other):
            end = one.end_of(plan)
            assert (end.phase, end.cause, end.cause_id) == (
                Phase.CANCELLED,
                "Not wanted any more.",
                "asked",
            )
    assert namespace.get("pytorchjobs") == []


def test_closing_at_once_keeps_a_cancellation(user: Path, namespace: Namespace) -> None:
    with following.opened(user) as port:
        plan = port.submit(following.plan("1x1"), None)
        port.cluster.cancel(plan.run_id, "Not wanted any more.", "asked")
    namespace.wait("delete", f"pytorchjob/{plan.run_id}")


# -- others' jobs -----------------------------------------------------------------------------


def test_for_no_names_no_job_is_listed(port: Port) -> None:
    one, other = (port.submit(following.plan("1x1")) for _ in range(2))
    port.end_of(one)
    port.end_of(other)
    cluster = port.cluster
    asked = cluster.api.sender.requests.copy()
    assert cluster.jobs([]) == []
    assert cluster.api.sender.requests == asked
    assert one in [job.plan for job in cluster.jobs([one.run_id, "no-such-run"])]


def test_a_job_resumed_later_is_reported(port: Port, user: Path, namespace: Namespace) -> None:
    with following.opened(user) as other:
        old = other.submit(following.plan("1x1", set_name="one"))
        other.end_of(old)
    new = port.submit(following.plan("1x1", set_name="one"), None)
    port.until_phase(new, Phase.RUNNING)
    port.resume(old)
    assert port.end_of(old).phase is Phase.SUCCEEDED
    namespace.finish(new.run_id)
    assert port.end_of(new).phase is Phase.SUCCEEDED


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


FINALIZER = "test.example/hold"
KEPT = (
    f"its deletion was requested and waits for the finalizer {FINALIZER}; the job and its pods "
    f"stay until that is removed."
)


@pytest.fixture
def held(user: Path, namespace: Namespace) -> Iterator[tuple[Port, RunPlan]]:
    """Yield a running job that a finalizer keeps until the test ends."""
    with following.opened(user, replicas_end=1.0) as port:
        plan = port.submit(following.plan("2x1"), None)
        port.until_phase(plan, Phase.RUNNING)
        hold(namespace, plan, FINALIZER)
        yield port, plan
        hold(namespace, plan)


def hold(namespace: Namespace, plan: RunPlan, *finalizers: str) -> None:
    patch = json.dumps({"metadata": {"finalizers": finalizers}})
    namespace.kubectl("patch", f"pytorchjob/{plan.run_id}", "--type=merge", f"--patch={patch}")


def test_deleting_names_the_finalizer(held: tuple[Port, RunPlan], namespace: Namespace) -> None:
    port, plan = held
    assert port.cluster.remove(plan.run_id) == KEPT
    assert port.cluster.remove(plan.run_id) == KEPT
    # It is no exaggeration: nobody deletes the pods before the job.
    assert len(namespace.wait_for_pods(2)) == 2
