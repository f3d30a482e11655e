"""What makes two runs the same case: the one list, and what follows from it."""

from __future__ import annotations

import re
from typing import Any, get_args

import msgspec
import pytest

from k8sbench.model import identity
from k8sbench.model.identity import CASE_FIELDS, GroupKey, Use, fields_for
from k8sbench.model.plan import PlannedTraining, PlannedWindow, RunPlan
from k8sbench.model.pool import NodePool, Rdma, Toleration
from k8sbench.model.spec import Fingerprint, LogFormat, SecretKey
from tests import struct_docs
from tests.tiers import ROOT
from tests.unit.render import plans

LOG = LogFormat(name="own", unit="images/s", per="job", record="(?P<iteration>x)(?P<rate>y)")
POOL = NodePool(name="v100", gpus_per_node=8, gpu_model="V100")
PLAN = plans.plan(
    "2x8",
    run_id="seg-1",
    set_name="night",
    benchmark="seg",
    spec_source="a.yaml",
    variant="own",
    precision="amp",
    batch_size=4,
    mode="train",
    data="image",
    window=PlannedWindow(
        warmup=5, iterations=50, log_interval=5, min_steady_seconds=0.0, rule="ours"
    ),
    log=LOG,
    env={"OMP_NUM_THREADS": "4"},
    image="registry.example.com/own:1",
    pool=POOL,
    timeout_s=60.0,
    training=PlannedTraining(
        length=80_000,
        unit="iterations",
        evaluate_every=8_000,
        metric="mIoU",
        target=78.5,
        stop_at_target=True,
    ),
    **plans.PROGRAMS["user"],
)
PAGE = (ROOT / "docs" / "results.md").read_text()
SAME_CASE = PAGE.split("## What makes two runs the same case")[1].split("\n## ")[0]
NOT_DECIDING = re.findall(r"^\| `([\w.]+)` \| [^|]+ \|$", SAME_CASE, re.MULTILINE)
"""Fields of a plan, its window, log format and pool that decide nothing, and the page says why."""
OTHER: dict[str, Any] = {
    "schema": 2,
    "run_id": "seg-2",
    "set_name": "day",
    "repeat": 2,
    "benchmark": "other",
    "spec_digest": "e",
    "spec_source": "./a.yaml",
    "variant": "other",
    "impl": "upstream",
    "framework": "paddle",
    "precision": "fp32",
    "amp_dtype": "bf16",
    "device": "cpu",
    "replicas": 4,
    "gpus_per_replica": 4,
    "processes_per_replica": 4,
    "batch_size": 8,
    "preset": "smoke",
    "mode": "throughput",
    "training.length": 40_000,
    "training.unit": "epochs",
    "training.evaluate_every": 4_000,
    "training.metric": "aAcc",
    "training.target": None,
    "training.stop_at_target": False,
    "training.start": "another",
    "weights": "pvc:weights/resnet50.pth",
    "checkpoints": "pvc:checkpoints",
    "max_restarts": 3,
    "data": "pvc:pictures",
    "window.warmup": 6,
    "window.iterations": 60,
    "window.log_interval": 1,
    "window.min_steady_seconds": 120.0,
    "window.rule": "as given on the command line",
    "log.name": "mine",
    "log.framework": "jax",
    "log.unit": "samples/s",
    "log.per": "card",
    "log.record": "another",
    "log.summary": "all",
    "log.averaged": "step",
    "log.first_iteration": 0,
    "log.stamp_format": "%H",
    "unit": "samples",
    "trainer": "seg",
    "command": ("train", "--fast"),
    "env": {},
    "workdir": "/work",
    "options": {"workers": 4},
    "image": "registry.example.com/own:2",
    "image_reason": "of the file",
    "trainers_by": "configmap",
    "trainers_digest": "t",
    "secret_env": {"WANDB_API_KEY": SecretKey(name="wandb", key="key")},
    "pool.name": "a100",
    "pool.gpus_per_node": 4,
    "pool.gpu_model": "A100",
    "pool.gpu_resource": "nvidia.com/mig-1g.5gb",
    "pool.selector": {"rack": "2"},
    "pool.tolerations": (Toleration(key="gpu"),),
    "pool.cpu_per_gpu": "8",
    "pool.memory_per_gpu": "64Gi",
    "pool.shm": "16Gi",
    "pool.runtime_class": "nvidia",
    "pool.priority_class": "high",
    "pool.image_pull_secrets": ("pull",),
    "pool.annotations": {"k8s.v1.cni.cncf.io/networks": "rdma"},
    "pool.nccl_env": {"NCCL_IB_DISABLE": "1"},
    "pool.python_packages": "pvc:packages",
    "pool.rdma": Rdma(resource="rdma/hca"),
    "pool.host_network": True,
    "pool.ipc_lock": True,
    "pool.note": "new rack",
    "backend": "local",
    "timeout_s": 90.0,
    "fingerprint": Fingerprint(model="m", parameters=1, gmac=1.0, input="3"),
    "sync_bn": True,
    "queue": "research",
    "pack": True,
    "seed": 3,
    "notes": ("a note",),
    "node": "gpu-07",
    "log.facts": (r"(?P<gpus>\d+) GPUs",),
    "kind": "OtherJob",
    "program_digest": "p",
}
"""Another value for every field of a plan, and of what is nested in it field by field."""
NESTED: dict[str, type[msgspec.Struct]] = {
    "window": PlannedWindow,
    "training": PlannedTraining,
    "log": LogFormat,
    "pool": NodePool,
}


def changed(path: str, plan: RunPlan = PLAN) -> RunPlan:
    """The plan with another value in one field."""
    name, _, inner = path.partition(".")
    value = OTHER[path]
    if inner:
        value = msgspec.structs.replace(getattr(plan, name), **{inner: value})
    return msgspec.structs.replace(plan, **{name: value})


def key(plan: RunPlan, **told: Any) -> GroupKey:
    known = {"precision_effective": "amp", "gpu_model": "V100", "image": "sha256:1"}
    return identity.group_key(plan, **(known | told))


def test_every_field_of_a_plan_decides_or_is_listed_with_the_reason_why_not() -> None:
    """Whoever adds a field must say which: first here, then in the one list or in the other."""
    own = {name for name in RunPlan.__struct_fields__ if name not in NESTED}
    inner = {f"{name}.{field}" for name, of in NESTED.items() for field in of.__struct_fields__}
    assert set(OTHER) == own | inner
    deciding = {path for path in OTHER if identity.case_key(changed(path)) != PLAN_KEY}
    assert deciding | {"set_name"} == set(OTHER) - set(NOT_DECIDING)


PLAN_KEY = identity.case_key(PLAN)


@pytest.mark.parametrize("path", NOT_DECIDING)
def test_what_decides_nothing_changes_no_key(path: str) -> None:
    assert identity.case_key(changed(path)) == PLAN_KEY
    if path != "trainers_digest":  # the next test
        assert key(changed(path)) == key(PLAN)


def test_an_annotation_that_attaches_no_network_decides_nothing() -> None:
    pool = msgspec.structs.replace(POOL, annotations={"example.com/team": "vision"})
    assert identity.case_key(msgspec.structs.replace(PLAN, pool=pool)) == PLAN_KEY


def test_an_optional_field_of_a_later_version_changes_no_key() -> None:
    later_pool = msgspec.defstruct(
        "Pool", [("zone", str | None, None)], bases=(NodePool,), frozen=True, kw_only=True
    )
    later = msgspec.defstruct(
        "Plan",
        [("added", str | None, "x"), ("pool", later_pool)],
        bases=(RunPlan,),
        frozen=True,
        kw_only=True,
    )
    plan: Any = msgspec.convert(msgspec.to_builtins(PLAN), later)
    assert identity.case_key(plan) == PLAN_KEY
    assert key(plan).id == key(PLAN).id


def test_a_run_that_is_pinned_to_a_node_is_a_case_and_a_group_of_its_own() -> None:
    pinned, elsewhere = (msgspec.structs.replace(PLAN, node=name) for name in ("a", "b"))
    assert len({identity.case_key(plan) for plan in (PLAN, pinned, elsewhere)}) == 3
    assert len({key(plan).id for plan in (PLAN, pinned, elsewhere)}) == 3
    assert "node" not in identity.case_values(PLAN)
    assert b"node" not in msgspec.json.encode(key(PLAN))


@pytest.mark.parametrize("use", ["series", "baseline", "parity", "ratio", "published"])
def test_what_groups_are_compared_by_is_in_their_key(use: Use) -> None:
    assert set(fields_for(use)) <= set(fields_for("group"))


def test_the_table_on_the_page_is_the_codes_golden() -> None:
    uses = list(get_args(Use))
    rows = ["| field | decides | why |", "|---|---|---|"]
    for field in CASE_FIELDS:
        decided = ", ".join(sorted(field.uses, key=uses.index))
        rows.append(f"| `{field.name}` | {decided} | {field.why} |")
    struct_docs.assert_generated(ROOT / "docs" / "results.md", "fields", "\n".join(rows))
