"""PaddleSeg's own loop trains unchanged; its row is what its log's lines come to."""

from pathlib import Path

import pytest
import yaml

from tests.tiers import ROOT
from tests.upstream.runs import BATCH, ITERATIONS, PROGRAMS, Bench

pytestmark = pytest.mark.timeout(1500)
TRANSFORMS = [{"type": "RandomPaddingCrop", "crop_size": [64, 64]}, {"type": "Normalize"}]
IMAGE = ROOT / "images" / "upstream-paddleseg"


def test_version_2_8_on_two_replicas(bench: Bench, streets: Path) -> None:
    small = {
        "_base_": str(IMAGE / "deeplabv3p.yml"),
        "train_dataset": {"dataset_root": str(streets), "transforms": TRANSFORMS},
        "model": {"backbone": {"type": "ResNet18_vd"}},
    }
    (bench.folder / "small.yml").write_text(yaml.safe_dump(small))
    command: list[str | Path] = [
        *("python3", "-m", "paddle.distributed.launch"),
        *(PROGRAMS / "paddle_on_cpu.py", IMAGE / "train.py", "--config=small.yml"),
        "--iters={total_iterations}",
        "--batch_size={batch_size}",
        "--log_iters={log_interval}",
        "--num_workers=0",
    ]
    run = bench.submit(command, "paddleseg", "--replicas=2", framework="paddle")
    seconds = run.numbers(r"\[TRAIN\] epoch: \d, iter: \d/\d, .* batch_cost: ([\d.]+)")
    assert run.row["throughput"] == pytest.approx(2 * BATCH * ITERATIONS / sum(seconds), rel=1e-3)
