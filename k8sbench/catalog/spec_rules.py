"""Rules of a catalog file that concern several fields.

For example a source that is not listed, two defaults for one framework, an unknown placeholder.
Each problem names the path of its key, so that the reader of the file can give the line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping

from k8sbench.catalog.spec import BenchmarkSpec, Variant
from k8sbench.model import notation
from k8sbench.model.errors import InputError
from k8sbench.model.log_format import LogFormat
from k8sbench.model.masking import masked
from k8sbench.model.pool import secret_problems
from k8sbench.model.program import PLACEHOLDERS, Upstream
from k8sbench.model.spec_values import Command

SAMPLES = {"images", "clips", "sequences"}
"""Units whose rate may be declared in samples."""
Problem = tuple[tuple[str | int, ...], str]
"""Path of the offending key, and one sentence."""


def find_problems(spec: BenchmarkSpec, families: Collection[str]) -> Iterator[Problem]:
    """Yield the problems of a benchmark; ``families`` are the known ones."""
    if spec.default_framework not in {v.framework for v in spec.variants}:
        yield ("default_framework",), f"is {spec.default_framework}, but no variant runs on it"
    for index, reference in enumerate(spec.references):
        for path, text in _source_problems(spec, reference.source):
            yield ("references", index, *path), text
    names_seen: set[tuple[str, str]] = set()
    for index, variant in enumerate(spec.variants):
        at = ("variants", index)
        if (variant.framework, variant.name) in names_seen:
            yield (*at, "name"), f"says {variant.name} a second time for {variant.framework}"
        names_seen.add((variant.framework, variant.name))
        yield from ((at + path, text) for path, text in _variant_problems(spec, variant, families))
    for framework in spec.frameworks:
        defaults = [variant.default for variant in spec.variants_of(framework)]
        if len(defaults) > 1 and sum(defaults) != 1:
            yield ("variants",), f"needs default: true on exactly one variant for {framework}"


def _variant_problems(
    spec: BenchmarkSpec, variant: Variant, families: Collection[str]
) -> Iterator[Problem]:
    if variant.trainer and variant.command:
        yield ("command",), "stands beside trainer; a variant runs one program"
    if variant.trainer is None and not variant.command and variant.upstream is None:
        yield (), "has no program: give trainer, command or upstream"
    train, target = variant.train, spec.target_accuracy
    if train is not None and target is not None and target.metric != train.metric:
        text = f"is {train.metric!r}, but target_accuracy is of {target.metric!r}"
        yield ("train", "metric"), text
    if isinstance(variant.log, str) and variant.log not in families:
        yield ("log",), f"is {variant.log!r}; known families: {', '.join(families)}"
    if not isinstance(variant.log, LogFormat):
        empty = (name for name, size in variant.batch_size.items() if size is None)
        text = "is null; give a number: only the batch of a declared format may vary"
        yield from ((("batch_size", name), text) for name in empty)
    if isinstance(variant.log, LogFormat):
        yield from ((("log", *path), text) for path, text in _format_problems(variant.log))
        unit = notation.parse_unit(variant.log.unit)
        nouns = {spec.unit, "steps", *(("samples",) if spec.unit in SAMPLES else ())}
        if unit is None or unit.noun not in nouns:
            text = (
                f"is {variant.log.unit!r}, but the benchmark counts {spec.unit} per second; give "
                f"{spec.unit}/s, or steps/s or s/step, which the batch converts, or "
                f"s/{spec.unit.removesuffix('s')}; the group of a "
                "time is step_seconds, of numbers in seconds (ms/step: in milliseconds)"
            )
            yield ("log", "unit"), text
        if variant.log.sequence_length and spec.unit != "tokens":
            text = f"is for a benchmark that counts tokens, not {spec.unit}"
            yield ("log", "sequence_length"), text
    yield from _figure_problems(spec, variant)
    yield from _command_problems(("command",), variant.command, PLACEHOLDERS)
    yield from ((("env", *path), text) for path, text in secret_problems(variant.env))
    if variant.upstream is not None:
        yield from ((("upstream", *path), t) for path, t in _upstream_problems(variant.upstream))


def _source_problems(spec: BenchmarkSpec, source: str) -> Iterator[Problem]:
    if source not in spec.sources:
        sources = ", ".join(spec.sources) or "none"
        yield ("source",), f"is {source!r}, not among the file's sources ({sources})"


def _figure_problems(spec: BenchmarkSpec, variant: Variant) -> Iterator[Problem]:
    for index, figure in enumerate(variant.published):
        at = ("published", index)
        yield from (((*at, *path), text) for path, text in _source_problems(spec, figure.source))
        if figure.throughput is None and figure.note is None:
            yield at, "has neither throughput nor a note that says why"


def _upstream_problems(upstream: Upstream) -> Iterator[Problem]:
    placeholders = {*PLACEHOLDERS, *upstream.numbers}
    for field in ("command", "command_one_gpu", "added"):
        for key, words in getattr(upstream, field).items():
            if not words and field != "added":
                yield (field, key), "is empty"
            yield from _command_problems((field, key), words, placeholders)
    yield from ((("env", *path), text) for path, text in secret_problems(upstream.env))
    for name, value in upstream.env.items():
        for path, text in _command_problems(("env", name), (value,), placeholders):
            yield path[:-1], text


def _command_problems(
    path: tuple[str | int, ...], words: Command, placeholders: Mapping[str, str] | set[str]
) -> Iterator[Problem]:
    for index, word in enumerate(words):
        for name in re.findall(r"\{(\w*)\}", word):
            if name not in placeholders:
                yield (*path, index), f"holds {{{name}}}; known: {', '.join(sorted(placeholders))}"
    if masked(line := shlex.join(words)) != line:
        yield path, "holds what looks like a credential: have the program read a variable of env"


RECORD_GROUPS = (
    *("iteration", "total", "epoch", "rate", "step_seconds", "elapsed", "added_seconds"),
    *("data_seconds", "steps", "step_samples", "all_samples", "loss", "stamp"),
)
SUMMARY_GROUPS = ("rate", "step_seconds", "loss")
FACT_GROUPS = (
    *("gpus", "gpus_per_node", "replicas", "batch_size", "global_batch", "tokens_per_step"),
    *("sequence_length", "precision", "gpu_model"),
)


def _format_problems(log: LogFormat) -> Iterator[Problem]:
    if not (log.record or log.fields or log.summary):
        yield (), "needs record (or fields), summary or both"
    yield from _place_problems(log)
    if (log.averaged == "last") != (log.last is not None):
        yield ("last",), "goes with averaged: last, which needs it"
    has_rate = "rate" in log.fields or "<rate>" in f"{log.record}{log.summary}"
    if log.counts_steps and not has_rate:
        yield ("unit",), f"is {log.unit!r}, a rate, but no pattern has a group named rate"
    if log.is_time and has_rate:
        yield ("unit",), f"is {log.unit!r}, a time; name its group step_seconds, not rate"
    if log.is_time and "/" not in log.unit and "elapsed" not in f"{log.fields}{log.record}":
        text = f"is {log.unit!r}, a unit of elapsed; give {log.unit}/step or {log.unit}/sample"
        yield ("unit",), text
    for path, pattern, allowed in _patterns_with_groups(log):
        if pattern is not None:
            groups, faults = _named_groups(pattern, allowed)
            missing = () if groups is None else _missing_groups(log, groups, allowed)
            yield from ((path, fault) for fault in (*faults, *missing))


def _place_problems(log: LogFormat) -> Iterator[Problem]:
    """Yield fields that name no group of ``record``, or no path."""
    if log.record is None:
        for name, path in log.fields.items():
            if isinstance(path, int):
                yield ("fields", name), f"is {path}, not a path; record has numbered groups"
        return
    if not log.fields:
        return
    try:
        groups = notation.count_groups(log.record)
    except InputError as error:
        yield ("record",), f"is not a regular expression: {error}"
        return
    if "(?P<" in log.record:
        yield ("fields",), "stands beside named groups of record; name each value in one place"
    for name, number in log.fields.items():
        if number not in range(1, groups + 1):
            yield ("fields", name), f"is {number!r}; record has the groups 1 to {groups}"


def _patterns_with_groups(
    log: LogFormat,
) -> Iterator[tuple[tuple[str | int, ...], str | Collection[str] | None, Collection[str]]]:
    """Yield each expression's path, itself, and the groups that it may name."""
    yield ("record",), None if log.fields else log.record, RECORD_GROUPS
    yield ("fields",), log.fields or None, RECORD_GROUPS
    yield ("summary",), log.summary, SUMMARY_GROUPS
    yield ("evaluation",), log.evaluation, ("metric", "value")
    yield ("checkpoint",), log.checkpoint, ()
    for index, fact in enumerate(log.facts):
        yield ("facts", index), fact, FACT_GROUPS


def _missing_groups(
    log: LogFormat, groups: Collection[str], allowed: Collection[str]
) -> Iterator[str]:
    """Yield the groups that an expression needs and does not name."""
    if allowed == RECORD_GROUPS and "iteration" not in groups:
        yield "has no group named iteration: (?P<iteration>\\d+)"
    if (
        allowed == RECORD_GROUPS
        and "stamp" in groups
        and log.stamp_format is None
        and (log.record or not log.fields)
    ):
        yield "has a group named stamp; give its stamp_format"
    times = ("rate", "step_seconds", *(("elapsed",) if allowed == RECORD_GROUPS else ()))
    if "rate" in allowed and not {*times} & {*groups}:
        yield f"has no group named {' or '.join(times)}"
    if allowed == RECORD_GROUPS:
        yield from _conflicting_groups(log, {*groups})
    if "value" in {*groups} & {*allowed} and not (log.metric or "metric" in groups):
        yield "has no group named metric; give the metric of its value"
    if allowed == FACT_GROUPS and not groups:
        yield f"has no named group; known: {', '.join(FACT_GROUPS)}"


def _conflicting_groups(log: LogFormat, groups: Collection[str]) -> Iterator[str]:
    """Yield groups of a training line that exclude each other, or have no effect."""
    totals = {"elapsed", "all_samples"} & {*groups}
    if "elapsed" in groups and {"rate", "step_seconds"} & {*groups}:
        yield "has a group named elapsed beside a rate or step_seconds; one tells the time"
    if "elapsed" in groups and log.times_samples:
        yield f"has a group named elapsed, whose unit is no {log.unit}; declare s or ms"
    if "elapsed" in groups and log.averaged != "interval":
        yield f"has a group named elapsed, which is not averaged: {log.averaged}"
    if log.iteration_counts == "samples" and totals:
        yield f"has a group named {min(totals)}, which is no total of steps (iteration_counts)"
    for name in ("added_seconds", "steps"):
        if name in groups and "step_seconds" not in groups:
            yield f"has a group named {name}, which goes with step_seconds"


def _named_groups(
    pattern: str | Collection[str], allowed: Collection[str]
) -> tuple[set[str] | None, list[str]]:
    """Return an expression's named groups (None if invalid) and the problems."""
    try:
        names = (
            notation.compile_expression(pattern).groupindex if isinstance(pattern, str) else pattern
        )
    except InputError as error:
        return None, [f"is not a regular expression: {error}"]
    unknown = sorted({*names} - {*allowed})
    what = ", ".join(allowed) or "none"
    return {*names}, [f"has a group named {name}; known: {what}" for name in unknown]
