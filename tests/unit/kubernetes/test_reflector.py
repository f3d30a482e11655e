"""Recovery of watches after failures; ``tests/cluster/`` covers watching itself."""

from typing import Any

import pytest

from k8sbench import limits
from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.watch_events import WatchFailed, WatchWorks
from k8sbench.adapters.kubernetes.watching import reflector
from k8sbench.adapters.kubernetes.watching.reflector import Watches


@pytest.mark.parametrize("failures", [1, 2, 5, 10, 1000])
def test_pauses_grow_to_a_bound(failures: int) -> None:
    pauses = [reflector.pause(failures, None) for _ in range(100)]
    top = min(reflector.FIRST_PAUSE * 2.0 ** (failures - 1), 15.0) if failures < 100 else 15.0
    assert all(top / 2 <= one <= top for one in pauses)
    assert len(set(pauses)) > 1


AWAY = ApiFault(None, "", "connection refused")
KINDS = ("PyTorchJob", "Pod", "Event")


class IdleReflector:
    """Watches nothing."""

    def try_now(self) -> None:
        """Do nothing."""


def test_an_outage_is_worth_a_word_after_some_seconds_and_at_its_end() -> None:
    no_api: Any = None  # nothing is requested
    all_kinds = Watches(no_api, (), lambda _: None)
    idle: Any = IdleReflector()
    all_kinds.reflectors = dict.fromkeys(KINDS, idle)
    assert all_kinds.report(0.0) is None
    for kind in KINDS:
        all_kinds.take(WatchFailed(kind, AWAY), 10.0)
    all_kinds.take(WatchFailed("Pod", AWAY), 12.0)  # again: it is away since the first time
    assert all_kinds.report_at() == 10.0 + limits.now.fault_note
    assert all_kinds.report(14.9) is None
    said = all_kinds.report(15.0)
    assert said is not None
    assert said.startswith("The API server does not answer since 5 s (connection refused)")
    assert all_kinds.report(60.0) is None
    all_kinds.take(WatchWorks("Pod"))
    all_kinds.take(WatchWorks("Event"))
    assert (list(all_kinds.failing), all_kinds.report(61.0)) == (["PyTorchJob"], None)
    all_kinds.take(WatchWorks("PyTorchJob"))
    assert all_kinds.report(70.0) == "The API server answers again, after 60 s."
    assert all_kinds.report(71.0) is None


# -- what is kept ---------------------------------------------------------------------------------


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
    assert kinds.OURS.run_of("Event", event) == "resnet50-261120-081500-x7k2qd"


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
    kept = kinds.trimmed_pod(pod)
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
    assert kinds.trimmed_pod(kept) == kept
