"""Requests to a real API server, and what its refusals mean to the user."""

import contextlib
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


def refused(api: Api, job: dict[str, Any]) -> BenchError:
    """Have a job refused, and say what that means."""
    with pytest.raises(ApiFault) as fault:
        api.create(kinds.path("PyTorchJob", api.place.namespace), job)
    return api.explained(fault.value, "job x be created")


# -- requests ---------------------------------------------------------------------------------


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
