"""DeepLabV3+ as mmsegmentation builds it for Cityscapes, for PyTorch.

ResNet-50 v1c at 1/8, a pyramid of 512 channels with depth-wise separable dilated convolutions, a
decoder that joins the first stage, and an auxiliary FCN head on the third stage. 43.589878 M
parameters and 371.70 GMAC at 512×1024 with 19 classes, auxiliary head included.
"""

from __future__ import annotations

import contextlib

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from k8sbench.trainers.models.resnet_torch import ResNet50, conv_norm, initialise
from k8sbench.trainers.parts.segmentation import IGNORE

CHANNELS = 512
RATES = (12, 24, 36)
LOW_CHANNELS = 48
AUXILIARY_CHANNELS = 256
DROPOUT = 0.1
AUXILIARY_WEIGHT = 0.4


def separable(inputs: int, outputs: int, *, dilation: int = 1) -> nn.Sequential:
    """Separable 3×3 convolution: per channel, then 1×1; each with norm, ReLU."""
    return nn.Sequential(
        conv_norm(inputs, inputs, 3, dilation=dilation, groups=inputs),
        conv_norm(inputs, outputs, 1),
    )


def resize(x: Tensor, size: torch.Size | tuple[int, int]) -> Tensor:
    """Bilinear, corners not aligned, in the type that `x` has.

    Left to itself autocast resizes in FP32 on GPUs; upstream's head does all in half precision. Of
    the pooled pixel that is dear: the backward pass adds up at one address (docs/measured.md). A
    broadcast would be another program's speed: --broadcast-pool.
    """
    half = x.dtype is not torch.float32
    with torch.autocast(x.device.type, enabled=False) if half else contextlib.nullcontext():
        return F.interpolate(x, size=size, mode="bilinear", align_corners=False)


def to_classes(inputs: int, classes: int) -> nn.Sequential:
    """Dropout of whole channels and one 1×1 convolution to the classes."""
    return nn.Sequential(nn.Dropout2d(DROPOUT), nn.Conv2d(inputs, classes, 1))


class Head(nn.Module):
    """The pyramid on the last stage and the decoder that joins the first."""

    def __init__(
        self, low: int, high: int, channels: int, classes: int, *, broadcast_pool: bool
    ) -> None:
        super().__init__()
        self.broadcast_pool = broadcast_pool
        self.pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv_norm(high, channels, 1))
        self.branches = nn.ModuleList(
            [
                conv_norm(high, channels, 1),
                *(separable(high, channels, dilation=rate) for rate in RATES),
            ]
        )
        self.join = conv_norm(channels * (len(self.branches) + 1), channels, 3)
        self.low = conv_norm(low, LOW_CHANNELS, 1)
        self.decode = nn.Sequential(
            separable(channels + LOW_CHANNELS, channels), separable(channels, channels)
        )
        self.classes = to_classes(channels, classes)

    def forward(self, low: Tensor, high: Tensor) -> Tensor:
        """Logits at 1/4."""
        size = high.shape[2:]
        pooled = self.pooled(high)
        # A pixel that is resized is the same everywhere.
        pooled = pooled.expand(-1, -1, *size) if self.broadcast_pool else resize(pooled, size)
        pyramid = self.join(torch.cat([pooled, *(branch(high) for branch in self.branches)], 1))
        near = self.low(low)
        joined = torch.cat([resize(pyramid, near.shape[2:]), near], 1)
        logits: Tensor = self.classes(self.decode(joined))
        return logits


class DeepLabV3Plus(nn.Module):
    """Logits of the head (1/4) and the auxiliary head (1/8), not resized."""

    def __init__(
        self, classes: int = 19, *, width_divisor: int = 1, broadcast_pool: bool = False
    ) -> None:
        super().__init__()
        self.backbone = ResNet50(
            deep_stem=True,
            strides=(1, 2, 1, 1),
            dilations=(1, 1, 2, 4),
            width_divisor=width_divisor,
        )
        low, _, third, high = self.backbone.channels
        narrow = AUXILIARY_CHANNELS // width_divisor
        self.head = Head(
            low, high, CHANNELS // width_divisor, classes, broadcast_pool=broadcast_pool
        )
        self.auxiliary = nn.Sequential(conv_norm(third, narrow, 3), to_classes(narrow, classes))
        initialise(self)
        for block in self.backbone.blocks():
            # mmsegmentation starts each block as its shortcut (zero_init_residual).
            nn.init.zeros_(block.expand[1].weight)
        for classifier in (self.head.classes, self.auxiliary[1]):
            nn.init.normal_(classifier[1].weight, std=0.01)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the head and of the auxiliary head."""
        low, _, third, high = self.backbone(images)
        return self.head(low, high), self.auxiliary(third)


def predicted(model: nn.Module, images: Tensor) -> Tensor:
    """The class of each pixel: of the head's logits, resized as for the loss."""
    logits, _ = model(images)
    return resize(logits.float(), images.shape[2:]).argmax(1)


def losses(model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """mmsegmentation's losses and accuracies (percent), under its names."""
    values: dict[str, Tensor] = {}
    outputs = zip(("decode", "aux"), (1.0, AUXILIARY_WEIGHT), model(images), strict=True)
    for name, weight, small in outputs:
        logits = resize(small.float(), labels.shape[1:])  # upstream's loss begins in FP32
        # The mean is over all pixels, also those without a class, which add 0: as upstream.
        each = F.cross_entropy(logits, labels, ignore_index=IGNORE, reduction="none")
        values[f"{name}.loss_seg"] = weight * each.mean()
        best = logits.detach().topk(1, dim=1).indices.squeeze(1)  # as upstream asks, and dearer
        hits = best == labels
        values[f"{name}.acc_seg"] = 100.0 * hits.float().mean()
    values["loss"] = values["decode.loss_seg"] + values["aux.loss_seg"]
    return values
