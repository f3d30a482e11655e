"""What ``--dry-run=server`` learns of the pods, which the operator creates only later."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from k8sbench.adapters.kubernetes import dry_run
from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.model.finding import Finding
from k8sbench.model.plan import RunPlan
from tests.harness.cluster import following, users
from tests.harness.cluster.namespace import Namespace

Try = Callable[[RunPlan], list[Finding]]
MISSING = "no-such-priority"


def tried(kubeconfig: Path, namespace: Namespace, plan: RunPlan) -> list[Finding]:
    """Try a job; gives what is said about its pods, and the namespace's quota and limits."""
    wanted = following.objects(plan)
    with contextlib.closing(connect(kubeconfig=str(kubeconfig), namespace=namespace.name)) as api:
        found = dry_run.check(api, plan, wanted)
    assert namespace.get("pods") == []
    return [line for line in found if line.id in {"pods", "quota", "limit-range"}]


@pytest.fixture
def by_admin(namespace: Namespace) -> Try:
    """Try jobs as a user who may create pods."""
    return lambda plan: tried(namespace.cluster.kubeconfig, namespace, plan)


@pytest.fixture
def by_user(namespace: Namespace, user: Path) -> Try:
    """Try jobs as a user of the Role, who may not."""
    return lambda plan: tried(user, namespace, plan)


@pytest.fixture
def see_priorities(namespace: Namespace) -> Iterator[None]:
    """Let the user see which priority classes there are."""
    name = f"{namespace.name}-priorities"
    cluster = namespace.cluster
    verb, resource = "get", "priorityclasses.scheduling.k8s.io"
    cluster.kubectl("create", "clusterrole", name, f"--verb={verb}", f"--resource={resource}")
    account = f"--serviceaccount={namespace.name}:user"
    cluster.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", account)
    following.until(lambda: users.may(namespace, "user", verb, resource))
    yield
    cluster.kubectl("delete", f"clusterrole/{name}", f"clusterrolebinding/{name}")


def of_priority(name: str) -> RunPlan:
    return following.plan(pool=msgspec.structs.replace(following.POOL, priority_class=name))


def test_of_pods_that_would_be_admitted_nothing_is_said(by_admin: Try, by_user: Try) -> None:
    for framework in ("pytorch", "paddle"):
        plan = following.plan(framework=framework)
        assert by_admin(plan) == by_user(plan) == []
    assert by_admin(of_priority("system-node-critical")) == []


def test_a_priority_class_that_does_not_exist(by_admin: Try) -> None:
    (line,) = by_admin(of_priority(MISSING))
    assert line.severity == "fail"
    assert line.sentence.startswith("No pod of Master and Worker would be created")
    assert f"'no PriorityClass with name {MISSING} was found'." in line.sentence


def test_a_limit_range_that_the_pods_break(
    by_admin: Try, by_user: Try, namespace: Namespace
) -> None:
    limits = [{"type": "Container", "max": {"memory": "1Mi"}}]
    head: dict[str, Any] = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a"}}
    namespace.create({**head, "spec": {"limits": limits}})
    (line,) = by_admin(following.plan())
    assert (line.id, line.severity) == ("pods", "fail")
    assert "maximum memory usage per Container is 1Mi" in line.sentence
    # Who may not create pods learns of it from the limit range itself.
    (line,) = by_user(following.plan())
    assert (line.id, line.severity) == ("limit-range", "fail")
    assert "LimitRange a takes at most 1Mi of memory for a Container, and " in line.sentence


def test_a_quota_that_is_too_small_is_reported_once(by_admin: Try, namespace: Namespace) -> None:
    namespace.kubectl("create", "quota", "small", "--hard=requests.memory=1Mi")
    namespace.until(lambda quota: bool(quota["status"].get("hard")), "quota/small")
    (line,) = by_admin(following.plan())
    assert (line.id, line.severity) == ("quota", "fail")


def test_who_may_not_create_pods_reads_of_a_missing_priority_class(
    by_user: Try, see_priorities: None
) -> None:
    assert by_user(of_priority("system-node-critical")) == []
    (line,) = by_user(of_priority(MISSING))
    assert line.severity == "fail"
    assert line.sentence.startswith(f"There is no PriorityClass {MISSING}, which the pool v100 ")


def test_who_may_see_neither_reads_that_it_was_not_looked_at(by_user: Try) -> None:
    (line,) = by_user(of_priority(MISSING))
    assert line.severity == "warn"
    assert line.sentence.startswith("Not checked: whether PriorityClass ")
