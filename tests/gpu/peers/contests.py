"""Models, batches, precisions and settings of the comparison."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.gpu.peers.theirs import Task

# By trainer: its benchmark; the size of a sample, as `Task` has it; and a small one for a CPU, with
# the words that ask our trainer for it.
SIZES: dict[str, tuple[str, tuple[int, int], tuple[int, int], tuple[str, ...]]] = {
    "deeplabv3p_pytorch": ("deeplabv3p", (512, 1024), (64, 128), ("--crop", "64x128")),
    "resnet50": ("resnet50", (224, 224), (64, 64), ("--input-size", "64")),
    "tsm": ("tsm", (224, 224), (64, 64), ("--input-size", "64")),
    "gpt": ("gpt", (12, 1024), (2, 64), ("--layers", "2", "--sequence-length", "64")),
}
TINY_BATCH = 2


class Ours(NamedTuple):
    """A run of one of our trainers."""

    trainer: str
    amp: str
    batch: int
    warmup: int
    steps: int
    options: tuple[str, ...] = ()

    def words(self, tiny: bool) -> list[str]:
        """Its command line, after the interpreter's name."""
        amp, batch, device, size = (
            ("none", TINY_BATCH, "cpu", SIZES[self.trainer][3])
            if tiny
            else (self.amp, self.batch, "cuda", ())
        )
        pairs = {
            "--device": device,
            "--amp-dtype": amp,
            "--batch-size": batch,
            "--warmup": 1 if tiny else self.warmup,
            "--iterations": 2 if tiny else self.steps,
        }
        said = [str(word) for pair in pairs.items() for word in pair]
        return ["-m", f"k8sbench.trainers.{self.trainer}", *said, *size, *self.options]


class Contest(NamedTuple):
    """A run of ours, and peers that do the same."""

    part: str
    title: str
    ours: Ours
    peers: tuple[str, ...]
    channels_last: bool = False

    def task(self, tiny: bool) -> dict[str, Any]:
        """The peer's inputs and precision."""
        ours, (_, size, small, _) = self.ours, SIZES[self.ours.trainer]
        if tiny:
            return Task(TINY_BATCH, "none", self.channels_last, small, "cpu")._asdict()
        return Task(ours.batch, ours.amp, self.channels_last, size)._asdict()


_DEEPLAB, _RESNET, _TSM, _GPT = SIZES
CONTESTS = (
    # As many steps as fill a few seconds on an H100.
    Contest("deeplabv3p", "DeepLabV3+", Ours(_DEEPLAB, "none", 2, 10, 20), ("mmseg",)),
    Contest("deeplabv3p", "DeepLabV3+", Ours(_DEEPLAB, "fp16", 4, 10, 30), ("mmseg",)),
    Contest("resnet50", "ResNet-50", Ours(_RESNET, "none", 128, 10, 20), ("timm", "torchvision")),
    # Recipe dle has NHWC and a fixed loss scale, report has NCHW and a scaler as theirs.
    Contest(
        "resnet50",
        "ResNet-50, NCHW",
        Ours(_RESNET, "fp16", 128, 20, 50, ("--recipe", "report")),
        ("timm", "torchvision"),
    ),
    Contest(
        "resnet50",
        "ResNet-50, NHWC",
        Ours(_RESNET, "fp16", 128, 20, 50),
        ("timm", "torchvision"),
        channels_last=True,
    ),
    Contest("tsm", "TSM", Ours(_TSM, "none", 16, 10, 20), ("tsm",)),
    Contest("tsm", "TSM", Ours(_TSM, "fp16", 16, 20, 40), ("tsm",)),
    Contest("gpt", "GPT-2", Ours(_GPT, "none", 16, 5, 15), ("gpt2",)),
    Contest("gpt", "GPT-2", Ours(_GPT, "bf16", 16, 20, 50), ("gpt2",)),
)
