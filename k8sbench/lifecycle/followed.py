"""A run that is followed: what is on record and seen of it, and what this process holds for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from k8sbench.lifecycle.views import Record, Reported, View, Watched
from k8sbench.model.run import Run
from k8sbench.model.sample import LogGap
from k8sbench.ports import LogArchive, Manifest


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request whose answer is waited for."""

    kind: str
    """``create``, ``printed``, ``cancel``, ``delete``, ``answer`` or ``collector``."""
    answer: Future[Any]
    take: Callable[[Future[Any]], None]
    """Takes the answer, on the thread that follows the run."""


class FollowedRun(msgspec.Struct, kw_only=True, eq=False):
    """A run that is followed."""

    record: Record
    view: View
    archive: LogArchive | None = None
    """None for a run that was over when it was taken up."""
    manifests: Sequence[Manifest] = ()
    """What the job of the first attempt is created of."""
    is_restarted: bool = False
    """Whether this process creates its job again, or has."""
    gaps: list[LogGap] = []
    images: set[str] = set()
    read_until: dict[str, float] = {}
    """By replica: when the latest line that was read was printed, Unix seconds."""
    printed: Mapping[str, float] | None = {}
    """By replica: what is read before the job is cancelled was printed until then, Unix seconds;
    None: that cannot be known, and it is cancelled when its state is known."""
    tries: int = 0
    """How often its job could not be created, or was not there."""
    asked_since: float | None = None
    """Since when another store is waited for, which owns the job and has not collected it, Unix
    seconds; None: it is not."""
    request: Request | None = None

    @property
    def run(self) -> Run:
        """The run as it is on record."""
        return self.record.run

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.record.run.run_id

    @property
    def is_watched(self) -> bool:
        """Whether the cluster reports of the job."""
        return isinstance(self.view.job, (Watched, Reported))

    def see(self, **changes: Any) -> None:
        """Replace parts of the view."""
        self.view = msgspec.structs.replace(self.view, **changes)

    def note(self, **changes: Any) -> None:
        """Replace parts of the record."""
        self.record = msgspec.structs.replace(self.record, **changes)

    def see_what_is_read(self) -> None:
        """Take in whether all is archived that is to be before the job is cancelled."""
        if self.view.is_read or self.request is not None:
            return
        if self.printed is None:
            is_read = isinstance(self.view.job, Reported)
        else:
            read = self.read_until
            is_read = all(read.get(name, 0.0) >= at for name, at in self.printed.items())
        self.see(is_read=is_read)
