"""Whether two descriptions name one model."""

from __future__ import annotations

import pytest

from k8sbench.measure.run import agreement


@pytest.mark.parametrize(
    ("expected", "found", "same"),
    [
        ("DeepLabV3+ ResNetV1c-50", "DepthwiseSeparableASPPHead", True),
        ("DeepLabV3+ ResNetV1c-50", "FCNHead of resnet50", False),
        # Without a head on either side the backbones decide, with one they do not.
        ("ResNet-50", "resnet50", True),
        ("ResNet-50", "resnet101", False),
        ("ResNet-50", "DeepLabV3+ resnet50", None),
        ("DeepLabV3+ ResNet-50", "resnet50", None),
        ("something", "something", None),
    ],
)
def test_heads_decide_and_backbones_where_there_are_none(
    expected: str, found: str, same: bool | None
) -> None:
    assert agreement.same_model(expected, found) is same
