"""Claims and Secrets of the operator, which no Benchmark may name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from k8sbench.app.object_cases import refuse_reserved
from k8sbench.model.errors import UsageError
from k8sbench.model.program import SecretKey
from tests.unit.render import plans

OWN = ("home/dlperf-operator", "home/dlperf-operator-token")
NAMING: dict[str, dict[str, Any]] = {
    "data": {"data": "pvc:dlperf-operator"},
    "data in a folder": {"data": "pvc:dlperf-operator/k8sbench"},
    "weights": {"weights": "pvc:dlperf-operator/w.pth"},
    "checkpoints": {"checkpoints": "pvc:dlperf-operator"},
    "the token": {"secret_env": {"A": SecretKey(name="dlperf-operator-token", key="token")}},
    "the token, to pull images": {
        "pool": msgspec.structs.replace(
            plans.POOLS["plain"], image_pull_secrets=("dlperf-operator-token",)
        )
    },
}


@pytest.mark.parametrize("changes", NAMING.values(), ids=NAMING)
def test_a_plan_that_names_them_is_refused_in_their_namespace_alone(changes: Any) -> None:
    harmless = plans.plan()
    naming = msgspec.structs.replace(harmless, **changes)
    with pytest.raises(UsageError, match="is the operator's own"):
        refuse_reserved([harmless, naming], "home", OWN)
    refuse_reserved([harmless, naming], "team-a", OWN)
    refuse_reserved([harmless], "home", OWN)
