"""Whether a log's model is the benchmark's, as far as the two names show.

Programs name models by class, folder or option, benchmarks by their paper's name. The table maps
both to a common name; if either is unknown, nothing follows.
"""

from __future__ import annotations

import re

# What decides: the head of a segmentation model, the kind of a video or face model. Names are
# matched in lower case without signs; the first that fits wins.
_HEADS: tuple[tuple[str, str], ...] = (
    ("deeplabv3p", r"deeplabv3\+|deeplabv3p|deeplabv3plus|depthwiseseparableaspphead"),
    ("deeplabv3", r"deeplabv3|(?<!separable)aspphead"),
    ("pspnet", r"pspnet|psphead"),
    ("ocrnet", r"ocrnet|ocrhead"),
    ("upernet", r"upernet|uperhead"),
    ("unet", r"\bu-?net\b"),
    ("fcn", r"\bfcn|fcnhead|hrnet"),
    ("tsm", r"\btsm\b|tsm_"),
    ("tsn", r"\btsn\b|tsn_"),
    ("slowfast", r"slowfast"),
    ("arcface", r"arcface|ir-?50|fresresnet"),
    ("mask-rcnn", r"mask[ _-]?r-?cnn"),
    ("yolo", r"yolo"),
    ("bert", r"\bbert"),
)
# Where there is no such head: the backbone alone, as in classification.
_BACKBONES = re.compile(
    r"(?:se-?)?resnext-?\d+|se-?resnet-?\d+|(?<!hr)resnet-?\d+|mobilenet\w*|efficientnet\S*"
    r"|vgg-?\d+|swin\w*|densenet-?\d+|\bvit\b|alexnet"
)


def architecture(text: str) -> tuple[str | None, str | None]:
    """Head and backbone that ``text`` names; None for what it does not."""
    lower = text.lower()
    head = next((name for name, pattern in _HEADS if re.search(pattern, lower)), None)
    backbone = _BACKBONES.search(lower)
    return head, backbone[0].replace("-", "") if backbone else None


def same(expected: str, logged: str) -> bool | None:
    """Whether two descriptions name one model; None where they do not show it."""
    head, backbone = architecture(expected)
    other_head, other_backbone = architecture(logged)
    if head is None and other_head is None:
        head, other_head = backbone, other_backbone
    return None if head is None or other_head is None else head == other_head
