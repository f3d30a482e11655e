"""Case keys, group keys and labels."""

import re
from typing import Any

from k8sbench.catalog.planning import make_plan
from k8sbench.model import identity
from k8sbench.model.plan import RunPlan
from tests.unit.model.specs import CLUSTER, a_request, loaded

DNS_1035 = re.compile(r"^[a-z]([-a-z0-9]*[a-z0-9])?$")


def plan(run_id: str = "seg-1", set_name: str = "s", repeat: int = 1, **asked: Any) -> RunPlan:
    return make_plan(
        loaded(),
        a_request(**asked),
        CLUSTER,
        run_id=run_id,
        set_name=set_name,
        repeat=repeat,
        trainers_digest="t",
    )


def test_labels_are_label_values() -> None:
    for name, value in identity.labels(plan()).items():
        assert re.match(r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$", value), name
