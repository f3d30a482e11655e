"""Which operations of a model compute in half precision under AMP; imports no framework.

Two runs in mixed precision may leave different operations in FP32, and then one has more to compute
than the other. So a model that both frameworks train states its types, and a ratio of the two is
given only where they are equal. They are not looked at while a run trains: they follow from the
frameworks' lists, as `tests/trainers/test_arithmetic.py` shows for both.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

HALF = {"fp16": "float16", "bf16": "bfloat16"}
# Of each kind of operation in the forward pass and the loss the type or, where a kind has several,
# the number of operations of each. The shortcuts of 16 blocks are added in half precision, the two
# losses in FP32; two features are resized in half precision, the logits of two heads in FP32.
DEEPLABV3PLUS = {
    "activation": "{half}",
    "add": "16 {half} + 1 float32",
    "concat": "{half}",
    "conv": "{half}",
    "depthwise_conv": "{half}",
    "loss": "float32",
    "norm": "{half}",
    "pool": "{half}",
    "resize": "2 {half} + 2 float32",
}


def statement(types: Mapping[str, str], amp_dtype: str) -> dict[str, object]:
    """What a run states: the types, and a digest that is equal where they are."""
    stated = {kind: types[kind].format(half=HALF[amp_dtype]) for kind in sorted(types)}
    text = json.dumps(stated, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {"by": "derived", "digest": digest, "types": stated}
