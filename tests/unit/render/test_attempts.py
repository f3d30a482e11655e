"""Attempts of a run: their objects differ in number, nonce and owner."""

from typing import Any

import pytest

from k8sbench.model.kube import JobIdentity, JobOwner, annotations_of, attempt_of, labels_of
from k8sbench.render.manifest import manifests
from tests.unit.render import plans

ATTEMPT, NONCE = "k8sbench.io/attempt", "k8sbench.io/nonce"
OWN = {ATTEMPT, NONCE, "k8sbench.io/owner", "k8sbench.io/waits"}
SECOND = JobIdentity(
    attempt=2,
    nonce="0123456789abcdef",
    owner=JobOwner(store="0123456789", host="lab-7"),
    waits=True,
)


def rendered(identity: JobIdentity, **changes: Any) -> Any:
    wanted = plans.plan("4x8", **changes)
    return manifests(wanted, identity, templates=plans.ready(), trainers=plans.SOURCES)


def without_identity(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: without_identity(value) for key, value in found.items() if key not in OWN}
    return [without_identity(one) for one in found] if isinstance(found, list) else found


def test_job_and_pods_bear_number_and_nonce_and_nothing_else_is_changed() -> None:
    first, second = plans.rendered(plans.plan("4x8")), rendered(SECOND)
    assert [attempt_of(one) for one in first] == [1] * len(first)
    assert second[0] == first[0]  # the trainers are of no run
    job = second[-1]
    for one in (job, *(one["template"] for one in plans.replicas(job).values())):
        assert labels_of(one)[ATTEMPT] == annotations_of(one)[ATTEMPT] == "2"
        assert annotations_of(one)[NONCE] == SECOND.nonce
    assert annotations_of(job)["k8sbench.io/owner"].startswith('{"store":"0123456789"')
    assert annotations_of(job)["k8sbench.io/waits"] == "true"
    assert [without_identity(one) for one in second] == [without_identity(one) for one in first]


def test_a_runtime_has_a_name_of_the_attempt_and_its_pods_name_their_record() -> None:
    *_, runtime, job = rendered(SECOND, kind="TrainJob")
    assert runtime["metadata"]["name"] == job["spec"]["runtimeRef"]["name"]
    assert runtime["metadata"]["name"].endswith("-01234567")
    (patch,) = job["spec"]["runtimePatches"]
    (replicas,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pods = replicas["template"]["spec"]["template"]
    assert annotations_of(pods) == {ATTEMPT: "2", NONCE: SECOND.nonce}
    assert attempt_of(pods) == 2


@pytest.mark.parametrize("kind", ["PyTorchJob", "TrainJob"])
def test_a_job_that_nobody_follows_has_a_limit_of_the_cluster(kind: str) -> None:
    *_, job = rendered(JobIdentity(deadline_s=60.5), kind=kind, timeout_s=100.0)
    spec = job["spec"]
    assert (spec["runPolicy"] if kind == "PyTorchJob" else spec)["activeDeadlineSeconds"] == 161
    assert "activeDeadlineSeconds" not in str(rendered(SECOND, kind=kind, timeout_s=100.0))
