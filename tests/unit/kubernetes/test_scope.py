"""One watch for all jobs, of no more than need be."""

from __future__ import annotations

import pytest

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.watching import trimming
from k8sbench.adapters.kubernetes.watching.scope import MOST_SETS, Scope
from k8sbench.model.kube import RUN_LABEL
from tests.unit.render.plans import plan


def test_a_job_that_is_resumed_alone_is_watched_alone() -> None:
    assert Scope.of([plan(run_id="a")], is_resumed=True).labels == "k8sbench.io/run=a"


def test_a_job_that_is_new_is_watched_with_its_set() -> None:
    scope = Scope.of([plan(set_name="s")], is_resumed=False)
    assert scope.labels == "k8sbench.io/set in (s)"
    assert scope.with_([plan(set_name="s", run_id="another")]) == scope


def test_a_scope_widens_and_never_narrows() -> None:
    one = Scope.of([plan(run_id="a", set_name="s")], is_resumed=True)
    two = one.with_([plan(run_id="a", set_name="s"), plan(run_id="b", set_name="t")])
    assert two.labels == "k8sbench.io/set in (s,t)"
    assert two.with_([plan(set_name="t")]) == two


def test_of_many_sets_all_of_ours_is_watched() -> None:
    many = [plan(set_name=f"s{number}") for number in range(MOST_SETS + 1)]
    scope = Scope.of(many, is_resumed=False)
    assert scope.labels == "app.kubernetes.io/managed-by=k8sbench"
    assert scope.with_(many[:1]) == scope


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("PyTorchJob", "resnet50-261120-081500-x7k2qd"),
        ("Pod", "resnet50-261120-081500-x7k2qd-worker-12"),
        ("Workload", "pytorchjob-resnet50-261120-081500-x7k2qd-0a1b2"),
    ],
)
def test_an_event_belongs_to_the_run_whose_object_it_is_about(kind: str, name: str) -> None:
    event = {"metadata": {}, "involvedObject": {"kind": kind, "name": name}}
    assert trimming.run_of("Event", event) == "resnet50-261120-081500-x7k2qd"


@pytest.mark.parametrize(("kind", "name"), [("PyTorchJob", "run"), ("Pod", "run-worker-0")])
def test_an_object_whose_label_was_taken_off_still_belongs_to_its_run(kind: str, name: str) -> None:
    assert trimming.run_of(kind, {"metadata": {"name": name}}) == "run"
    labelled = {"metadata": {"name": name, "labels": {RUN_LABEL: "other"}}}
    assert trimming.run_of(kind, labelled) == "other"


def test_nothing_that_may_be_secret_or_large_is_kept_of_a_pod() -> None:
    container = {
        "name": "pytorch",
        "image": "i",
        "env": [{"name": "TOKEN", "value": "secret"}],
        "command": ["secret"],
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
    }
    pod = {
        "metadata": {
            "name": "p",
            "uid": "u",
            "resourceVersion": "1",
            "managedFields": [{}],
            "annotations": {"k8sbench.io/plan": "{}", "k8sbench.io/cancelled": "{}", "other": "x"},
        },
        "spec": {"containers": [container], "nodeName": "n", "volumes": [{"configMap": {}}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }
    kept = trimming.pod(pod)
    assert kept == {
        "metadata": {
            "name": "p",
            "uid": "u",
            "resourceVersion": "1",
            "annotations": {"k8sbench.io/cancelled": "{}"},
        },
        "spec": {
            "nodeName": "n",
            "containers": [{"name": "pytorch", "image": "i", "resources": container["resources"]}],
        },
        "status": {"phase": "Running"},
    }
    assert trimming.pod(kept) == kept


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        (kinds.path("Pod", "n", "p", "log"), "pods/log"),
        (kinds.path("Pod", "n"), "pods"),
        (kinds.path("PyTorchJob", "n", "j"), "pytorchjobs"),
        (kinds.path("Node"), "nodes"),
        (kinds.path("Namespace", name="n"), "namespaces"),
        ("/version", "/version"),
    ],
)
def test_requests_are_counted_by_the_names_of_access_rules(path: str, resource: str) -> None:
    assert kinds.resource(path) == resource
