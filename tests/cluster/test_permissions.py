"""The rules of ``k8sbench/role.yaml`` are enough, and what is missing is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k8sbench.model.errors import Unreachable
from k8sbench.model.phase import Phase
from tests.harness.cluster import audit, following, users
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.nodes import GPUS
from tests.harness.cluster.own import OwnCluster


def test_a_whole_run_is_refused_nothing(
    own_cluster: OwnCluster, namespace: Namespace, user: Path
) -> None:
    # A cluster that has just begun takes half a minute to delete what a job owned.
    with following.opened(user, end_s=1.0) as port:
        plan = port.submit(following.plan("2x1"))
        port.end_of(plan)
        port.cluster.jobs()
        port.cluster.look(following.run_of(plan))
        list(port.cluster.printed(following.run_of(plan)))
        other = port.submit(following.plan("1x1"), None)
        port.cluster.cancel(other.run_id, "Enough.", "asked")
        port.end_of(other)
        for one in (plan, other):
            port.cluster.remove(one.run_id)
    name = f"system:serviceaccount:{namespace.name}:user"
    asked = audit.requests(own_cluster.layout.audit_log)
    mine = [request for request in asked if request["user"].get("username") == name]
    assert mine
    statuses = [request["responseStatus"] for request in mine if "responseStatus" in request]
    # 409: the job has changed since it was seen last, and is looked at before it is deleted.
    assert {status["code"] for status in statuses} <= {200, 201, 404, 409}
    # Never all pods of a cluster, never those of others.
    for request in mine:
        reference = request.get("objectRef") or {}
        if reference.get("resource") == "pods" and request["verb"] in {"list", "watch"}:
            assert reference["namespace"] == namespace.name
            assert "labelSelector=k8sbench.io" in request["requestURI"]


def test_without_a_look_at_the_nodes_a_job_that_fits_nowhere_is_pending(
    namespace: Namespace, tmp_path: Path
) -> None:
    user = namespace.user(tmp_path, "near", sees_nodes=False)
    with following.opened(user) as port:
        plan = port.submit(following.plan(f"1x{GPUS + 1}"), None)
        port.until(lambda port: any(one.cause_id for one in port.transitions(plan)))
        assert port.transitions(plan)[-1].phase is Phase.PENDING
        assert not port.notes()


def test_with_a_look_at_the_nodes_it_is_known_to_be_unrecoverable(user: Path) -> None:
    with following.opened(user) as port:
        plan = port.submit(following.plan(f"1x{GPUS + 1}"), None)
        port.until(lambda port: any(one.unrecoverable for one in port.transitions(plan)))
        assert port.cluster.api.sender.requests["list nodes"] == 1


def test_who_may_not_create_jobs_reads_what_is_missing(namespace: Namespace, user: Path) -> None:
    (role,) = namespace.get("roles")
    patch = [{"op": "remove", "path": "/rules/0"}]
    name = role["metadata"]["name"]
    namespace.kubectl("patch", "role", name, "--type=json", f"--patch={json.dumps(patch)}")
    following.until(lambda: not users.may(namespace, "user", "create", "pytorchjobs"))
    plan = following.plan("1x1")
    with following.opened(user) as port, pytest.raises(Unreachable) as wrong:
        port.submit(plan)
    assert (wrong.value.exit_code, wrong.value.cause_id) == (6, "forbidden")
    expected = f"may not create pytorchjobs.kubeflow.org in namespace {namespace.name}."
    assert expected in wrong.value.message
    assert plan.run_id not in namespace.kubectl("get", "configmaps", "--output=name")


def test_a_job_is_not_over_before_its_pods_were_seen(namespace: Namespace, user: Path) -> None:
    with following.opened(user) as port:
        plan = port.submit(following.plan("2x1"))
        port.end_of(plan)
    (role,) = namespace.get("roles")
    name, rules = role["metadata"]["name"], role["rules"]
    few = [rule for rule in rules if rule["resources"] != ["pods"]]
    patch = ("patch", "role", name, "--type=merge")
    namespace.kubectl(*patch, f"--patch={json.dumps({'rules': few})}")
    following.until(lambda: not users.may(namespace, "user", "list", "pods"))
    with following.opened(user, longest_pause=0.5) as port:
        port.resume(plan)
        port.until(lambda port: any("may not list pods" in note for note in port.notes()))
        assert not port.is_over(plan)
        namespace.kubectl(*patch, f"--patch={json.dumps({'rules': rules})}")
        assert port.end_of(plan).phase is Phase.SUCCEEDED
        assert {line.replica for line in port.lines(plan)} == {"master-0", "worker-0"}
