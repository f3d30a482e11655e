"""Figures of a group, from its counted and its measured runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from k8sbench import messages
from k8sbench.messages import Arg, Note, note
from k8sbench.model import verdict
from k8sbench.model.arithmetic import SAME_MODEL
from k8sbench.model.facts import Facts
from k8sbench.model.gpu_metrics import ROW_FIGURES
from k8sbench.model.group import (
    IMPORTED,
    MOST_NODES,
    NOTHING_STATES_GPUS,
    SCRATCH,
    Spread,
    TrainingOfGroup,
    gpu_figure,
)
from k8sbench.model.measurement import (
    ESTIMATORS,
    OWN_TIME_TO_TRAIN,
    AccuracyResult,
    Arithmetic,
)
from k8sbench.model.phase import Phase
from k8sbench.results.groups import t_test
from k8sbench.results.groups.rejections import Candidate, reported

_GPU_HELD = frozenset({Phase.PULLING, Phase.STARTING, Phase.RUNNING})
"""A replica has its GPUs from the moment its pod is on a node."""


def model_size(
    facts: Facts, measured: Sequence[Candidate], missing: dict[str, Note]
) -> tuple[int | None, float | None]:
    """Parameters and GMAC; the catalog's GMAC only for the catalog's model."""
    counts = {c.measurement.parameters for c in measured if c.measurement.parameters is not None}
    known = facts.fingerprint
    parameters = max(counts) if counts else known.parameters if known else None
    if len(counts) > 1:
        missing["parameters"] = note("parameters-differ")
        parameters = None
    elif parameters is None:
        missing["parameters"] = note("parameters-unknown")
    if known is None:
        missing["gmac"] = note("no-fingerprint" + "-observed" * (facts.job is not None))
    elif any(abs(n - known.parameters) > SAME_MODEL * known.parameters for n in counts):
        missing["gmac"] = note(
            "parameters-unlike", runs=f"{max(counts):,}", catalog=f"{known.parameters:,}"
        )
    else:
        return parameters, known.at(facts.sequence_length).gmac
    return parameters, None


def arithmetic(measured: Sequence[Candidate], missing: dict[str, Note]) -> Arithmetic | None:
    """Return the operations' types if all runs state the same."""
    arithmetics = [c.measurement.arithmetic for c in measured]
    if arithmetics and all(other == arithmetics[0] for other in arithmetics) and arithmetics[0]:
        return arithmetics[0]
    is_stated = any(arithmetics)
    missing["arithmetic"] = note(
        "arithmetic-differs-in-runs" if is_stated else "arithmetic-not-stated"
    )
    return None


def nodes(measured: Sequence[Candidate]) -> tuple[str, ...]:
    """Return the nodes of the runs, unless there are too many to name."""
    names = sorted({name for c in measured for name in c.run.nodes})
    return tuple(names) if len(names) <= MOST_NODES else ()


def stated_fact(measured: Sequence[Candidate], name: str) -> str | None:
    """Return a value of the logs' environment if all runs state the same."""
    values = {reported(c.measurement.environment, name) for c in measured}
    return values.pop() if len(values) == 1 else None


def layout(measured: Sequence[Candidate]) -> str | None:
    """Return the memory layout if all runs report the same."""
    layouts = {reported(c.measurement.environment, "option.channels_last") for c in measured}
    return {"True": "NHWC", "False": "NCHW"}.get(str(layouts.pop())) if len(layouts) == 1 else None


def by_estimator(counted: Sequence[Candidate]) -> dict[str, float]:
    """Median by each estimator that all of the runs have."""
    return {
        name: statistics.median(c.rates[name] for c in counted)
        for name in ESTIMATORS
        if counted and all(name in c.rates for c in counted)
    }


def tokens_per_sample(counted: Sequence[Candidate], missing: dict[str, Note]) -> int | None:
    """Return the tokens of a sample if all runs state the same."""
    stated = {_tokens_of_run(candidate) for candidate in counted}
    if len(stated) == 1 and (tokens := stated.pop()) is not None:
        return tokens
    missing["tokens_per_sample"] = note("tokens-differ" if stated else "tokens-not-stated")
    return None


def _tokens_of_run(candidate: Candidate) -> int | None:
    """Return the tokens of a run's sample by its two rates; None if it states no tokens."""
    if unit(candidate).startswith("tokens"):
        return 1
    measured = candidate.measurement
    rate = candidate.rates.get(measured.estimator)
    if rate is None or measured.tokens_per_second is None:
        return None
    return round(measured.tokens_per_second / rate)


def unit(candidate: Candidate) -> str:
    """The unit of its rates: as its log states it, else its plan."""
    measurement = candidate.run.measurement
    figures = measurement and (measurement.throughput or measurement.unverified)
    return figures.unit if figures else candidate.run.facts.rate_unit


def accuracy(
    counted: Sequence[Candidate], measured: Sequence[Candidate], missing: dict[str, Note]
) -> AccuracyResult | None:
    """Return the middle run's best evaluation; of two, the worse."""
    accuracies = [c.measurement.accuracy for c in counted if c.measurement.accuracy is not None]
    if not accuracies:
        missing["accuracy"] = _no_accuracy(measured)
        return None
    accuracies.sort(key=lambda a: (a.best, a.final, a.metric))
    return accuracies[(len(accuracies) - 1) // 2]


def _no_accuracy(measured: Sequence[Candidate]) -> Note:
    """Return why no run that counts has an accuracy."""
    if any(c.measurement.accuracy is not None for c in measured):
        return note("no-valid-figure")
    whys = {c.measurement.missing.get("accuracy") for c in measured}
    if whys - {None, messages.text("en", verdict.NO_EVALUATION)}:
        return note("no-evaluation-read")
    return note("no-evaluation")


def time_to_train(
    counted: Sequence[Candidate], measured: Sequence[Candidate], missing: dict[str, Note]
) -> tuple[float | None, int | None]:
    """Return the median seconds to the target, and the runs that reached it.

    None without trainings. The median is over all runs: a run that did not reach the target needs
    longer than any that did. A median over the others alone would improve as more runs fail.
    """
    times = [c.measurement.time_to_train_s for c in counted]
    timed = sum(seconds is not None for seconds in times)
    if not timed and not any(c.measurement.accuracy for c in counted):
        missing["time_to_train_s"] = missing["runs_at_target"] = _no_accuracy(measured)
        return None, None
    reached = sum(c.measurement.is_at_target for c in counted)
    if timed * 2 <= len(times):
        missing["time_to_train_s"] = _no_time(counted, timed, reached)
        return None, reached
    return statistics.median(math.inf if s is None else s for s in times), reached


def _no_time(counted: Sequence[Candidate], timed: int, reached: int) -> Note:
    """Tell why most runs have no time to train."""
    if {c.measurement.target for c in counted} == {None}:
        return note("no-target-accuracy")
    if not reached:
        return _no_target(counted)
    runs: dict[str, Arg] = {"reached": reached, "runs": len(counted)}
    if timed == reached:
        return note("reached-no-majority", **runs)
    of_runs = (c.measurement for c in counted if c.measurement.is_at_target)
    why = dict.fromkeys(measured.why("time_to_train_s") for measured in of_runs)
    runs["why"] = tuple(one for one in why if one is not None)
    if not timed:
        return note("reached-at-unknown-time", **runs)
    return note("reached-some-timed", timed=timed, **runs)


def _no_target(counted: Sequence[Candidate]) -> Note:
    """Tell the target that no run reached, and which times the logs themselves state."""
    targets = sorted({c.measurement.target for c in counted if c.measurement.target is not None})
    whose = "catalog" if counted[0].run.planned is None else "own"
    said = note(f"no-run-reached-{whose}", targets=" / ".join(f"{target:g}" for target in targets))
    stated = {reported(c.measurement.environment, OWN_TIME_TO_TRAIN): None for c in counted}
    times = [f"{time} s" for time in stated if time is not None]
    if not times:
        return said
    return note("log-reports-times", said=said, logs=len(counted), times=tuple(times))


def training(counted: Sequence[Candidate]) -> TrainingOfGroup | None:
    """Return the common values of runs that train to an accuracy."""
    trained = [c.measurement for c in counted if c.trains]
    if not trained:
        return None
    targets = {measurement.target for measurement in trained}
    return TrainingOfGroup(
        target=targets.pop() if len(targets) == 1 else None,
        restarts=sum(measurement.restarts for measurement in trained),
        data_set=joined(
            measurement.data_set.name for measurement in trained if measurement.data_set is not None
        ),
        weights=joined(
            measurement.weights.file if measurement.weights is not None else SCRATCH
            for measurement in trained
            if measurement.mode is not None
        ),
    )


def gpu_hours(candidates: Sequence[Candidate], missing: dict[str, Note]) -> float | None:
    """GPU-hours of all runs that ended, whether they count or not."""
    if any(c.run.facts.device == "cpu" for c in candidates):
        missing["gpu_hours"] = note("no-gpu-used")
        return None
    if any(c.run.facts.backend == "imported" for c in candidates):
        missing["gpu_hours"] = IMPORTED
        return None
    ended = [c.run for c in candidates if c.run.ended_at is not None]
    if not ended:
        missing["gpu_hours"] = note("no-run-ended")
        return None
    hours = 0.0
    for run in ended:
        gpus = run.facts.world_size
        if gpus is None:
            missing["gpu_hours"] = NOTHING_STATES_GPUS
            return None
        held = [t.at for t in run.history if t.phase in _GPU_HELD]
        if not held and run.phase is Phase.SUCCEEDED:
            missing["gpu_hours"] = note("start-unknown")
            return None
        if held and run.ended_at is not None:
            seconds = run.ended_at - min(held) - (run.queued_s(min(held)) or 0.0)
            # A clock that was set back must not make hours negative.
            hours += gpus * max(0.0, seconds) / 3600
    return hours


_UNKNOWN = {
    "queued_s": note("no-queue"),
    "data_fraction": note("data-wait-unknown"),
}
"""Field of a group → reason why no run has a value."""


def median_of(name: str, values: Iterable[float | None], missing: dict[str, Note]) -> float | None:
    """Return the median of the known values; ``name`` is the figure's."""
    known = [value for value in values if value is not None]
    if not known:
        missing[name] = _UNKNOWN[name]
    return statistics.median(known) if known else None


def gpu_metrics(counted: Sequence[Candidate], missing: dict[str, Note]) -> dict[str, float]:
    """The GPU metrics of a row, of the runs that have them."""
    figures: dict[str, float] = {}
    for name, metric in ROW_FIGURES.items():
        values = [value for c in counted if (value := gpu_figure(c.measurement, name)) is not None]
        if values:
            figures[name] = (max if metric.over_time == "peak" else statistics.median)(values)
        elif counted:
            measured = counted[0].measurement
            on_cpu = counted[0].run.facts.device == "cpu"
            otherwise = note("no-gpu-used" if on_cpu else "no-gpu-source")
            why = measured.why(f"gpu_metrics.{name}") or measured.why("gpu_metrics")
            missing[name] = why or otherwise
            if counted[0].run.facts.backend == "imported" and not on_cpu:
                missing[name] = IMPORTED
    return figures


def judgements(counted: Sequence[Candidate]) -> tuple[Note, ...]:
    """Return the limits that the runs' GPU metrics show."""
    metrics = (c.measurement.gpu_metrics for c in counted)
    found = (one.said for one in metrics if one)
    return tuple(dict.fromkeys(filter(None, found)))


def joined(values: Iterable[str | None]) -> str | None:
    """Join the distinct values that runs report; None without any."""
    return " + ".join(sorted({value for value in values if value})) or None


USE_REPEATS = note("more-repeats")
MORE = {
    "imported": note("more-imports"),
    "observed": note("more-observed"),
}
"""Backend → way to more runs of a case, of a program that k8sbench did not run."""


def spread(rates: Sequence[float], *, more: Note = USE_REPEATS) -> Spread:
    """Median, mean, extremes and interval of at least one rate.

    The interval is Student's, of the mean logarithm, and holds the median, too: of many skewed runs
    the median may be outside. ``more`` says how to get more runs.
    """
    logs = [math.log(rate) for rate in rates]
    median = statistics.median(rates)
    mean = statistics.fmean(rates)
    low = high = None
    if (estimate := t_test.pooled([logs])) is not None:
        half = estimate.times(1 / len(logs)).critical(t_test.ALPHA)
        middle = statistics.fmean(logs)
        low = min(median, math.exp(middle - half))
        high = max(median, math.exp(middle + half))
    return Spread(
        median=median,
        mean=mean,
        minimum=min(rates),
        maximum=max(rates),
        cv=statistics.stdev(rates) / mean if len(rates) > 1 else None,
        low=low,
        high=high,
        interval_reason=note("one-run-only", more=more) if low is None else None,
    )
