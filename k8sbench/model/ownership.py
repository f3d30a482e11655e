"""Job ownership: one store restarts, collects and deletes a job.

The owner stands in an annotation of the job; another store becomes it by compare-and-swap. Pure.
"""

from __future__ import annotations

import msgspec

OPERATOR = "operator"
"""Store id of the operator of a namespace, whichever store it writes to."""


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

    @property
    def is_operators(self) -> bool:
        """True if the operator of the namespace owns the job."""
        return self.owner is not None and self.owner.store == OPERATOR

    @property
    def holder(self) -> str:
        """Name of the owner in a sentence."""
        if self.owner is None:
            return "another k8sbench"
        if self.is_operators:
            return "the namespace's operator"
        return f"k8sbench on {self.owner.host}"
