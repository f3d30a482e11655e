# mypy: allow-subclassing-any
"""mmsegmentation's DeepLabV3+ with ResNetV1c-50-D8, in Paddle: the `matched` recipe.

The published comparison sets PaddleSeg's model beside this one, which does 1.6 times the work;
only the same model on both frameworks gives a parity ratio. 512-channel separable ASPP, a
512-channel decoder, and an FCN auxiliary head on the third stage. 43.590 M parameters and
371.7 GMAC at 512x1024, both with the auxiliary head. Described by mmsegmentation 0.18's
`_base_/models/deeplabv3plus_r50-d8.py` and its decode heads; written anew here.
"""

from __future__ import annotations

import math
from typing import Any

import paddle
from paddle import nn

from k8sbench.trainers.models.blocks_paddle import (
    ASPP_RATES,
    LOW_LEVEL,
    Bottleneck,
    DeepLab,
    conv_norm,
    join,
    resize,
)

AUXILIARY = 256  # channels of the auxiliary head
DROPOUT = 0.1


def _separable(inputs: int, outputs: int, *, dilation: int = 1, layout: str) -> Any:
    """Depthwise 3x3 and pointwise, each with a norm and a ReLU."""
    return nn.Sequential(
        conv_norm(inputs, inputs, 3, dilation=dilation, groups=inputs, layout=layout),
        conv_norm(inputs, outputs, 1, layout=layout),
    )


def _initialise(model: Any) -> None:
    """He's normal for convolutions, N(0, 0.01) for classifiers; blocks begin as shortcuts."""
    for layer in model.sublayers():
        if isinstance(layer, nn.Conv2D):
            outputs, _, height, width = layer.weight.shape
            # As PyTorch's side: over the outputs, where Paddle's own He counts the inputs.
            spread = math.sqrt(2 / (outputs * height * width))
            classifier = layer.bias is not None
            nn.initializer.Normal(std=0.01 if classifier else spread)(layer.weight)
        elif isinstance(layer, Bottleneck):
            nn.initializer.Constant(0.0)(layer.body[2][1].weight)


class DeepLabV3Plus(DeepLab):
    """Images to logits of the same size; while training, also the auxiliary head's logits."""

    aspp_channels, vd = 512, False
    # A stage that replaces its stride by dilation begins with half of it.
    dilations = ((1,) * 3, (1,) * 4, (1, 2, 2, 2, 2, 2), (2, 4, 4))
    conv, separable = staticmethod(conv_norm), staticmethod(_separable)

    def __init__(self, classes: int = 19, *, layout: str = "NCHW", width_divisor: int = 1) -> None:
        super().__init__(layout=layout, width_divisor=width_divisor)
        low, _, third, _ = self.backbone.channels
        width, narrow = self.width, AUXILIARY // width_divisor
        self.project = conv_norm(width * (len(ASPP_RATES) + 2), width, 3, layout=layout)
        self.low_level = conv_norm(low, LOW_LEVEL, 1, layout=layout)
        self.decoder = nn.Sequential(
            _separable(width + LOW_LEVEL, width, layout=layout),
            _separable(width, width, layout=layout),
            nn.Dropout2D(DROPOUT, data_format=layout),
            nn.Conv2D(width, classes, 1, data_format=layout),
        )
        self.auxiliary = nn.Sequential(
            conv_norm(third, narrow, 3, layout=layout),
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
