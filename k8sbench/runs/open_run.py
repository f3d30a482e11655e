"""A run that is followed, and what is known of it while it goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TypeVar

import msgspec

from k8sbench.model.errors import BenchError
from k8sbench.model.finding import Finding
from k8sbench.model.measurement import SURROUNDINGS
from k8sbench.model.phase import LOGS_BEING_READ, LOGS_INCOMPLETE, Phase, Transition
from k8sbench.model.run import Run
from k8sbench.model.sample import LogGap
from k8sbench.ports import LogArchive, Store

T = TypeVar("T")

GAPS = "log-gaps.json"
"""Artifact of a run whose logs the cluster did not have whole."""
RESUME_SECONDS = 1.0
"""After the first event of a job that is resumed, for its end to be reported if it has ended."""
WAITING = frozenset({Phase.CREATED, Phase.QUEUED})
"""States in which a run's time does not count: it waits for its turn."""


class OpenRun(msgspec.Struct, kw_only=True, eq=False):
    """A run that is followed."""

    run: Run
    archive: LogArchive
    ends: Transition | None = None
    """How it is to end because k8sbench ends it."""
    cancelled_at: float = math.inf
    """When the cluster was asked to cancel it, Unix seconds."""
    printed: Mapping[str, float] | None = {}
    """By replica: what is read before it is cancelled was printed until then, Unix seconds; None:
    that cannot be known, and it is cancelled when its state is known."""
    read_by: float = -math.inf
    """It is cancelled then, whatever was read, Unix seconds."""
    is_unwanted: bool = False
    """True where a user asked to end it before this process followed it: its lines are not parsed
    before its job is deleted, as an expression that a user declared may take for ever."""
    gaps: list[LogGap] = []
    images: set[str] = set()
    read_until: dict[str, float] = {}
    """By replica: when the latest line that was read was printed, Unix seconds."""
    create: Callable[[], None] | None = None
    """Creates its job; None: it was created, by this process or before."""
    is_restarted: bool = False
    """Whether this process creates its job again, or has."""
    creation: Future[None] | None = None
    """While its job is being created by another thread."""
    again_at: float | None = None
    """When to ask again for a job that the cluster does not have, Unix seconds."""
    tries: int = 0
    """How often a quota had no room for it, or the cluster had no such job."""
    known_at: float = -math.inf
    """When the state of a job that is resumed was first reported, Unix seconds: it may have ended
    long before."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.run.run_id

    @property
    def waits_for_room(self) -> bool:
        """Whether it has no job, as a quota had no room for it."""
        return self.create is not None and self.creation is None

    def has_read(self) -> bool:
        """Whether that was read which is to be read before it is cancelled."""
        if self.printed is None:
            return self.known_at < math.inf
        return all(self.read_until.get(replica, 0.0) >= at for replica, at in self.printed.items())

    def keeps_job(self, end: Transition) -> bool:
        """Whether its job is to stay after this end: lines are missing that its nodes may have."""
        return end.phase is Phase.SUCCEEDED and bool(self.gaps) and not self.is_unwanted

    def due(self) -> float | None:
        """When its time is up, Unix seconds; None while it has not begun, and when it is over."""
        is_over = self.run.history[-1].cause_id in {LOGS_BEING_READ, LOGS_INCOMPLETE}
        at = None if self.ends is not None or is_over else self.time_is_up_at()
        return None if at is None else max(at, self.known_at + RESUME_SECONDS)

    def time_is_up_at(self) -> float | None:
        """Until when it may take, Unix seconds, from the beginning of its first attempt."""
        began = next((step.at for step in self.run.history if step.phase not in WAITING), None)
        limit = self.run.plan.timeout_s
        return None if began is None or limit is None else began + limit


def wished_end(run: Run) -> Transition | None:
    """Return how a run is to end that is to be cancelled."""
    wish = run.wish("cancel")
    return None if wish is None else run.ended_by(wish)


def kept_surroundings(store: Store, run_id: str) -> list[Finding]:
    """Read what was found beside a local run on its machine; none where no file is."""
    return _kept(store, run_id, SURROUNDINGS, list[Finding])


def kept_gaps(store: Store, run_id: str) -> list[LogGap]:
    """Read which gaps are on record for a run's logs, whoever found them; none where no file is."""
    return _kept(store, run_id, GAPS, list[LogGap])


def _kept(store: Store, run_id: str, name: str, kind: type[list[T]]) -> list[T]:
    path = store.folder(run_id) / name
    if not path.exists():
        return []
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.MsgspecError as wrong:
        raise BenchError(f"{path} cannot be read: {wrong}.") from wrong
