"""Table of log families.

A new family is a :class:`Family` in a module here, and its name below.
"""

from __future__ import annotations

import importlib

from k8sbench.reader.family import Family

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
    "megatron",
    "nemo",
    "torchtitan",
    "nanogpt",
    "nanochat",
    "llm.c",
    "modded-nanogpt",
    "torchtune",
    "olmo",
    "maxtext",
    "llama-factory",
    "paddlenlp",
    "deepspeed",
    "mlperf",
    "torchvision",
    "detectron2",
    "lerobot",
    "hugectr",
)
"""Families in detection order; our own first, whose start line decides."""
_MODULES = (
    *("k8sbench", "openmmlab", "paddle", "pytorch", "hf_trainer"),
    *("megatron", "language_models", "gpt2", "mlperf", "paddlenlp", "vision"),
)

FAMILIES: dict[str, Family]
"""Name → family.

Built on first use: name checks need no parser.
"""


def __getattr__(name: str) -> object:
    if name != "FAMILIES":
        raise AttributeError(name)
    modules = (vars(importlib.import_module(f"{__name__}.{module}")) for module in _MODULES)
    made = {one.name: one for each in modules for one in each.values() if isinstance(one, Family)}
    return globals().setdefault(name, {each: made[each] for each in NAMES})
