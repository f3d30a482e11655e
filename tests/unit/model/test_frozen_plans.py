"""Recorded plans stay readable and keep their keys.

A key that changes here changes in every store: raise ``IDENTITY_VERSION``.
"""

import msgspec
import pytest

from k8sbench.model import identity
from k8sbench.model.plan import RunPlan
from tests.tiers import ROOT

FOLDER = ROOT / "tests" / "fixtures" / "plans"
KEYS: dict[str, tuple[str, str]] = {
    "arcface-paddle": ("arcface/paddle/1x8/fp32/dd9f76c536", "g-32992ed20b"),
    "arcface-upstream": ("arcface/paddle/4x8/fp32/93a8282548", "g-3ab2f40a1d"),
    "bandwidth": ("allreduce/pytorch/2x8/fp32/6324bc5325", "g-3bbfac261c"),
    "deeplabv3p-paddle": ("deeplabv3p/paddle/1x1/fp32/6f8488b692", "g-fe491306eb"),
    "deeplabv3p-pytorch": ("deeplabv3p/pytorch/4x8/amp/0ab84c8b01", "g-79db491eba"),
    "deeplabv3p-upstream": ("deeplabv3p/pytorch/1x8/fp32/4622ae5a19", "g-6f210c458b"),
    "resnet50-amp": ("resnet50/pytorch/1x8/amp/673a23d89a", "g-fd39039ad2"),
    "resnet50-local-cpu": ("resnet50/pytorch/2x1-cpu/fp32/adda5a49f1", "g-2060ed17ce"),
    "resnet50-options": ("resnet50/pytorch/1x1/fp32/71eb0ce000", "g-d2f1ab2b17"),
    "resnet50-pytorch": ("resnet50/pytorch/1x8/fp32/590ac2149b", "g-045f1f26e9"),
    "tsm-pytorch": ("tsm/pytorch/4x8/fp32/38c3810c61", "g-dab98df0ad"),
    "user-file": ("my-model/pytorch/2x8/fp32/c233efdfd8", "g-d37bc5a908"),
}
"""File → case key, and id of the unmeasured runs' group."""


def read(name: str) -> RunPlan:
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=RunPlan)


def test_every_frozen_plan_is_in_the_table() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(KEYS)


@pytest.mark.parametrize("name", KEYS)
def test_a_recorded_plan_is_readable_and_its_keys_are_fixed(name: str) -> None:
    plan = read(name)
    group = identity.group_key(plan, precision_effective=None, gpu_model=None, image=None)
    assert (identity.case_key(plan), group.id) == KEYS[name]
