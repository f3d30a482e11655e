"""Table of log families.

A new family is a module here with a ``FAMILY``, and its name below.
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

Modules are named alike, with ``_`` for ``-``.
"""

FAMILIES: dict[str, Family]
"""Name → family.

Built on first use: name checks need no parser.
"""


def __getattr__(name: str) -> object:
    if name != "FAMILIES":
        raise AttributeError(name)
    modules = [importlib.import_module(f"{__name__}.{name.replace('-', '_')}") for name in NAMES]
    made = {module.FAMILY.name: module.FAMILY for module in modules}
    assert tuple(made) == NAMES
    return globals().setdefault(name, made)
