"""Table of log families.

A new family is a :class:`Family` in a module here; :data:`.log_format.FAMILY_NAMES` has its name.
"""

from __future__ import annotations

import importlib

from k8sbench.model import log_format
from k8sbench.reader.family import Family

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
    return globals().setdefault(name, {each: made[each] for each in log_format.FAMILY_NAMES})
