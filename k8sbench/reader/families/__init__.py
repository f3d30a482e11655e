"""Table of log families.

Each family is the ``FAMILY`` of a module here, which is named after it: that of ``llm.c`` is in
``llm_c.py``. Other modules here hold what the logs of several programs of one project share.
:data:`.log_format.FAMILY_NAMES` has the names of the families.
"""

from __future__ import annotations

import importlib

from k8sbench.model.log_format import FAMILY_NAMES
from k8sbench.reader.family import Family

FAMILIES: dict[str, Family]
"""Name → family.

Built on first use: name checks need no parser.
"""


def module_name(family: str) -> str:
    """Return the name of a family's module in this package."""
    return family.replace("-", "_").replace(".", "_")


def __getattr__(name: str) -> object:
    if name != "FAMILIES":
        raise AttributeError(name)
    families = {
        family: importlib.import_module(f"{__name__}.{module_name(family)}").FAMILY
        for family in FAMILY_NAMES
    }
    return globals().setdefault(name, families)
