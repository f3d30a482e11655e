"""A stored run: plan, history and measurement."""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import msgspec

from k8sbench.model import times
from k8sbench.model.errors import BenchError, JobFailed, TimedOut, Unreachable
from k8sbench.model.facts import Facts, known_facts, stand_in, take_facts
from k8sbench.model.identity import GroupKey, case_key, group_key
from k8sbench.model.measurement import SCHEMA, Measurement
from k8sbench.model.phase import LIMITS, RESTARTING, WAIT_TIMEOUT, Moment, Phase, Transition
from k8sbench.model.plan import RunPlan


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """Process that follows a local run. If it is gone, the run is Lost."""

    host: str
    """Name of the machine."""
    machine: str = ""
    """Digest of the machine's id, stable over boots; empty without one."""
    boot_id: str
    """The machine's boot, as the kernel names it."""
    pid: int
    """The process's number."""
    started: float
    """Start of the process in clock ticks since boot.

    It differs for a reused pid.
    """
    pid_space: str = ""
    """pid namespace of the pid; every container has its own."""


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """Location of a run's job on a cluster, for later commands."""

    server: str
    """URL of the API server."""
    namespace: str
    """The job's namespace."""
    context: str | None = None
    """Context of the kubeconfig; None inside a cluster."""
    kubeconfig: str | None = None
    """Absolute path, where one was named; None: the usual places."""

    def is_same(self, other: Location | None) -> bool:
        """True if the other is the same namespace at the same URL."""
        return other is not None and (self.server, self.namespace) == (
            other.server,
            other.namespace,
        )


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """Request to end a run's job, recorded before it is sent."""

    kind: Literal["cancel", "delete"]
    """Kind of request; ``delete`` removes the job's remaining objects."""
    at: float
    """Unix seconds."""
    cause: str
    """Reason, one sentence."""
    cause_id: str | None = None
    """Stable id of the reason; None for the deletion after a run's end.

    ``cancelled``, ``timeout``, ``deleted-by-name``, or the id of the run's cause.
    """


PROCESS_GONE = "owner-killed"
"""Cause id of a local run whose process is gone without a last word."""
BY_NAME = "deleted-by-name"
"""Cause id of a user's deletion, which also deletes a kept job."""


def by_name(at: float) -> Wish:
    """Return the wish of a user to delete a job."""
    return Wish(kind="delete", at=at, cause="Deleted by k8sbench delete.", cause_id=BY_NAME)


def left_over(at: float) -> Wish:
    """Return the wish to delete the job of a run that has ended."""
    return Wish(kind="delete", at=at, cause="The run has ended.")


TAKEN_OVER = "taken-over"
"""Cause id of a run whose job another store has taken over."""
GPU_METRICS_OWED = "They have not been fetched."
"""Start of the reason while a measurement's GPU metrics are not fetched."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run with its plan, history and measurement."""

    schema: int = 2
    """Version of the document."""
    planned: RunPlan | None = msgspec.field(default=None, name="plan")
    """The case with all its parameters; None if nobody planned it."""
    known: Facts | None = msgspec.field(default=None, name="facts")
    """Facts about the case of an imported or observed run; None if it was planned."""
    created_at: Moment
    """Unix seconds."""
    process: Process | None = msgspec.field(default=None, name="owner")
    """Process that follows a local run; None on a cluster."""
    history: tuple[Transition, ...]
    """Oldest first; never empty: the first is Created."""
    artifacts: str | None = None
    """Absolute path of the run's folder; None if its files are elsewhere."""
    artifacts_missing: str | None = None
    """Reason why the folder is not here, with its location; None if it is."""
    measurement: Measurement | None = None
    """Its figures and verdict; None if it is not measured."""
    image_digest: str | None = None
    """Digest of the replicas' image (``sha256:…``); None if unknown."""
    location: Location | None = None
    """None for local runs."""
    wishes: tuple[Wish, ...] = ()
    """Not fulfilled yet; at most one of each kind."""
    source: str = "here"
    """Store that has the run: ``here`` or ``operator``."""

    @property
    def run_id(self) -> str:
        """The run's id, also the job's name."""
        return self.facts.run_id if self.planned is None else self.planned.run_id

    def __post_init__(self) -> None:
        """Convert a document of 0.5.

        It has the facts of an imported or observed run in a plan, and the namespace of an
        operator's run in the place of its job alone.
        """
        take_facts(self)
        plan = self.planned
        if plan is None or plan.namespace is not None or self.location is None:
            return
        if plan.is_asked_of_operator:
            planned = msgspec.structs.replace(plan, namespace=self.location.namespace)
            msgspec.structs.force_setattr(self, "planned", planned)

    @property
    def plan(self) -> RunPlan:
        """The plan, or one that stands for it, for who follows a job which nobody planned."""
        return self.planned or stand_in(self.facts)

    @property
    def set_name(self) -> str:
        """The set that the run belongs to."""
        return self.facts.set_name if self.planned is None else self.planned.set_name

    @property
    def repeat(self) -> int:
        """Its number within its set and case, from 1."""
        return self.facts.repeat if self.planned is None else self.planned.repeat

    @property
    def facts(self) -> Facts:
        """Known facts about its case."""
        return known_facts(self.planned, self.known)

    @property
    def object_name(self) -> str | None:
        """Name of the Benchmark that requested the run; None without one."""
        plan = self.planned
        if plan is None:
            return None
        if plan.object_name is not None or not plan.is_asked_of_operator:
            return plan.object_name
        return plan.run_id.rpartition("-")[0]  # an operator of 0.4.0 recorded the uid alone

    @property
    def shown_source(self) -> str:
        """Source in lists and tables: ``imported``, ``observed``, or the store."""
        is_ours = self.source != "here" or self.planned is not None
        return self.source if is_ours else self.facts.backend

    @property
    def case_key(self) -> str:
        """Key of the run's case, by the present list of fields."""
        return case_key(self.planned or self.facts)

    @property
    def phase(self) -> Phase:
        """The latest state."""
        return self.history[-1].phase

    @property
    def started_at(self) -> float | None:
        """First time in state Running, Unix seconds; None if never."""
        return next((step.at for step in self.history if step.phase is Phase.RUNNING), None)

    @property
    def ended_at(self) -> float | None:
        """Unix seconds of the final state; None while the run goes on."""
        return self.history[-1].at if self.phase.final else None

    def queued_s(self, since: float = 0.0) -> float | None:
        """Return the seconds in queues since a time; None if it never waited.

        A wait that goes on is not counted.
        """
        steps = itertools.pairwise(self.history)
        waits = [(a.at, b.at) for a, b in steps if a.phase is Phase.QUEUED and b.at >= since]
        return sum(max(0.0, end - max(begin, since)) for begin, end in waits) if waits else None

    @property
    def restarts(self) -> int:
        """Number of restarts, a planned one included."""
        return sum(step.cause_id == RESTARTING for step in self.history)

    @property
    def attempt(self) -> int:
        """The number of its present or last attempt, from 1."""
        return self.restarts + 1

    @property
    def job_uid(self) -> str | None:
        """uid of the present attempt's job; None if unknown."""
        return self.job_uid_of(self.attempt)

    def job_uid_of(self, attempt: int) -> str | None:
        """Return the uid of an attempt's job; None if unknown."""
        number, uid = 1, None
        for step in self.history:
            number += step.cause_id == RESTARTING
            uid = step.job_uid or uid if number == attempt else uid
        return uid

    @property
    def nonce(self) -> str:
        """Nonce of the present attempt's job, recorded before its creation."""
        return self.nonce_of(self.attempt)

    def nonce_of(self, attempt: int) -> str:
        """Return the nonce of an attempt's job."""
        text = f"{self.run_id} {self.created_at!r} {attempt}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def owes_measurement(self) -> bool:
        """True if the run succeeded and is not yet measured."""
        return self.phase is Phase.SUCCEEDED and self.measurement is None

    @property
    def owes_gpu_metrics(self) -> bool:
        """True if the run's GPU metrics are still to be fetched."""
        found = self.measurement
        why = "" if found is None else found.missing.get("gpu_metrics", "")
        return why.startswith(GPU_METRICS_OWED)

    @property
    def is_closed(self) -> bool:
        """True if nothing is left to do for the run."""
        return self.phase.final and not self.owes_measurement

    @property
    def needs_collection(self) -> bool:
        """True if a run on a cluster needs further work.

        Something of it is still to be fetched, measured or deleted.
        """
        return self.plan.backend == "kubernetes" and (not self.is_closed or self.wishes != ())

    def is_at(self, place: Location | None) -> bool:
        """True if the run was submitted to this place of a cluster."""
        return self.location is not None and self.location.is_same(place)

    @property
    def is_deleted_by_name(self) -> bool:
        """True if a user has requested the deletion of the job."""
        wish = self.wish("delete")
        return wish is not None and wish.cause_id == BY_NAME

    def wish(self, kind: Literal["cancel", "delete"]) -> Wish | None:
        """Return the open request of a kind, or None."""
        return next((wish for wish in self.wishes if wish.kind == kind), None)

    def ended_by(self, wish: Wish) -> Transition:
        """Return the end of the run that a request to cancel causes.

        A run that is cancelled because it waits for something impossible, or for too long, has
        failed.
        """
        for step in self.history:
            if step.unrecoverable and step.cause == wish.cause:
                return msgspec.structs.replace(step, phase=Phase.FAILED, at=wish.at)
        phase = Phase.FAILED if wish.cause_id == WAIT_TIMEOUT else Phase.CANCELLED
        return Transition(phase=phase, at=wish.at, cause=wish.cause, cause_id=wish.cause_id)

    def lost(self, last_written_at: float | None, *, now: float) -> Transition:
        """Return the end of a local run whose process is gone."""
        process, latest = self.process, self.history[-1]
        assert process is not None
        # Its end left no trace of its own: it came after the last thing that was written.
        at = min(max(latest.at, last_written_at or latest.at), max(now, latest.at))
        rest = (
            "nothing of the run had reported yet."
            if latest.phase is Phase.CREATED
            else "its processes were ended with it; what it printed until then is kept, see:"
            f" k8sbench logs {self.run_id}"
        )
        cause = (
            f"k8sbench (pid {process.pid} on {process.host}) ended at {times.utc(at)} or soon"
            f" after, while the run was {latest.phase}, without a last word (killed, the machine"
            f" went down, or the disk was full); {rest}"
        )
        return Transition(phase=Phase.LOST, at=at, cause=cause, cause_id=PROCESS_GONE)

    @property
    def group_key(self) -> GroupKey:
        """Key of the group of repeats."""
        measured = self.measurement
        return group_key(
            self.planned or self.facts,
            precision_effective=measured.precision_effective if measured else None,
            gpu_model=measured.gpu_model if measured else None,
            image=self.image_digest,
            data_digest=measured.data_digest if measured else None,
            weights_digest=measured.weights_digest if measured else None,
            training=self.training,
            measured_by=self.measured_by,
        )

    @property
    def nodes(self) -> frozenset[str]:
        """Names of the nodes that it reports, else of the one that it was planned for."""
        reported = None if self.measurement is None else self.measurement.environment.get("node")
        names = str(reported or self.plan.node or "")
        return frozenset(filter(None, names.split(", ")))

    @property
    def measured_by(self) -> str | None:
        """Program that made its measurement; None for k8sbench, and without a measurement."""
        return None if self.measurement is None else self.measurement.measured_by

    @property
    def training(self) -> str | None:
        """Length of a training by its log, of a program that k8sbench did not run; else None."""
        return self.measurement.training if self.planned is None and self.measurement else None


# -- ends ------------------------------------------------------------------------------------------


def failure(phase: Phase, cause_id: str | None) -> type[BenchError] | None:
    """Return the kind of error of a run that is over in a state; None for a success.

    A run in a state that is not final has logs that cannot be read now.
    """
    if phase is Phase.SUCCEEDED:
        return None
    if not phase.final:
        return Unreachable
    return TimedOut if cause_id in LIMITS else JobFailed


# -- baselines -------------------------------------------------------------------------------------


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """Some runs under a name."""

    schema: int = SCHEMA
    """Version of the document."""
    name: str
    """Its name."""
    saved_at: float
    """Unix seconds."""
    of: tuple[str, ...]
    """Names given by the user: runs, groups, sets."""
    runs: tuple[Run, ...]
    """Its runs, without the places of their jobs and files."""


def kept_run(run: Run) -> Run:
    """Return a baseline's copy of a run, reduced to the needs of a comparison."""
    return msgspec.structs.replace(
        run,
        process=None,
        artifacts=None,
        artifacts_missing="They are no part of a baseline.",
        location=None,
        wishes=(),
    )


# -- sweeps over batch sizes: runs of one set that differ in nothing else --------------------------


GPU_OUT_OF_MEMORY = "gpu-out-of-memory"
"""Cause id of a job whose program had too little GPU memory."""


def is_out_of_memory(run: Run) -> bool:
    """Return True if a run lacked GPU memory and has no figure.

    One that failed after its window, such as in an evaluation, has a figure.
    """
    is_measured = run.measurement is not None
    end = run.history[-1]
    return end.phase is Phase.FAILED and end.cause_id == GPU_OUT_OF_MEMORY and not is_measured


def out_of_memory_ids(runs: Sequence[Run]) -> frozenset[str]:
    """Return the runs out of GPU memory that are results.

    A batch size that does not fit is a result once another size of its sweep was measured.
    """
    out = [run for run in runs if is_out_of_memory(run)]
    if not out:
        return frozenset()
    sizes: defaultdict[tuple[object, ...], set[int | float]] = defaultdict(set)
    for run in runs:
        if run.measurement is not None and run.facts.batch_size is not None:
            key = run.group_key
            sizes[key.sweep].add(key.batch_size)
    return frozenset(
        run.run_id for run in out if sizes[run.group_key.sweep] - {run.group_key.batch_size}
    )
