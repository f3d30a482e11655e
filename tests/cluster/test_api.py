"""Requests to a real API server, and what its refusals mean to the user."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client import api as api_module
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.connection import connect
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.model.errors import BenchError, Unreachable, UsageError
from tests.harness.cluster import wire
from tests.harness.cluster.jobs import pytorch_job
from tests.harness.cluster.limits import SECONDS, TEST_SECONDS
from tests.harness.cluster.manifests import pod
from tests.harness.cluster.namespace import Namespace
from tests.harness.cluster.own import OwnCluster


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
"""Of a namespace's maps the one that a test makes: the cluster adds one when it comes to that."""


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
    changed = admin.patch(maps(admin, "a"), {"data": {"y": "2"}})
    found = admin.get(maps(admin, "a"))
    assert found["data"] == changed["data"] == {"x": "1", "y": "2"}
    assert found["metadata"]["uid"] == made["metadata"]["uid"] == changed["metadata"]["uid"]
    assert not admin.delete(maps(admin, "a"), uid="of-another")
    assert admin.delete(maps(admin, "a"), uid=made["metadata"]["uid"])
    assert not admin.delete(maps(admin, "a"))


def test_of_a_large_object_its_metadata_are_enough(admin: Api) -> None:
    made = admin.create(maps(admin), config_map("a", x="1"))
    found = admin.find(maps(admin, "a"), brief=True)
    assert found is not None
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert "data" not in found
    assert admin.find(maps(admin, "b"), brief=True) is None


def test_who_changed_a_field_is_on_record(api: Api) -> None:
    made = api.create(maps(api), config_map("a", x="1"))
    assert [one["manager"] for one in made["metadata"]["managedFields"]] == ["k8sbench"]


def test_a_long_list_is_asked_for_in_parts(admin: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "PAGE", 2)
    wanted = {f"m{number}" for number in range(5)}
    for name in sorted(wanted):
        admin.create(maps(admin), config_map(name))
    found, version = admin.list(maps(admin), fields="metadata.name!=kube-root-ca.crt")
    assert {one["metadata"]["name"] for one in found} == wanted
    assert int(version) > 0
    assert admin.sender.requests["list configmaps"] == 3


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


def test_who_only_looks_does_not_wait_long_for_an_answer(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "READ_SECONDS", 2 * TEST_SECONDS)
    with (
        wire.between(user) as (line, path),
        contextlib.closing(connect(kubeconfig=str(path))) as api,
    ):
        assert api.no_answer(SECONDS) is None  # there is a connection
        api.retry_s = 0.5
        with line.mute(), pytest.raises(ApiFault, match="did not answer in time"):
            api.get(kinds.path("Pod", api.place.namespace, "pod"))


# -- refusals ---------------------------------------------------------------------------------


def test_an_unknown_field_is_named(api: Api) -> None:
    error = refused(api, pytorch_job(nprocPerNodes="8"))
    assert isinstance(error, UsageError)
    assert error.cause_id == "manifest-refused"
    assert 'unknown field "spec.nprocPerNodes"' in error.message


def test_what_a_webhook_refuses_is_reported_in_its_words(api: Api) -> None:
    error = refused(api, pytorch_job(pod={"containers": [{"name": "other", "image": "x"}]}))
    assert isinstance(error, UsageError)
    assert error.cause_id == "admission-denied"
    assert "must have at least one container with name pytorch" in error.message


def test_a_pod_that_the_namespace_forbids_is_refused_with_the_rule(restricted: Namespace) -> None:
    kubeconfig = str(restricted.cluster.kubeconfig)
    with contextlib.closing(connect(kubeconfig=kubeconfig, namespace=restricted.name)) as admin:
        with pytest.raises(ApiFault) as fault:
            admin.create(kinds.path("Pod", restricted.name), pod("p", {"name": "c", "image": "x"}))
        error = admin.explained(fault.value, "pod p be created")
    assert (type(error), error.cause_id) == (UsageError, "pod-security")


def test_a_namespace_that_does_not_exist_is_named(namespace: Namespace) -> None:
    admin = connect(kubeconfig=str(namespace.cluster.kubeconfig), namespace="no-such")
    error = refused(admin, pytorch_job())
    assert (type(error), error.cause_id) == (UsageError, "namespace-missing")
    assert "There is no namespace no-such" in error.message
    admin.close()


def test_without_the_operator_a_job_is_refused_at_once(own_cluster: OwnCluster, api: Api) -> None:
    with own_cluster.without("training-operator"):
        error = refused(api, pytorch_job())
    assert (type(error), error.cause_id) == (Unreachable, "operator-down")
    assert api.sender.requests["create pytorchjobs"] == 1


def test_without_the_kind_the_operator_is_missing(admin: Api, namespace: Namespace) -> None:
    absent = f"/apis/kubeflow.org/v1/namespaces/{namespace.name}/mpijobs"
    with pytest.raises(ApiFault) as fault:
        admin.create(absent, {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob"})
    error = admin.explained(fault.value, "job x be created")
    assert (type(error), error.cause_id) == (Unreachable, "operator-missing")


@pytest.mark.parametrize(
    ("verb", "resource", "path"),
    [
        ("create", "secrets", "/api/v1/namespaces/{}/secrets"),
        (
            "create",
            "pytorchjobs.kubeflow.org",
            "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs",
        ),
    ],
)
def test_what_is_not_permitted_is_reported_by_verb_resource_and_namespace(
    api: Api, verb: str, resource: str, path: str
) -> None:
    where = path.format(api.place.namespace)
    with pytest.raises(ApiFault) as fault:
        api.create(where, {"metadata": {"name": "x"}})
    error = api.explained(fault.value, "it be created")
    assert (type(error), error.cause_id) == (Unreachable, "forbidden")
    namespace = where.split("/namespaces/")[1].split("/")[0]
    assert f"may not {verb} {resource} in namespace {namespace}." in error.message
    assert error.action.endswith(f"role.yaml in namespace {namespace}.")
