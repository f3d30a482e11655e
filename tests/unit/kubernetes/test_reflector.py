"""Recovery of watches after failures; ``tests/cluster/`` covers watching itself."""

import queue
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from k8sbench import limits
from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.client.api import Api
from k8sbench.adapters.kubernetes.client.faults import ApiFault
from k8sbench.adapters.kubernetes.watch_events import (
    ObjectChanged,
    ObjectDeleted,
    ObjectsListed,
    WatchEvent,
    WatchFailed,
    WatchWorks,
)
from k8sbench.adapters.kubernetes.watching import reflector
from k8sbench.adapters.kubernetes.watching.reflector import Reflector, Watches


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
    for at in (10.0, 12.0):  # again: it is away since the first time
        for kind in KINDS:
            all_kinds.take(WatchFailed(kind, AWAY), at)
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


SECONDS = 100.0
"""Longest wait for the watch."""


class Served:
    """An API server with some objects, whose watch tells of one deletion and then stays open."""

    place = SimpleNamespace(namespace="team")

    def __init__(self, *objects: Any) -> None:
        self.objects = objects
        self.is_closed = threading.Event()
        self.is_told = threading.Event()
        """Set when the deletion has been processed."""

    def list(self, _path: str, *, keep: Any, **_: Any) -> tuple[list[Any], str]:
        return [keep(one) for one in self.objects], "1"

    def watch(self, _path: str, **_: Any) -> Any:
        return SimpleNamespace(changes=self._changes, close=self.is_closed.set)

    def _changes(self) -> Any:
        metadata = {"name": "one", "uid": "uid-1", "resourceVersion": "2"}
        yield {"type": "DELETED", "object": {"metadata": metadata}}
        self.is_told.set()
        self.is_closed.wait(SECONDS)


@pytest.mark.parametrize(("kind", "told"), [("Pod", True), ("PyTorchJob", False)])
def test_the_deletion_of_a_pod_that_no_list_had_is_told_with_its_last_state(
    kind: str, told: bool
) -> None:
    """Its job may be followed since the pod was created."""
    events = queue.SimpleQueue[WatchEvent]()
    server = Served()
    one = Reflector(cast(Api, server), kind, lambda found: found, events.put)
    assert server.is_told.wait(SECONDS)
    assert isinstance(events.get_nowait(), ObjectsListed)
    if told:
        deleted = events.get_nowait()
        assert isinstance(deleted, ObjectDeleted)
        assert deleted.object is not None
        assert (deleted.uid, deleted.object["metadata"]["name"]) == ("uid-1", "one")
    one.close()
    one.thread.join()
    assert events.empty()


@pytest.mark.parametrize("kind", KINDS)
def test_a_listed_object_is_told(kind: str) -> None:
    """The list is trimmed before the reflector reads it."""
    run_id = "resnet50-261120-081500-x7k2qd"
    found = {
        "metadata": {"name": run_id, "uid": "uid-1", "resourceVersion": "1"},
        "involvedObject": {"kind": "PyTorchJob", "name": run_id},
    }
    events = queue.SimpleQueue[WatchEvent]()
    server = Served(found)
    keep = kinds.keeper(kind, {run_id})
    one = Reflector(cast(Api, server), kind, keep, events.put)
    told = events.get(timeout=SECONDS)
    one.close()
    one.thread.join()
    assert isinstance(told, ObjectChanged)
    assert told.object["metadata"]["uid"] == "uid-1"


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


def test_objects_share_what_they_have_alike() -> None:
    state = {"running": {"startedAt": "2026-11-20T08:15:00Z"}}
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-20T08:15:00Z"}
    pods = [
        {
            "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
            "status": {
                "containerStatuses": [{"name": "pytorch", "containerID": name, "state": state}],
                "conditions": [{**condition, "lastProbeTime": None}],
            },
        }
        for name in ("p-0", "p-1")
    ]
    one, other = (kinds.trimmed_pod(pod)["status"] for pod in pods)
    assert one == {
        "containerStatuses": [{"name": "pytorch", "state": {"running": {}}}],
        "conditions": [condition],
    }
    assert one["containerStatuses"][0] is other["containerStatuses"][0]
    assert one["conditions"][0] is other["conditions"][0]
