"""What a run tells of its GPU, held against what nvidia-smi says."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.gpu import LONG
from tests.gpu.test_training import run
from tests.trainers.smi import QUESTIONS, differences
from tests.trainers.torch_runs import events, only

pytestmark = pytest.mark.timeout(2 * LONG)


def test_the_gpu_is_the_one_that_nvidia_smi_describes() -> None:
    if shutil.which("nvidia-smi") is None:
        pytest.skip("no nvidia-smi here")
    about = only(events(run("resnet50", "none")), "environment")[0]
    uuid = "GPU-" + about["gpu_uuid"].removeprefix("GPU-")
    words = ["nvidia-smi", f"--query-gpu={','.join(QUESTIONS)}", "--format=csv,noheader,nounits"]
    asked = subprocess.run(
        [*words, f"--id={uuid}"], capture_output=True, text=True, check=False, timeout=60
    )
    assert asked.returncode == 0, asked.stdout + asked.stderr
    assert differences(about, asked.stdout) == {}
