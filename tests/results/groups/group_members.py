"""Runs of one group that differ in a fact."""

from typing import Any

from k8sbench.model.group import Group
from k8sbench.results.groups.grouping import groups
from tests.results.report.factory import V100_32

MIXED: dict[str, dict[str, Any]] = {
    "mixed-gpu-model": {"measured": {"gpu_model": V100_32}},
    "mixed-precision": {"measured": {"precision_effective": "amp"}},
    "mixed-image": {"image_digest": "sha256:other"},
    "mixed-driver": {"measured": {"environment": {"driver": "470.1"}}},
    "mixed-framework": {"measured": {"environment": {"framework_version": "2.9"}}},
    "mixed-plan": {"env": {"OMP_NUM_THREADS": "1"}},
}


def only(runs: Any, **options: Any) -> Group:
    (group,) = groups(runs, **options)
    return group
