"""Interfaces of a store: runs with plans, histories, logs and measurements; claims; baselines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Protocol

import msgspec

from k8sbench.model.facts import Facts
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import Moment, Phase, Transition
from k8sbench.model.plan import RunPlan
from k8sbench.model.replica_logs import LogLine, LogMark
from k8sbench.model.run import Baseline, Location, Process, Run, Wish


class LogArchive(Protocol):
    """The log files of one run, one per replica, in the run's folder."""

    def write(self, first: LogLine, *more: LogLine) -> None:
        """Append lines of one replica with their time stamps."""


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

    def fits(self, facts: Facts, created_at: float) -> bool:
        """Return True if a run's facts and the time of its creation match the filter."""
        names = ("benchmark", "framework", "set_name")
        return (
            all(getattr(self, name) in {None, getattr(facts, name)} for name in names)
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
        /,
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

        A final transition removes the wish to cancel the run. The wish ``owes`` is recorded with
        the transition, or before it, unless there is one of its kind. ``image`` is the digest of
        the image that the run's replicas really ran; None: not known.
        """

    def wish(self, run_id: str, wish: Wish) -> Run:
        """Record a wish before it is sent to the cluster.

        An earlier wish of its kind is replaced. A final run cannot be cancelled any more: then
        nothing is recorded.
        """

    def remove_wish(self, run_id: str, kind: Literal["cancel", "delete"]) -> Run:
        """Remove a wish that was fulfilled or refused, if there is one."""

    def reopen(
        self, plan: RunPlan, *, at: float, process: Process | None, location: Location | None
    ) -> Run:
        """Reopen a run for submission, or a finished one for continuation.

        Its job was never created, or its training continues. ``plan`` has the same set and repeat
        as the recorded plan, which it replaces; a measurement is dropped. Raises
        :class:`~k8sbench.model.errors.RepeatTaken` if another run has the repeat of the plan's
        case.
        """

    def save_measurement(self, run_id: str, measurement: Measurement) -> Run:
        """Keep the run's measurement, replacing an earlier one."""

    def run(self, run_id: str) -> Run:
        """The run, or :class:`~k8sbench.model.errors.NotFound` with the nearest ids."""

    def runs(self, run_filter: RunFilter, known: Mapping[str, Run] | None = None) -> list[Run]:
        """The runs that match, oldest first.

        Runs in ``known`` are not read again: two copies of thousands would not fit in memory.
        """

    def ids(self) -> list[str]:
        """All run ids, oldest first."""

    def last_written_at(self, run_id: str) -> float | None:
        """Return the last write into the run's folder; None if unknown.

        Unix seconds.
        """

    def folder(self, run_id: str) -> Path:
        """The run's folder of artifacts; exists once the run is recorded."""

    def write_artifact(self, run_id: str, name: str, text: str) -> None:
        """Write one artifact (``manifest.yaml``) whole, or not at all."""

    def read_artifact(self, run_id: str, name: str) -> bytes | None:
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
        """Keep a baseline; a taken name is a :class:`~k8sbench.model.errors.UsageError`."""

    def baselines(self) -> list[Baseline]:
        """All readable baselines, by name."""

    def remove_baseline(self, name: str) -> None:
        """Remove a baseline, or raise :class:`~k8sbench.model.errors.NotFound`."""

    def close(self) -> None:
        """Close the database."""
