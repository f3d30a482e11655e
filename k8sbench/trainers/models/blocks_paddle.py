# mypy: allow-subclassing-any
"""The building blocks that both Paddle segmentation networks are made of.

ResNet-50 with a three-convolution stem is the same body in PaddleSeg (ResNet50_vd) and in
mmsegmentation (ResNetV1c); they differ in strides, dilations and in the shortcut of a block that
halves the image, so those are arguments. Normalisation is always BatchNorm2D here: turning it
into SyncBatchNorm is the session's decision, because it depends on the device and the world.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import paddle
from paddle import nn
from paddle.nn import functional as F

EXPANSION = 4  # a bottleneck's output channels : its width
WIDTHS = (64, 128, 256, 512)
DEPTHS = (3, 4, 6, 3)
STRIDES = (1, 2, 1, 1)
ASPP_RATES = (12, 24, 36)
LOW_LEVEL = 48  # channels of the first stage's output in the decoder


def conv_norm(
    inputs: int,
    outputs: int,
    kernel: int,
    *,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    relu: bool = True,
    bias: bool = False,
    padded: bool = True,
    layout: str = "NCHW",
) -> Any:
    """Convolution that keeps the size at stride 1, batch norm, optional ReLU.

    Without `padded` it expects an input that is padded already.
    """
    layers: list[Any] = [
        nn.Conv2D(
            inputs,
            outputs,
            kernel,
            stride=stride,
            padding=dilation * (kernel - 1) // 2 if padded else 0,
            dilation=dilation,
            groups=groups,
            bias_attr=None if bias else False,
            data_format=layout,
        ),
        nn.BatchNorm2D(outputs, data_format=layout),
    ]
    if relu:
        layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class Bottleneck(nn.Layer):
    """1x1, 3x3 (stride and dilation), 1x1, plus the input."""

    def __init__(
        self,
        inputs: int,
        width: int,
        *,
        stride: int,
        dilation: int,
        project: bool,
        vd: bool,
        layout: str,
    ) -> None:
        super().__init__()
        outputs = EXPANSION * width
        # PaddleSeg pads before a dilated convolution, by an operator of its own.
        apart = vd and dilation > 1
        spatial = conv_norm(
            width, width, 3, stride=stride, dilation=dilation, padded=not apart, layout=layout
        )
        self.body = nn.Sequential(
            conv_norm(inputs, width, 1, layout=layout),
            nn.Sequential(nn.Pad2D(dilation, data_format=layout), spatial) if apart else spatial,
            conv_norm(width, outputs, 1, relu=False, layout=layout),
        )
        self.shortcut = None
        if project and stride > 1 and vd:
            # ResNet-D: average first, so that the 1x1 convolution sees every pixel.
            self.shortcut = nn.Sequential(
                nn.AvgPool2D(2, stride=2, ceil_mode=True, data_format=layout),
                conv_norm(inputs, outputs, 1, relu=False, layout=layout),
            )
        elif project:
            self.shortcut = conv_norm(inputs, outputs, 1, stride=stride, relu=False, layout=layout)

    def forward(self, x: Any) -> Any:
        """The block's output."""
        beside = x if self.shortcut is None else self.shortcut(x)
        return F.relu(self.body(x) + beside)


class DilatedResNet50(nn.Layer):
    """ResNet-50 whose last stages are dilated; gives the outputs of its four stages."""

    channels = tuple(EXPANSION * width for width in WIDTHS)

    def __init__(
        self, *, dilations: Sequence[Sequence[int]], vd: bool, layout: str, width_divisor: int
    ) -> None:
        super().__init__()
        widths = [width // width_divisor for width in WIDTHS]
        stem = widths[0] // 2
        self.channels = tuple(EXPANSION * width for width in widths)
        self.stem = nn.Sequential(
            conv_norm(3, stem, 3, stride=2, layout=layout),
            conv_norm(stem, stem, 3, layout=layout),
            conv_norm(stem, widths[0], 3, layout=layout),
            nn.MaxPool2D(3, stride=2, padding=1, data_format=layout),
        )
        self.stages = nn.LayerList()
        inputs = widths[0]
        for width, depth, stride, rates in zip(widths, DEPTHS, STRIDES, dilations, strict=True):
            blocks = []
            for index in range(depth):
                blocks.append(
                    Bottleneck(
                        inputs,
                        width,
                        stride=stride if index == 0 else 1,
                        dilation=rates[index],
                        project=index == 0,
                        vd=vd,
                        layout=layout,
                    )
                )
                inputs = EXPANSION * width
            self.stages.append(nn.Sequential(*blocks))

    def forward(self, images: Any) -> list[Any]:
        """The four stages' outputs, from 1/4 down to 1/8."""
        x = self.stem(images)
        outputs = []
        for stage in self.stages:
            x = stage(x)
            outputs.append(x)
        return outputs


def resize(x: Any, like: Any, layout: str) -> Any:
    """Bilinear, without aligned corners, to the height and width of `like`."""
    size = like.shape[2:4] if layout == "NCHW" else like.shape[1:3]
    return F.interpolate(x, size, mode="bilinear", align_corners=False, data_format=layout)


def join(parts: Sequence[Any], layout: str) -> Any:
    """Concatenate along the channels."""
    return paddle.concat(list(parts), axis=1 if layout == "NCHW" else -1)


class DeepLab(nn.Layer):
    """The backbone and the branches of both models; their heads come after these."""

    aspp_channels: ClassVar[int]
    dilations: ClassVar[Sequence[Sequence[int]]]
    vd: ClassVar[bool]
    conv: ClassVar[Callable[..., Any]]
    separable: ClassVar[Callable[..., Any]]

    def __init__(self, *, layout: str, width_divisor: int) -> None:
        super().__init__()
        self.layout = layout
        self.backbone = DilatedResNet50(
            dilations=self.dilations, vd=self.vd, layout=layout, width_divisor=width_divisor
        )
        high = self.backbone.channels[-1]
        self.width = self.aspp_channels // width_divisor
        self.branches = nn.LayerList(
            [self.conv(high, self.width, 1, layout=layout)]
            + [self.separable(high, self.width, dilation=r, layout=layout) for r in ASPP_RATES]
        )
        self.pooled = nn.Sequential(
            nn.AdaptiveAvgPool2D(1, data_format=layout),
            conv_norm(high, self.width, 1, layout=layout),
        )

    def decoded(self, context: Any, low: Any) -> Any:
        """The decoder's output, of the ASPP's and of the first stage's."""
        low = self.low_level(low)
        return self.decoder(join([resize(context, low, self.layout), low], self.layout))
