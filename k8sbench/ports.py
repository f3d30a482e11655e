"""The seams: what a run needs of the world. Synchronous; streams are iterators.

``runs/`` talks to these and to nothing else of the outside; ``adapters/`` implements them. A fake
in a unit test stands here and nowhere deeper.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import Phase, ReplicaState, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Location, Owner, Run
from k8sbench.model.sample import LogGap

Manifest = Mapping[str, Any]
"""One Kubernetes object as plain data."""


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of one replica's output."""

    replica: str
    """``master-0``, ``worker-1``."""
    at: float
    """Unix seconds at which it was received."""
    text: str
    """Without the line end."""


class LogMark(msgspec.Struct, frozen=True):
    """How far a replica's log has been archived: its latest stamp, and the lines from there on.

    Stamps are kept to the microsecond; several lines may bear the same, and of two threads that
    print, a line may bear a slightly earlier one than the line before it.
    """

    at: float
    """The latest stamp, Unix seconds."""
    lines: int
    """Lines of the archive from the first one with this stamp on."""


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to one job: exactly one of the fields after ``run_id`` is set."""

    run_id: str
    transition: Transition | None = None
    replica: ReplicaState | None = None
    line: LogLine | None = None
    gap: LogGap | None = None
    note: str | None = None
    """Something that the user should know now and that is not the job's state: the API server
    does not answer, and since when."""


class FoundJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of k8sbench's that is on a cluster, whoever submitted it."""

    plan: RunPlan
    created_at: float
    """Unix seconds."""
    phase: Phase
    """As the job itself says it, without a look at its pods; final ones are those of the job."""


class Cluster(Protocol):
    """Seam 1: where jobs run.

    One thread calls it; only ``create``, ``cancel`` and ``remove`` may come from any.
    """

    name: str
    """``kubernetes`` or ``local``."""
    jobs_outlive_us: bool
    """Whether jobs go on when this process ends."""

    def create(self, plan: RunPlan, manifests: Sequence[Manifest], folder: Path) -> None:
        """Start the job and follow it; finds its own job instead of making a second one."""

    def resume(self, run: Run, marks: Mapping[str, LogMark]) -> None:
        """Follow a job that was created before; ``marks`` are what is archived of its logs.

        Of a job that is gone, :meth:`wait` returns the final transition.
        """

    def jobs(self, run_ids: Collection[str] | None = None) -> Sequence[FoundJob]:
        """The jobs of k8sbench's that are there, finished ones too; oldest first.

        With ``run_ids`` at least those of these runs.
        """

    def look(self, run: Run) -> Sequence[JobEvent]:
        """Say how a job is now, without following it: its state, then its replicas'.

        Empty where the cluster has no such job.
        """

    def printed(self, run: Run) -> Iterator[LogLine]:
        """Return what a job's replicas have printed so far, one replica after the other."""

    def wait(self, seconds: float | None) -> Sequence[JobEvent]:
        """Return what has happened to the jobs that are followed, in order; waits for the first.

        Empty when nothing happened for so long. A job's final transition is its last event, and
        comes when every line of every replica that the cluster still has was returned.
        """

    def cancel(self, run_id: str, cause: str, cause_id: str, *, wait: bool = False) -> None:
        """Ask the job to end; its final transition follows. Returns at once; idempotent.

        With ``wait`` it returns when that was asked, and raises :class:`BenchError` if the job may
        not be ended.
        """

    def release(self, run_id: str) -> None:
        """Follow a job no longer; it goes on. Nothing more of it is returned."""

    def remove(self, run_id: str) -> str | None:
        """Delete what :meth:`create` made of a job whose end was told; idempotent.

        Returns why it stays where somebody else has a use for it, or keeps it, else None.
        """

    def close(self) -> None:
        """Let go of everything held; ends local jobs that still run."""


class LogArchive(Protocol):
    """Where a run's log lines go as they come: one file per replica, in the run's folder."""

    def write(self, line: LogLine) -> None:
        """Append one line with its time stamp."""

    def close(self) -> None:
        """Flush and let go; idempotent."""


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs of the store: all fields are and-ed, None means any."""

    benchmark: str | None = None
    framework: str | None = None
    set_name: str | None = None
    since: float | None = None
    """Created at or after, Unix seconds."""
    phase: Phase | None = None
    unfinished: bool = False
    """Only runs that are not final, or succeeded and still owe their measurement."""
    limit: int | None = None
    """The newest this many."""


class Claims(Protocol):
    """Which process follows which run, among all that use one store: one at a time.

    A claim ends with :meth:`release`, with the store's ``close``, and with its owner. Where claims
    reach other machines, one may also be taken over from an owner that gave no sign for long: what
    that one then writes of the run raises :class:`~k8sbench.model.errors.StoreError`.
    """

    def claim(self, run_id: str) -> bool:
        """Claim a run for this process; idempotent.

        False if another process has it, or has taken it over since this one claimed it.
        """

    def release(self, run_id: str) -> None:
        """Give a claim back; idempotent."""

    def close(self) -> None:
        """Give all claims back; idempotent."""


class Store(Protocol):
    """Where runs are kept: a database row each, beside a folder of plain files."""

    @property
    def claims(self) -> Claims:
        """Who follows which of its runs."""

    def next_repeat(self, set_name: str, case_key: str) -> int:
        """The first repeat number that no run of this case has in this set."""

    def record(
        self, plan: RunPlan, *, at: float, owner: Owner | None, location: Location | None = None
    ) -> Run:
        """Record a run before it starts.

        Raises :class:`~k8sbench.model.errors.RepeatTaken` if (set, case, repeat) exists, and
        :class:`~k8sbench.model.errors.UsageError` if the run id does.
        """

    def move(self, run_id: str, transition: Transition) -> Run:
        """Add a transition; a run that is final already stays as it is."""

    def ran_image(self, run_id: str, digest: str) -> Run:
        """Keep the digest of the image that the run's replicas really ran."""

    def measured(self, run_id: str, measurement: Measurement) -> Run:
        """Keep the run's measurement, replacing an earlier one."""

    def run(self, run_id: str) -> Run:
        """The run, or :class:`~k8sbench.model.errors.NotFound` with the nearest ids."""

    def runs(self, wanted: RunFilter) -> list[Run]:
        """The runs that match, oldest first."""

    def ids(self) -> list[str]:
        """All run ids, oldest first."""

    def caught_up(self, run_id: str) -> Run:
        """Take over what the run's folder has and its row has not (a process was killed between).

        Returns the run as it is then.
        """

    def last_sign(self, run_id: str) -> float | None:
        """When anything in the run's folder was last written; None where that cannot be seen."""

    def folder(self, run_id: str) -> Path:
        """The run's folder of artifacts; exists once the run is recorded.

        This and what follows raise :class:`~k8sbench.model.errors.FilesElsewhere` where the run's
        files are not here: another machine that uses the store recorded it.
        """

    def ensure_folder(self, run_id: str) -> None:
        """Make the run's folder from what is recorded where its files are not here."""

    def keep(self, run_id: str, name: str, text: str) -> None:
        """Write one artifact (``manifest.yaml``) whole, or not at all."""

    def archive(self, run_id: str) -> LogArchive:
        """Open the run's log files for appending."""

    def log_marks(self, run_id: str) -> dict[str, LogMark]:
        """How far each replica's log is archived, by replica; for going on with it."""

    def log_files(self, run_id: str) -> list[Path]:
        """The run's log files, rank 0's replica first; empty if it left none."""

    def close(self) -> None:
        """Let go of the database."""


Clock = Callable[[], float]
"""Unix seconds."""
