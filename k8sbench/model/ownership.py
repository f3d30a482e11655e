"""Whose a job of a cluster is: the one store that restarts, collects and deletes it.

The owner is fixed when the job is submitted: the namespace's collector if there is one, else the
submitting store. The job names it in an annotation. Others may request an action (a
:class:`~k8sbench.model.run.Wish` on the job). Only ``collect --take-over`` changes the owner, by
compare-and-swap. Pure.
"""

from __future__ import annotations

import msgspec

from k8sbench.model.run import Wish

ANSWER_SECONDS = 15.0
"""Time for an owner to take up a request; then the command says that nobody has."""
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
    """Turn of a job that starts suspended: its owner starts it when earlier ones have ended."""

    number: int
    """Position among the jobs of its submit, from 0."""
    parallel: int
    """Most jobs of its set that run at a time."""
