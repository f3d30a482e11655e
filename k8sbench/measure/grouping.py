"""Runs become groups: repeats of one case in one set, what counts among them, and their spread.

Repeats are the runs whose plans give the same group key. What only the runs themselves can tell
(GPU model, precision in effect, image digest, driver, framework version) must then be equal too:
what differs from the majority does not count, and without a majority nothing does. A run that
does not count stays a member, with its reasons. Nothing is dropped in silence, and nothing here
depends on the order in which the runs come.

The reasons that can arise here are in :data:`REASONS`; ``docs/results.md`` explains them.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from k8sbench.measure import comparison
from k8sbench.model.group import Group, Member, Spread
from k8sbench.model.identity import GroupKey, group_key
from k8sbench.model.measurement import AccuracyResult, Measurement, Reason, Severity
from k8sbench.model.phase import Phase
from k8sbench.model.plan import RunPlan
from k8sbench.model.run import Run

OUTLIER_BAND = (0.8, 1.25)
"""× the group's median: a run outside is not a repeat of the others."""
EFFICIENCY_LIMIT = 1.05
"""Speedup ÷ GPUs above this is no scaling effect: one of the two sides is wrong."""
WIDE_INTERVAL = 0.10
"""Width of the interval ÷ median from which the reader is warned. The reports that we reproduce
stay below 2 % with five runs."""
MANY_OUTLIERS = 0.25
"""Share of outliers from which the reader is warned that the rest is a thin majority."""
COVERAGE = 0.95
"""What the interval from order statistics aims at."""

REASONS: dict[str, str] = {
    "run-in-progress": "The run has not ended.",
    "run-failed": "The job failed.",
    "run-cancelled": "The run was cancelled.",
    "run-lost": "The process or cluster that answered for the run is gone.",
    "not-measured": "The run ended, but nothing was measured.",
    "log-counted-twice": "The same log belongs to an earlier run already.",
    "repeat-collision": "An earlier run of the group has the same number.",
    "mixed-plan": "The run was planned otherwise than the other repeats.",
    "mixed-gpu-model": "The run was on another GPU model than the other repeats.",
    "mixed-precision": "The precision in effect differs from the other repeats'.",
    "mixed-image": "The image differs from the other repeats'.",
    "mixed-driver": "The GPU driver differs from the other repeats'.",
    "mixed-framework": "The framework's version differs from the other repeats'.",
    "mixed-estimator": "The run has no figure by the estimator of the other repeats.",
    "above-peak": "More arithmetic per second than the GPU can do.",
    "outlier": "The figure is outside 0.8–1.25 × the group's median (not judged in smoke runs).",
    "many-outliers": "More than a quarter of the runs were outliers.",
    "efficiency-above-limit": "The efficiency against the 1x1 case is above 1.05.",
    "wide-interval": "The interval is wider than 10 % of the median.",
}
"""Id → what it says, of every reason that grouping can give."""

ESTIMATORS = ("time_weighted", "time_weighted_steady", "median", "arithmetic", "timestamps")

_ENDINGS = {
    Phase.FAILED: "run-failed",
    Phase.CANCELLED: "run-cancelled",
    Phase.LOST: "run-lost",
}
_GPU_HELD = frozenset({Phase.PULLING, Phase.STARTING, Phase.RUNNING})
"""A replica has its GPUs from the moment its pod is on a node."""
_NOT_OF_THE_CASE = frozenset(
    {
        *("schema", "run_id", "set_name", "repeat", "timeout_s", "notes", "queue", "gang"),
        *("image", "image_reason", "spec_digest", "spec_source", "trainers_digest"),
    }
)
"""Fields of a plan in which repeats may differ, or that a check of their own looks at."""


def groups(runs: Iterable[Run], *, accept: Collection[str] = ()) -> list[Group]:
    """Put runs together as repeats, judge them, and order the groups by their keys.

    ``accept`` overrules reasons by id: such a run counts, and the reason stays, marked. All runs
    that the caller has should come in one call: a log that is counted twice and the 1x1 case that
    an efficiency refers to may be in another group.
    """
    candidates = [_Candidate(run, frozenset(accept)) for run in _unique(runs)]
    _refuse_logs_counted_twice(candidates)
    buckets: dict[GroupKey, list[_Candidate]] = {}
    for candidate in candidates:
        buckets.setdefault(candidate.planned, []).append(candidate)
    made = [_group(planned, members) for planned, members in buckets.items()]
    return sorted(_check_efficiency(made, frozenset(accept)), key=lambda group: group.key)


def spread(rates: Sequence[float]) -> Spread:
    """Median, mean, extremes and interval of at least one rate."""
    ordered = sorted(rates)
    count, median, mean = len(ordered), statistics.median(ordered), statistics.fmean(ordered)
    rank, coverage = interval_ranks(count)
    several = count > 1
    return Spread(
        median=median,
        mean=mean,
        minimum=ordered[0],
        maximum=ordered[-1],
        cv=statistics.stdev(ordered) / mean if several else None,
        low=ordered[rank - 1] if several else None,
        high=ordered[count - rank] if several else None,
        coverage=coverage if several else None,
        interval_reason=None if several else "one run says nothing of the spread between runs",
    )


def interval_ranks(count: int) -> tuple[int, float]:
    """Which order statistics bound the median, and with what exact coverage.

    For ``count`` runs sorted ascending, the ``rank``-th from below and from above. The coverage
    1 − 2·P(Binomial(count, ½) < rank) holds for any continuous distribution. Below six runs even
    the extremes do not reach 95 %, and are taken with the coverage that they have; from six runs
    on it is the narrowest interval that reaches it.
    """
    # Whole numbers: ways of 2^count in which fewer than ``rank`` runs lie below the median.
    every, ways, rank = 2**count, 1, 1
    while 1 - 2 * (more := ways + math.comb(count, rank)) / every >= COVERAGE:
        ways, rank = more, rank + 1
    return rank, 1 - 2 * ways / every


class _Candidate:
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
        self.reasons.append(_reason(reason, message, self.accept))

    @property
    def counts(self) -> bool:
        return not any(r.severity == "reject" and not r.accepted for r in self.reasons)

    @property
    def trial(self) -> Measurement:
        """Its measurement; for candidates that count, which have one."""
        assert self.run.measurement is not None
        return self.run.measurement


def _unique(runs: Iterable[Run]) -> list[Run]:
    """Oldest first, each run once: of two copies the one that knows more of its run."""
    best: dict[str, Run] = {}
    for run in runs:
        other = best.get(run.run_id)
        if other is None or _knowledge(run) > _knowledge(other):
            best[run.run_id] = run
    return sorted(best.values(), key=lambda run: (run.created_at, run.run_id))


def _knowledge(run: Run) -> tuple[int, bool]:
    return len(run.history), run.measurement is not None


def _refuse_logs_counted_twice(candidates: Sequence[_Candidate]) -> None:
    """Of runs whose logs are the same, only the first counts, in whatever group they are."""
    owners: dict[str, str] = {}
    for candidate in candidates:
        if not candidate.counts or candidate.trial.log_digest is None:
            continue
        owner = owners.setdefault(candidate.trial.log_digest, candidate.run.run_id)
        if owner != candidate.run.run_id:
            candidate.refuse("log-counted-twice", f"Its log is that of run {owner}.")


def _group(planned: GroupKey, candidates: list[_Candidate]) -> Group:
    """Judge the repeats of one case; they come oldest first."""
    _refuse_colliding_repeats(candidates)
    _refuse_other_plans(candidates)
    for trait in ("gpu-model", "precision", "image", "driver", "framework"):
        _refuse_mixed(candidates, trait)
    estimator = _common_estimator(candidates)
    _refuse_above_peak(candidates, estimator)
    # A smoke run checks the path: how fast a shared CPU happened to be is no claim to refute.
    smoke = planned.preset == "smoke"
    reasons = [] if smoke else _refuse_outliers(candidates, estimator)
    counted = [c for c in candidates if c.counts]
    figures = spread([c.rates[estimator] for c in counted]) if counted else None
    if (
        figures is not None
        and figures.low is not None
        and figures.high is not None
        and figures.high - figures.low > WIDE_INTERVAL * figures.median
    ):
        width = (figures.high - figures.low) / figures.median
        reasons.append(
            Reason(
                id="wide-interval",
                severity="warn",
                message=f"The interval is {width:.0%} of the median wide: more repeats would help.",
            )
        )
    missing: dict[str, str] = {}
    speakers = counted or [c for c in candidates if c.run.measurement is not None]
    first = (counted or candidates)[0]
    parameters, gmac = _model(first.run.plan, speakers, missing)
    return Group(
        key=_final_key(planned, speakers),
        plan=first.run.plan,
        unit=_unit(first),
        estimator=estimator,
        members=tuple(_member(c, estimator) for c in candidates),
        spread=figures,
        reasons=tuple(reasons),
        parameters=parameters,
        gmac=gmac,
        precision_effective=_joined(c.trial.precision_effective for c in speakers),
        device=_joined(c.trial.device for c in speakers),
        by_rule={
            name: value
            for name in comparison.BY_RULE
            if (value := _joined(_told(c.trial.environment, name) for c in speakers)) is not None
        },
        by_estimator=_by_estimator(counted),
        accuracy=_accuracy(counted, missing),
        time_to_train_s=_time_to_train(counted, missing),
        gpu_hours=_gpu_hours(candidates, missing),
        missing=missing,
    )


def _refuse_colliding_repeats(candidates: Sequence[_Candidate]) -> None:
    holders: dict[int, str] = {}
    for candidate in candidates:
        if not candidate.counts:
            continue
        number = candidate.run.plan.repeat
        holder = holders.setdefault(number, candidate.run.run_id)
        if holder != candidate.run.run_id:
            candidate.refuse("repeat-collision", f"It is number {number}, as run {holder} is.")


def _refuse_other_plans(candidates: Sequence[_Candidate]) -> None:
    """A group key does not hold all of a plan: environment variables, command, pool's details."""
    decisive = {c.run.run_id: _decisive(c.run.plan) for c in candidates if c.counts}
    fields = {name for plan in decisive.values() for name in plan}
    for name in sorted(fields):
        values = {run_id: plan.get(name) for run_id, plan in decisive.items()}
        _refuse_minority(candidates, values, "mixed-plan", f"its plan's {name}", shown=False)


def _decisive(plan: RunPlan) -> dict[str, str]:
    """What decides a run, field by field, as texts that can be compared."""
    told: dict[str, str] = {}
    for name in plan.__struct_fields__:
        if name in _NOT_OF_THE_CASE:
            continue
        value = getattr(plan, name)
        if name == "pool":
            value = msgspec.structs.replace(value, note=None)
        told[name] = msgspec.json.encode(value, order="deterministic").decode()
    return told


def _refuse_mixed(candidates: Sequence[_Candidate], trait: str) -> None:
    values: dict[str, str | None] = {}
    for candidate in candidates:
        if not candidate.counts:
            continue
        run, measurement = candidate.run, candidate.trial
        environment = measurement.environment
        values[run.run_id] = {
            "gpu-model": measurement.gpu_model,
            "precision": measurement.precision_effective,
            "image": run.image_digest or run.plan.image,
            "driver": _told(environment, "driver"),
            "framework": _told(environment, "framework_version"),
        }[trait]
    what = {
        "gpu-model": "its GPU model",
        "precision": "its precision in effect",
        "image": "its image",
        "driver": "its GPU driver",
        "framework": "its framework version",
    }[trait]
    _refuse_minority(candidates, values, f"mixed-{trait}", what, shown=True)


def _refuse_minority(
    candidates: Sequence[_Candidate],
    values: Mapping[str, str | None],
    reason: str,
    what: str,
    *,
    shown: bool,
) -> None:
    """Refuse the runs that differ from a strict majority, or all where there is none.

    What is not known of a run (None) is held against nobody.
    """
    known = Counter(value for value in values.values() if value is not None)
    if len(known) < 2:
        return
    winner, votes = min(known.items(), key=lambda item: (-item[1], item[0]))
    total = sum(known.values())
    majority = votes * 2 > total
    for candidate in candidates:
        value = values.get(candidate.run.run_id)
        if value is None or (majority and value == winner):
            continue
        told = f" ({value})" if shown else ""
        if majority:
            other = f" ({winner})" if shown else ""
            message = f"{_capital(what)}{told} is not that of {votes} of {total} runs{other}."
        else:
            message = (
                f"{_capital(what)}{told} is shared by {known[value]} of {total} runs: no majority"
                " tells which is meant."
            )
        candidate.refuse(reason, message)


def _common_estimator(candidates: Sequence[_Candidate]) -> str:
    """The estimator that most runs have as their headline; who has no figure by it is out."""
    counted = [c for c in candidates if c.counts]
    measured = counted or [c for c in candidates if c.run.measurement is not None]
    if not measured:
        return ESTIMATORS[0]
    votes = Counter(c.trial.estimator for c in measured)
    best = max(votes, key=lambda name: (votes[name], -_order(name)))
    for candidate in counted:
        if best not in candidate.rates:
            candidate.bar("mixed-estimator", f"It has no figure by {best}.")
    return best


def _order(estimator: str) -> int:
    return ESTIMATORS.index(estimator) if estimator in ESTIMATORS else len(ESTIMATORS)


def _refuse_above_peak(candidates: Sequence[_Candidate], estimator: str) -> None:
    for candidate in candidates:
        if not candidate.counts:
            continue
        plan, trial = candidate.run.plan, candidate.trial
        _, gmac = _model(plan, [candidate], {})
        if gmac is None or plan.preset == "smoke" or plan.device == "cpu":
            continue
        limit = comparison.peak_limit(plan, trial.precision_effective, trial.gpu_model)
        done = comparison.tflops(gmac, candidate.rates[estimator], plan.world_size)
        if limit is not None and done > limit:
            candidate.refuse(
                "above-peak",
                f"{done:.1f} TFLOP/s per GPU are more than the {limit:g} that a {trial.gpu_model}"
                " can do.",
            )


def _refuse_outliers(candidates: Sequence[_Candidate], estimator: str) -> list[Reason]:
    """Refuse the runs that are no repeats of the others; returns what the group should say."""
    tried = [c for c in candidates if c.counts]
    rates = {c.run.run_id: c.rates[estimator] for c in tried}
    inside = agreeing(rates.values())
    if inside is None:
        low, high = min(rates.values()), max(rates.values())
        for candidate in tried:
            rate = rates[candidate.run.run_id]
            candidate.refuse(
                "outlier",
                f"{rate:.2f}: the {len(tried)} runs reach from {low:.2f} to {high:.2f}, and no"
                " majority of them agrees. Which is wrong cannot be told; repeat the case.",
            )
        return []
    if len(inside) == len(tried):
        return []
    median = statistics.median(inside)
    lowest, highest = (bound * median for bound in OUTLIER_BAND)
    agree = f"{len(inside)} of {len(tried)} runs agree"
    for candidate in tried:
        rate = rates[candidate.run.run_id]
        if not lowest <= rate <= highest:
            candidate.refuse(
                "outlier",
                f"{rate:.2f} is {rate / median:.2f} × the group's median of {median:.2f}; {agree}.",
            )
    if len(tried) - len(inside) <= MANY_OUTLIERS * len(tried):
        return []
    return [
        Reason(
            id="many-outliers",
            severity="warn",
            message=f"Only {agree}: look whether the majority is the right side.",
        )
    ]


def agreeing(rates: Iterable[float]) -> list[float] | None:
    """The rates inside the outlier band around their own median, or None without a majority.

    The median that judges is that of the rates that stay, not of all: a fixed point, so that no
    figure in the table contradicts its own reason. A strict majority of all must stay: of two
    runs that disagree neither is right by itself.
    """
    every = sorted(rates)
    inside = every
    for _ in range(len(every) + 1):
        if len(inside) * 2 <= len(every):
            break
        median = statistics.median(inside)
        lowest, highest = (bound * median for bound in OUTLIER_BAND)
        next_inside = [rate for rate in every if lowest <= rate <= highest]
        if next_inside == inside:
            return inside
        inside = next_inside
    return None if every else []


def _check_efficiency(made: list[Group], accept: frozenset[str]) -> list[Group]:
    checked = []
    for group in made:
        scale = comparison.scaling(group, made)
        value, base = scale.efficiency.value, scale.baseline
        if value is None or base is None or value <= EFFICIENCY_LIMIT:
            checked.append(group)
            continue
        reason = _reason(
            "efficiency-above-limit",
            f"{value:.2f} per GPU against {base.key.id}: GPUs together are not that much"
            " faster than alone, so one of the two is wrong.",
            accept,
        )
        checked.append(_with_reason(group, reason))
    return checked


def _with_reason(group: Group, reason: Reason) -> Group:
    """The group with a reason of its own; without its figures, unless that was accepted."""
    reasons = (*group.reasons, reason)
    if reason.accepted:
        return msgspec.structs.replace(group, reasons=reasons)
    members = tuple(
        msgspec.structs.replace(m, rate=None, verdict="rejected", unverified=m.rate)
        if m.rate is not None
        else m
        for m in group.members
    )
    return msgspec.structs.replace(
        group,
        reasons=reasons,
        members=members,
        spread=None,
        by_estimator={},
        accuracy=None,
        time_to_train_s=None,
    )


def _reason(reason: str, message: str, accept: frozenset[str]) -> Reason:
    severity: Severity = "reject"
    return Reason(id=reason, severity=severity, message=message, accepted=reason in accept)


def _member(candidate: _Candidate, estimator: str) -> Member:
    run, counts = candidate.run, candidate.counts
    rate = candidate.rates.get(estimator)
    measured = run.measurement is not None
    return Member(
        run_id=run.run_id,
        repeat=run.plan.repeat,
        created_at=run.created_at,
        rate=rate if counts else None,
        phase=str(run.phase),
        verdict=("valid" if counts else "rejected") if measured else None,
        reasons=tuple(candidate.reasons),
        unverified=None if counts else rate,
    )


def _final_key(planned: GroupKey, speakers: Sequence[_Candidate]) -> GroupKey:
    """The planned key with what the runs told; unequal values stand side by side."""
    return msgspec.structs.replace(
        planned,
        precision_effective=_joined(c.trial.precision_effective for c in speakers)
        or planned.precision_effective,
        gpu_model=_joined(c.trial.gpu_model for c in speakers) or planned.gpu_model,
        image=_joined(c.run.image_digest for c in speakers) or planned.image,
    )


def _joined(values: Iterable[str | None]) -> str | None:
    return " + ".join(sorted({value for value in values if value})) or None


def _unit(candidate: _Candidate) -> str:
    measurement = candidate.run.measurement
    figures = measurement and (measurement.throughput or measurement.unverified)
    return figures.unit if figures else f"{candidate.run.plan.unit}/s"


def _by_estimator(counted: Sequence[_Candidate]) -> dict[str, float]:
    return {
        name: statistics.median(c.rates[name] for c in counted)
        for name in ESTIMATORS
        if counted and all(name in c.rates for c in counted)
    }


def _model(
    plan: RunPlan, speakers: Sequence[_Candidate], missing: dict[str, str]
) -> tuple[int | None, float | None]:
    """Parameters and GMAC; the catalog's GMAC only for the catalog's model."""
    told = {c.trial.parameters for c in speakers if c.trial.parameters is not None}
    known = plan.fingerprint
    parameters = max(told) if told else known.parameters if known else None
    if len(told) > 1:
        missing["parameters"] = "the runs report different numbers of parameters"
        parameters = None
    elif parameters is None:
        missing["parameters"] = "neither the runs nor the catalog tell them"
    if known is None:
        missing["gmac"] = "the catalog has no fingerprint of the model"
    elif any(abs(n - known.parameters) > comparison.SAME_MODEL * known.parameters for n in told):
        missing["gmac"] = (
            f"the runs report {max(told):,} parameters, the catalog's model has"
            f" {known.parameters:,}"
        )
    else:
        return parameters, known.gmac
    return parameters, None


def _accuracy(counted: Sequence[_Candidate], missing: dict[str, str]) -> AccuracyResult | None:
    found = [c.trial.accuracy for c in counted if c.trial.accuracy is not None]
    if not found:
        missing["accuracy"] = "no run evaluated its model"
        return None
    return max(found, key=lambda a: (a.best, a.final, a.metric))


def _time_to_train(counted: Sequence[_Candidate], missing: dict[str, str]) -> float | None:
    found = [c.trial.time_to_train_s for c in counted if c.trial.time_to_train_s is not None]
    if not found:
        missing["time_to_train_s"] = "no run reached a target accuracy"
        return None
    return statistics.median(found)


def _gpu_hours(candidates: Sequence[_Candidate], missing: dict[str, str]) -> float | None:
    plans = [c.run.plan for c in candidates]
    if any(plan.device == "cpu" for plan in plans):
        missing["gpu_hours"] = "no GPU was used"
        return None
    ended = [c.run for c in candidates if c.run.ended_at is not None]
    if not ended:
        missing["gpu_hours"] = "no run has ended yet"
        return None
    hours = 0.0
    for run in ended:
        held = [t.at for t in run.history if t.phase in _GPU_HELD]
        if not held and run.phase is Phase.SUCCEEDED:
            missing["gpu_hours"] = "the history does not say when the runs started"
            return None
        if held and run.ended_at is not None:
            # A clock that was set back must not make hours negative.
            hours += run.plan.world_size * max(0.0, run.ended_at - min(held)) / 3600
    return hours


def _told(environment: Mapping[str, object], key: str) -> str | None:
    value = environment.get(key)
    return None if value is None else str(value)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
