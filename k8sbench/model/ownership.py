"""Whose a job of a cluster is: the one store that restarts, collects and deletes it.

The job names its owner in an annotation, and every change of it is a compare-and-swap: it carries
the resourceVersion of what was read. Others may ask (a :class:`~k8sbench.model.run.Wish` on the
job), and adopt a job whose owner does not answer or has left it. Times are the cluster's: the
clocks of machines differ. Pure.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from k8sbench.model import times
from k8sbench.model.run import Wish

ANSWER_SECONDS = 15.0
"""For an owner to do what another store asks of it; then who asks adopts the job."""
LEFT_SECONDS = 600.0
"""After a job has ended, or its time is up, for its owner to collect it; then a collector adopts
it."""
STAMP_SECONDS = 300.0
"""Between two stamps of an owner that works on a job that has ended: one of them may fail."""
RECEIPT_SECONDS = 7 * 86400.0
"""For which a job stays that another store than its submitter's has collected, so that the
submitter finds its receipt."""


Moment = Annotated[float, msgspec.Meta(ge=0.0, le=4e9)]
"""Anybody may write annotations: a time that no calendar has is no time."""


class JobOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The store that acts on a job."""

    store: str
    """Its id: lower-case letters and digits."""
    host: str
    """Name of its machine, for people."""
    at: Moment
    """When it submitted or adopted the job, or stamped it last, Unix seconds."""
    is_handed_over: bool = False
    """Whether it leaves the job to a collector (``--detach``)."""
    has_adopted: bool = False
    """Whether another store submitted the job."""
    keep: bool = False
    """Whether it leaves the job on the cluster (``--keep``)."""


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """What a store has of a run that it has collected."""

    digest: str | None
    """SHA-256 over the log files, rank 0's first; None without logs."""
    throughput: float | None
    """The headline figure; None where nothing valid was measured."""
    unit: str | None
    verdict: str | None
    """None for a run that did not succeed."""


class Receipt(Collected, frozen=True, kw_only=True):
    """What the store that has collected a job writes onto it."""

    store: str
    host: str
    at: Moment
    """Unix seconds."""

    @property
    def sentence(self) -> str:
        """Say who has collected the job, when, and what was measured."""
        parts = [f"k8sbench on {self.host} collected it at {times.utc(self.at)}"]
        if self.throughput is not None:
            parts.append(f"{self.throughput:.1f} {self.unit}")
        if self.verdict is not None:
            parts.append(self.verdict)
        if self.digest is not None:
            parts.append(f"SHA-256 of its logs {self.digest}")
        return ", ".join(parts) + "."

    @property
    def action(self) -> str:
        """Say where its logs are."""
        return f"See k8sbench results on {self.host}: the store {self.store} there has its logs."


class Ownership(msgspec.Struct, frozen=True, kw_only=True):
    """What a job says of its owner, as one store reads it."""

    owner: JobOwner | None = None
    """None: it names none."""
    is_ours: bool = True
    """Whether that is the store that reads it, or nobody."""
    receipt: Receipt | None = None
    """None: nobody has collected it."""
    wish: Wish | None = None
    """What another store asks of its owner."""

    @property
    def holder(self) -> str:
        """Name the owner in a sentence."""
        return "another k8sbench" if self.owner is None else f"k8sbench on {self.owner.host}"


def why_left(
    ownership: Ownership,
    now: float,
    *,
    ended_at: float | None,
    began_at: float | None,
    timeout_s: float | None,
) -> str | None:
    """Say why a job is nobody's any more, so that a collector adopts it; None: its owner has it.

    ``ended_at`` and ``began_at`` are None where the job has not.
    """
    owner = ownership.owner
    if ownership.receipt is not None:
        return None
    if owner is None:
        return "no store owns it"
    if owner.keep:
        return None
    if owner.is_handed_over:
        return f"k8sbench on {owner.host} has detached from it"
    waited = times.duration(LEFT_SECONDS)
    if ended_at is not None and now >= max(ended_at, owner.at) + LEFT_SECONDS:
        return f"it ended over {waited} ago, and k8sbench on {owner.host} has not collected it"
    if ended_at is None and began_at is not None and timeout_s is not None:
        due = began_at + timeout_s
        if now >= max(due, owner.at) + LEFT_SECONDS:
            return f"it is over {waited} past its time limit"
    return None


def has_expired(receipt: Receipt | None, now: float) -> bool:
    """Whether a job that was collected has stayed for its submitter for long enough."""
    return receipt is not None and now >= receipt.at + RECEIPT_SECONDS
