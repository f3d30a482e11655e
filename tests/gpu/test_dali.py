"""ImageNet's pictures to train on by NVIDIA DALI and nvJPEG, beside those by Pillow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import tiers
from tests.trainers.torch_runs import losses


def test_nvjpeg_gives_the_pictures_of_pillow_and_they_train_a_network(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tiers.demand("dali")
    from k8sbench.trainers.data import sample_sets  # which needs Pillow
    from tests.trainers.dali_checks import decodes_as_pillow, resnet50

    sample_sets.imagenet(tmp_path, pictures=24, size=(60, 72))
    decodes_as_pillow(tmp_path, "cuda", workers=2, most=8, mean=1.0)
    found = {
        name: resnet50(capfd, tmp_path, "--decoder", name, "--device", "cuda")
        for name in ("pillow", "dali")
    }
    assert losses(found["dali"]) == pytest.approx(losses(found["pillow"]), rel=0.02)
