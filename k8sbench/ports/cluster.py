"""The port for jobs: what a run asks of a cluster, and what it sees of a job there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from k8sbench.model.errors import PlanUnreadable
from k8sbench.model.kube import JobOwner, Ownership
from k8sbench.model.phase import Phase, ReplicaState, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.replica_logs import LogLine, LogMark
from k8sbench.model.run import Location, Run
from k8sbench.model.sample import LogGap

Manifest = Mapping[str, Any]
"""One Kubernetes object as plain data."""


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
            planned=self.plan,
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
