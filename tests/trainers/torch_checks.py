"""Checks of PyTorch's own parts, on a CPU here, on GPUs in `tests/gpu`.

A device is named as on the command line: "cpu" or "cuda".
"""

import json
from typing import Any

from tests.harness import children
from tests.trainers.runs import alone, of, ranks

TRAINERS = of("pytorch")
TRAINING = (
    *("deeplabv3p_pytorch", "--crop", "24x24", "--classes", "5", "--lr", "0.01"),
    "--no-dropout",
)
"""The trainer whose upstream synchronises batch norm, with batch norm in training mode."""
# Measured on a CPU: 1e-7, and 1e-3 to 5e-3 where each rank has statistics of its own.
TRAINING_TOLERANCE = 2e-4
PRECISIONS = ("none", "fp16")


def upstreams_waits(trainer: str, amp: str) -> tuple[int, int]:
    """Return upstream's device reads and named waits per step.

    Upstream's programs read each of their values separately, which is more. An adaptive scaler
    checks once for finite gradients, but not mmcv's and apex's with a fixed scale; NVIDIA's program
    waits besides.
    """
    return 1 + (amp == "fp16" and trainer == "tsm"), int(trainer == "resnet50")


def print_errors(*options: str) -> None:
    """Print the relative errors of products in a session with these options."""
    from k8sbench.trainers.parts import machine
    from tests.trainers.checks import read

    common = read(*options)
    machine.steer_tf32(common.tf32)
    import torch
    from torch.nn import functional

    from k8sbench.trainers.parts import torch_session

    here: Any = torch_session.open_session(common)
    here.seed()

    def error(product: Any, *given: Any) -> float:
        there = [each.to(here.device) for each in given]
        exact = product(*(each.double() for each in there))
        return float(((product(*there).double() - exact).norm() / exact.norm()).item())

    one, other = torch.randn(2, 512, 512)
    planes, kernels = torch.randn(4, 128, 32, 32), torch.randn(128, 128, 3, 3)
    told = {
        "matmul": error(torch.matmul, one, other),
        "convolution": error(functional.conv2d, planes, kernels),
        "tf32": here.on_gpu and torch.cuda.get_device_capability() >= (8, 0),
    }
    print(json.dumps(told))


def rounding(device: str, *options: str, timeout: float = 100.0) -> dict[str, Any]:
    """The relative error of FP32 products in a session with these options.

    FP32 rounds at 6e-8, TF32 its factors at 5e-4; sums of many products keep about these.
    """
    words = ["-c", children.calling(print_errors, "--device", device, *options)]
    told: dict[str, Any] = json.loads(alone(words, timeout=timeout))
    return told


def meet(*options: str) -> None:
    """Print what a rank has learnt of its group, and a sum over it."""
    import torch
    from torch import distributed

    from k8sbench.trainers.parts import ending, torch_session
    from tests.trainers.checks import read

    here: Any = torch_session.open_session(read(*options))
    here.connect()
    rank = here.place.rank
    added = torch.full([8], 1.0 + rank, device=here.device)
    distributed.all_reduce(added)
    here.wait_for_all()
    about = here.environment()
    told = {name: about[name] for name in ("backend", "transport", "world_size", "nccl")}
    told |= {"sum": added.tolist(), "agreed": here.agree(7 + rank)}
    print(f"MET {json.dumps(told)}")
    here.close()
    ending.run(lambda: None)


def meeting(
    device: str, world_size: int, *options: str, timeout: float = 100.0
) -> list[dict[str, Any]]:
    """Return the report of each rank; a single rank forms a group, too."""
    arguments = ["-c", children.calling(meet, "--device", device, *options)]
    printed = ranks(arguments, world_size, timeout=timeout)
    lines = [line for text in printed for line in text.splitlines() if line.startswith("MET ")]
    return [json.loads(line.removeprefix("MET ")) for line in lines]
