"""Epochs of a run, and the iterations before each of them.

Programs number their iterations through the run or anew in each epoch, and not every log states
which. A record's place in the run follows from its epoch's base and its own iteration.
"""

from __future__ import annotations

import msgspec

from k8sbench.model.sample import Record


class Placement(msgspec.Struct, frozen=True, gc=False):
    """A record's epoch, as seen from the record before."""

    base: int
    """Iterations of the run before the epoch."""
    switches: bool
    """True if the record begins another epoch than that of the record before."""
    is_new: bool
    """True if no record of the epoch came before."""


class Epochs:
    """Iterations of a run before each of its epochs."""

    def __init__(self, first: Record) -> None:
        numbering = first.shape.numbering
        self.restart = numbering != "run"
        """True if iterations restart in each epoch, as far as known."""
        self._decided = numbering is not None
        self.first = first.shape.first_epoch_of(first)
        self.bases: dict[int, int] = {}
        """Epoch → iterations before it."""
        self.base = 0
        """Iterations of the run before the current epoch."""
        self.total = 0
        """Iterations of the latest epoch, which may differ by one; 0 if not stated."""
        self.current: int | None = None

    def learn(self, record: Record, previous: int) -> None:
        """Decide from the first record of a later epoch whether iterations restart.

        ``previous`` is the iteration of the record before.
        """
        before = self.current
        epoch = record.epoch
        if not self._decided and before is not None and epoch is not None and epoch > before:
            self._decided = True
            self.restart = record.iteration <= previous

    def labelled(self, record: Record, previous: int, usual: int) -> Record:
        """Correct the label of an epoch's first line, where it still is that of the epoch before.

        Some programs count the epoch after they print. ``previous`` is the iteration of the record
        before, ``usual`` the iterations from one record to the next.
        """
        epoch, total = record.epoch, record.total
        if epoch is None or epoch != self.current or not (total and usual and self.restart):
            return record
        # An iteration that this epoch's lines may have had would be a line that stands again.
        is_new = record.iteration % usual != previous % usual
        if is_new and previous <= total and 0 < record.iteration == previous + usual - total:
            return msgspec.structs.replace(record, epoch=epoch + 1)
        return record

    def place(self, record: Record, position: int) -> Placement:
        """Return a record's epoch.

        ``position`` is the run's last iteration so far.
        """
        if not self.restart or record.epoch == self.current:
            return Placement(self.base, switches=False, is_new=False)
        number = record.epoch or 0
        total = record.total or 0
        if not self.bases:
            # A log that begins in a later epoch: only the total shows where that lies.
            base = max(number - self.first, 0) * total
        elif number > (last := max(self.bases)):
            base = max(self.bases[last] + (self.total or total) * (number - last), position)
        else:
            return Placement(self.bases.get(number, 0), switches=True, is_new=False)
        return Placement(base, switches=True, is_new=True)

    def switch(self, record: Record, placement: Placement) -> None:
        """Make a record's epoch the current one."""
        self.current = record.epoch
        self.base = placement.base
        if placement.is_new:
            self.bases[record.epoch or 0] = placement.base
            self.total = record.total or 0
