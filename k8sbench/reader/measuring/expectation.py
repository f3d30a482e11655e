"""Expected properties of a run, before its log is read.

A plan states everything; a catalog entry states windows, batches and models; the flags of
``k8sbench measure`` may state little. A log is compared with these values only: without a plan it
cannot differ from one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from k8sbench.catalog import plan_choices
from k8sbench.catalog.measure_options import AUTO, MeasureOptions, split_precision
from k8sbench.catalog.planning import LoadedSpec
from k8sbench.catalog.published import Accuracy
from k8sbench.catalog.spec import BenchmarkSpec, Variant
from k8sbench.model.errors import UsageError
from k8sbench.model.facts import planned_of
from k8sbench.model.fingerprint import Fingerprint
from k8sbench.model.log_format import FAMILY_NAMES, OWN_FORMAT, LogFormat, framework_in_results
from k8sbench.model.plan import RunPlan
from k8sbench.model.spec_values import Precision


class NamedValues(msgspec.Struct, frozen=True, kw_only=True):
    """Values of a log's name; None where it has none, or an option overrides it."""

    gpus: int | None = None
    """GPUs of the whole job."""
    nodes: int | None = None
    batch_size: int | None = None
    """Samples per GPU and step."""
    precision: str | None = None
    """``fp32`` or ``amp``."""
    amp_dtype: str | None = None


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """Expected properties of a run. None: unknown; the log decides."""

    format: str | LogFormat
    """A family's name or a declared format; our own trainers' logs are always understood."""
    declared_in: str | None = None
    """User's file that declares the format; None if built-in or planned."""
    impl: str | None = None
    """Origin of the program; None: as the log shows."""
    framework: str | None = None
    benchmark: str | None = None
    variant: str | None = None
    model: str | None = None
    """Architecture as text."""
    logged_models: tuple[str, ...] = ()
    """Substrings of the model's name in logs; empty: not compared."""
    parameters: int | None = None
    """Parameters of the full-size model."""
    fingerprint: Fingerprint | None = None
    """The model at full size, whose arithmetic no GPU does faster than its peak."""
    gpu_model: str | None = None
    """GPU model by the user or the node pool, if not logged."""
    gpus: int | None = None
    """GPUs (or CPU processes) of the whole job."""
    trainers: int | None = None
    """Ranks that must start; None unless all of a run's logs are given."""
    nodes: int | None = None
    """Nodes that the ranks must be spread over."""
    batch_size: int | float | None = None
    """Per GPU, as the user or the plan gives it."""
    batch_sizes: dict[Precision, int] = {}
    """Per GPU by precision, as the catalog has it."""
    has_no_batch: bool = False
    """True if the batch of a declared format is null: its steps differ."""
    precision: str | None = None
    amp_dtype: str | None = None
    device: str | None = None
    data: str | None = None
    warmup: int | None = None
    """Iterations left out. None: what our own log states, else the family's."""
    iterations: int | None = None
    """Iterations measured after them. None: all."""
    at_least: int | None = None
    """Iterations that must have been measured for the figure to count."""
    to_its_end: bool = False
    """Require all iterations that the log plans; for trainings counted in epochs."""
    window_by_catalog: bool = False
    """True for the catalog's general window; our own log's planned window wins."""
    unit: str | None = None
    metric: str | None = None
    """Metric of the benchmark's evaluations. None: the target's, else the log's first."""
    target: Accuracy | None = None
    """Accuracy up to which Time2Train counts."""
    smoke: bool = False
    """Functional test: do not check model size and AMP's effect."""
    by_user: bool = False
    """Values from a user, not from the run's plan.

    Properties that the log does not show cause a warning.
    """
    named: NamedValues = NamedValues()
    """Values of the log's name, which the log must not contradict."""
    if_stated: bool = False
    """Apply only to logs that state this model or benchmark."""
    accept: tuple[str, ...] = ()
    """Ids of reasons that are overruled."""

    @property
    def declared(self) -> LogFormat | None:
        """The declared format; None for a built-in family."""
        return None if isinstance(self.format, str) else self.format

    def batch_sizes_of(self, precision: str | None) -> set[int]:
        """Return the catalog's batches at a precision; all if it is None."""
        if precision is None:
            return set(self.batch_sizes.values())
        size = self.batch_sizes.get("amp" if precision == "amp" else "fp32")
        return set() if size is None else {size}

    def batch_at(self, precision: str | None) -> int | float | None:
        """Return the batch per GPU of logs that state none, by the user, the plan or the catalog.

        A benchmark that the user did not name gives none.
        """
        if self.batch_size is not None or self.if_stated:
            return self.batch_size
        sizes = self.batch_sizes_of(precision)
        return sizes.pop() if len(sizes) == 1 else None

    @property
    def knows_batch(self) -> bool:
        """True if a batch is given or in the catalog, by a benchmark that the user named."""
        return self.batch_size is not None or bool(self.batch_sizes and not self.if_stated)

    @property
    def varies(self) -> bool:
        """True if the steps differ by the benchmark's file, and no option or plan gives a batch."""
        return self.has_no_batch and not self.batch_size and not self.batch_sizes

    @property
    def planned(self) -> bool:
        """True if a benchmark is expected."""
        return self.benchmark is not None


def from_plan(plan: RunPlan, *, accept: tuple[str, ...] = ()) -> Expectation:
    """The expectation of a run's logs, from its plan."""
    fingerprint, training, target = plan.fingerprint, plan.training, None
    at_least: int | None = plan.window.iterations
    if training is not None:
        if training.target is not None:
            target = Accuracy(metric=training.metric, value=training.target)
        length = training.length - plan.window.warmup
        at_least = length if training.unit == "iterations" else None
    is_planned = planned_of(plan) is not None
    expected = Expectation(
        format=plan.log if plan.trainer is None else OWN_FORMAT,
        impl=plan.impl,
        framework=framework_in_results(plan.log, plan.framework),
        benchmark=plan.benchmark,
        variant=plan.variant,
        model=fingerprint.model if fingerprint else None,
        parameters=fingerprint.parameters if fingerprint else None,
        fingerprint=fingerprint,
        gpu_model=plan.pool.gpu_model if plan.device == "cuda" else None,
        gpus=plan.world_size,
        trainers=plan.world_size if plan.trainer is not None else None,
        nodes=plan.replicas if plan.spread else None,
        batch_size=plan.batch_size,
        precision=plan.precision,
        amp_dtype=plan.amp_dtype,
        device=plan.device,
        data=plan.data,
        warmup=plan.window.warmup,
        iterations=plan.window.iterations if training is None else None,
        at_least=at_least,
        to_its_end=training is not None,
        unit=plan.rate_unit,
        metric=None if training is None else training.metric,
        target=target,
        smoke=plan.preset == "smoke",
        by_user=not is_planned,
        accept=accept,
    )
    if not is_planned and fingerprint is None and isinstance(plan.log, str):
        # Without a benchmark its plan repeats what the log said: the log decides again.
        return msgspec.structs.replace(
            expected, benchmark=None, variant=None, warmup=None, iterations=None, at_least=None
        )
    return expected


def from_variant(
    spec: BenchmarkSpec, variant: Variant, *, warmup: int | None = None, **given: Any
) -> Expectation:
    """Build the expectation from a catalog entry.

    ``given`` are fields that the user gives.
    """
    fingerprint = variant.fingerprint
    return Expectation(
        format=variant.log,
        framework=variant.framework_of_logs,
        benchmark=spec.name,
        variant=variant.name,
        model=fingerprint.model if fingerprint else f"{spec.name} {variant.title}",
        logged_models=variant.logged_models,
        parameters=fingerprint.parameters if fingerprint else None,
        fingerprint=fingerprint,
        batch_sizes={name: size for name, size in variant.batch_size.items() if size is not None},
        has_no_batch=None in variant.batch_size.values(),
        warmup=variant.window.warmup if warmup is None else warmup,
        device="cuda",
        at_least=variant.window.iterations,
        window_by_catalog=warmup is None,
        unit=f"{spec.unit}/s",
        metric=None if variant.train is None else variant.train.metric,
        target=spec.target_accuracy,
        by_user=True,
        **given,
    )


# -- logs without a plan --------------------------------------------------------------------------


def named_values(said: Mapping[str, Any]) -> NamedValues:
    """Return what a name says (:func:`.imported_logs.options_in_name`) as values of the log."""
    precision, amp_dtype = split_precision(said.get("precision"))
    nodes = None
    gpus = said.get("gpus")
    if "case" in said:
        nodes, each = plan_choices.parse_case(said["case"])
        gpus = nodes * each
    return NamedValues(
        gpus=gpus,
        nodes=nodes,
        batch_size=said.get("batch_size"),
        precision=precision,
        amp_dtype=amp_dtype,
    )


class LogCandidate(NamedTuple):
    """Possible interpretation of a log.

    Its catalog entry is None if only the log's format is known.
    """

    expected: Expectation
    loaded: LoadedSpec | None = None
    variant: Variant | None = None


def candidates(options: MeasureOptions, benchmarks: Sequence[LoadedSpec]) -> list[LogCandidate]:
    """List possible interpretations of a log; the first match wins.

    ``benchmarks`` is the one that the options name, else those that logs may state.
    """
    given: dict[str, Any] = {"warmup": options.warmup, "accept": options.accept}
    found: list[LogCandidate] = []
    if options.benchmark is None:
        framework = options.framework
        for family in FAMILY_NAMES if options.family in {AUTO, None} else [str(options.family)]:
            plain = Expectation(format=family, framework=framework, by_user=True, **given)
            found.append(LogCandidate(plain))
        given["if_stated"] = True
    for loaded in benchmarks:
        for variant in _variants(loaded.spec, options):
            declared_in = None if isinstance(variant.log, str) else loaded.source
            expected = from_variant(loaded.spec, variant, declared_in=declared_in, **given)
            found.append(LogCandidate(expected, loaded, variant))
    return found


def _variants(spec: BenchmarkSpec, options: MeasureOptions) -> list[Variant]:
    """List candidate variants, defaults first; all without a given benchmark."""
    mine = [each for each in spec.variants if options.framework in {None, each.framework}]
    usual = [each for name in spec.frameworks if (each := spec.default_variant(name)) in mine]
    if options.benchmark is None:
        return [*usual, *(each for each in mine if each not in usual)]
    found = [each for each in mine if each.name == options.variant] if options.variant else usual
    if not found:
        existing = ", ".join(f"{variant.framework}/{variant.name}" for variant in spec.variants)
        wanted = "/".join(part for part in (options.framework, options.variant) if part)
        raise UsageError(f"{spec.name} has no variant {wanted}.", f"Variants: {existing}.")
    return found
