"""What is set against what: each trainer at a small size for CPUs and at its own for a GPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One comparison of our loop with a plain one."""

    name: str
    framework: str  # pytorch or paddle
    trainer: str  # module under k8sbench.trainers; "no-op" stands for a model without work
    small: tuple[str, ...] = ()  # options on a CPU: full networks, small pictures
    amp: tuple[str, ...] = ()  # options of mixed precision; none = not measured


FP16 = ("--amp-dtype", "fp16")
TRAINERS = (
    Case(
        name="deeplabv3p, PyTorch",
        framework="pytorch",
        trainer="deeplabv3p_pytorch",
        small=("--crop", "32x64", "--batch-size", "2"),
        amp=FP16,
    ),
    Case(
        name="deeplabv3p, Paddle",
        framework="paddle",
        trainer="deeplabv3p_paddle",
        small=("--crop", "32x64", "--batch-size", "2"),
        amp=FP16,
    ),
    Case(
        name="resnet50",
        framework="pytorch",
        trainer="resnet50",
        small=("--input-size", "64", "--batch-size", "4"),
        amp=FP16,
    ),
    Case(
        name="tsm",
        framework="pytorch",
        trainer="tsm",
        small=("--input-size", "32", "--segments", "4", "--batch-size", "4"),
        amp=FP16,
    ),
    Case(
        name="arcface",
        framework="paddle",
        trainer="arcface",
        small=("--size", "32", "--classes", "1000", "--batch-size", "4"),
    ),
)
# The loops that differ in what they do on the host: many values and few records (mmsegmentation),
# a record in every step (DeepLearningExamples), Paddle's.
NOOPS = (
    Case(
        name="PyTorch, 5 values, a record in 10 steps",
        framework="pytorch",
        trainer="no-op",
        small=("--recipe", "mmseg", "--log-interval", "10"),
    ),
    Case(
        name="PyTorch, 1 value, a record in each step",
        framework="pytorch",
        trainer="no-op",
        small=("--recipe", "dle", "--log-interval", "1"),
    ),
    Case(
        name="Paddle, 1 value, a record in 10 steps",
        framework="paddle",
        trainer="no-op",
        small=("--recipe", "paddle", "--log-interval", "10"),
    ),
)
