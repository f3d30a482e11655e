"""Repeats of a group that do not count, and why.

A run that differs from the majority does not count, and without a majority none does. Each check
looks at the runs that still count; :mod:`.grouping` has the order of the checks.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from k8sbench.messages import Arg, Note, few, note, quoted
from k8sbench.model import verdict
from k8sbench.model.errors import Finding
from k8sbench.model.group import OUT_OF_MEMORY, SCRATCH, UNSTEADY
from k8sbench.model.identity import GroupKey, case_values, group_key
from k8sbench.model.measurement import ESTIMATORS, Measurement
from k8sbench.model.phase import Phase
from k8sbench.model.rules import EXIT_CODE, MIXED_GPU_MODEL
from k8sbench.model.run import Run, is_out_of_memory
from k8sbench.model.verdict import IntegrityRule, reject, rules_in, warn

RUN_IN_PROGRESS = reject(
    "run-in-progress",
    "The run has not ended.",
    "Wait for it: k8sbench watch RUN.",
)
RUN_FAILED = reject(
    "run-failed",
    "The job failed.",
    "See k8sbench logs RUN, and repeat the case.",
)
RUN_OUT_OF_MEMORY = reject(
    OUT_OF_MEMORY,
    "The batch does not fit into the GPUs' memory.",
    "Use a smaller --batch-size; in a sweep the other sizes have figures.",
)
RUN_CANCELLED = reject(
    "run-cancelled",
    "The run was cancelled.",
    "Repeat the case.",
)
RUN_LOST = reject(
    "run-lost",
    "The process is gone, or the job was removed before its end.",
    "See k8sbench status RUN, and repeat the case.",
)
NOT_MEASURED = reject(
    "not-measured",
    "The run ended, but nothing was measured.",
    "Measure it with k8sbench collect RUN, where it ran on a cluster; else repeat the case.",
)
LOG_COUNTED_TWICE = reject(
    "log-counted-twice",
    "The log is that of an earlier run, in any group: its times and losses are equal, "
    "whatever its stamps and its length. Where times hardly differ, all lines are, and the "
    "times at which they were received. Or the losses are those of another rank of the job.",
    "Remove the copy with k8sbench store remove RUN.",
)
MIXED_PLAN = reject(
    "mixed-plan",
    "A property outside the group's key differs from the other runs. Such as environment "
    "variables, command, details of the pool, or the model, its size, its sequence length and the "
    "batch of a step that a log states: it is another case.",
    "Compare the plans with k8sbench status RUN -o yaml, and repeat the case with one of them.",
)
MIXED_PRECISION = reject(
    "mixed-precision",
    "The effective precision differs: AMP had effect in one run only.",
    "Repeat the case where AMP has an effect.",
)
MIXED_IMAGE = reject(
    "mixed-image",
    "Its image is another.",
    "Name the image by its digest, and repeat the case.",
)
MIXED_DRIVER = reject(
    "mixed-driver",
    "Its GPU driver is another.",
    "Choose nodes with one driver version.",
)
MIXED_FRAMEWORK = reject(
    "mixed-framework",
    "Its framework has another version.",
    "Use one image for all repeats.",
)
MIXED_DATA = reject(
    "mixed-data",
    "The run read other files: another digest of its data set.",
    "Give all repeats the same files: k8sbench data check names what is missing.",
)
MIXED_WEIGHTS = reject(
    "mixed-weights",
    "The run started from other weights, or from scratch.",
    "Start all repeats from one file, or all from scratch.",
)
MIXED_ESTIMATOR = reject(
    "mixed-estimator",
    "The run has no figure by the estimator of the others.",
    "Use the same log interval in all repeats.",
)
OUTLIER = reject(
    "outlier",
    "The figure is not that of a clear majority; not checked for smoke runs.",
    "Repeat the case until a clear majority agrees; look for other load on the outlier's nodes.",
)
EFFICIENCY_ABOVE_LIMIT = reject(
    "efficiency-above-limit",
    "An efficiency above 1.05 is no scaling effect; one side is wrong.",
    "Repeat both cases: one of the two is wrong.",
)
UNSTEADY_RUNS = warn(
    UNSTEADY,
    "The runs are over a quarter apart, without clear outliers. All count, there is no "
    "interval, and the row is not valid.",
    "Look for other load on their nodes, and repeat the case.",
)
WIDE_INTERVAL = warn(
    "wide-interval",
    "The interval is wider than 10 % of the median.",
    "Run more repeats.",
)

ALL = rules_in(globals())
"""By their ids."""

_ENDINGS = {Phase.FAILED: RUN_FAILED, Phase.CANCELLED: RUN_CANCELLED, Phase.LOST: RUN_LOST}


class Candidate:
    """A run that may count in a group, with its report and reasons."""

    def __init__(self, run: Run, accept: frozenset[str]) -> None:
        self.run = run
        self.accept = accept
        self.reasons: list[Finding] = []
        self.planned = group_key(
            run.planned or run.facts,
            precision_effective=None,
            gpu_model=None,
            image=None,
            training=run.training,
            measured_by=run.measured_by,
        )
        self.rates: dict[str, float] = {}
        measurement = run.measurement
        if measurement is not None:
            self.reasons += verdict.mark_accepted(measurement.reasons, accept)
            # A rejected measurement keeps its figures apart; they count only once every reason
            # against them was overruled by name.
            figures = measurement.throughput or measurement.unverified
            for name in ESTIMATORS:
                rate = getattr(figures, name, None)
                if rate is not None and math.isfinite(rate) and rate > 0:
                    self.rates[name] = rate
            if measurement.estimator == "printed_steps":
                # It is of the printed steps alone there, others' is of all steps.
                self.rates.pop("time_weighted", None)
            rejects = any(reason.severity == "reject" for reason in measurement.reasons)
            if measurement.verdict == "rejected" and not rejects:
                self.reject(NOT_MEASURED, note("not-measured-no-reason"))
        phase = run.phase
        if not phase.final:
            cause = run.history[-1].cause
            state = note(f"state-{phase.lower()}")
            self.reject(RUN_IN_PROGRESS, note("run-in-progress", phase=state, cause=cause))
        elif phase is not Phase.SUCCEEDED and all(
            reason.id != EXIT_CODE.id for reason in self.reasons
        ):
            ending = RUN_OUT_OF_MEMORY if is_out_of_memory(run) else _ENDINGS[phase]
            self.reject(ending, quoted(run.history[-1].cause))
        elif measurement is None:
            self.reject(NOT_MEASURED, note("not-measured-ended"))

    def reject(self, rule: IntegrityRule, said: Note) -> None:
        """Add a reason that no ``--accept`` can overrule: there is no figure to accept."""
        self.reasons.append(rule.finding(said))

    def reject_unless_accepted(self, rule: IntegrityRule, said: Note) -> None:
        """Add a reason that counts unless it is accepted by name."""
        self.reasons += verdict.mark_accepted([rule.finding(said)], self.accept)

    @property
    def counts(self) -> bool:
        """True unless a rejection was not accepted."""
        return verdict.figure_counts(self.reasons)

    @property
    def trains(self) -> bool:
        """True if it trains to an accuracy."""
        return self.run.facts.mode == "train"

    @property
    def gpu_model(self) -> str | None:
        """GPU model that it reports; None without one."""
        return None if self.run.measurement is None else self.run.measurement.gpu_model

    @property
    def start_weights(self) -> str | None:
        """Digest of its start weights or their absence; None for throughput runs."""
        return (self.measurement.weights_digest or SCRATCH) if self.trains else None

    @property
    def measurement(self) -> Measurement:
        """Its measurement; for candidates that count, which have one."""
        assert self.run.measurement is not None
        return self.run.measurement


def unique(runs: Iterable[Run]) -> list[Run]:
    """Return each run once, oldest first; of copies the more complete one."""
    best: dict[str, Run] = {}
    for run in runs:
        other = best.get(run.run_id)
        if other is None or _knowledge(run) > _knowledge(other):
            best[run.run_id] = run
    return sorted(best.values(), key=lambda run: (run.created_at, run.run_id))


def _knowledge(run: Run) -> tuple[int, bool]:
    return len(run.history), run.measurement is not None


def reported(environment: Mapping[str, object], key: str) -> str | None:
    """Return a value of the log's environment as text; None if not reported."""
    return _text(environment.get(key))


OUTLIER_LIMIT = 1.25
"""Fastest ÷ slowest of the counted runs; beyond it they are no repeats."""
MOST_LOGS = 5
"""Logs that are named of a cluster of runs."""
FEW = 5
"""Below this count, drop only clear outliers."""
ALIKE = 1.05
"""Fastest ÷ slowest of the others, where one of few runs is dropped."""
FAR = 0.25
"""Relative difference from the others' median that drops one of few runs."""
MAJORITY = (2, 3)
"""Minimum majority. Five of eight have been the wrong ones."""


def logs_counted_twice(candidates: Sequence[Candidate]) -> None:
    """Reject runs with the same log, except the first, in any group."""
    by_log: defaultdict[str | None, list[Candidate]] = defaultdict(list)
    by_losses: defaultdict[tuple[str | None, GroupKey], list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        if not candidate.counts:
            continue
        found = candidate.measurement
        alike = by_log[found.log_digest]
        ranks = by_losses[found.losses_digest, candidate.planned]
        copied = next((one for one in alike if one.measurement.is_same_log(found)), None)
        beside = next((one for one in ranks if one.measurement.is_of_same_job(found)), None)
        if copied is not None:
            said = note("log-counted-twice-run", run=copied.run.run_id)
            candidate.reject_unless_accepted(LOG_COUNTED_TWICE, said)
        elif beside is not None:
            said = note("log-counted-twice-rank", run=beside.run.run_id)
            candidate.reject_unless_accepted(LOG_COUNTED_TWICE, said)
        else:
            alike.append(candidate)
            ranks.append(candidate)


def other_plans(candidates: Sequence[Candidate]) -> None:
    """Reject runs with differences that the group key does not hold.

    Environment variables, command, details of the pool.
    """
    counted = [c for c in candidates if c.counts]
    if len(counted) < 2:
        return
    plans = {c.run.run_id: case_values(c.run.planned or c.run.facts, but="group") for c in counted}
    for name in sorted({name for values in plans.values() for name in values}):
        values = {
            run_id: values_of_run.get(name, "null") for run_id, values_of_run in plans.items()
        }
        if _differ(values):
            trait = note("trait-plan", field=name)
            _reject_minority(candidates, values, MIXED_PLAN, trait, shown=False)


def _states(name: str) -> Callable[[Candidate], str | None]:
    return lambda candidate: reported(candidate.measurement.environment, name)


_TRAITS: tuple[tuple[IntegrityRule, Note, Callable[[Candidate], str | None]], ...] = (
    (MIXED_GPU_MODEL, note("title-gpu-model"), lambda c: c.gpu_model),
    (
        MIXED_PRECISION,
        note("title-precision-effective"),
        lambda c: c.measurement.precision_effective,
    ),
    (MIXED_IMAGE, note("title-image"), lambda c: c.run.image_digest or c.run.facts.image),
    (MIXED_DATA, note("trait-data"), lambda c: c.measurement.data_digest),
    (MIXED_WEIGHTS, note("title-start-weights"), lambda c: c.start_weights),
    (MIXED_DRIVER, note("driver"), _states("driver")),
    (MIXED_FRAMEWORK, note("title-framework-version"), _states("framework_version")),
    (MIXED_PLAN, note("fact-of-model"), _states("model")),
    (MIXED_PLAN, note("fact-of-parameters"), lambda c: _text(c.measurement.parameters)),
    (MIXED_PLAN, note("trait-classes"), _states("classes")),
    (MIXED_PLAN, note("fact-of-sequence-length"), _states("sequence_length")),
    (MIXED_PLAN, note("trait-step-samples"), _states("global_batch")),
    (MIXED_PLAN, note("trait-step-tokens"), _states("tokens_per_step")),
    (MIXED_PLAN, note("trait-layout"), _states("option.channels_last")),
)
"""Rule, a trait that only the runs report, and its value."""


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def mixed(candidates: Sequence[Candidate]) -> None:
    """Reject runs that differ from the others in a trait, trait by trait."""
    counted = [c for c in candidates if c.counts]
    for rule, what, value in _TRAITS:
        values = {c.run.run_id: value(c) for c in counted}
        if _differ(values):
            _reject_minority(counted, values, rule, what, shown=True)
            counted = [c for c in counted if c.counts]


def _differ(values: Mapping[str, str | None]) -> bool:
    """Return True if not all known values are equal."""
    return len({*values.values()} - {None}) > 1


def _reject_minority(
    candidates: Sequence[Candidate],
    values: Mapping[str, str | None],
    rule: IntegrityRule,
    trait: Note,
    *,
    shown: bool,
) -> None:
    """Reject the runs that differ from a strict majority; all without one.

    A run without a known value (None) is neither rejected nor counted.
    """
    known = Counter(value for value in values.values() if value is not None)
    winner, votes = min(known.items(), key=lambda item: (-item[1], item[0]))
    total = sum(known.values())
    majority = votes * 2 > total
    for candidate in candidates:
        value = values.get(candidate.run.run_id)
        if value is None or (majority and value == winner):
            continue
        args: dict[str, Arg] = {"trait": trait, "runs": total}
        args |= {"votes": votes, "other": winner} if majority else {"votes": known[value]}
        name = "mixed-minority" if majority else "mixed-no-majority"
        said = note(f"{name}-shown", own=value, **args) if shown else note(name, **args)
        candidate.reject_unless_accepted(rule, said)


def common_estimator(candidates: Sequence[Candidate]) -> str:
    """Return the most frequent headline estimator; reject runs without its figure."""
    counted = [c for c in candidates if c.counts]
    measured = counted or [c for c in candidates if c.run.measurement is not None]
    if not measured:
        return ESTIMATORS[0]
    votes = Counter(c.measurement.estimator for c in measured)
    best = max(votes, key=lambda name: (votes[name], -_order(name)))
    for candidate in counted:
        if best not in candidate.rates:
            candidate.reject(MIXED_ESTIMATOR, note("mixed-estimator-lacks", estimator=best))
    return best


def _order(estimator: str) -> int:
    return ESTIMATORS.index(estimator) if estimator in ESTIMATORS else len(ESTIMATORS)


def outliers(candidates: Sequence[Candidate], estimator: str) -> bool:
    """Reject the runs that are no repeats of the others.

    True if all count although they are far apart, as there is no gap between them.
    """
    tried = [c for c in candidates if c.counts]
    rates = {c.run.run_id: c.rates[estimator] for c in tried}
    inside = agreeing(rates.values())
    pairs = itertools.pairwise(sorted(rates.values()))
    # No rate is far from the next one, however far the first and the last are apart.
    if not inside and all(low >= high * (1 - FAR) for low, high in pairs):
        return True
    low = min(inside, default=0.0)
    high = max(inside, default=0.0)
    outside = [c for c in tried if not low <= rates[c.run.run_id] <= high]
    if not outside:
        return False
    # One sentence for all of them: tables say it once.
    why = _without_majority(tried, rates)
    if inside:
        far = [rates[candidate.run.run_id] for candidate in outside]
        why = _far_off(far, inside, len(tried))
    for candidate in outside:
        candidate.reject_unless_accepted(OUTLIER, why)
    return False


def _far_off(far: Sequence[float], inside: Sequence[float], runs: int) -> Note:
    """Describe the rates of outliers beside the others' median."""
    low, high, median = min(far), max(far), statistics.median(inside)
    of: dict[str, Arg] = {"median": f"{median:.2f}", "agree": len(inside), "runs": runs}
    if len(far) == 1:
        return note("outlier-one", rate=f"{low:.2f}", ratio=f"{low / median:.2f}", **of)
    return note(
        "outlier-several",
        number=len(far),
        low=f"{low:.2f}",
        high=f"{high:.2f}",
        least=f"{low / median:.2f}",
        most=f"{high / median:.2f}",
        **of,
    )


def _without_majority(tried: Sequence[Candidate], rates: Mapping[str, float]) -> Note:
    """Describe runs of which no majority agrees: by clusters, with their logs, if there are any."""
    ordered = sorted(tried, key=lambda one: rates[one.run.run_id])
    clusters = [[ordered[0]]]
    for before, one in itertools.pairwise(ordered):
        if rates[before.run.run_id] < rates[one.run.run_id] * (1 - FAR):
            clusters.append([])
        clusters[-1].append(one)
    if len(clusters) == 1 or min(map(len, clusters)) == 1:
        low, high = (rates[one.run.run_id] for one in (ordered[0], ordered[-1]))
        ends = {"low": f"{low:.2f}", "high": f"{high:.2f}"}
        return note("outlier-no-majority", runs=len(tried), **ends)
    parts: list[Note] = []
    for some in clusters:
        low, high = (rates[one.run.run_id] for one in (some[0], some[-1]))
        logs = few(sorted(_log_of(one) for one in some), MOST_LOGS)
        ends = {"low": f"{low:.2f}", "high": f"{high:.2f}"}
        parts.append(note("outlier-cluster", number=len(some), logs=logs, **ends))
    return note("outlier-clusters", clusters=tuple(parts))


def _log_of(candidate: Candidate) -> str:
    """Name a run's first log, else the run."""
    files = candidate.measurement.files
    return files[0].rpartition("/")[2] if files else candidate.run.run_id


def agreeing(rates: Iterable[float]) -> list[float]:
    """Return the rates that agree, ascending; empty if unclear.

    The most rates of which no two differ by more than the limit; of several such choices, the
    narrowest. They must be a clear majority, and the others farther from them than they are from
    each other: a choice out of one broad distribution would show a spread that it does not have.
    Of few rates only one that is plainly apart is left out.
    """
    every = sorted(rates)
    if len(every) < FEW and every and every[-1] > every[0] * OUTLIER_LIMIT:
        return _all_but_one(every)
    choices = []
    for first, lowest in enumerate(every):
        end = bisect.bisect_right(every, lowest * OUTLIER_LIMIT)
        choices.append((end - first, -every[end - 1] / lowest, -first))
    if not choices:
        return []
    count, width, first = max(choices)
    begin = -first
    end = -first + count
    needed, of = MAJORITY
    gaps = [every[begin] / every[begin - 1]] if begin else []
    gaps += [every[end] / every[end - 1]] if end < len(every) else []
    is_clear = count * of >= needed * len(every) and all(gap > -width for gap in gaps)
    return every[begin:end] if is_clear else []


def _all_but_one(every: Sequence[float]) -> list[float]:
    for others, odd in ((every[1:], every[0]), (every[:-1], every[-1])):
        is_alike = len(others) > 1 and others[-1] <= others[0] * ALIKE
        if is_alike and abs(odd / statistics.median(others) - 1) > FAR:
            return list(others)
    return []
