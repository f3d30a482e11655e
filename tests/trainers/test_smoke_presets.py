"""The smoke presets of the catalog: few and small steps, and still training."""

from __future__ import annotations

import pytest

from k8sbench.app import catalog
from tests.trainers.torch_runs import losses, run

BENCHMARKS = ("resnet50", "tsm")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_smoke_preset_learns_in_every_step(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    spec = catalog.benchmark(name).spec
    variant = spec.default_variant("pytorch")
    assert variant is not None
    smoke = variant.smoke
    assert smoke is not None
    sizes = [f"--{option}={value}" for option, value in smoke.args.items()]
    length = (f"--warmup={smoke.warmup}", f"--iterations={smoke.iterations}", "--log-interval=1")
    found = losses(run(capfd, name, *sizes, *length, f"--batch-size={smoke.batch_size}"))
    assert len(found) == smoke.iterations + smoke.warmup
    assert min(found) > 0.001, "a loss of 0 leaves nothing to learn"
    assert min(found[-3:]) < found[0] / 2
