"""ResNet-50 for PyTorch: v1.5 for classification, and v1c with dilated stages as a backbone.

v1.5 has its stride in the 3×3 convolution of a block (He's first version had it in the 1×1).
v1c has a stem of three 3×3 convolutions; "D8" keeps the resolution at 1/8 by dilation instead of
stride in the last two stages, with the first block of each at half the stage's dilation
(mmsegmentation's `contract_dilation`). TSM is v1.5 with temporal shift: before the first
convolution of every block, one eighth of the channels is moved one frame back in time and one
eighth one frame ahead ("blockres", `shift_div` 8); the rest stays. The clip's logits are the mean
over its frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from k8sbench.trainers.parts.metrics import Scoring
from k8sbench.trainers.parts.samples import Array

DEPTHS = (3, 4, 6, 3)
WIDTHS = (64, 128, 256, 512)
EXPANSION = 4
LABEL_SMOOTHING = 0.1
SHIFT_DIV = 8
CLIP_DROPOUT = 0.5


def conv_norm(
    inputs: int,
    outputs: int,
    kernel: int,
    *,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    relu: bool = True,
) -> nn.Sequential:
    """Convolution that keeps the size but for its stride, norm, optional ReLU."""
    layers: list[nn.Module] = [
        nn.Conv2d(
            inputs,
            outputs,
            kernel,
            stride=stride,
            padding=dilation * (kernel - 1) // 2,
            dilation=dilation,
            groups=groups,
            bias=False,
        ),
        nn.BatchNorm2d(outputs),
    ]
    if relu:
        layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


class Bottleneck(nn.Module):
    """1×1, 3×3 (with the stride and the dilation), 1×1, beside a shortcut."""

    def __init__(self, inputs: int, width: int, *, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        outputs = width * EXPANSION
        self.reduce = conv_norm(inputs, width, 1)
        self.spatial = conv_norm(width, width, 3, stride=stride, dilation=dilation)
        self.expand = conv_norm(width, outputs, 1, relu=False)
        self.shortcut: nn.Module = (
            conv_norm(inputs, outputs, 1, stride=stride, relu=False)
            if stride != 1 or inputs != outputs
            else nn.Identity()
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        out: Tensor = self.relu(self.expand(self.spatial(self.reduce(x))) + self.shortcut(x))
        return out


class ResNet50(nn.Module):
    """The four stages; `forward` gives all their outputs, first to last."""

    def __init__(
        self,
        *,
        deep_stem: bool = False,
        strides: Sequence[int] = (1, 2, 2, 2),
        dilations: Sequence[int] = (1, 1, 1, 1),
        width_divisor: int = 1,
    ) -> None:
        super().__init__()
        widths = [width // width_divisor for width in WIDTHS]
        self.channels = tuple(EXPANSION * width for width in widths)
        inputs = widths[0]
        self.stem = (
            nn.Sequential(
                conv_norm(3, inputs // 2, 3, stride=2),
                conv_norm(inputs // 2, inputs // 2, 3),
                conv_norm(inputs // 2, inputs, 3),
            )
            if deep_stem
            else conv_norm(3, inputs, 7, stride=2)
        )
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.stages = nn.ModuleList()
        for depth, width, stride, dilation in zip(DEPTHS, widths, strides, dilations, strict=True):
            blocks = []
            for index in range(depth):
                first = index == 0
                blocks.append(
                    Bottleneck(
                        inputs,
                        width,
                        stride=stride if first else 1,
                        dilation=max(dilation // 2, 1) if first else dilation,
                    )
                )
                inputs = width * EXPANSION
            self.stages.append(nn.Sequential(*blocks))

    def forward(self, images: Tensor) -> list[Tensor]:
        """The outputs of the four stages, of `channels` channels: 256, 512, 1024 and 2048."""
        x = self.pool(self.stem(images))
        outputs = []
        for stage in self.stages:
            x = stage(x)
            outputs.append(x)
        return outputs

    def blocks(self) -> list[Bottleneck]:
        """All 16 blocks, first to last."""
        return [module for module in self.modules() if isinstance(module, Bottleneck)]


class Classifier(nn.Module):
    """ResNet-50 v1.5 with its pooled features and one linear layer."""

    def __init__(
        self, classes: int = 1000, *, dropout: float = 0.0, width_divisor: int = 1
    ) -> None:
        super().__init__()
        self.backbone = ResNet50(width_divisor=width_divisor)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.dropout: nn.Module = nn.Dropout(dropout) if dropout else nn.Identity()
        self.fc = nn.Linear(self.backbone.channels[-1], classes)
        initialise(self.backbone, mode="fan_in")

    def forward(self, images: Tensor) -> Tensor:
        """One row of logits per image."""
        features = self.pool(self.backbone(images)[-1])
        logits: Tensor = self.fc(self.dropout(torch.flatten(features, 1)))
        return logits


def initialise(model: nn.Module, *, mode: Literal["fan_in", "fan_out"] = "fan_out") -> None:
    """He initialisation of all convolutions; biases to 0."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy with label smoothing, as the classification benchmark trains it."""
    return F.cross_entropy(logits, labels, label_smoothing=LABEL_SMOOTHING)


def evaluation(batch_size: int) -> Scoring:
    """Evaluation by top-1 and top-5 share of a model's logits."""

    def sums(model: nn.Module, inputs: Tensor, labels: Tensor, _: list[int]) -> Tensor:
        logits = model(inputs)
        best = logits.topk(min(5, logits.shape[1]), dim=1).indices
        hits = best == labels[:, None]
        return torch.stack([hits[:, 0].sum(), hits.sum(), hits.new_ones(len(hits)).sum()])

    def figures(summed: Array) -> dict[str, float]:
        first, five, samples = summed
        return {"top-1": 100.0 * first / samples, "top-5": 100.0 * five / samples}

    return Scoring(metric="top-1", batch_size=batch_size, sums=sums, figures=figures)


def decayed_and_not(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Two parameter groups: batch norm's own without weight decay, all others with it.

    The norms of shortcuts are among the others: upstream finds norms by the name "bn", which those
    do not bear.
    """
    shortcuts = [block.shortcut for block in model.modules() if isinstance(block, Bottleneck)]
    beside = {norm for shortcut in shortcuts for norm in shortcut.modules()}
    norms = [
        module
        for module in model.modules()
        if isinstance(module, nn.BatchNorm2d) and module not in beside
    ]
    free = [parameter for norm in norms for parameter in norm.parameters()]
    apart = {id(parameter) for parameter in free}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in apart]
    return [
        {"params": free, "weight_decay": 0.0},
        {"params": rest, "weight_decay": decay},
    ]


class Shift(nn.Module):
    """Moves channels in time; out of place, as upstream does by default."""

    def __init__(self, segments: int) -> None:
        super().__init__()
        self.segments = segments

    def forward(self, x: Tensor) -> Tensor:
        """Shift the frames of clips: (clips · segments, C, H, W)."""
        frames = x.view(-1, self.segments, *x.shape[1:])
        fold = x.shape[1] // SHIFT_DIV
        moved = torch.zeros_like(frames)
        moved[:, :-1, :fold] = frames[:, 1:, :fold]
        moved[:, 1:, fold : 2 * fold] = frames[:, :-1, fold : 2 * fold]
        moved[:, :, 2 * fold :] = frames[:, :, 2 * fold :]
        return moved.view_as(x)


class TSM(nn.Module):
    """One row of logits per clip.

    24.328 M parameters with 400 classes, 32.7 GMAC per clip of 8 frames at 224×224.
    """

    def __init__(self, classes: int = 400, segments: int = 8, *, width_divisor: int = 1) -> None:
        super().__init__()
        self.segments = segments
        self.frames = Classifier(classes, dropout=CLIP_DROPOUT, width_divisor=width_divisor)
        nn.init.normal_(self.frames.fc.weight, std=0.001)
        nn.init.zeros_(self.frames.fc.bias)
        for block in self.frames.backbone.blocks():
            block.reduce = nn.Sequential(Shift(segments), *block.reduce)

    def forward(self, clips: Tensor) -> Tensor:
        """`clips`: (clips, segments, 3, H, W)."""
        logits: Tensor = self.frames(clips.flatten(0, 1))
        return logits.view(-1, self.segments, logits.shape[1]).mean(1)


def clip_losses(model: nn.Module, clips: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Cross entropy, and the top-1 and top-5 share of clips, percent."""
    logits = model(clips)
    ranked = logits.detach().topk(min(5, logits.shape[1]), dim=1).indices
    hits = (ranked == labels[:, None]).float()
    return {
        "loss": F.cross_entropy(logits, labels),
        "top1": 100.0 * hits[:, 0].mean(),
        "top5": 100.0 * hits.sum(1).mean(),
    }


def clip_groups(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Upstream's parameter groups.

    The classifier learns 5 times as fast and its bias 10 times; batch norm and biases are not
    decayed.
    """
    norms: list[Tensor] = []
    weights: list[Tensor] = []
    classifier: list[nn.Linear] = []
    for module in model.modules():
        if isinstance(module, nn.Linear):
            classifier.append(module)
        elif isinstance(module, nn.Conv2d):
            weights.append(module.weight)
        elif isinstance(module, nn.BatchNorm2d):
            norms += [module.weight, module.bias]
    return [
        {"params": weights, "lr_mult": 1.0, "weight_decay": decay},
        {"params": norms, "lr_mult": 1.0, "weight_decay": 0.0},
        {"params": [fc.weight for fc in classifier], "lr_mult": 5.0, "weight_decay": decay},
        {"params": [fc.bias for fc in classifier], "lr_mult": 10.0, "weight_decay": 0.0},
    ]
