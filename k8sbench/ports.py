"""Ports: interfaces between a run's life and the outside.

``lifecycle/`` uses these and no client, file or database directly; ``adapters/`` implements them.
Calls are synchronous and streams are iterators. Unit tests replace ports by fakes, and nothing
else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import msgspec

from k8sbench.model.benchmark_object import Benchmark, StatusEvent
from k8sbench.model.errors import PlanUnreadable
from k8sbench.model.gpu_metrics import Fetched, SeriesQuery, SourceName
from k8sbench.model.group import Group, GroupRow
from k8sbench.model.kube import JobOwner, Ownership
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import Moment, Phase, ReplicaState, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Baseline, Location, Process, Run, Wish
from k8sbench.model.sample import LogGap
from k8sbench.model.series import AcceptedLevel, Judged, Mark, SeriesState, Snapshot

Manifest = Mapping[str, Any]
"""One Kubernetes object as plain data."""


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of one replica's output."""

    replica: str
    """``master-0``, ``worker-1``."""
    at: float
    """Unix seconds at which it was received."""
    text: str
    """Text of the line without the line end."""


class LogMark(msgspec.Struct, frozen=True):
    """Position in a replica's log up to which it is archived.

    The last archived lines identify the position. Time stamps are kept to the microsecond. Several
    lines may have the same stamp, and a line may have an earlier stamp than the line before: two
    threads print, or the node's clock was set back.
    """

    at: float
    """Time stamp of the last line, Unix seconds."""
    lines: int
    """Number of adjacent lines with this stamp at the archive's end."""
    texts: bytes = b""
    """CRC-32 of the last lines' texts, four bytes each, newest last.

    At most 64 lines. Empty: unknown, and the stamp alone counts.
    """


KnownPods = Mapping[str, Mapping[str, bool]]
"""The pods of each replica of an observed job by uid, in the order of their numbers.

False: its log exists, and is not read to its end.
"""


class JobEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of one job: one field after ``run_id`` is set."""

    run_id: str
    """Empty: a note that concerns all jobs."""
    transition: Transition | None = None
    replica: ReplicaState | None = None
    line: LogLine | None = None
    gap: LogGap | None = None
    taken_by: str | None = None
    """Name of the store that has taken the job over."""
    nodes: Mapping[str, Mapping[str, str]] | None = None
    """Facts about the job's nodes, by node, before the job's end.

    Each maps names in a run's environment to texts. Absent if the user may not read nodes.
    """
    pods: KnownPods | None = None
    """Pods of an observed job, before the first line of a new one."""
    note: str | None = None
    """Message for the user that is no state of the job.

    For example that the API server does not answer, and since when.
    """


UNRECORDED = "Known from the cluster alone: this store did not submit it."
"""Cause of the only state of a job without a record."""


class FoundJob(msgspec.Struct, frozen=True, kw_only=True):
    """A k8sbench job that exists on a cluster, whichever store submitted it."""

    run_id: str
    known_plan: RunPlan | None
    """Plan in the job's annotation; None if it cannot be read."""
    unreadable: str = ""
    """Reason for an unreadable plan: one sentence that names the job."""
    removal: str = ""
    """Command that deletes a job with an unreadable plan."""
    created_at: float
    """Unix seconds."""
    phase: Phase
    """From the job's own conditions; its pods are not read."""
    attempt: int = 1
    """Number of the run's attempt."""
    uid: str | None = None
    ownership: Ownership = Ownership()

    @property
    def plan(self) -> RunPlan:
        """The plan; raises :class:`~k8sbench.model.errors.PlanUnreadable`."""
        if self.known_plan is None:
            raise PlanUnreadable(self.run_id, self.unreadable, self.removal)
        return self.known_plan

    def as_run(self, where: Location | None) -> Run:
        """Return the run that the job would be in the store."""
        created = Transition(
            phase=Phase.CREATED, at=self.created_at, cause=UNRECORDED, job_uid=self.uid
        )
        return Run(
            plan=self.plan,
            created_at=self.created_at,
            process=None,
            history=(created,),
            artifacts=None,
            artifacts_missing=self._who_has_files,
            location=where,
        )

    @property
    def _who_has_files(self) -> str:
        """Say who collects the job's run, and which command shows its lines."""
        if self.ownership.owner is None:
            return f"No k8sbench has it: follow the run here with: k8sbench watch {self.run_id}"
        holder = self.ownership.holder
        return f"They are with {holder}. Its lines so far: k8sbench logs {self.run_id}"


class Cluster(Protocol):
    """The place where jobs run: a Kubernetes cluster or this machine.

    This machine finds only its own jobs. One thread calls a cluster; only ``create``, ``clear``,
    ``printed``, ``cancel``, ``remove`` and ``take_over`` may be called from any thread. Changing or
    deleting a job raises :class:`~k8sbench.model.errors.OwnedElsewhere` if another store owns it.
    """

    name: str
    """``kubernetes`` or ``local``."""
    jobs_outlive_us: bool
    """True if jobs continue after the end of this process."""
    owner: JobOwner | None
    """Owner of the jobs that are created; None where jobs name none."""

    def create(self, run: Run, manifests: Sequence[Manifest], folder: Path) -> str | None:
        """Create the job, unless it exists, and follow it.

        Returns the job's uid, where it has one.

        Raises :class:`~k8sbench.model.errors.CreationUnknown` where the job may exist. After any
        other :class:`~k8sbench.model.errors.BenchError` it does not;
        :class:`~k8sbench.model.errors.NoRoom` says that another try may succeed.
        """

    def clear(self, run: Run) -> None:
        """Delete an earlier attempt's job; returns when every object is gone.

        A job of that name with another uid than the recorded one is someone else's, and
        :class:`~k8sbench.model.errors.BenchError` names it. Idempotent; raises
        :class:`~k8sbench.model.errors.EarlierAttempt`, naming the object, if an object remains. It
        may disappear later.
        """

    def resume(self, run: Run, marks: Mapping[str, LogMark]) -> None:
        """Follow an existing job, continuing its logs after ``marks``.

        For a job that is gone, or whose name another job has, :meth:`wait` returns the final
        transition.
        """

    def jobs(self, run_ids: Collection[str] | None = None) -> Sequence[FoundJob]:  # noqa: ARG002
        """Return all existing k8sbench jobs, oldest first.

        With ``run_ids`` at least those of these runs.
        """
        return ()

    def look(self, run: Run) -> Sequence[JobEvent]:  # noqa: ARG002
        """Return the current states of a job and then its replicas.

        The job is not followed. Empty if the cluster has no such job.
        """
        return ()

    def printed(self, run: Run) -> Iterator[LogLine]:  # noqa: ARG002
        """Return the lines printed so far, one replica after the other."""
        return iter(())

    def wait(self, seconds: float | None) -> Sequence[JobEvent]:
        """Wait for events of the followed jobs and return them in order.

        Empty if there was none within ``seconds``. A job's final transition is its last event, and
        is returned after every line of every replica that the cluster still has.
        """

    def cancel(self, run_id: str, cause: str, cause_id: str, *, keep: bool = False) -> None:
        """Request the end of a job; its final transition follows. Idempotent.

        With ``keep`` the job is suspended and stays.

        Returns when the request was answered. Raises :class:`~k8sbench.model.errors.Unreachable` if
        it was not, and another :class:`BenchError` if the job may not be ended.
        """

    def release(self, run_id: str) -> None:
        """Stop following a job, which continues; its later events are dropped."""

    def remove(
        self,
        run: Run,  # noqa: ARG002
        *,
        uid: str | None = None,  # noqa: ARG002
        force: bool = False,  # noqa: ARG002
    ) -> str | None:
        """Delete the objects that :meth:`create` made for an ended run, also without a job.

        The job's final transition was returned before. With a ``uid`` only the job with that uid is
        deleted. Idempotent.

        Returns the reason if the job stays (another store owns it, or ``--keep``), else None. With
        ``force`` it is deleted even if its owner keeps it.
        """
        return None

    def take_over(self, run_id: str, known: Ownership) -> bool:  # noqa: ARG002
        """Make this store the owner; False unless ``known`` is current."""
        return False

    def close(self) -> None:
        """Close connections and threads; local jobs that still run are ended."""


class Objects(Protocol):
    """The Benchmark objects of a namespace; any thread may call."""

    @property
    def problem(self) -> str:
        """Reason why objects are not known or not all served; empty without one."""

    def current(self) -> Mapping[str, Benchmark | None] | None:
        """Return all objects by uid; None while they are not known.

        An object that cannot be read is None: nothing is to be concluded from it.
        """

    def beside(self, is_live: Callable[[str], bool]) -> Sequence[Benchmark]:  # noqa: ARG002
        """Return the objects of other processes that are not over, by ``is_live`` of their names.

        Empty where one process has all objects.
        """
        return ()

    def write(
        self, known: Benchmark, status: Mapping[str, Any], events: Iterable[StatusEvent] = ()
    ) -> None:
        """Merge a patch into the status of an object, unless it is gone.

        Then tell the ``events``; lost ones are no error. Raises
        :class:`~k8sbench.model.errors.BenchError`.
        """

    def delete(self, known: Benchmark) -> None:
        """Delete an object; raises :class:`~k8sbench.model.errors.BenchError`."""


class LogArchive(Protocol):
    """The log files of one run, one per replica, in the run's folder."""

    def write(self, first: LogLine, *more: LogLine) -> None:
        """Append lines of one replica with their time stamps."""


class MetricSource(Protocol):
    """A source of GPU metrics.

    Several threads may call :meth:`settles_in` and :meth:`fetch` at a time; both may take a while.
    """

    name: SourceName

    def settles_in(self, wanted: SeriesQuery) -> float:  # noqa: ARG002
        """Return the seconds from the window's end to its last sample.

        0 if the sample is available at once.
        """
        return 0.0

    def fetch(self, wanted: SeriesQuery) -> Fetched:
        """Return the series of the run's GPUs.

        Never raises: a source that cannot be reached has no series, and its reason.
        """


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter for runs of a store; None means any.

    A run must match all fields.
    """

    benchmark: str | None = None
    framework: str | None = None
    set_name: str | None = None
    since: Moment | None = None
    """Created at or after, Unix seconds."""
    until: Moment | None = None
    """Created at or before, Unix seconds."""
    phase: Phase | None = None
    unfinished: bool = False
    """Only runs that need work.

    These are not final, have succeeded without a measurement, or have an unfulfilled wish.
    """
    wished: bool = False
    """Only runs with an unfulfilled wish."""
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Maximum number of runs, the newest ones."""

    def fits(self, plan: RunPlan, created_at: float) -> bool:
        """Return True if a run's constant fields match the filter.

        These are the plan and the time of creation.
        """
        names = ("benchmark", "framework", "set_name")
        return (
            all(getattr(self, name) in {None, getattr(plan, name)} for name in names)
            and (self.since is None or created_at >= self.since)
            and (self.until is None or created_at <= self.until)
        )


EVERY_RUN = RunFilter()
"""The filter that every run matches."""


class Claims(Protocol):
    """Claims of a store's processes: one process follows a run.

    A claim ends with :meth:`release`, with the store's ``close``, and with its owner.
    """

    def claim(self, run_id: str) -> bool:
        """Claim a run for this process, False if another has it; idempotent."""

    def is_taken(self, run_id: str) -> bool:
        """Return True if another process has a run."""

    def release(self, run_id: str) -> None:
        """Give a claim back; idempotent."""


class Store(Protocol):
    """A store of runs: a folder of plain files each."""

    @property
    def claims(self) -> Claims:
        """The claims on the store's runs."""

    @property
    def identity(self) -> str:
        """Id of the store on clusters, independent of host and path."""

    def next_repeat(self, set_name: str, case_key: str) -> int:
        """Return the first free repeat number of a case in a set."""

    def record(
        self,
        plan: RunPlan,
        *,
        at: float,
        process: Process | None,
        location: Location | None = None,
        has_job: bool = False,
    ) -> Run:
        """Record a run before it starts.

        With ``has_job`` another store has submitted the run. Raises
        :class:`~k8sbench.model.errors.RepeatTaken` if (set, case, repeat) exists, unless the run
        has a job, and :class:`~k8sbench.model.errors.UsageError` if the run id exists.
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
        """Record a wish before it is sent to the cluster.

        An earlier wish of its kind is replaced. A final run cannot be cancelled any more: then
        nothing is recorded.
        """

    def fulfilled(self, run_id: str, kind: Literal["cancel", "delete"]) -> Run:
        """Remove a wish that was fulfilled or refused, if there is one."""

    def reopen(
        self, plan: RunPlan, *, at: float, process: Process | None, location: Location | None
    ) -> Run:
        """Reopen a run for submission, or a finished one for continuation.

        Its job was never created, or its training goes on. ``plan`` has the same set and repeat as
        the recorded plan, which it replaces; a measurement is dropped. Raises
        :class:`~k8sbench.model.errors.RepeatTaken` if another run has the repeat of the plan's
        case.
        """

    def measured(self, run_id: str, measurement: Measurement) -> Run:
        """Keep the run's measurement, replacing an earlier one."""

    def run(self, run_id: str) -> Run:
        """The run, or :class:`~k8sbench.model.errors.NotFound` with the nearest ids."""

    def runs(self, wanted: RunFilter, known: Mapping[str, Run] | None = None) -> list[Run]:
        """The runs that match, oldest first.

        Those in ``known`` are not read again: two copies of thousands would not fit in memory.
        """

    def ids(self) -> list[str]:
        """All run ids, oldest first."""

    def last_written_at(self, run_id: str) -> float | None:
        """Return the last write into the run's folder; None if unknown.

        Unix seconds.
        """

    def folder(self, run_id: str) -> Path:
        """The run's folder of artifacts; exists once the run is recorded."""

    def keep(self, run_id: str, name: str, text: str) -> None:
        """Write one artifact (``manifest.yaml``) whole, or not at all."""

    def kept(self, run_id: str, name: str) -> bytes | None:
        """Read one artifact; None where the run has none of the name."""

    def archive(self, run_id: str) -> LogArchive:
        """Open the run's log files for appending."""

    def log_marks(self, run_id: str) -> dict[str, LogMark]:
        """Return the archived positions of the replicas' logs, by replica.

        Only those of the run's current attempt.
        """

    def begin_attempt(self, run_id: str) -> None:
        """Start a new attempt's logs: :meth:`log_marks` covers only later lines."""

    def log_files(self, run_id: str) -> list[Path]:
        """The run's log files, rank 0's replica first; empty if it left none."""

    def save_baseline(self, baseline: Baseline, *, replace: bool = False) -> None:
        """Keep a baseline; one of its name is a :class:`~k8sbench.model.errors.UsageError`."""

    def baselines(self) -> list[Baseline]:
        """All readable baselines, by name."""

    def remove_baseline(self, name: str) -> None:
        """Remove a baseline, or raise :class:`~k8sbench.model.errors.NotFound`."""

    def close(self) -> None:
        """Close the database."""


class GroupIndex(Protocol):
    """The groups of a store, made of its runs once and kept beside them."""

    @property
    def is_read_only(self) -> bool:
        """True if nothing can be kept."""

    def changed_sets(self) -> dict[str, int]:
        """Return the sets whose groups are to be made anew, with the versions of the changes."""

    def open_sets(self) -> set[str]:
        """Return the sets with a run that goes on."""

    def put(self, made: Mapping[str, Sequence[Group]], versions: Mapping[str, int]) -> list[str]:
        """Keep the groups of some sets, less those that have changed since their versions.

        Returns the names of the sets whose groups are kept. Raises
        :class:`~k8sbench.model.errors.StoreError` where the store can only be read.
        """

    def made_by_this_version(self) -> None:
        """Record that all groups are made by this version of k8sbench."""

    def rows(self) -> list[GroupRow]:
        """Return the rows of all groups, oldest first."""

    def judged(self, ids: Collection[str]) -> dict[str, Judged]:
        """Return what the series of their cases say of groups, by id; absent if nothing."""

    def series_state(self) -> SeriesState:
        """Return how far the series of the cases are judged."""

    def snapshot(self) -> Snapshot:
        """Return the series of the cases before the newest night that was judged."""

    def put_judged(
        self,
        version: int,
        snapshot: Snapshot,
        judged: Mapping[str, Judged],
        revised: Mapping[str, Mark | None],
    ) -> bool:
        """Keep what the series say of groups, by id, and the changed marks of other ones.

        ``version`` is that of the groups that were judged. Returns False, and keeps nothing, if
        groups have changed since. Raises :class:`~k8sbench.model.errors.StoreError` where the store
        can only be read.
        """

    def groups(self, ids: Collection[str]) -> dict[str, Group]:
        """Return groups by id."""

    def sets_of(self, run_ids: Collection[str]) -> set[str]:
        """Return the names of the sets of some runs."""

    def runs_with_logs(self, digests: Collection[str]) -> dict[str, str]:
        """Return the runs with logs of some digests: run id → digest."""

    def logs(self) -> dict[str, dict[str, str | None]]:
        """Return the digests of the logs of all runs: set → run id → digest."""

    def complete_runs(self) -> set[str]:
        """Return the ids of the runs that are over and measured."""


class ServedGroups(Protocol):
    """The groups of an operator's store.

    All but the attributes is asked for when it is needed, and raises
    :class:`~k8sbench.model.errors.OperatorLost` where the operator does not answer.
    """

    @property
    def rows(self) -> Sequence[GroupRow]:
        """The rows of all groups."""

    @property
    def logs(self) -> Mapping[str, Mapping[str, str | None]]:
        """The digests of the logs of all runs: set → run id → digest."""

    def groups(self, ids: Collection[str]) -> dict[str, Group]:
        """Return groups by id, less those that are gone."""

    def runs_of(self, set_name: str) -> Sequence[Run]:
        """Return the runs of a set, oldest first."""

    def newest_runs(self, wanted: RunFilter) -> Sequence[Run]:
        """Return the newest runs that match, oldest first."""


class GroupedStore(Store, Protocol):
    """A store that keeps the groups of its runs."""

    @property
    def group_index(self) -> GroupIndex:
        """The groups of the store."""

    def accepted(self) -> Sequence[AcceptedLevel]:
        """Return the accepted levels, one for each case."""

    def readable(self, run_id: str) -> Run | None:
        """Read a run; None if it was just removed, or is damaged."""


Clock = Callable[[], float]
"""Unix seconds."""
