"""Planned cases of a Benchmark."""

from __future__ import annotations

import msgspec

from k8sbench.lifecycle.planned_case import PlannedCase
from tests.unit.lifecycle.played import planned_case


def cases(repeats: int = 1) -> PlannedCase:
    return msgspec.structs.replace(planned_case("kubernetes"), repeats=repeats)
