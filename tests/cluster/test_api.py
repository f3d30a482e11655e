"""Requests to a real API server, and what its refusals mean to the user."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.errors import BenchError, Unreachable, UsageError
from tests.harness.cluster.jobs import pytorch_job
from tests.harness.cluster.manifests import pod
from tests.harness.cluster.namespace import Namespace


@pytest.fixture
def api(user: Path) -> Iterator[Api]:
    found = connect(kubeconfig=str(user))
    yield found
    found.close()


@pytest.fixture
def admin(namespace: Namespace) -> Iterator[Api]:
    found = connect(kubeconfig=str(namespace.cluster.kubeconfig), namespace=namespace.name)
    yield found
    found.close()


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


MINE = "metadata.name=a"
"""Selects the test's own map; the cluster adds another one later."""


def maps(api: Api, name: str = "") -> str:
    return kinds.path("ConfigMap", api.place.namespace, name)


def refused(api: Api, job: dict[str, Any]) -> BenchError:
    """Have a job refused, and say what that means."""
    with pytest.raises(ApiFault) as fault:
        api.create(kinds.path("PyTorchJob", api.place.namespace), job)
    return api.explained(fault.value, "job x be created")


# -- requests ---------------------------------------------------------------------------------


def test_objects_are_created_changed_and_deleted(admin: Api) -> None:
    made = admin.create(maps(admin), config_map("a", x="1"))
    assert [one["manager"] for one in made["metadata"]["managedFields"]] == ["k8sbench"]
    changed = admin.patch(maps(admin, "a"), {"data": {"y": "2"}})
    found = admin.get(maps(admin, "a"))
    assert found["data"] == changed["data"] == {"x": "1", "y": "2"}
    assert found["metadata"]["uid"] == made["metadata"]["uid"] == changed["metadata"]["uid"]
    # Of a large object its metadata are enough.
    brief = admin.find(maps(admin, "a"), brief=True)
    assert brief is not None
    assert brief["metadata"]["uid"] == made["metadata"]["uid"]
    assert "data" not in brief
    assert admin.find(maps(admin, "b"), brief=True) is None
    assert not admin.delete(maps(admin, "a"), uid="of-another")
    assert admin.delete(maps(admin, "a"), uid=made["metadata"]["uid"])
    assert not admin.delete(maps(admin, "a"))


def test_a_watch_can_be_closed_while_another_thread_waits_for_it(admin: Api) -> None:
    _, version = admin.list(maps(admin))
    watch = admin.watch(maps(admin), fields=MINE, resource_version=version, timeout_s=60)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(watch.changes()))
    thread.start()
    watch.close()
    thread.join(20)
    assert not thread.is_alive()
    assert found == []


# -- refusals ---------------------------------------------------------------------------------


def test_a_pod_that_the_namespace_forbids_is_refused_with_the_rule(restricted: Namespace) -> None:
    kubeconfig = str(restricted.cluster.kubeconfig)
    with contextlib.closing(connect(kubeconfig=kubeconfig, namespace=restricted.name)) as admin:
        with pytest.raises(ApiFault) as fault:
            admin.create(kinds.path("Pod", restricted.name), pod("p", {"name": "c", "image": "x"}))
        error = admin.explained(fault.value, "pod p be created")
    assert (type(error), error.cause_id) == (UsageError, "pod-security")


def test_without_the_namespace_or_the_kind_that_is_what_is_missing(namespace: Namespace) -> None:
    kubeconfig = str(namespace.cluster.kubeconfig)
    with contextlib.closing(connect(kubeconfig=kubeconfig, namespace="no-such")) as admin:
        error = refused(admin, pytorch_job())
        assert (type(error), error.cause_id) == (UsageError, "namespace-missing")
        assert "There is no namespace no-such" in error.message
        absent = f"/apis/kubeflow.org/v1/namespaces/{namespace.name}/mpijobs"
        with pytest.raises(ApiFault) as fault:
            admin.create(absent, {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob"})
        error = admin.explained(fault.value, "job x be created")
        assert (type(error), error.cause_id) == (Unreachable, "operator-missing")


def test_what_is_not_permitted_is_reported_by_verb_resource_and_namespace(api: Api) -> None:
    group = "/apis/kubeflow.org/v1"
    for path, resource, namespace in (
        (f"/api/v1/namespaces/{api.place.namespace}/secrets", "secrets", api.place.namespace),
        (f"{group}/namespaces/default/pytorchjobs", "pytorchjobs.kubeflow.org", "default"),
    ):
        with pytest.raises(ApiFault) as fault:
            api.create(path, {"metadata": {"name": "x"}})
        error = api.explained(fault.value, "it be created")
        assert (type(error), error.cause_id) == (Unreachable, "forbidden")
        assert f"may not create {resource} in namespace {namespace}." in error.message
        assert error.action.endswith(f"role.yaml in namespace {namespace}.")
