"""Table of log families.

A new family is a module here with a :class:`Family`, and its name below.
"""

from __future__ import annotations

import importlib

from k8sbench.parse.family import Family

NAMES = (
    "k8sbench",
    "mmseg",
    "mmengine",
    "paddleseg",
    "paddleclas",
    "paddlevideo",
    "dle-resnet50",
    "tsm",
    "plsc",
    "arcface-torch",
    "timm",
    "hf-trainer",
)
"""Families in detection order; our own first, whose start line decides.

Modules are named alike, with ``_`` for ``-``, except for those of ``small``.
"""
_SMALL = ("tsm", "arcface-torch", "timm", "paddlevideo")
"""Families of the module ``small``."""

FAMILIES: dict[str, Family]
"""Name → family.

Built on first use: name checks need no parser.
"""


def __getattr__(name: str) -> object:
    if name != "FAMILIES":
        raise AttributeError(name)
    modules = {"small" if each in _SMALL else each.replace("-", "_") for each in NAMES}
    values = [vars(importlib.import_module(f"{__name__}.{module}")) for module in modules]
    made = {one.name: one for each in values for one in each.values() if isinstance(one, Family)}
    return globals().setdefault(name, {each: made[each] for each in NAMES})
