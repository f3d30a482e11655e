"""Statements of a log on its run, and input of the checks.

Batch, precision, data, start weights, program, environment and time to train.
"""

from __future__ import annotations

import math

import msgspec

from k8sbench.catalog.published import Accuracy
from k8sbench.messages import note
from k8sbench.model.measurement import (
    OWN_TIME_TO_TRAIN,
    AccuracyResult,
    Arithmetic,
    DataSet,
    Throughput,
    Weights,
    arithmetic_digest,
)
from k8sbench.model.missing import Missing
from k8sbench.model.plan import per_step
from k8sbench.model.sample import Place
from k8sbench.reader.family import (
    BATCH_DOUBT,
    BEGUN_AT,
    STEPS_DOUBT,
    TIME_DOUBT,
    TIME_PROVED,
    UNENDED,
    stamp_seconds,
)
from k8sbench.reader.measuring import log_units, warmup
from k8sbench.reader.measuring.estimates import Estimates
from k8sbench.reader.measuring.evaluations import Evaluated, reaching
from k8sbench.reader.measuring.log_facts import LogFacts
from k8sbench.reader.measuring.rank_records import RankRecords

_TYPES = "arithmetic.types."
_FIELDS = ("arithmetic.", "data.", "weights.")
"""Beginnings of facts that are a field of their own."""
_NOT_ENVIRONMENT = frozenset(
    {
        "amp_dtype",
        "batch_size",
        "benchmark",
        "data",
        "device",
        "framework",
        "gpu_ids",
        "gpus",
        "gpus_by_environment",
        "impl",
        "iterations",
        "log_interval",
        "parameters",
        "planned_iterations",
        "precision",
        "precision_assumed",
        "precision_effective",
        "unit",
        "warmup",
        "broken_samples",
        "ended_by",
        "mode",
        BATCH_DOUBT,
        BEGUN_AT,
        STEPS_DOUBT,
        TIME_DOUBT,
        TIME_PROVED,
        UNENDED,
    }
)
"""Facts with a field of their own, or of no use to readers."""


def batch(log: LogFacts) -> float | None:
    """Return the batch per GPU.

    From the log, else the user or plan, else the catalog's of the benchmark that they name.
    """
    if log.expected.varies:
        return None
    # Where the catalog has one batch for all precisions, it does not matter which ran.
    return printed_batch(log) or log.expected.batch_at(precision(log))


def precision(log: LogFacts) -> str | None:
    """Return the logged precision, else the requested one, else the default."""
    logged = log.facts.first("precision") or log.facts.first("precision_assumed")
    return logged or log.expected.precision or log.facts.first("precision_default")


def sources(log: LogFacts, gpus: int) -> dict[str, str]:
    """Return in words where facts of a log come from; those that it does not state are absent."""
    by_log, by_format = "the log", f"the log's format, {log.family.name}"
    source_of = {
        "precision": by_log if _states(log, "precision", "precision_assumed") else None,
        "batch_size": by_log if printed_batch(log) or shares_samples(log, gpus) else None,
        "gpu_model": by_log if _states(log, "gpu_model") else None,
        "framework": by_format if log.family.framework else None,
    }
    if _states(log, "framework"):
        source_of["framework"] = by_log
    if source_of["precision"] is None and log.expected.precision is None:
        source_of["precision"] = "the program's default"
    if source_of["batch_size"] is None and log.expected.batch_size is None:
        source_of["batch_size"] = by_log if per_gpu(log, gpus) else "the benchmark's file"
    return {name: source for name, source in source_of.items() if source is not None}


def _states(log: LogFacts, *names: str) -> bool:
    return any(log.facts.first(name) is not None for name in names)


def amp_dtype(log: LogFacts) -> str | None:
    """The half type of AMP; None without AMP, and where nothing states it."""
    if precision(log) != "amp":
        return None
    return log.facts.first("amp_dtype") or log.expected.amp_dtype


def arithmetic(log: LogFacts) -> Arithmetic | Missing:
    """Return the operations' types; only our trainers state them."""
    types = {
        name.removeprefix(_TYPES): next(iter(values))
        for name, values in sorted(log.facts.items())
        if name.startswith(_TYPES)
    }
    digest = log.facts.first("arithmetic.digest")
    by = log.facts.first("arithmetic.by")
    if not types:
        return Missing(note("no-arithmetic"))
    if digest != arithmetic_digest(types) or by not in {"seen", "derived"}:
        return Missing(note("no-arithmetic-digest"))
    return Arithmetic(types=types, digest=digest, by="seen" if by == "seen" else "derived")


def data_set(log: LogFacts) -> DataSet | None:
    """The files that our trainers say they read."""
    name = log.facts.first("data.name")
    if name is None:
        return None
    train = log.facts.whole("data.train")
    val = log.facts.whole("data.val")
    return DataSet(name=name, digest=log.facts.first("data.digest"), train=train, val=val)


def weights(log: LogFacts) -> Weights | Missing:
    """The file of start weights that our trainers state."""
    file = log.facts.first("weights.file")
    if file is None and log.trains:
        return Missing(note("no-weights-scratch"))
    if file is None:
        return Missing(note("no-weights"))
    return Weights(file=file, digest=log.facts.first("weights.digest"))


def impl(log: LogFacts) -> str:
    """Return the program's origin, by the log or the plan."""
    stated = log.facts.first("impl") or log.expected.impl
    if stated is not None:
        return stated
    if log.expected.declared is not None:
        return "user"
    return "upstream" if "program" in log.facts else "unknown"


def environment(
    log: LogFacts, accuracy: AccuracyResult | None
) -> dict[str, str | int | float | bool | None]:
    """Return further facts for readers.

    ``accuracy`` is the metric with a field of its own.
    """
    facts: dict[str, str | int | float | bool | None] = {
        name: log.facts.first(name)
        for name in sorted(log.facts)
        if name not in _NOT_ENVIRONMENT and not name.startswith(_FIELDS)
    }
    total = stated_samples(log)
    total = certain_samples(log) if total is None else total
    if total is not None:
        facts.setdefault("global_batch", int(total) if total == int(total) else total)
    if log.rank is not None:
        words = log.rank.tally.words
        means = {"mfu_by_program": words.mean("mfu"), "tflops_by_program": words.mean("tflops")}
        facts |= {name: round(value, 3) for name, value in means.items() if value is not None}
    planned = planned_iterations(log)
    if planned is not None:
        facts["planned_iterations"] = planned
    if log.airank.md5 is not None:
        facts["data_md5"] = log.airank.md5
    if log.airank.samples is not None:
        facts["data_samples"] = log.airank.samples[0]
    if log.airank.own_time is not None and not log.family.states_training:
        facts[OWN_TIME_TO_TRAIN] = log.airank.own_time
    for evaluations in log.evaluations.values():
        # The accuracy field holds one metric on one data set; the others are not lost.
        if accuracy is not None and evaluations.metric != accuracy.metric:
            facts[f"{evaluations.metric} (final)"] = evaluations.final
    return facts


def begun_at(log: LogFacts) -> float | None:
    """Return when the run began, where the log states it apart from its training lines."""
    stated = log.facts.first(BEGUN_AT)
    return None if stated is None else stamp_seconds(stated)


def printed_batch(log: LogFacts) -> int | None:
    """Return the logged batch per GPU, else rate × seconds."""
    logged = log.facts.whole("batch_size")
    return product(log) if logged is None else logged


def product(log: LogFacts) -> int | None:
    """Return a card's batch by rate × seconds; None if not whole, or of tokens alone."""
    rank = log.rank
    counted = rank.sums.batch if rank is not None else None
    conversion = log_units.conversion(log)
    if rank is None or counted is None or not rank.shape.is_per_card or conversion is None:
        return None
    if log_units.lacks_length(log):
        return None
    samples = counted * conversion / (log_units.sequence_length(log) or 1)
    whole = round(samples)
    return whole if whole >= 1 and abs(samples - whole) <= 0.02 * samples + 0.01 else None


def planned_iterations(log: LogFacts) -> int | None:
    """Iterations that were planned for the run, as far as the log states them."""
    rank = log.rank
    total, by_epoch = (rank.total, rank.epochs.restart) if rank else (None, False)
    return warmup.planned_iterations(log.facts, total, by_epoch=by_epoch)


# -- samples of a step ----------------------------------------------------------------------------
#
# A log states the samples of a step of the whole job; or AI-Rank's size of the data set and the
# steps of an epoch tell. Either gives GPUs × batch, whatever else the log lacks. The last step of
# an epoch may be smaller or left out, and the ranks' shares are rounded up, so an epoch may have
# one step more or less than the quotient.


def possible_samples(log: LogFacts, unit: float = 1) -> range | None:
    """Return the range of samples per job step ÷ ``unit``; None if unknown."""
    rank, data_set = log.rank, log.airank.samples
    if rank is None or data_set is None or not rank.epochs.restart:
        return None
    samples = data_set[0]
    steps = rank.total or 0
    if steps < 2:
        return None
    return range(math.ceil(samples / (steps + 1) / unit), int(samples // (steps - 1) // unit) + 1)


def stated_samples(log: LogFacts) -> float | None:
    """Return a step's samples as the log states them, also in tokens."""
    tokens = log.facts.whole("tokens_per_step")
    length = log_units.stated_length(log)
    if log.facts.whole("global_batch") is not None:
        return log.facts.whole("global_batch")
    if tokens is not None and (length or log.expected.declared is not None):
        return tokens / (log_units.sequence_length(log) or 1)
    amount = log_units.step_of_lines(log)
    if log.rank is None or amount is None or log.rank.tally.steps.vary:
        return None
    if log_units.unit(log).startswith("tokens"):
        return amount / length if length else None
    return amount


def job_batch(log: LogFacts, batch: float | None, cards: int) -> float | None:
    """Return what a step of the job adds, in the throughput's unit; None if unknown.

    What the log states of the job goes before ``batch`` per GPU, by which nobody can tell the
    accumulation and the parallelism.
    """
    if log.expected.varies:
        return log_units.step_of_lines(log)
    unit = log_units.unit(log)
    tokens = log.facts.whole("tokens_per_step") if unit.startswith("tokens") else None
    stated = log_units.step_of_lines(log) or tokens
    if stated is not None:
        return stated
    samples = None if batch is None else per_step(unit, batch, cards)
    samples = log.facts.whole("global_batch") or samples
    if samples is not None and log.rank is not None and log.rank.shape.counts_micro_batches:
        accumulation = log.facts.whole("accumulation")
        samples = samples / accumulation if accumulation else None
    if samples is None or log_units.lacks_length(log):
        return None
    return samples * (log_units.sequence_length(log) or 1)


def certain_samples(log: LogFacts, unit: float = 1) -> int | None:
    """The same, where there is only one such number, and it is whole."""
    stated = stated_samples(log)
    if stated is not None:
        return None if stated % unit else int(stated // unit)
    samples = possible_samples(log, unit)
    return samples[0] if samples and len(samples) == 1 and samples[0] else None


def shares_samples(log: LogFacts, gpus: int) -> bool:
    """True if the log states the batch of the job, and that of one GPU cannot be told.

    Several GPUs share a sample with tensor, pipeline or context parallelism.
    """
    total = stated_samples(log)
    if total is None or printed_batch(log) is not None:
        return False
    if log.expected.declared is not None:
        return total % gpus > 0
    return log.family.shares_samples


def per_gpu(log: LogFacts, gpus: int) -> float | None:
    """Return the samples of a step per GPU; a fraction where several GPUs share one."""
    stated = stated_samples(log)
    if stated is None:
        return certain_samples(log, gpus)
    each = stated / gpus
    return int(each) if each == int(each) else each


# -- the case -------------------------------------------------------------------------------------


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One run's logs, and what follows from them and from what was expected."""

    log: LogFacts
    rank: RankRecords | None
    gpus: int
    batch: float | None
    """Samples per step and GPU; a fraction where several GPUs share one."""
    job_batch: float | None
    """Amount per job step in the throughput's unit; None if unknown."""
    precision: str | None
    seconds_per_unit: float | None
    """Seconds per unit of the rank's times; None if unknown.

    1, or samples per iteration of the printed scope.
    """
    estimates: Estimates | Missing
    goal: TimeToTrain

    @property
    def throughput(self) -> Throughput | None:
        """The throughput by each estimator; None if no estimator has a figure."""
        return None if isinstance(self.estimates, Missing) else self.estimates.throughput

    @property
    def ended_at_target(self) -> bool:
        """True if the run ended at its target.

        Where the log does not state it, no evaluation and no training line follows the evaluation
        that reached the target.
        """
        reached, log = self.goal.reached, self.log
        if reached is None or log.family.states_training:
            return reached is not None and log.facts.first("ended_by") == "target"
        last = None if self.rank is None else self.rank.tally.last
        follows = last is not None and _order(log, last.place) > _order(log, reached.place)
        return reached.place == log.airank.evaluations[-1].place and not follows

    @property
    def ended_by(self) -> str | None:
        """``target`` or ``length``; None if not stated."""
        return "target" if self.ended_at_target else self.log.facts.first("ended_by")

    @property
    def smoke(self) -> bool:
        """True for functional tests with a small model."""
        return self.log.expected.smoke or self.log.facts.first("preset") == "smoke"


def _order(log: LogFacts, place: Place) -> tuple[int, int]:
    """Return the order of lines in the files of a log."""
    return log.files.index(place.file), place.line


# -- time to train --------------------------------------------------------------------------------
#
# From AI-Rank's ``test_begin`` to the evaluation at the target. Of our own trainers' logs the
# evaluations are their events, over all attempts; of other programs' logs AI-Rank's lines. Never
# with synthetic data, whatever lines a log holds.


class TimeToTrain(msgspec.Struct, frozen=True, kw_only=True):
    """The time, or why there is none, and what it is of."""

    seconds: float | Missing
    target: Accuracy | None
    reached: Evaluated | None
    """The first evaluation at the target, in percent."""
    best: Evaluated | None
    """The best evaluation of our own trainers, in percent."""


def time_to_train(log: LogFacts) -> TimeToTrain:
    """Return the time to train, or why there is none."""
    target = log.expected.target
    evaluations = log.airank.percent()
    own = list(log.training.evaluations.values())
    if log.family.states_training:
        evaluations = own
        if target is None and log.training.target is not None:
            target = Accuracy(metric=log.training.metric or "", value=log.training.target)
    other = _not_comparable(log, target)
    reached = None if other else reaching(evaluations, target)
    seconds = other or log.airank.time_to_train(target, reached)
    if other is None and isinstance(seconds, Missing):
        if log.family.states_training and target is None:
            seconds = Missing(note("no-time-to-train-no-target"))
        elif reached is None and any(not evaluated.is_whole for evaluated in evaluations):
            seconds = Missing(note("no-time-to-train-lacks-samples", why=seconds.reason))
    return TimeToTrain(
        seconds=seconds,
        target=target,
        reached=reached,
        best=max(own, key=lambda evaluated: evaluated.value, default=None),
    )


def _not_comparable(log: LogFacts, target: Accuracy | None) -> Missing | None:
    """Return why a run that states its training cannot reach a target; else None."""
    if not log.family.states_training:
        return None
    if (log.facts.first("data") or "").startswith("synthetic"):
        return Missing(note("no-time-to-train-synthetic"))
    metric = log.training.metric
    if target is not None and metric is not None and metric != target.metric:
        return Missing(note("no-time-to-train-other-metric", metric=metric, target=target.metric))
    return None


def accuracy(log: LogFacts) -> AccuracyResult | None:
    """Return the program's own evaluations, with those that only AI-Rank's lines have."""
    if log.family.states_training:
        return log.accuracy or log.airank.accuracy
    return log.airank.completed(log.accuracy)


def at_target(result: AccuracyResult | None, goal: TimeToTrain) -> AccuracyResult | None:
    """The accuracy with that of the evaluation at the target, in its own unit."""
    if result is None or goal.reached is None or result.unit not in {"%", "fraction"}:
        return result
    value = goal.reached.value / (100 if result.unit == "fraction" else 1)
    return msgspec.structs.replace(result, at_target=round(value, 9))
