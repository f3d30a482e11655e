"""What is kept of the objects that are watched, and whose they are."""

from __future__ import annotations

import pytest

from k8sbench.adapters.kubernetes.watching import trimming
from k8sbench.model.kube import RUN_LABEL


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
            "volumes": [],
        },
        "status": {"phase": "Running"},
    }
    assert trimming.pod(kept) == kept
