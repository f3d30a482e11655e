"""The ports: the interfaces between the life of a run and everything outside the program.

``lifecycle/`` uses these and no client, file or database directly; ``adapters/`` implements them.
Calls are synchronous and streams are iterators. Unit tests replace a port by a fake, and nothing
else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from k8sbench.model.baseline import Baseline
from k8sbench.model.errors import PlanUnreadable
from k8sbench.model.gpu_metrics import Fetched, SeriesQuery, SourceName
from k8sbench.model.measurement import Measurement
from k8sbench.model.ownership import Ownership, Turn
from k8sbench.model.phase import Phase, ReplicaState, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Location, Owner, Run, Wish
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
    """How far a replica's log has been archived: its last lines, by which the place is found again.

    Stamps are kept to the microsecond. Several lines may bear the same, and a line may bear an
    earlier one than the line before it: two threads print, or the node's clock was set back.
    """

    at: float
    """The stamp of the last line, Unix seconds."""
    lines: int
    """Lines at the archive's end that bear this stamp, without another between them."""
    texts: bytes = b""
    """CRC-32 of the texts of the last lines, at most 64, four bytes each; the last one last.
    Empty: not known, and the stamp alone counts."""


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to one job: exactly one of the fields after ``run_id`` is set."""

    run_id: str
    """Empty: a note that concerns all jobs."""
    transition: Transition | None = None
    replica: ReplicaState | None = None
    line: LogLine | None = None
    gap: LogGap | None = None
    ownership: Ownership | None = None
    """Whose the job is, when that is seen first, and whenever it changes."""
    nodes: Mapping[str, Mapping[str, str]] | None = None
    """What is known of the nodes that its replicas ran on, by node, before its end: names in a
    run's environment → texts. Not where the user may not read it."""
    note: str | None = None
    """Something that the user should know now and that is not the job's state: the API server
    does not answer, and since when."""


class FoundJob(msgspec.Struct, frozen=True, kw_only=True):
    """A k8sbench job that exists on a cluster, whichever store submitted it."""

    run_id: str
    known_plan: RunPlan | None
    """The plan in its annotation; None where that cannot be read."""
    unreadable: str = ""
    """Why its plan cannot be read: one sentence that names the job."""
    removal: str = ""
    """The command that deletes it, for a job whose plan cannot be read."""
    created_at: float
    """Unix seconds."""
    phase: Phase
    """From the job's own conditions; its pods are not read."""
    attempt: int = 1
    """The number of the run's attempt that it is."""
    uid: str | None = None
    ownership: Ownership = Ownership()
    turn: Turn | None = None
    """Its turn in its set, while it is suspended for it; else None."""

    @property
    def plan(self) -> RunPlan:
        """The plan; raises :class:`~k8sbench.model.errors.PlanUnreadable`."""
        if self.known_plan is None:
            raise PlanUnreadable(self.run_id, self.unreadable, self.removal)
        return self.known_plan


class Cluster(Protocol):
    """Where jobs run: a Kubernetes cluster, or this machine, which finds no jobs but its own.

    One thread calls it; only ``create``, ``clear``, ``printed``, ``cancel``, ``remove``, ``ask``,
    ``answer``, ``admit`` and ``take_over`` may be called from any. What changes or deletes a job
    raises :class:`~k8sbench.model.errors.OwnedElsewhere` if another store owns it.
    """

    name: str
    """``kubernetes`` or ``local``."""
    jobs_outlive_us: bool
    """Whether jobs continue when this process ends."""

    def create(self, plan: RunPlan, manifests: Sequence[Manifest], folder: Path) -> str | None:
        """Create the job and follow it. One that exists already is not created again.

        Returns the job's uid, where it has one.

        Raises :class:`~k8sbench.model.errors.CreationUnknown` where the job may exist. After any
        other :class:`~k8sbench.model.errors.BenchError` it does not;
        :class:`~k8sbench.model.errors.NoRoom` says that another try may succeed.
        """

    def clear(self, run: Run) -> None:
        """Delete the job of an attempt before the present one; return when nothing of it is there.

        A job of the name whose uid is not that on record is someone else's, and
        :class:`~k8sbench.model.errors.BenchError` names it. Idempotent; raises
        :class:`~k8sbench.model.errors.EarlierAttempt` where something still is, which names it. It
        may go later.
        """

    def resume(self, run: Run, marks: Mapping[str, LogMark]) -> None:
        """Follow a job that was created before; ``marks`` say how far its logs are archived.

        Of a job that is gone, :meth:`wait` returns the final transition; so it does where another
        job has its name.
        """

    def jobs(self, run_ids: Collection[str] | None = None) -> Sequence[FoundJob]:  # noqa: ARG002
        """Return the k8sbench jobs that exist, finished ones included, oldest first.

        With ``run_ids`` at least those of these runs.
        """
        return ()

    def look(self, run: Run) -> Sequence[JobEvent]:  # noqa: ARG002
        """Return the present state of a job and then of its replicas, without following it.

        Empty where the cluster has no such job.
        """
        return ()

    def printed(self, run: Run) -> Iterator[LogLine]:  # noqa: ARG002
        """Return what a job's replicas have printed so far, one replica after the other."""
        return iter(())

    def wait(self, seconds: float | None) -> Sequence[JobEvent]:
        """Wait for events of the followed jobs and return them in order.

        Empty if there was none within ``seconds``. A job's final transition is its last event, and
        is returned after every line of every replica that the cluster still has.
        """

    def cancel(self, run_id: str, cause: str, cause_id: str) -> None:
        """Request the end of a job; its final transition follows. Idempotent.

        Returns when the request was answered. Raises :class:`~k8sbench.model.errors.Unreachable` if
        it was not, and another :class:`BenchError` if the job may not be ended.
        """

    def release(self, run_id: str) -> None:
        """Stop following a job, which continues. No further event of it is returned."""

    def remove(
        self,
        run_id: str,  # noqa: ARG002
        *,
        uid: str | None = None,  # noqa: ARG002
        force: bool = False,  # noqa: ARG002
    ) -> str | None:
        """Delete what :meth:`create` made of a job whose final transition was returned; idempotent.

        Where a ``uid`` is known only the job that has it.

        Returns the reason if it stays (another store owns it, or ``--keep``), else None. With
        ``force`` it is deleted even if its owner keeps it.
        """
        return None

    def ask(self, run_id: str, wish: Wish) -> None:  # noqa: ARG002
        """Write a request to its owner onto a job; idempotent."""
        return

    def answer(self, run_id: str) -> None:  # noqa: ARG002
        """Take a recorded request off a job of this store; idempotent."""
        return

    def admit(self, run_id: str) -> None:  # noqa: ARG002
        """Start a job of this store that waits for its turn; idempotent."""
        return

    def take_over(self, run_id: str, known: Ownership) -> bool:  # noqa: ARG002
        """Make this store the owner of a job; False if its owner is not the ``known`` one."""
        return False

    def close(self) -> None:
        """Close connections and threads; local jobs that still run are ended."""


class LogArchive(Protocol):
    """The log files of one run, one per replica, in the run's folder."""

    def write(self, first: LogLine, *more: LogLine) -> LogGap | None:
        """Append lines of one replica with their time stamps.

        Returns a gap where the log has become too long: its middle is left out with the next call,
        so that the gap can be recorded first. It replaces one of the same beginning and reason.
        """

    def close(self) -> None:
        """Flush and close the files; idempotent."""


class MetricSource(Protocol):
    """Where series of GPU metrics come from.

    Several threads call :meth:`settles_in` and :meth:`fetch` at a time, which may take a while.
    """

    name: SourceName

    def settles_in(self, wanted: SeriesQuery) -> float:  # noqa: ARG002
        """Seconds after the window's end until its last sample can be fetched; 0 if at once."""
        return 0.0

    def fetch(self, wanted: SeriesQuery) -> Fetched:
        """Return the series of the run's GPUs.

        Never raises: a source that cannot be reached has no series, and its reason.
        """


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs of the store: all fields are and-ed, None means any."""

    benchmark: str | None = None
    framework: str | None = None
    set_name: str | None = None
    since: float | None = None
    """Created at or after, Unix seconds."""
    until: float | None = None
    """Created at or before, Unix seconds."""
    phase: Phase | None = None
    unfinished: bool = False
    """Only runs that are not final, that succeeded and are not measured yet, or that have a wish
    which is not fulfilled."""
    wished: bool = False
    """Only runs that have a wish which is not fulfilled."""
    limit: int | None = None
    """The newest this many."""

    def fits(self, plan: RunPlan, created_at: float) -> bool:
        """Whether a run matches by what does not change: its plan, and when it was created."""
        names = ("benchmark", "framework", "set_name")
        return (
            all(getattr(self, name) in {None, getattr(plan, name)} for name in names)
            and (self.since is None or created_at >= self.since)
            and (self.until is None or created_at <= self.until)
        )


class Claims(Protocol):
    """Which process follows which run, among all that use one store: one at a time.

    A claim ends with :meth:`release`, with the store's ``close``, and with its owner. Where claims
    reach other machines, another process may take a claim over when its owner sent no heartbeat for
    too long: what the former owner then writes of the run raises
    :class:`~k8sbench.model.errors.StoreError`.
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
        """Which process follows which of its runs."""

    def next_repeat(self, set_name: str, case_key: str) -> int:
        """The first repeat number that no run of this case has in this set."""

    def record(
        self,
        plan: RunPlan,
        *,
        at: float,
        owner: Owner | None,
        location: Location | None = None,
        has_job: bool = False,
    ) -> Run:
        """Record a run before it starts; with ``has_job`` one that another store has submitted.

        Raises :class:`~k8sbench.model.errors.RepeatTaken` if (set, case, repeat) exists, unless it
        has a job, and :class:`~k8sbench.model.errors.UsageError` if the run id does.
        """

    def move(
        self,
        run_id: str,
        transition: Transition,
        *,
        owes: Wish | None = None,
        image: str | None = None,
    ) -> Run:
        """Add a transition; a run that is final already stays as it is.

        With a final one the wish to cancel the run is moot. The wish ``owes`` is recorded with the
        transition, or before it, unless there is one of its kind. ``image`` is the digest of the
        image that the run's replicas really ran; None: not known.
        """

    def wish(self, run_id: str, wish: Wish) -> Run:
        """Record a wish before the cluster is asked for it, replacing an earlier one of its kind.

        A run that is final is not cancelled any more: then nothing is recorded.
        """

    def fulfilled(self, run_id: str, kind: Literal["cancel", "delete"]) -> Run:
        """Take back a wish that was fulfilled, or refused; does nothing if there is none."""

    def reopen(
        self, plan: RunPlan, *, at: float, owner: Owner | None, location: Location | None
    ) -> Run:
        """Take a run up again that is over: its job was not created, or its training goes on.

        ``plan`` is of the same set and repeat, and replaces the one that is recorded; a
        measurement is dropped. Raises :class:`~k8sbench.model.errors.RepeatTaken` where another run
        has the repeat of the plan's case.
        """

    def measured(self, run_id: str, measurement: Measurement) -> Run:
        """Keep the run's measurement, replacing an earlier one."""

    def run(self, run_id: str) -> Run:
        """The run, or :class:`~k8sbench.model.errors.NotFound` with the nearest ids."""

    def runs(self, wanted: RunFilter) -> list[Run]:
        """The runs that match, oldest first."""

    def ids(self) -> list[str]:
        """All run ids, oldest first."""

    def last_written_at(self, run_id: str) -> float | None:
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

    def kept(self, run_id: str, name: str) -> bytes | None:
        """Read one artifact; None where the run has none of the name."""

    def archive(self, run_id: str) -> LogArchive:
        """Open the run's log files for appending."""

    def log_marks(self, run_id: str) -> dict[str, LogMark]:
        """How far each replica's log is archived, by replica; for going on with it.

        Of the run's present attempt alone.
        """

    def begin_attempt(self, run_id: str) -> None:
        """Have :meth:`log_marks` count from here on: the next lines are of another attempt."""

    def log_files(self, run_id: str) -> list[Path]:
        """The run's log files, rank 0's replica first; empty if it left none."""

    def save_baseline(self, baseline: Baseline, *, replace: bool = False) -> None:
        """Keep a baseline; one of its name is a :class:`~k8sbench.model.errors.UsageError`."""

    def baselines(self) -> list[Baseline]:
        """All baselines, by name."""

    def remove_baseline(self, name: str) -> None:
        """Remove a baseline, or raise :class:`~k8sbench.model.errors.NotFound`."""

    def close(self) -> None:
        """Close the database."""


Clock = Callable[[], float]
"""Unix seconds."""
