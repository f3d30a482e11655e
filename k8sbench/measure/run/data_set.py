"""The samples of one step of the whole job.

A log states them, or the size of its data set and the steps of an epoch tell. Either gives
GPUs × batch, whatever else the log lacks. The last step of an epoch may be smaller or left out, and
the ranks' shares are rounded up, so an epoch may have one step more or less than the quotient.
"""

from __future__ import annotations

import math

from k8sbench.measure.run.log_facts import LogFacts
from k8sbench.model.sample import Place


def size(log: LogFacts) -> tuple[int, list[Place]] | None:
    """Samples of the data set, and the line that states them; None where none does."""
    if log.airank.samples is not None:
        samples, place = log.airank.samples
        return samples, [place]
    stated = log.whole("samples")
    return None if stated is None else (stated, log.place("samples"))


def steps(log: LogFacts) -> tuple[int, float] | None:
    """The fewest and the most steps that an epoch of the log may have."""
    rank = log.rank
    last = rank.sums.epoch.last if rank is not None else None
    if rank is None or last is None:
        return None
    if rank.shape.numbering == "epoch":
        return None if rank.sums.planned is None else (rank.sums.planned, rank.sums.planned)
    if not last.epoch:
        return None
    # Epochs are counted from 1, and iterations through all of them.
    before, others = last.iteration - 1, last.epoch - 1
    return before // last.epoch + 1, before // others if others else math.inf


def possible(log: LogFacts, unit: int = 1) -> range | None:
    """How many times ``unit`` samples a step of the job may have; None where nothing tells."""
    known, epoch = size(log), steps(log)
    if known is None or epoch is None or epoch[0] < 2:
        return None
    samples, (fewest, most) = known[0], epoch
    return range(math.ceil(samples / (most + 1) / unit), samples // (fewest - 1) // unit + 1)


def certain(log: LogFacts, unit: int = 1) -> int | None:
    """The same, where there is only one such number."""
    stated = log.whole("global_batch")
    if stated is not None:
        return None if stated % unit else stated // unit
    samples = possible(log, unit)
    return samples[0] if samples and len(samples) == 1 and samples[0] else None


def described(samples: int, epoch: tuple[int, float]) -> str:
    """Write what a step has by the size of the data set and the steps of an epoch."""
    fewest, most = epoch
    if most == math.inf:
        parts = f"at least {fewest:,} steps are at most"
    elif fewest < most:
        parts = f"{fewest:,} to {most:,} steps are {samples / most:.5g} to"
    else:
        parts = f"{fewest:,} steps are"
    return f"{samples:,} samples in {parts} {samples / fewest:.5g}"
