"""Runs on their way into a group: what each says, and the reasons against it so far."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from k8sbench.model.identity import group_key
from k8sbench.model.measurement import Measurement, Reason
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run

ESTIMATORS = ("time_weighted", "time_weighted_steady", "median", "arithmetic", "timestamps")

_ENDINGS = {
    Phase.FAILED: "run-failed",
    Phase.CANCELLED: "run-cancelled",
    Phase.LOST: "run-lost",
}


class Candidate:
    """A run on its way into a group: what it says, and the reasons against it so far."""

    def __init__(self, run: Run, accept: frozenset[str]) -> None:
        self.run = run
        self.accept = accept
        self.reasons: list[Reason] = []
        self.planned = group_key(run.plan, precision_effective=None, gpu_model=None, image=None)
        self.rates: dict[str, float] = {}
        self._take_measurement(run.measurement)
        phase = run.phase
        if not phase.final:
            self.bar("run-in-progress", f"The run is {phase}: {run.history[-1].cause}")
        elif phase is not Phase.SUCCEEDED:
            self.bar(_ENDINGS[phase], run.history[-1].cause)
        elif run.measurement is None:
            self.bar("not-measured", "The run ended, but nothing was measured.")

    def _take_measurement(self, measurement: Measurement | None) -> None:
        if measurement is None:
            return
        self.reasons += [
            msgspec.structs.replace(r, accepted=r.accepted or r.id in self.accept)
            for r in measurement.reasons
        ]
        # A rejected measurement keeps its figures apart; they count only once every reason
        # against them was overruled by name.
        figures = measurement.throughput or measurement.unverified
        if figures is not None:
            for name in ESTIMATORS:
                rate = getattr(figures, name)
                if rate is not None and math.isfinite(rate) and rate > 0:
                    self.rates[name] = rate
        if measurement.verdict == "rejected" and not any(
            reason.severity == "reject" for reason in measurement.reasons
        ):
            self.bar("not-measured", "The measurement was rejected without a reason.")

    def bar(self, reason: str, message: str) -> None:
        """Add a reason that no ``--accept`` can overrule: there is no figure to accept."""
        self.reasons.append(Reason(id=reason, severity="reject", message=message))

    def refuse(self, reason: str, message: str) -> None:
        """Add a reason that counts unless it is accepted by name."""
        self.reasons.append(rejection(reason, message, self.accept))

    @property
    def counts(self) -> bool:
        """Whether nothing rejects it that was not accepted."""
        return not any(r.severity == "reject" and not r.accepted for r in self.reasons)

    @property
    def trial(self) -> Measurement:
        """Its measurement; for candidates that count, which have one."""
        assert self.run.measurement is not None
        return self.run.measurement


def unique(runs: Iterable[Run]) -> list[Run]:
    """Oldest first, each run once: of two copies the one that knows more of its run."""
    best: dict[str, Run] = {}
    for run in runs:
        other = best.get(run.run_id)
        if other is None or _knowledge(run) > _knowledge(other):
            best[run.run_id] = run
    return sorted(best.values(), key=lambda run: (run.created_at, run.run_id))


def _knowledge(run: Run) -> tuple[int, bool]:
    return len(run.history), run.measurement is not None


def rejection(reason: str, message: str, accept: frozenset[str]) -> Reason:
    """A reason to reject, marked where it is overruled."""
    return Reason(id=reason, severity="reject", message=message, accepted=reason in accept)


def told(environment: Mapping[str, object], key: str) -> str | None:
    """What a log tells of its environment, as text; None where it does not."""
    value = environment.get(key)
    return None if value is None else str(value)
