"""Whether the GPUs of a job ran at the clocks that they should, as far as each rank reports.

It asks NVML as its last step ends; a GPU that is idle again by then reports nothing of use. What
sources of GPU metrics tell of the whole steady part is
:mod:`k8sbench.measure.run.gpu_judgement`'s.
"""

from __future__ import annotations

import functools
import operator
import statistics
from collections.abc import Iterator, Mapping

import msgspec

from k8sbench.measure.run import rules
from k8sbench.model.finding import Finding
from k8sbench.model.gpu_metrics import HELD_DOWN, THROTTLED
from k8sbench.model.sample import Place

IDLE = 0x1
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


def reasons(clocks: Mapping[int, Clock]) -> Iterator[Finding]:
    """What is wrong with the clocks, by rank."""
    held = {rank: clock.held_by or 0 for rank, clock in clocks.items()}
    held = {rank: bits for rank, bits in held.items() if bits & THROTTLED}
    if held:
        every = functools.reduce(operator.or_, held.values())
        text = held_down(_names(clocks, held), every)
        yield rules.GPU_THROTTLED.finding(text, [clocks[rank].place for rank in held])
    at_work = {rank: clock.mhz for rank, clock in clocks.items() if clock.works and clock.mhz}
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
        yield rules.GPU_CLOCKS.finding(text, [clocks[rank].place for rank in slow])


def held_down(whose: str, bits: int, how_long: str = "") -> str:
    """Write that clocks were held down and by what, from NVML's bits."""
    why = " and ".join(text for bit, text in HELD_DOWN.items() if bit & bits)
    return f"The GPU clock of {whose} was held down by {why}{how_long}."


def _names(clocks: Mapping[int, Clock], chosen: Mapping[int, object]) -> str:
    ranks = sorted(chosen)
    shown = ", ".join(
        f"rank {rank}" + (f" ({clocks[rank].host})" if clocks[rank].host else "")
        for rank in ranks[:NAMED]
    )
    return shown + (f" and {len(ranks) - NAMED} more" if len(ranks) > NAMED else "")
