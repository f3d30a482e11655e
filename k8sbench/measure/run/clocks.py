"""Whether the GPUs of a job ran at the clocks that they should, as far as each rank reports.

It asks NVML as its last step ends; a GPU that is idle again by then reports nothing of use.
"""

from __future__ import annotations

import functools
import operator
import statistics
from collections.abc import Iterator, Mapping

import msgspec

from k8sbench.measure.run.reasons import reason
from k8sbench.model.measurement import Reason
from k8sbench.model.sample import Place

IDLE = 0x1
HELD_DOWN = {
    0x20: "heat, by the driver",
    0x40: "heat, by the hardware",
    0x80: "a power brake from outside",
}
"""NVML's bits for what slows a GPU down in a node that is not well. Not among them: its power limit
(0x4), which many meet at work, as it is meant; and the hardware's slowdown for any reason (0x8),
which a change of clocks may show, too."""
SLOW = 0.9
"""A clock below this share of its peers' is no spread of the chips any more."""
NAMED = 8
"""Ranks that a sentence names."""


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """The clock of one rank's GPU, as the rank reports it."""

    host: str | None
    mhz: float | None
    held_by: int | None
    """NVML's bits; None where they are not reported."""
    place: Place

    @property
    def works(self) -> bool:
        """Whether it was still at work when NVML was asked."""
        return self.held_by is not None and not self.held_by & IDLE


def reasons(clocks: Mapping[int, Clock]) -> Iterator[Reason]:
    """What is wrong with the clocks, by rank."""
    held = {rank: each.held_by or 0 for rank, each in clocks.items()}
    held = {rank: bits for rank, bits in held.items() if bits & sum(HELD_DOWN)}
    if held:
        every = functools.reduce(operator.or_, held.values())
        why = " and ".join(text for bit, text in HELD_DOWN.items() if bit & every)
        text = f"The GPU clock of {_names(clocks, held)} was held down by {why}."
        yield reason("gpu-throttled", text, [clocks[rank].place for rank in held])
    at_work = {rank: each.mhz for rank, each in clocks.items() if each.works and each.mhz}
    if not at_work:
        return
    usual = statistics.median_high(at_work.values())
    slow = {rank: mhz for rank, mhz in at_work.items() if mhz < SLOW * usual}
    if slow:
        lowest = min(slow.values())
        text = (
            f"The GPU of {_names(clocks, slow)} ran at {lowest:.0f} MHz, the median of the ranks "
            f"is {usual:.0f} MHz."
        )
        yield reason("gpu-clocks", text, [clocks[rank].place for rank in slow])


def _names(clocks: Mapping[int, Clock], chosen: Mapping[int, object]) -> str:
    ranks = sorted(chosen)
    shown = ", ".join(
        f"rank {rank}" + (f" ({clocks[rank].host})" if clocks[rank].host else "")
        for rank in ranks[:NAMED]
    )
    return shown + (f" and {len(ranks) - NAMED} more" if len(ranks) > NAMED else "")
