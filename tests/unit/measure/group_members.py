"""Runs of one group that differ in a fact."""

from typing import Any

from tests.unit.report.factory import (
    V100_32,
)

MIXED: dict[str, dict[str, Any]] = {
    "mixed-gpu-model": {"measured": {"gpu_model": V100_32}},
    "mixed-precision": {"measured": {"precision_effective": "amp"}},
    "mixed-image": {"image_digest": "sha256:other"},
    "mixed-driver": {"measured": {"environment": {"driver": "470.1"}}},
    "mixed-framework": {"measured": {"environment": {"framework_version": "2.9"}}},
    "mixed-plan": {"env": {"OMP_NUM_THREADS": "1"}},
}
