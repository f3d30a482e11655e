"""A run as the store keeps it: its plan, its history and, in the end, its measurement."""

from __future__ import annotations

import hashlib
import itertools
from typing import Literal

import msgspec

from k8sbench.model.identity import GroupKey, case_key, group_key
from k8sbench.model.measurement import Measurement
from k8sbench.model.phase import RESTARTING, Moment, Phase, Transition
from k8sbench.model.plan import RunPlan


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The process that answers for a local run; gone process, lost run."""

    host: str
    """Name of the machine."""
    machine: str = ""
    """Digest of the machine's id, which is the same after a boot; empty where it has none."""
    boot_id: str
    """The machine's boot, as the kernel names it."""
    pid: int
    """The process's number."""
    started: float
    """Start time of the process in clock ticks since boot: it differs for a reused pid."""
    pid_space: str = ""
    """The pid namespace that the pid counts in: every container has its own."""


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """Where on a cluster a run's job is, so that any later command finds it again."""

    server: str
    """URL of the API server."""
    namespace: str
    """The job's namespace."""
    context: str | None = None
    """Of the kubeconfig; None inside a cluster."""
    kubeconfig: str | None = None
    """Absolute path, where one was named; None: the usual places."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What is to happen to a run's job; recorded before the cluster is asked for it."""

    kind: Literal["cancel", "delete", "adopt"]
    """``delete`` is what is left of the job on the cluster; ``adopt`` is asked of the owner alone:
    to let the job go, unless it follows it."""
    at: float
    """Unix seconds."""
    cause: str
    """Why, one sentence."""
    cause_id: str | None = None
    """Stable id of the cause: ``cancelled``, ``timeout``, ``deleted-by-name``, or the id of what
    the run waited for; None for the deletion that follows the end of a run."""


COLLECTED_ELSEWHERE = "collected-elsewhere"
"""Cause id of the end of a run whose job another store has adopted and collected."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run: what was planned, what became of it, what was measured."""

    schema: int = 2
    plan: RunPlan
    created_at: Moment
    """Unix seconds."""
    owner: Owner | None
    history: tuple[Transition, ...]
    """Oldest first; never empty: the first is Created."""
    artifacts: str | None
    """Absolute path of the run's folder; None where its files are not here."""
    artifacts_missing: str | None = None
    """Why there is no folder here, and where it is as far as that is known: one sentence."""
    measurement: Measurement | None = None
    image_digest: str | None = None
    """What its replicas really ran (``sha256:…``); None where that is not known."""
    location: Location | None = None
    """None for local runs."""
    wishes: tuple[Wish, ...] = ()
    """Not fulfilled yet; at most one of each kind."""
    source: str = "here"
    """Which store has it: ``here``, or ``collector``."""

    @property
    def run_id(self) -> str:
        """The run's id, also the job's name."""
        return self.plan.run_id

    @property
    def is_imported(self) -> bool:
        """Whether k8sbench has only its logs, and never ran it: there is no job to speak of."""
        return self.plan.backend == "imported"

    @property
    def shown_source(self) -> str:
        """What lists and tables say of where it is from: ``imported``, or else which store."""
        return "imported" if self.is_imported and self.source == "here" else self.source

    @property
    def case_key(self) -> str:
        """Its case within its set, by the present list of fields: never one that was stored."""
        return case_key(self.plan)

    @property
    def phase(self) -> Phase:
        """The latest state."""
        return self.history[-1].phase

    @property
    def ended_at(self) -> float | None:
        """When the run reached its final state, Unix seconds; None while it goes on."""
        return self.history[-1].at if self.phase.final else None

    def queued_s(self, since: float = 0.0) -> float | None:
        """Seconds that it waited in queues from a moment on; None where it never did.

        A wait that goes on is not counted yet.
        """
        steps = itertools.pairwise(self.history)
        waits = [(a.at, b.at) for a, b in steps if a.phase is Phase.QUEUED and b.at >= since]
        return sum(max(0.0, end - max(begin, since)) for begin, end in waits) if waits else None

    @property
    def restarts(self) -> int:
        """How often its job was created again, or is to be."""
        return sum(step.cause_id == RESTARTING for step in self.history)

    @property
    def attempt(self) -> int:
        """The number of its present or last attempt, from 1."""
        return self.restarts + 1

    @property
    def job_uid(self) -> str | None:
        """The uid of the job of the present attempt; None where that is not known."""
        return self.job_uid_of(self.attempt)

    def job_uid_of(self, attempt: int) -> str | None:
        """Return the uid of the job of an attempt; None where that is not known."""
        number, uid = 1, None
        for step in self.history:
            number += step.cause_id == RESTARTING
            uid = step.job_uid or uid if number == attempt else uid
        return uid

    @property
    def nonce(self) -> str:
        """What the job of the present attempt bears, recorded with the run before it is created."""
        return self.nonce_of(self.attempt)

    def nonce_of(self, attempt: int) -> str:
        """Return what the job of an attempt bears that this store's record asks for."""
        text = f"{self.run_id} {self.created_at!r} {attempt}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def is_collected_elsewhere(self) -> bool:
        """Whether another store has its logs and its measurement."""
        return self.history[-1].cause_id == COLLECTED_ELSEWHERE

    @property
    def owes_measurement(self) -> bool:
        """Whether it has succeeded, and is still to be measured."""
        is_measured = self.measurement is not None or self.is_collected_elsewhere
        return self.phase is Phase.SUCCEEDED and not is_measured

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is to come of it."""
        return self.phase.final and not self.owes_measurement

    def wish(self, kind: Literal["cancel", "delete", "adopt"]) -> Wish | None:
        """Return the wish of a kind that is not fulfilled yet."""
        return next((wish for wish in self.wishes if wish.kind == kind), None)

    def ended_by(self, wish: Wish) -> Transition:
        """Return the end of the run if a wish to cancel it is what ends its job.

        A run that is cancelled because it waits for what cannot come has failed.
        """
        for step in self.history:
            if step.unrecoverable and step.cause == wish.cause:
                return msgspec.structs.replace(step, phase=Phase.FAILED, at=wish.at)
        return Transition(
            phase=Phase.CANCELLED, at=wish.at, cause=wish.cause, cause_id=wish.cause_id
        )

    @property
    def group_key(self) -> GroupKey:
        """What this run may be taken together with."""
        measured = self.measurement
        return group_key(
            self.plan,
            precision_effective=measured.precision_effective if measured else None,
            gpu_model=measured.gpu_model if measured else None,
            image=self.image_digest,
            data_digest=measured.data_digest if measured else None,
            weights_digest=measured.weights_digest if measured else None,
        )
