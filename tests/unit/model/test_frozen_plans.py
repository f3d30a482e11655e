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
    "arcface-paddle": ("arcface/paddle/1x8/fp32/f7c4c4633a", "g-32992ed20b"),
    "arcface-upstream": ("arcface/paddle/4x8/fp32/0e7e6df276", "g-3ab2f40a1d"),
    "bandwidth": ("allreduce/pytorch/2x8/fp32/d9e42ee8c8", "g-3bbfac261c"),
    "deeplabv3p-paddle": ("deeplabv3p/paddle/1x1/fp32/6ca7cca435", "g-fe491306eb"),
    "deeplabv3p-pytorch": ("deeplabv3p/pytorch/4x8/amp/ba2177af66", "g-79db491eba"),
    "deeplabv3p-upstream": ("deeplabv3p/pytorch/1x8/fp32/8be2f6fe0f", "g-6f210c458b"),
    "resnet50-amp": ("resnet50/pytorch/1x8/amp/d4e19092e8", "g-fd39039ad2"),
    "resnet50-local-cpu": ("resnet50/pytorch/2x1-cpu/fp32/0c89c4c36a", "g-2060ed17ce"),
    "resnet50-options": ("resnet50/pytorch/1x1/fp32/b2ceea9d96", "g-d2f1ab2b17"),
    "resnet50-pytorch": ("resnet50/pytorch/1x8/fp32/85b90c9ddf", "g-045f1f26e9"),
    "tsm-pytorch": ("tsm/pytorch/4x8/fp32/4e8ae6a969", "g-dab98df0ad"),
    "user-file": ("my-model/pytorch/2x8/fp32/6c7b16c30f", "g-d37bc5a908"),
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
