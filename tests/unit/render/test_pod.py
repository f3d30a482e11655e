"""A pod's resources, volumes and variables, with its pool's additions."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sbench.model.errors import UsageError
from k8sbench.model.pool import CPU_POOL, multiply, parse_quantity
from k8sbench.model.program import SecretKey
from tests.unit import goldens
from tests.unit.render.plans import (
    PROGRAMS,
    container,
    job,
    plan,
    pod,
    pool,
    rendered,
    variables,
)


@given(
    number=st.integers(1, 10**6),
    fraction=st.sampled_from(["", ".5", ".25", ".125", ".1"]),
    unit=st.sampled_from(["", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "E-2"]),
    count=st.integers(1, 1000),
)
def test_a_quantity_is_multiplied(number: int, fraction: str, unit: str, count: int) -> None:
    product = multiply(f"{number}{fraction}{unit}", count)
    assert parse_quantity(product) == parse_quantity(f"{number}{fraction}{unit}") * Decimal(count)


PACKAGES = pool(python_packages="pvc:python/torch-2.10")


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_pool_s_packages_are_mounted_read_only_and_found_after_our_trainers(program: str) -> None:
    wanted = plan(pool=PACKAGES, **PROGRAMS[program])
    claim = {"claimName": "python", "readOnly": True}
    assert volume(wanted, "packages")["persistentVolumeClaim"] == claim
    mount = mounts(wanted)["/opt/python-packages"]
    assert (mount["readOnly"], mount["subPath"]) == (True, "torch-2.10")
    ours = ["/opt/k8sbench"] if program.startswith("ours") else []
    assert variables(wanted)["PYTHONPATH"].split(":") == [*ours, "/opt/python-packages"]


def test_a_variable_whose_value_is_a_secret_names_the_secret_and_no_value() -> None:
    secret = {"WANDB_API_KEY": SecretKey(name="wandb", key="api-key")}
    planned = plan(env={"WANDB_API_KEY": "overruled", "A": "b"}, secret_env=secret)
    (variable,) = [one for one in container(planned)["env"] if one["name"] == "WANDB_API_KEY"]
    reference = {"secretKeyRef": {"name": "wandb", "key": "api-key"}}
    assert variable == {"name": "WANDB_API_KEY", "valueFrom": reference}


SECRET = SecretKey(name="a", key="b")
TAKEN = {
    "pytorch": ("RANK", "PET_NPROC_PER_NODE", "PYTHONPATH"),
    "paddle": ("PADDLE_MASTER", "POD_IP_DUMMY", "PADDLE_NPROC_PER_NODE"),
}
REFUSED: dict[str, dict[str, Any]] = {
    "queue": {"queue": "Team Queue"},
    "long queue": {"queue": "q" * 64},
    "no Unicode": {"command": ("\udcff",)},
    "annotation of ours": {"pool": pool(annotations={"k8sbench.io/plan": "x"})},
    "mesh after all": {"pool": pool(annotations={"sidecar.istio.io/inject": "true"})},
    "no memory": {"pool": pool(memory_per_gpu="0")},
    "too much shared memory": {"case": "1x2", "pool": pool(shm="65Gi", memory_per_gpu="32Gi")},
    "9 is not below 9000": {"case": "1x1", "pool": pool(shm="9Gi", memory_per_gpu="9000Mi")},
    "other trainers": {"trainers_digest": "0" * 64},
    "too long for the annotations": {"notes": ("x" * 262144,)},
    "a secret": {"secret_env": {"RANK": SECRET}},
}
REFUSED |= {
    f"{where} {name} on {framework}": {"framework": framework, **changes}
    for framework, names in TAKEN.items()
    for name in names
    for where, changes in (
        ("env", {"env": {name: "1"}}),
        ("the pool's", {"pool": pool(nccl_env={name: "1"})}),
    )
}


def test_what_kubernetes_would_not_take_is_refused_in_golden_words() -> None:
    """Includes variables set twice and amounts in different notations."""
    parts = []
    for name, changes in REFUSED.items():
        with pytest.raises(UsageError) as error:
            job(plan(**changes))
        parts.append(re.sub(r"take \d+ bytes", "take N bytes", f"{name}: {error.value}\n"))
    goldens.check(Path(__file__).parent / "golden" / "refused.txt", "".join(parts))
    # What only the other framework's operator sets is free; so is as much as the limit.
    assert variables(plan(framework="paddle", env={"RANK": "0"}))["RANK"] == "0"
    full = plan("1x2", pool=pool(shm="64Gi", memory_per_gpu="32Gi"))
    assert volume(full, "shm")["emptyDir"]["sizeLimit"] == "64Gi"
    job(plan("1x1", pool=pool(shm="9000Mi", memory_per_gpu="9Gi")))


def volume(wanted: Any, name: str) -> dict[str, Any]:
    (found,) = (each for each in pod(wanted)["spec"]["volumes"] if each["name"] == name)
    assert isinstance(found, dict)
    return found


def mounts(wanted: Any) -> dict[str, dict[str, Any]]:
    return {each["mountPath"]: each for each in container(wanted)["volumeMounts"]}


@pytest.mark.parametrize(
    ("case", "changes", "apart"),
    [
        ("2x1", {}, True),
        ("2x1-cpu", {"pool": CPU_POOL}, True),
        ("2x1", {"pack": True}, False),
        ("2x8", {}, False),
        ("1x1", {}, False),
    ],
)
def test_only_packed_replicas_share_nodes(case: str, changes: dict[str, Any], apart: bool) -> None:
    """The goldens of ``2x1-cpu`` show how."""
    wanted = plan(case, **changes)
    runtime, _ = rendered(msgspec.structs.replace(wanted, kind="TrainJob"))[-2:]
    (one,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    for template in (pod(wanted), one["template"]["spec"]["template"]):
        assert ("podAntiAffinity" in template["spec"].get("affinity", {})) is apart


def test_one_claim_is_one_volume_of_which_only_the_checkpoints_can_be_written() -> None:
    wanted = plan(data="pvc:all/sets", weights="pvc:all/start.pth", checkpoints="pvc:all/kept")
    names = {path: mounts(wanted)[path]["name"] for path in ("/data", "/weights", "/checkpoints")}
    assert set(names.values()) == {"data"}
    claim = {"claimName": "all", "readOnly": False}
    assert volume(wanted, "data")["persistentVolumeClaim"] == claim
    read_only = {path: mounts(wanted)[path]["readOnly"] for path in names}
    assert read_only == {"/data": True, "/weights": True, "/checkpoints": False}
