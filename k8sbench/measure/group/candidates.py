"""Runs that may count in a group: what each reports, and the reasons against it so far."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from k8sbench.measure import verdict
from k8sbench.measure.group import rules
from k8sbench.measure.verdict import IntegrityRule
from k8sbench.model.finding import Finding
from k8sbench.model.group import SCRATCH
from k8sbench.model.identity import group_key
from k8sbench.model.measurement import ESTIMATORS, Measurement
from k8sbench.model.phase import Phase
from k8sbench.model.run import Run

_ENDINGS = {
    Phase.FAILED: rules.RUN_FAILED,
    Phase.CANCELLED: rules.RUN_CANCELLED,
    Phase.LOST: rules.RUN_LOST,
}


class Candidate:
    """A run that may count in a group: what it reports, and the reasons against it so far."""

    def __init__(self, run: Run, accept: frozenset[str]) -> None:
        self.run = run
        self.accept = accept
        self.reasons: list[Finding] = []
        self.planned = group_key(run.plan, precision_effective=None, gpu_model=None, image=None)
        self.rates: dict[str, float] = {}
        self._take_measurement(run.measurement)
        phase = run.phase
        if not phase.final:
            self.reject(rules.RUN_IN_PROGRESS, f"The run is {phase}: {run.history[-1].cause}")
        elif phase is not Phase.SUCCEEDED:
            self.reject(_ENDINGS[phase], run.history[-1].cause)
        elif run.measurement is None:
            elsewhere = run.history[-1].cause if run.is_collected_elsewhere else ""
            why = elsewhere or "The run ended, but nothing was measured."
            self.reject(rules.NOT_MEASURED, why)

    def _take_measurement(self, measurement: Measurement | None) -> None:
        if measurement is None:
            return
        self.reasons += verdict.accepted(measurement.reasons, self.accept)
        # A rejected measurement keeps its figures apart; they count only once every reason
        # against them was overruled by name.
        figures = measurement.throughput or measurement.unverified
        if figures is not None:
            for name in ESTIMATORS:
                rate = getattr(figures, name)
                if rate is not None and math.isfinite(rate) and rate > 0:
                    self.rates[name] = rate
            if measurement.estimator == "printed_steps":
                # It is of the printed steps alone there, others' is of all steps.
                self.rates.pop("time_weighted", None)
        if measurement.verdict == "rejected" and not any(
            reason.severity == "reject" for reason in measurement.reasons
        ):
            self.reject(rules.NOT_MEASURED, "The measurement was rejected without a reason.")

    def reject(self, rule: IntegrityRule, sentence: str) -> None:
        """Add a reason that no ``--accept`` can overrule: there is no figure to accept."""
        self.reasons.append(rule.finding(sentence))

    def reject_unless_accepted(self, rule: IntegrityRule, sentence: str) -> None:
        """Add a reason that counts unless it is accepted by name."""
        self.reasons += verdict.accepted([rule.finding(sentence)], self.accept)

    @property
    def counts(self) -> bool:
        """Whether nothing rejects it that was not accepted."""
        return verdict.counts(self.reasons)

    @property
    def trains(self) -> bool:
        """Whether it trains to an accuracy."""
        return self.run.plan.mode == "train"

    @property
    def start_weights(self) -> str | None:
        """Digest of its start weights, or that there are none; None of a throughput run."""
        return (self.measured.weights_digest or SCRATCH) if self.trains else None

    @property
    def measured(self) -> Measurement:
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


def reported(environment: Mapping[str, object], key: str) -> str | None:
    """What a log reports of its environment, as text; None where it does not."""
    value = environment.get(key)
    return None if value is None else str(value)
