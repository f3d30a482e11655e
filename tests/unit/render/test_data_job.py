"""The Job of ``k8sbench data``: restricted, resumable, the same name for the same request."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from k8sbench.adapters.files import packaged
from k8sbench.model.data_set import DataTask
from k8sbench.model.errors import UsageError
from k8sbench.model.pool import CPU_POOL, NodePool, Toleration
from k8sbench.render import data_job, to_yaml
from k8sbench.render.trainer_sources import TrainerSources
from tests.tiers import ROOT
from tests.unit.chart.test_generated import holds
from tests.unit.render import pod_security

TASK = DataTask(
    action="prepare",
    data_set="cityscapes",
    place="pvc:data/sets/city",
    words=("--url=https://example.com/a.tar",),
    secret="account",
    seconds=3600,
)
POOL = NodePool(
    name="cpus",
    gpus_per_node=0,
    gpu_model=None,
    selector={"disk": "fast"},
    tolerations=(Toleration(key="gpu", operator="Exists", effect="NoSchedule"),),
    image_pull_secrets=("pull",),
    python_packages="pvc:packages/3.11",
)
SOURCES = TrainerSources.of({"k8sbench/trainers/prepare_data.py": "pass\n"})


def rendered(
    *, pool: NodePool = POOL, image: str = "example.com/python:3", **fields: Any
) -> dict[str, Any]:
    return data_job.manifest(
        msgspec.structs.replace(TASK, **fields),
        image=image,
        pool=pool,
        templates=packaged.load_templates(),
        trainers=SOURCES,
    )


def pod(**fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = rendered(**fields)["spec"]["template"]["spec"]
    return found


def named(**fields: Any) -> str:
    return str(rendered(**fields)["metadata"]["name"])


def test_the_job_is_its_golden() -> None:
    holds(ROOT / "tests/unit/data/golden/data-prepare.yaml", to_yaml([rendered()]))


@pytest.mark.parametrize(
    "fields", [{}, {"action": "check", "secret": None, "pool": CPU_POOL}], ids=["prepare", "check"]
)
def test_the_pod_keeps_to_the_restricted_standard(fields: dict[str, Any]) -> None:
    assert pod_security.violations(pod(**fields)) == []


def test_the_name_is_that_of_what_is_asked_for() -> None:
    assert named(seconds=7200) == named()
    others = [
        named(action="check"),
        named(data_set="imagenet"),
        named(place="pvc:data"),
        named(place="pvc:other/sets/city"),
        named(words=("--url=https://example.com/b.tar",)),
        named(image="example.com/other:1"),
    ]
    assert len({named(), *others}) == 7


def test_no_credential_is_in_the_job_but_by_reference() -> None:
    container = pod()["containers"][0]
    given = [one for one in container["env"] if "valueFrom" in one]
    assert {one["valueFrom"]["secretKeyRef"]["name"] for one in given} == {"account"}
    without = pod(secret=None)["containers"][0]
    assert not [one for one in without["env"] if "valueFrom" in one]


@pytest.mark.parametrize(("action", "read_only"), [("prepare", False), ("check", True)])
def test_a_check_cannot_write(action: str, read_only: bool) -> None:
    (mount,) = (
        one
        for one in pod(action=action)["containers"][0]["volumeMounts"]
        if one["mountPath"] == data_job.MOUNT
    )
    assert mount["readOnly"] is read_only


def test_packages_on_the_claim_of_the_data_are_no_second_volume_of_it() -> None:
    pool = msgspec.structs.replace(POOL, python_packages="pvc:data/packages")
    claims = [
        one["persistentVolumeClaim"]["claimName"]
        for one in pod(pool=pool)["volumes"]
        if "persistentVolumeClaim" in one
    ]
    assert claims == ["data"]


@pytest.mark.parametrize(
    "wrong", [{"image": "Not An Image"}, {"secret": "Not_a_name"}, {"place": "pvc:a/../b"}]
)
def test_names_that_kubernetes_refuses_are_refused_before(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        rendered(**wrong)
