"""A run's record of its GPU, compared with nvidia-smi."""

from __future__ import annotations

import itertools
import shutil
import subprocess

import pytest

from tests.gpu import LONG
from tests.gpu.training import run
from tests.trainers.checks import SIZES
from tests.trainers.runs import alone, events, only

pytestmark = pytest.mark.timeout(2 * LONG)


FIELDS = {
    "name": "gpu_model",
    "driver_version": "driver",
    "clocks.max.sm": "clock_sm_max_mhz",
    "clocks.max.mem": "clock_memory_max_mhz",
    "compute_cap": "gpu_compute_capability",
}
"""Question of nvidia-smi → field of the environment."""


def test_the_gpu_is_the_one_that_nvidia_smi_describes() -> None:
    if shutil.which("nvidia-smi") is None:
        pytest.skip("no nvidia-smi here")
    about = only(events(run("resnet50", "none")), "environment")[0]
    uuid = "GPU-" + about["gpu_uuid"].removeprefix("GPU-")
    words = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    asked = subprocess.run(
        [*words, f"--id={uuid}"], capture_output=True, text=True, check=False, timeout=60
    )
    assert asked.returncode == 0, asked.stdout + asked.stderr
    answers = dict(zip(FIELDS, asked.stdout.strip().split(", "), strict=True))
    # It writes "[N/A]", "[Not Supported]" and the like for what is None here.
    known = {field: text for field, text in answers.items() if not text.startswith("[")}
    told = {field: about[FIELDS[field]] for field in known}
    assert {field: type(told[field])(text) for field, text in known.items()} == told


def test_the_gpu_is_sampled_beside_the_training() -> None:
    """By the library itself: what it gives of a GPU at work fits together."""
    length = ("--warmup", "1", "--iterations", "5", "--min-steady-seconds", "12")
    words = ("--device", "cuda", "--batch-size", "4", *length, *SIZES["resnet50"])
    found = events(alone(["-m", "k8sbench.trainers.resnet50", *words], timeout=LONG))
    about, summary, samples = only(found, "environment")[0], found[-1], only(found, "gpu")

    def values(name: str) -> list[float]:
        return [value for event in samples for value in event.get(name, ()) if value is not None]

    at = values("at")
    assert len(at) >= 10
    assert sorted(b - a for a, b in itertools.pairwise(at))[len(at) // 2 - 1] < 1.2
    assert 0 < max(values("gpu_utilization")) <= 1
    assert max(values("memory_used")) > summary["max_memory_mib"]
    assert 0 < max(values("sm_clock")) <= about["clock_sm_max_mhz"]
    assert min(values("processes")) >= 1
    assert 20 < max(values("temperature")) < 120
    power, energy = values("power"), values("energy")
    if about["power_limit_w"] is not None:
        assert 0 < max(power) < 1.5 * about["power_limit_w"]
    if energy:  # Volta and later
        watts = (energy[-1] - energy[0]) / (at[-1] - at[0])
        assert min(power) * 0.7 < watts < max(power) * 1.3
