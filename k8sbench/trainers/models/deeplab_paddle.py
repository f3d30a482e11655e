# mypy: allow-subclassing-any
"""The segmentation networks of Paddle, of the same building blocks: PaddleSeg's, mmsegmentation's.

ResNet-50 with a three-convolution stem is the same body in PaddleSeg (ResNet50_vd) and in
mmsegmentation (ResNetV1c); they differ in strides, dilations and in the shortcut of a block that
halves the image, so those are arguments. Normalisation is always BatchNorm2D here: turning it
into SyncBatchNorm is the session's decision, because it depends on the device and the world.
Images are [N, 3, H, W] and logits [N, classes, H, W], unless `layout` swaps them. Described by
upstream's own files (PaddleSeg's `models/deeplab.py`, `layers/pyramid_pool.py`,
`backbones/resnet_vd.py`, `benchmark/deeplabv3p.yml`; mmsegmentation 0.18's
`_base_/models/deeplabv3plus_r50-d8.py` and its decode heads); written anew here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
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


class ResNetBlock(nn.Layer):
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
                    ResNetBlock(
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


def separable(inputs: int, outputs: int, *, dilation: int = 1, bias: bool, layout: str) -> Any:
    """Depthwise 3x3 and pointwise, each with a norm; with `bias` one ReLU."""
    return nn.Sequential(
        conv_norm(
            inputs,
            inputs,
            3,
            dilation=dilation,
            groups=inputs,
            relu=not bias,
            bias=bias,
            layout=layout,
        ),
        conv_norm(inputs, outputs, 1, bias=bias, layout=layout),
    )


class DeepLab(nn.Layer):
    """The backbone and the branches of both models; their heads come after these."""

    aspp_channels: ClassVar[int]
    dilations: ClassVar[Sequence[Sequence[int]]]
    vd: ClassVar[bool]
    bias: ClassVar[bool]
    """True if the head's convolutions have a bias before their norm."""

    def __init__(self, *, layout: str, width_divisor: int) -> None:
        super().__init__()
        self.layout = layout
        self.conv = functools.partial(conv_norm, bias=self.bias, layout=layout)
        self.separable = functools.partial(separable, bias=self.bias, layout=layout)
        self.backbone = DilatedResNet50(
            dilations=self.dilations, vd=self.vd, layout=layout, width_divisor=width_divisor
        )
        high = self.backbone.channels[-1]
        self.width = self.aspp_channels // width_divisor
        self.branches = nn.LayerList(
            [self.conv(high, self.width, 1)]
            + [self.separable(high, self.width, dilation=rate) for rate in ASPP_RATES]
        )
        self.pooled = nn.Sequential(
            nn.AdaptiveAvgPool2D(1, data_format=layout),
            conv_norm(high, self.width, 1, layout=layout),
        )

    def decoded(self, context: Any, low: Any) -> Any:
        """The decoder's output, of the ASPP's and of the first stage's."""
        low = self.low_level(low)
        return self.decoder(join([resize(context, low, self.layout), low], self.layout))


class DeepLabV3P(DeepLab):
    """PaddleSeg's, the report's: images to logits of the same size.

    Output stride 8 with multi-grid 1, 2, 4 in the last stage; no auxiliary head. 26.794 M
    parameters and 228.4 GMAC at 512x1024 (as paddle.flops counts).
    """

    aspp_channels, vd, bias = 256, True, True
    dilations = ((1,) * 3, (1,) * 4, (2,) * 6, (4, 8, 16))

    def __init__(self, classes: int = 19, *, layout: str = "NCHW", width_divisor: int = 1) -> None:
        super().__init__(layout=layout, width_divisor=width_divisor)
        low, width = self.backbone.channels[0], self.width
        self.project = nn.Sequential(
            self.conv(width * (len(ASPP_RATES) + 2), width, 1), nn.Dropout(0.1)
        )
        self.low_level = self.conv(low, LOW_LEVEL, 1)
        self.decoder = nn.Sequential(
            self.separable(width + LOW_LEVEL, width),
            self.separable(width, width),
            nn.Conv2D(width, classes, 1, data_format=layout),
        )

    def forward(self, images: Any) -> Any:
        """Logits at the images' own size."""
        low, _, _, high = self.backbone(images)
        # Upstream resizes every branch, also those that have the size already.
        branches = [
            resize(branch(high), high, self.layout) for branch in (*self.branches, self.pooled)
        ]
        context = self.project(join(branches, self.layout))
        return resize(self.decoded(context, low), images, self.layout)


AUXILIARY = 256  # channels of the auxiliary head
DROPOUT = 0.1


def _initialise(model: Any) -> None:
    """He's normal for convolutions, N(0, 0.01) for classifiers; blocks begin as shortcuts."""
    for layer in model.sublayers():
        if isinstance(layer, nn.Conv2D):
            outputs, _, height, width = layer.weight.shape
            # As PyTorch's side: over the outputs, where Paddle's own He counts the inputs.
            spread = math.sqrt(2 / (outputs * height * width))
            classifier = layer.bias is not None
            nn.initializer.Normal(std=0.01 if classifier else spread)(layer.weight)
        elif isinstance(layer, ResNetBlock):
            nn.initializer.Constant(0.0)(layer.body[2][1].weight)


class MmsegDeepLab(DeepLab):
    """mmsegmentation's: images to logits of the same size; while training, of the auxiliary head.

    The published comparison sets PaddleSeg's model beside this one, which does 1.6 times the work;
    only the same model on both frameworks gives a parity ratio. 43.590 M parameters and 371.7 GMAC
    at 512x1024, both with the auxiliary head.
    """

    aspp_channels, vd, bias = 512, False, False
    # A stage that replaces its stride by dilation begins with half of it.
    dilations = ((1,) * 3, (1,) * 4, (1, 2, 2, 2, 2, 2), (2, 4, 4))

    def __init__(self, classes: int = 19, *, layout: str = "NCHW", width_divisor: int = 1) -> None:
        super().__init__(layout=layout, width_divisor=width_divisor)
        low, _, third, _ = self.backbone.channels
        width = self.width
        narrow = AUXILIARY // width_divisor
        self.project = self.conv(width * (len(ASPP_RATES) + 2), width, 3)
        self.low_level = self.conv(low, LOW_LEVEL, 1)
        self.decoder = nn.Sequential(
            self.separable(width + LOW_LEVEL, width),
            self.separable(width, width),
            nn.Dropout2D(DROPOUT, data_format=layout),
            nn.Conv2D(width, classes, 1, data_format=layout),
        )
        self.auxiliary = nn.Sequential(
            self.conv(third, narrow, 3),
            nn.Dropout2D(DROPOUT, data_format=layout),
            nn.Conv2D(narrow, classes, 1, data_format=layout),
        )
        _initialise(self)

    def forward(self, images: Any) -> Any:
        """Logits at the images' own size; while training those of both heads."""
        low, _, third, high = self.backbone(images)
        branches = [resize(self.pooled(high), high, self.layout)]
        branches += [branch(high) for branch in self.branches]
        context = self.project(join(branches, self.layout))
        logits = self._full_size(self.decoded(context, low), images)
        if not self.training:
            return logits
        return logits, self._full_size(self.auxiliary(third), images)

    def _full_size(self, x: Any, images: Any) -> Any:
        """Logits at the images' size: mmsegmentation's loss begins with this, in FP32."""
        with paddle.amp.auto_cast(enable=False):
            return resize(x.astype("float32"), images, self.layout)
