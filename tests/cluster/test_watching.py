"""Following survives outages of the API server, the network and the operator.

Nothing is lost or reported twice, and nothing waits forever.
"""

import itertools
import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes.client import api
from k8sbench.model.job_kind import JobKind
from k8sbench.model.kinds import PYTORCH_JOB
from k8sbench.model.kube import KubeObject, name_of
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from tests.harness.cluster import fault_proxy, following
from tests.harness.cluster.fault_proxy import FaultProxy
from tests.harness.cluster.following import Port
from tests.harness.cluster.limits import SECONDS
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster


def compact(cluster: OwnCluster) -> None:
    """Have etcd forget all but the present state."""
    now = _ask(cluster, "/v3/kv/range", key="AA==")["header"]["revision"]
    _ask(cluster, "/v3/kv/compaction", revision=now)


def _ask(cluster: OwnCluster, path: str, **body: str) -> Any:
    url = cluster.layout.url("etcd", path, "http")
    text = json.dumps(body).encode()
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(urllib.request.Request(url, text), timeout=SECONDS) as answer:
        return json.load(answer)


QUICK: dict[str, Any] = {"watch": 1.0, "watch_pause": 1.0}
"""Watches that are renewed every second, so that a test sees it happen."""


@pytest.fixture
def behind(user: Path) -> Iterator[tuple[Port, FaultProxy]]:
    """Give the port behind a proxy whose connections a test can break."""
    with fault_proxy.before(user) as (proxy, path), following.opened(path, **QUICK) as port:
        yield port, proxy


def check_told_once(port: Port, plan: RunPlan) -> None:
    """Check for one end, no repeated state, each line once."""
    assert port.end_of(plan).phase is Phase.SUCCEEDED
    reported = [(one.phase, one.cause_id) for one in port.transitions(plan)]
    assert len(reported) == len(set(reported))
    names = {"master-0", "worker-0", "worker-1", "worker-2"}
    assert sorted(line.replica for line in port.lines(plan)) == sorted(names)
    replicas = [one.replica for one in port.events if one.replica is not None]
    assert all(one != other for one, other in itertools.pairwise(replicas))


def running(port: Port, of: JobKind = PYTORCH_JOB) -> RunPlan:
    """Submit a job and wait until it runs; it ends on request."""
    plan = port.submit(following.plan("4x1", of), None)
    port.until_phase(plan, Phase.RUNNING)
    return plan


def test_an_api_server_restart(own_cluster: OwnCluster, namespace: Namespace, user: Path) -> None:
    with following.opened(user) as port:
        plan = running(port)
        with own_cluster.without("kube-apiserver"):
            port.until(lambda port: any("does not answer" in note for note in port.notes()))
        port.until(lambda port: len(port.notes()) > 1)
        namespace.finish(plan.run_id)
        check_told_once(port, plan)
        # One that has just begun may fail again, or refuse logs; each time is noted once.
        said = [note for note in port.notes() if not note.startswith("Logs cannot be read")]
        assert re.match(
            r"The API server does not answer since \d+ s \(connection refused\)", said[0]
        )
        assert all(note.startswith("The API server does not ") for note in said[::2])
        assert all(note.startswith("The API server answers again, after ") for note in said[1::2])
        assert len(said) % 2 == 0


def test_a_dead_connection_is_seen(behind: tuple[Port, FaultProxy], namespace: Namespace) -> None:
    port, proxy = behind
    plan = running(port)
    before = len(proxy.requests("watch="))
    with proxy.mute():
        namespace.finish(plan.run_id)
        namespace.wait("condition=Succeeded", f"pytorchjob/{plan.run_id}")
        following.until(lambda: len(proxy.requests("watch=")) > before)
    check_told_once(port, plan)


def test_what_happened_before_history_was_forgotten_is_reported(
    own_cluster: OwnCluster,
    behind: tuple[Port, FaultProxy],
    namespace: Namespace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port, proxy = behind
    kind = namespace.cluster.kind
    plan, gone = running(port, kind), running(port, kind)
    with proxy.down():
        namespace.finish(plan.run_id)
        namespace.wait_for_success(plan.run_id)
        namespace.kubectl("delete", namespace.job(gone.run_id))
        # The API server remembers what it has served itself; etcd what was not compacted.
        compact(own_cluster)
        with own_cluster.without("kube-apiserver"):
            pass
    listed: list[str] = []
    read = port.cluster.api.list

    def noted(path: str, **query: Any) -> Any:
        listed.append(path)
        return read(path, **query)

    monkeypatch.setattr(port.cluster.api, "list", noted)
    assert port.end_of(plan).phase is Phase.SUCCEEDED
    end = port.end_of(gone)
    assert (end.phase, end.cause_id) == (Phase.LOST, "job-deleted")
    assert any(path.endswith("/pods") for path in listed)


def test_a_list_whose_version_is_forgotten_between_its_pages_is_read_anew(
    own_cluster: OwnCluster, namespace: Namespace, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "PAGE", 2)
    names = [f"pod-{number}" for number in range(5)]
    for name in names:
        namespace.kubectl("run", name, "--image=none")
    kept: list[str] = []

    def keep(found: KubeObject) -> KubeObject:
        kept.append(name_of(found))
        if len(kept) == 1:
            namespace.kubectl("label", "pod", names[0], "since=then")
            compact(own_cluster)
        return found

    with following.opened(user) as port:
        found, _ = port.cluster.api.list(f"/api/v1/namespaces/{namespace.name}/pods", keep=keep)
    assert [name_of(one) for one in found] == names
    assert kept == [*names[:2], *names]


def test_a_permission_is_taken_away_and_given_back(namespace: Namespace, user: Path) -> None:
    with following.opened(user, **QUICK) as port:
        plan = running(port)
        (binding,) = namespace.get("rolebindings")
        namespace.kubectl("delete", "rolebinding", binding["metadata"]["name"])
        port.until(lambda port: any("cannot be watched" in note for note in port.notes()))
        del binding["metadata"]["resourceVersion"], binding["metadata"]["uid"]
        namespace.create(binding)
        namespace.finish(plan.run_id)
        check_told_once(port, plan)
