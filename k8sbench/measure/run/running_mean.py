"""Running means, unrolled: what each printed mean is of, beyond the mean before it."""

from __future__ import annotations

from typing import NamedTuple

from k8sbench.model.sample import Record, Shape


class Covered(NamedTuple):
    """Iterations, and what they took."""

    iterations: int
    seconds: float
    """Of all of them together; per sample, where rates are printed."""


NOTHING = Covered(0, 0.0)


class RunningMean:
    """The running mean of one rank, as far as the log has printed it."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self.printed = NOTHING
        """What the mean at the record before is of."""
        self._carried = 0
        """Iterations of the epoch before that the mean covers, too."""
        self._untimed = 0
        """Iterations of the epoch before its mean: some programs time no first step, and their
        first line is of the second."""

    def turn(self, total: int, *, goes_on: bool) -> None:
        """Go to an epoch of ``total`` iterations; ``goes_on``: from the one before, in one run."""
        if goes_on and self._shape.carries and self.printed.iterations:
            self._carried = max(total - self._shape.skips, 0)
        else:
            self._carried, self.printed = 0, NOTHING

    def take(self, record: Record) -> None:
        """Take in a record that leads no further."""
        self.printed = self._of(record)

    def unroll(self, record: Record, previous: int) -> Covered:
        """Return what a record adds; ``previous`` is the iteration of the epoch's one before."""
        if previous == 0:
            self._untimed = int(self._shape.skips > 0 and record.iteration == 2)
        before, self.printed = self.printed, self._of(record)
        if previous <= self._shape.skips < record.iteration:
            # The mean began anew in between, or here.
            return self.printed
        return Covered(
            self.printed.iterations - before.iterations, self.printed.seconds - before.seconds
        )

    def _of(self, record: Record) -> Covered:
        iterations, skips = record.iteration, self._shape.skips
        if iterations > skips:
            iterations -= skips
        else:
            iterations += self._carried or -self._untimed
        if self._shape.number == "rate":
            mean = 1 / record.rate if record.rate else 0.0
        else:
            mean = record.mean_seconds or 0.0
        return Covered(iterations, mean * iterations)
