"""Selecting the objects of labelled jobs, of several kinds and names at once."""

from __future__ import annotations

from typing import Any

import pytest

from k8sbench.adapters.kubernetes import kinds
from k8sbench.adapters.kubernetes.labelled import KnownJob, LabelledSelection
from k8sbench.model import observed_job

AT = 1_795_880_000.0
BEFORE, AFTER = "2026-11-28T15:33:00Z", "2026-11-28T15:34:00Z"
JOB_SET, V1 = "jobset.sigs.k8s.io/jobset-name", "training.kubeflow.org/job-name"
BATCH = "batch.kubernetes.io/job-name"


def known(kind: str, name: str, uid: str = "u1", at: float = AT) -> KnownJob:
    return KnownJob(kind, name, uid, at, observed_job.run_id("team-a", kind, name, uid))


TRAIN, OLD, NEW = known("TrainJob", "llama"), known("Job", "gpt"), known("Job", "gpt", "u2", AT + 9)
LONG, V1_JOB = known("TrainJob", "llama-8b"), known("PyTorchJob", "llama", "u3")


@pytest.fixture
def selection() -> LabelledSelection:
    made = LabelledSelection("team-a")
    for job in (TRAIN, NEW, OLD, LONG, V1_JOB):
        made.add(job)
    return made


def pod(labels: dict[str, str], owner: str = "other", at: str = AFTER) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "pod",
            "uid": "p1",
            "labels": labels,
            "creationTimestamp": at,
            "ownerReferences": [{"uid": owner}],
        }
    }


@pytest.mark.parametrize(
    ("found", "job"),
    [
        (pod({JOB_SET: "llama", BATCH: "llama-node-0"}), TRAIN),
        (pod({JOB_SET: "llama"}, at=BEFORE), None),
        (pod({JOB_SET: "llama-8b"}), LONG),
        (pod({BATCH: "gpt"}, owner="u1"), OLD),
        (pod({BATCH: "gpt"}, owner="u2"), NEW),
        (pod({BATCH: "gpt"}), None),
        (pod({V1: "llama"}, owner="u3"), V1_JOB),
        (pod({V1: "llama"}, owner="u1"), None),
        (pod({}), None),
    ],
)
def test_a_pod_belongs_to_the_job_that_owns_it_or_to_the_one_of_its_age(
    selection: LabelledSelection, found: dict[str, Any], job: KnownJob | None
) -> None:
    run_id = None if job is None else job.run_id
    assert selection.run_of("Pod", found) == run_id
    assert selection.run_of("Pod", kinds.trimmed_pod(found)) == run_id
    keep = kinds.keeper("Pod", {TRAIN.run_id}, selection)
    assert (keep(found) is not None) == (job is TRAIN)


@pytest.mark.parametrize(
    ("kind", "name", "jobs"),
    [
        ("Pod", "llama-8b-node-0-1-x7k2p", [LONG]),
        ("Pod", "llama-node-0-1-x7k2p", [TRAIN, V1_JOB]),
        ("Workload", "trainjob-llama-8b-1a2b3", [LONG]),
        ("Pod", "gpt-x7k2p", [OLD, NEW]),
        ("Job", "gpt", [OLD, NEW]),
        ("TrainJob", "llama", [TRAIN]),
        ("Pod", "other-llama", []),
    ],
)
def test_a_name_belongs_to_the_longest_name_of_a_job_that_it_begins_with(
    selection: LabelledSelection, kind: str, name: str, jobs: list[KnownJob]
) -> None:
    assert selection.runs_named(kind, name) == [job.run_id for job in jobs]


def test_events_of_the_job_and_its_pods_are_kept_and_no_others(
    selection: LabelledSelection,
) -> None:
    keep = kinds.keeper("Event", {LONG.run_id}, selection)
    names = ("llama-8b", "llama-8b-node-0-1-x7k2p", "llama", "gpt-x7k2p")
    kept = [
        keep({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": name}})
        for name in names
    ]
    assert [one is not None for one in kept] == [True, True, False, False]


def test_a_job_that_is_dropped_keeps_nothing(selection: LabelledSelection) -> None:
    selection.drop(TRAIN)
    assert selection.run_of("Pod", pod({JOB_SET: "llama"})) is None
    assert selection.runs_named("PyTorchJob", "llama") == [V1_JOB.run_id]


def test_jobs_and_pods_of_k8sbench_are_not_asked_for(selection: LabelledSelection) -> None:
    assert selection.selectors("TrainJob") == ("k8sbench.io/observe=true,!k8sbench.io/run", "")
    assert selection.selectors("Pod") == ("!k8sbench.io/run", "")
    assert selection.selectors("Pod", LONG.run_id) == (f"{JOB_SET}=llama-8b", "")
