"""Selection of the objects of a job that somebody else created."""

from __future__ import annotations

from typing import Any

import pytest

from k8sbench.adapters.kubernetes import kinds
from k8sbench.model.kinds import OBSERVED

CREATED = "2026-11-28T02:00:00Z"
SELECTION = kinds.JobSelection("run", OBSERVED["jobset"], "llama-8b", 1795831200.0)


def pod(created: str) -> dict[str, Any]:
    return {"metadata": {"name": "llama-8b-node-0-0-x7k2p", "creationTimestamp": created}}


def event(kind: str, name: str) -> dict[str, Any]:
    return {"metadata": {"name": "e"}, "involvedObject": {"kind": kind, "name": name}}


def test_pods_are_selected_by_the_label_of_their_kind_and_the_job_by_its_name() -> None:
    assert SELECTION.selectors("Pod")[0] == "jobset.sigs.k8s.io/jobset-name=llama-8b"
    assert SELECTION.selectors("JobSet") == ("", "metadata.name=llama-8b")


def test_pods_of_an_earlier_job_of_the_name_are_not_its_own() -> None:
    assert SELECTION.run_of("Pod", pod(CREATED)) == "run"
    assert SELECTION.run_of("Pod", pod("2026-11-28T01:59:59Z")) is None


@pytest.mark.parametrize(
    ("kind", "name", "is_its_own"),
    [
        ("JobSet", "llama-8b", True),
        ("Pod", "llama-8b-node-0-0-x7k2p", True),
        ("Job", "llama-8b-node-0", True),
        ("Workload", "jobset-llama-8b-1f2e3", True),
        ("JobSet", "llama-8b-again", False),
        ("JobSet", "llama-70b", False),
        ("Pod", "llama-70b-node-0-0-x7k2p", False),
    ],
)
def test_events_are_its_own_by_the_names_of_its_objects(
    kind: str, name: str, is_its_own: bool
) -> None:
    assert SELECTION.run_of("Event", event(kind, name)) == ("run" if is_its_own else None)
