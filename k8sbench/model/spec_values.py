"""Values of single keys of a benchmark file: names, numbers and words."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from k8sbench.model.pool import Word, text_pattern

Framework = Literal["pytorch", "paddle"]
Precision = Literal["fp32", "amp"]
AmpDtype = Literal["fp16", "bf16"]
Impl = Literal["k8sbench", "upstream", "user"]
Preset = Literal["full", "smoke"]
Mode = Literal["throughput", "train"]
LengthUnit = Literal["iterations", "epochs"]
Estimator = Literal[
    "time_weighted",
    "time_weighted_steady",
    "median",
    "arithmetic",
    "timestamps",
    "printed_steps",
    "unknown",
]
LARGEST_INT = 2**53
"""Every JSON reader holds whole numbers up to here exactly."""
PositiveInt = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_INT)]
NonNegativeInt = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_INT)]
PositiveFloat = Annotated[float, msgspec.Meta(gt=0, le=1e300)]
Command = tuple[Word, ...]
"""A program and its arguments, one word each; no shell."""
Text = Annotated[str, msgspec.Meta(min_length=1)]
Cadence = Annotated[
    dict[Literal["one_gpu", "many_gpus"], PositiveInt],
    msgspec.Meta(min_length=2, description="both one_gpu and many_gpus"),
]
"""A number for one GPU, and one for several."""
AbsolutePath = Annotated[str, text_pattern(r"^/[^\0]*\Z", "an absolute path of the container")]
Name = Annotated[
    str,
    text_pattern(
        r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?\Z",
        "a name of at most 40 lower-case letters, digits and '-', a letter first",
    ),
]
CaseName = Annotated[
    str,
    text_pattern(
        r"^[1-9][0-9]{0,3}x[1-9][0-9]{0,2}\Z", "a case: replicas x GPUs per replica, as 4x8"
    ),
]
OptionName = Annotated[
    str, text_pattern(r"^[a-z][a-z0-9-]*\Z", "the name of a long option without its dashes")
]
NumberName = Annotated[
    str,
    text_pattern(r"^[a-z][a-z0-9_]*\Z", "a placeholder's name: lower-case letters, digits and '_'"),
]
Md5 = Annotated[str, text_pattern(r"^[0-9a-f]{32}\Z", "an MD5 sum: 32 hexadecimal digits")]
