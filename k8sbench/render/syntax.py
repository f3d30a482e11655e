"""What Kubernetes accepts as a name, a label, a quantity, and how much of it.

What users give (pools, queues, images, data) is checked with it before anything is rendered.
Patterns are for whole strings (``\\A``, ``\\Z``: a ``$`` would let a trailing newline pass).
"""

from __future__ import annotations

import re
from decimal import Decimal

_LABEL_1123 = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_QUALIFIED = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
# A subdomain has 253 characters at most; the look-ahead counts them.
_SUBDOMAIN = rf"(?=[^/]{{1,253}}(?:/|\Z)){_LABEL_1123}(\.{_LABEL_1123})*"
_COMPONENT = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_HOST_PART = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"

DNS_1123_SUBDOMAIN = rf"\A{_SUBDOMAIN}\Z"
"""Names of most objects: claims, secrets, queues, classes."""
QUALIFIED_NAME = rf"\A({_SUBDOMAIN}/)?{_QUALIFIED}\Z"
"""Keys of labels and annotations, and extended resources: ``example.com/name``."""
LABEL_VALUE = rf"\A({_QUALIFIED})?\Z"
ENV_NAME = r"\A[-._A-Za-z][-._A-Za-z0-9]*\Z"
IMAGE = (
    r"\A(?=.{1,512}\Z)"
    rf"(({_HOST_PART}(\.{_HOST_PART})*|\[[0-9A-Fa-f:]+\])(:[0-9]+)?/)?"
    rf"{_COMPONENT}(/{_COMPONENT})*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,128})?\Z"
)
"""``[registry[:port]/]path[:tag][@digest]``, as the container runtimes read it."""
QUANTITY = r"\A(\d{1,15}(\.\d{1,9})?)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?\d{1,2})?\Z"
"""A number and a unit; only what can be an amount of something, so no sign."""

ANNOTATIONS_LIMIT = 256 * 1024
"""All keys and values of an object's annotations together, in bytes."""
CONFIG_LIMIT = 1024 * 1024
"""A ConfigMap's data must take less than this, in bytes."""


def fits(pattern: str, text: str) -> bool:
    """Whether ``text`` as a whole is what ``pattern`` describes."""
    return re.match(pattern, text) is not None


def times(quantity: str, count: int) -> str:
    """Multiply a quantity, in its own unit: 8 × ``1.5Gi`` is ``12Gi``."""
    match = re.match(QUANTITY, quantity)
    if match is None:
        raise ValueError(f"{quantity!r} is no quantity")
    text = f"{Decimal(match[1]) * count:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + (match[3] or "")
