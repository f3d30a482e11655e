"""Job ownership: one store restarts, collects and deletes a job.

The owner is fixed at submit: the namespace's collector if there is one, else the submitting store.
An annotation of the job names the owner. Other stores may request an action (a
:class:`~k8sbench.model.run.Wish` on the job). Only ``collect --take-over`` changes the owner, by
compare-and-swap. Pure.
"""

from __future__ import annotations

import msgspec

from k8sbench.model.run import Wish

ANSWER_SECONDS = 15.0
"""Time limit for an owner's answer to a request.

After it the command reports that nobody has answered.
"""
COLLECTOR = "collector"
"""Store id of the collector of a namespace, whichever store it writes to."""


class JobOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The store that acts on a job."""

    store: str
    """Store id: lower-case letters and digits."""
    host: str
    """Name of its machine, for people."""
    keep: bool = False
    """True if the job stays on the cluster after its end (``--keep``)."""


class Ownership(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a job, as one store sees it."""

    owner: JobOwner | None = None
    """None if the job names none."""
    is_ours: bool = True
    """True if the reading store owns the job, or nobody does."""
    wish: Wish | None = None
    """Request of another store to the owner."""

    @property
    def is_collectors(self) -> bool:
        """True if the collector of the namespace owns the job."""
        return self.owner is not None and self.owner.store == COLLECTOR

    @property
    def holder(self) -> str:
        """Name of the owner in a sentence."""
        if self.owner is None:
            return "another k8sbench"
        if self.is_collectors:
            return "the namespace's collector"
        return f"k8sbench on {self.owner.host}"


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Turn of a job that starts suspended.

    The owner starts the job when earlier jobs have ended.
    """

    number: int
    """Position among the jobs of its submit, from 0."""
    parallel: int
    """Most jobs of its set that run at a time."""
