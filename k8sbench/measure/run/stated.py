"""What a log states of its run: batch, precision, data, start weights, program, environment."""

from __future__ import annotations

from k8sbench.measure.run import agreement, integrity
from k8sbench.measure.run import data_set as samples
from k8sbench.measure.run.log_facts import LogFacts
from k8sbench.model.measurement import (
    AccuracyResult,
    Arithmetic,
    DataSet,
    Weights,
    arithmetic_digest,
)
from k8sbench.parse.reading import OURS

_TYPES = "arithmetic.types."
_FIELDS = ("arithmetic.", "data.", "weights.")
"""Beginnings of facts that are a field of their own."""
_NOT_ENVIRONMENT = frozenset(
    {
        *("amp_dtype", "batch_size", "benchmark", "data"),
        *("device", "framework", "gpu_ids", "gpus", "gpus_by_environment", "impl"),
        *("iterations", "log_interval", "parameters", "planned_iterations", "precision"),
        *("precision_assumed", "precision_effective", "samples", "unit", "warmup"),
        *("broken_samples", "ended_by", "gpus_overruled", "mode"),
    }
)
"""Facts that have a field of their own, or are of no use to a reader."""


def batch(log: LogFacts) -> int | None:
    """Batch per GPU: as the log has it, else as the user or plan gives it, else the catalog's."""
    expected = log.expected
    given = agreement.printed_batch(log) or expected.batch_size
    if given is not None:
        return given
    # Where the catalog has one batch for all precisions, it does not matter which ran.
    sizes = expected.batch_sizes_of(precision(log))
    return sizes.pop() if len(sizes) == 1 else None


def precision(log: LogFacts) -> str | None:
    """What the log shows; what was asked only where it shows nothing."""
    return log.fact("precision") or log.fact("precision_assumed") or log.expected.precision


def amp_dtype(log: LogFacts) -> str | None:
    """The half type of AMP; None without AMP, and where nothing states it."""
    if precision(log) != "amp":
        return None
    return log.fact("amp_dtype") or log.expected.amp_dtype


def arithmetic(log: LogFacts, missing: dict[str, str]) -> Arithmetic | None:
    """What our trainers state; other programs do not."""
    types = {
        name.removeprefix(_TYPES): next(iter(values))
        for name, values in sorted(log.facts.items())
        if name.startswith(_TYPES)
    }
    digest, by = log.fact("arithmetic.digest"), log.fact("arithmetic.by")
    if not types:
        missing["arithmetic"] = "The log does not state which operations computed in which type."
    elif digest != arithmetic_digest(types) or by not in {"seen", "derived"}:
        missing["arithmetic"] = "What the log states of it does not match its digest."
    else:
        return Arithmetic(types=types, digest=digest, by="seen" if by == "seen" else "derived")
    return None


def data_set(log: LogFacts) -> DataSet | None:
    """The files that our trainers say they read."""
    name = log.fact("data.name")
    if name is None:
        return None
    train, val = log.whole("data.train"), log.whole("data.val")
    return DataSet(name=name, digest=log.fact("data.digest"), train=train, val=val)


def weights(log: LogFacts, missing: dict[str, str]) -> Weights | None:
    """The file of start weights that our trainers state."""
    file = log.fact("weights.file")
    if file is None:
        why = "The run trained from scratch." if log.trains else "The log names no start weights."
        missing["weights"] = why
        return None
    return Weights(file=file, digest=log.fact("weights.digest"))


def impl(log: LogFacts) -> str:
    """The program that wrote the log, as far as the log itself or the plan states it."""
    known = (log.fact("impl") if log.family is OURS else None) or log.expected.impl
    if known is not None:
        return known
    if not isinstance(log.expected.format, str):
        return "user"
    return "upstream" if "program" in log.facts else "unknown"


def environment(
    log: LogFacts, accuracy: AccuracyResult | None
) -> dict[str, str | int | float | bool | None]:
    """What else a reader may want to know; ``accuracy`` is the one that has a field of its own."""
    known: dict[str, str | int | float | bool | None] = {
        name: log.fact(name)
        for name in sorted(log.facts)
        if name not in _NOT_ENVIRONMENT and not name.startswith(_FIELDS)
    }
    total = samples.certain(log)
    if total is not None:
        known.setdefault("global_batch", total)
    planned = integrity.planned_iterations(log)
    if planned is not None:
        known["planned_iterations"] = planned
    for evaluations in log.evaluations.values():
        # The accuracy field holds one metric on one data set; the others are not lost.
        if accuracy is not None and evaluations.metric != accuracy.metric:
            known[f"{evaluations.metric} (final)"] = evaluations.final
    return known
