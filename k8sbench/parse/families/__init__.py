"""The table of log families. A new one is a module here, a row below and its fixtures."""

from __future__ import annotations

from k8sbench.model.spec import FAMILIES as NAMES
from k8sbench.parse.families import (
    dle_resnet50,
    k8sbench,
    mmseg,
    paddleclas,
    paddleseg,
    paddlevideo,
    plsc,
    tsm,
)
from k8sbench.parse.family import Family

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        k8sbench.FAMILY,
        mmseg.FAMILY,
        paddleseg.FAMILY,
        paddleclas.FAMILY,
        paddlevideo.FAMILY,
        dle_resnet50.FAMILY,
        tsm.FAMILY,
        plsc.FAMILY,
    )
}
"""Name → family, our own first: its start line decides."""

assert tuple(FAMILIES) == NAMES
