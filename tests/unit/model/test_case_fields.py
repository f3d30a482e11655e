"""The list of fields that define a case, and its consequences."""

from typing import Any, get_args

import msgspec
import pytest

from k8sbench.model import identity
from k8sbench.model.identity import CASE_FIELDS, GroupKey, Use
from k8sbench.model.log_format import LogFormat
from k8sbench.model.plan import ObservedJob, PlannedTraining, PlannedWindow, RunPlan
from k8sbench.model.pool import NodePool, Rdma
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
PAGE = ROOT / "docs" / "reference.md"
NESTED: dict[str, type[msgspec.Struct]] = {
    "window": PlannedWindow,
    "training": PlannedTraining,
    "log": LogFormat,
    "pool": NodePool,
}


PATHS = [name for name in RunPlan.__struct_fields__ if name not in NESTED] + [
    f"{name}.{field}" for name, of in NESTED.items() for field in of.__struct_fields__
]
"""Every field of a plan, and of what is nested in it."""
OTHER: dict[str, Any] = {
    "kind": "OtherJob",
    "observed": ObservedJob(
        kind="Job", namespace="team-a", name="llama", replicas=("pod-0",), container="trainer"
    ),
    "pool.annotations": {"k8s.v1.cni.cncf.io/networks": "rdma"},
    "pool.rdma": Rdma(resource="rdma/hca"),
}
"""Other values of fields that need a particular one.

Not every value makes a difference, and a plan must be sound.
"""


def another(value: Any) -> Any:
    """Another value of the same type."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}x"
        case tuple():
            return (*value, "x")
        case dict():
            return {**value, "X": "1"}
        case _:
            return "x"


def changed(path: str, plan: RunPlan = PLAN) -> RunPlan:
    """The plan with another value in one field."""
    name, _, inner = path.partition(".")
    of = getattr(plan, name) if inner else plan
    value = {inner or name: OTHER.get(path, another(getattr(of, inner or name)))}
    found = msgspec.structs.replace(of, **value)
    return msgspec.structs.replace(plan, **{name: found}) if inner else found


def key(plan: RunPlan, **told: Any) -> GroupKey:
    known = {"precision_effective": "amp", "gpu_model": "V100", "image": "sha256:1"}
    return identity.group_key(plan, **(known | told))


def test_every_field_of_a_plan_decides_or_is_listed_with_the_reason_why_not() -> None:
    deciding = {path for path in PATHS if identity.case_key(changed(path)) != PLAN_KEY}
    assert deciding | {"set_name"} == set(PATHS) - set(identity.NOT_DECIDING)


PLAN_KEY = identity.case_key(PLAN)


@pytest.mark.parametrize("path", identity.NOT_DECIDING)
def test_what_decides_nothing_changes_no_key(path: str) -> None:
    assert identity.case_key(changed(path)) == PLAN_KEY
    if path != "trainers_digest":  # the next test
        assert key(changed(path)) == key(PLAN)


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


def test_the_table_on_the_page_is_the_codes_golden() -> None:
    uses = list(get_args(Use))
    rows = ["| field | decides | why |", "|---|---|---|"]
    for field in CASE_FIELDS:
        decided = ", ".join(sorted(field.uses, key=uses.index))
        rows.append(f"| `{field.name}` | {decided} | {field.why} |")
    struct_docs.assert_generated(PAGE, "fields", "\n".join(rows))
    rows = ["| field | why not |", "|---|---|"]
    rows += [f"| `{name}` | {why} |" for name, why in identity.NOT_DECIDING.items()]
    struct_docs.assert_generated(PAGE, "others", "\n".join(rows))
