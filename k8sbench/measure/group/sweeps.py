"""Sweeps over batch sizes: the size with the highest throughput."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from k8sbench.model.group import OUT_OF_MEMORY, Group


def fastest(groups: Iterable[Group]) -> dict[str, int]:
    """Map group id → batch size of the fastest group of its sweep.

    Only valid groups count, and none in which a run was out of memory. Smoke runs claim no speed.
    A group without another batch size has no sweep.
    """
    sweeps: defaultdict[tuple[object, ...], list[Group]] = defaultdict(list)
    for group in groups:
        if not group.smoke:
            sweeps[group.key.sweep].append(group)
    found: dict[str, int] = {}
    for sweep in sweeps.values():
        rates = [
            (group.spread.median, group.key.batch_size)
            for group in sweep
            if group.spread and group.state == "valid" and OUT_OF_MEMORY not in group.ids("reject")
        ]
        if rates and len({group.key.batch_size for group in sweep}) > 1:
            _, size = max(rates)
            found |= {group.key.id: size for group in sweep}
    return found
