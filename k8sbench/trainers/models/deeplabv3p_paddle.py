# mypy: allow-subclassing-any
"""PaddleSeg's DeepLabV3P with ResNet50_vd: the model of the report's Paddle side.

Output stride 8 with multi-grid 1, 2, 4 in the last stage; 256-channel ASPP with separable
convolutions at 12, 24, 36; a decoder at stride 4; no auxiliary head. 26.794 M parameters and
228.4 GMAC at 512x1024 (as paddle.flops counts). It is not mmsegmentation's model, which is in
`deeplabv3plus_paddle`. Described by `paddleseg/models/deeplab.py`, `layers/pyramid_pool.py`,
`backbones/resnet_vd.py` and `benchmark/deeplabv3p.yml`; written anew here.
"""

from __future__ import annotations

from typing import Any

from paddle import nn

from k8sbench.trainers.models.blocks_paddle import (
    ASPP_RATES,
    LOW_LEVEL,
    DeepLab,
    conv_norm,
    join,
    resize,
)


def _conv(inputs: int, outputs: int, kernel: int, **kwargs: Any) -> Any:
    """Convolution of the head, with bias before batch norm as upstream's."""
    return conv_norm(inputs, outputs, kernel, bias=True, **kwargs)


def _separable(inputs: int, outputs: int, *, dilation: int = 1, layout: str) -> Any:
    """Depthwise 3x3 with a norm but no ReLU, then pointwise."""
    return nn.Sequential(
        _conv(inputs, inputs, 3, dilation=dilation, groups=inputs, relu=False, layout=layout),
        _conv(inputs, outputs, 1, layout=layout),
    )


class DeepLabV3P(DeepLab):
    """Images [N, 3, H, W] to logits [N, classes, H, W]; `layout` may swap."""

    aspp_channels, vd = 256, True
    dilations = ((1,) * 3, (1,) * 4, (2,) * 6, (4, 8, 16))
    conv, separable = staticmethod(_conv), staticmethod(_separable)

    def __init__(self, classes: int = 19, *, layout: str = "NCHW", width_divisor: int = 1) -> None:
        super().__init__(layout=layout, width_divisor=width_divisor)
        low, width = self.backbone.channels[0], self.width
        self.project = nn.Sequential(
            _conv(width * (len(ASPP_RATES) + 2), width, 1, layout=layout), nn.Dropout(0.1)
        )
        self.low_level = _conv(low, LOW_LEVEL, 1, layout=layout)
        self.decoder = nn.Sequential(
            _separable(width + LOW_LEVEL, width, layout=layout),
            _separable(width, width, layout=layout),
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
