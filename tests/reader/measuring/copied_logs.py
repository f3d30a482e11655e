"""Logs of runs, each by its times and losses, and copies of them."""

import random
from collections.abc import Sequence

from k8sbench.model.measurement import Measurement
from tests.reader.measuring.support import measured, mmseg

TWO_HOURS = 7200.0


def log(
    times: Sequence[float], *, seed: int = 1, at: float = 0.0, records: int = 30
) -> Measurement:
    """Measure a log of records of ten iterations, with the losses of a seed."""
    losses = random.Random(seed)
    lines, clock = [], at
    for number, seconds in enumerate(times[:records], 1):
        clock += 10 * seconds
        lines.append(
            mmseg(10 * number, seconds, at=clock, loss=f"{losses.uniform(1, 3):.4f}", total=300)
        )
    return measured(lines, warmup=20)


def varied(seed: int) -> list[float]:
    """Times of a real run, to the millisecond."""
    draw = random.Random(seed)
    return [round(draw.gauss(0.5, 0.005), 3) for _ in range(30)]
