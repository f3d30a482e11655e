"""Requirements of the GPU tests on this machine; read by ``tests/tiers.py``.

The driver's files tell if there is a GPU. A separate process tries if a framework can use it, since
importing one takes seconds and keeps the GPU.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import pathlib
import subprocess
import sys

TRIALS = {
    "torch": """
import torch
assert torch.cuda.is_available(), "torch.cuda.is_available() says no"
x = torch.randn(4, 8, 16, 16, device="cuda", requires_grad=True)
y = torch.nn.functional.conv2d(x, torch.randn(8, 8, 3, 3, device="cuda")).relu().sum()
y.backward()
print("USABLE", torch.cuda.device_count(), y.item())
""",
    "paddle": """
import paddle
assert paddle.is_compiled_with_cuda(), "this build knows no GPUs"
assert paddle.device.cuda.device_count() > 0, "it sees none"
paddle.set_device("gpu:0")
x = paddle.randn([4, 8, 16, 16])
y = paddle.nn.functional.relu(paddle.nn.Conv2D(8, 8, 3)(x)).sum()
y.backward()
print("USABLE", paddle.device.cuda.device_count(), y.item())
""",
}
SECONDS = 120


@functools.cache
def gpus() -> tuple[str, ...]:
    """The GPUs of this machine, whether or not a framework can use them."""
    return tuple(sorted(path.name for path in pathlib.Path("/dev").glob("nvidia[0-9]*")))


@functools.cache
def usable(framework: str) -> tuple[int, str | None]:
    """Return how many GPUs a framework can use, and why none."""
    if not gpus():
        return 0, "no NVIDIA GPU here"
    if importlib.util.find_spec(framework) is None:
        return 0, f"{framework} not installed"
    command = [sys.executable, "-c", TRIALS[framework]]
    try:
        tried = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        said = f"no answer within {SECONDS} s"
    else:
        for line in tried.stdout.splitlines():
            if line.startswith("USABLE "):
                return int(line.split()[1]), None
        said = (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[-1]
    return 0, f"{framework} cannot use {gpus()[0]}: {said}"


def missing(framework: str) -> str | None:
    """Say what is missing; None if the tests can run."""
    return usable(framework)[1]


def paddle_missing() -> str | None:
    """The same of Paddle, whose CPU build knows no GPUs."""
    return missing("paddle")


def count(framework: str = "torch") -> int:
    """The number of GPUs that a framework can use."""
    return usable(framework)[0]


def demanded() -> bool:
    """True if "all tiers" includes this one: only on a GPU machine."""
    return bool(gpus()) and os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() not in ("", "-1")
