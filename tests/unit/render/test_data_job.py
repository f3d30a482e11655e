"""The Job of ``k8sbench data``: restricted, resumable, the same name for the same request."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from k8sbench.adapters.files import packaged
from k8sbench.model.errors import UsageError
from k8sbench.model.pool import Claim, NodePool, Toleration
from k8sbench.render import data_job, to_yaml
from k8sbench.render.data_job import DataJob
from k8sbench.render.trainer_sources import TrainerSources
from tests.tiers import ROOT
from tests.unit.chart.test_generated import holds
from tests.unit.render import pod_security

JOB = DataJob(
    action="prepare",
    data_set="cityscapes",
    claim=Claim("data", "sets/city"),
    words=("--url=https://example.com/a.tar",),
    image="example.com/python:3",
    secret="account",
    pool=NodePool(
        name="cpus",
        gpus_per_node=0,
        gpu_model=None,
        selector={"disk": "fast"},
        tolerations=(Toleration(key="gpu", operator="Exists", effect="NoSchedule"),),
        image_pull_secrets=("pull",),
        python_packages="pvc:packages/3.11",
    ),
    seconds=3600,
)
SOURCES = TrainerSources.of({"k8sbench/trainers/prepare_data.py": "pass\n"})


def rendered(job: DataJob = JOB) -> dict[str, Any]:
    return data_job.manifest(job, templates=packaged.load_templates(), trainers=SOURCES)


def pod(job: DataJob = JOB) -> dict[str, Any]:
    found: dict[str, Any] = rendered(job)["spec"]["template"]["spec"]
    return found


def changed(**fields: Any) -> DataJob:
    return msgspec.structs.replace(JOB, **fields)


def test_the_job_is_its_golden() -> None:
    holds(ROOT / "tests/unit/data/golden/data-prepare.yaml", to_yaml([rendered()]))


@pytest.mark.parametrize(
    "job", [JOB, changed(action="check", secret=None, pool=None)], ids=["prepare", "check"]
)
def test_the_pod_keeps_to_the_restricted_standard(job: DataJob) -> None:
    assert pod_security.violations(pod(job)) == []


def test_the_name_is_that_of_what_is_asked_for() -> None:
    assert changed(seconds=7200).name == JOB.name
    others = [
        changed(action="check"),
        changed(data_set="imagenet"),
        changed(claim=Claim("data", None)),
        changed(claim=Claim("other", "sets/city")),
        changed(words=("--url=https://example.com/b.tar",)),
        changed(image="example.com/other:1"),
    ]
    assert len({JOB.name, *(job.name for job in others)}) == 7


def test_no_credential_is_in_the_job_but_by_reference() -> None:
    container = pod()["containers"][0]
    given = [one for one in container["env"] if "valueFrom" in one]
    assert {one["valueFrom"]["secretKeyRef"]["name"] for one in given} == {"account"}
    without = pod(changed(secret=None))["containers"][0]
    assert not [one for one in without["env"] if "valueFrom" in one]


@pytest.mark.parametrize(("action", "read_only"), [("prepare", False), ("check", True)])
def test_a_check_cannot_write(action: str, read_only: bool) -> None:
    (mount,) = (
        one
        for one in pod(changed(action=action))["containers"][0]["volumeMounts"]
        if one["mountPath"] == data_job.MOUNT
    )
    assert mount["readOnly"] is read_only


def test_packages_on_the_claim_of_the_data_are_no_second_volume_of_it() -> None:
    assert JOB.pool is not None
    pool = msgspec.structs.replace(JOB.pool, python_packages="pvc:data/packages")
    claims = [
        one["persistentVolumeClaim"]["claimName"]
        for one in pod(changed(pool=pool))["volumes"]
        if "persistentVolumeClaim" in one
    ]
    assert claims == ["data"]


@pytest.mark.parametrize("wrong", [{"image": "Not An Image"}, {"secret": "Not_a_name"}])
def test_names_that_kubernetes_refuses_are_refused_before(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        rendered(changed(**wrong))
