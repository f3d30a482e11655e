"""What is known of a run before its log is opened, and its source.

A plan states everything; a catalog entry states windows, batches and models; the flags of
``k8sbench measure`` may state little. A log is compared with these values only: without a plan it
cannot differ from one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from k8sbench.model.plan import RunPlan
from k8sbench.model.spec import (
    Accuracy,
    BenchmarkSpec,
    Fingerprint,
    LogFormat,
    Precision,
    Variant,
    framework_of,
)


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """What a log is measured by. None: not known; the log decides, if it states it."""

    format: str | LogFormat
    """A family's name or a declared format; our own trainers' logs are always understood."""
    declared_in: str | None = None
    """The user's file that declares the format; None: a built-in one, or a run's plan."""
    impl: str | None = None
    """Whose program it is; None: what the log shows."""
    framework: str | None = None
    benchmark: str | None = None
    variant: str | None = None
    model: str | None = None
    """Architecture as text."""
    logged_models: tuple[str, ...] = ()
    """Parts of names, one of which the model has in logs; none: its name is not compared."""
    parameters: int | None = None
    """Of the model at full size."""
    fingerprint: Fingerprint | None = None
    """The model at full size, whose arithmetic no GPU does faster than its peak."""
    gpu_model: str | None = None
    """The GPU of a log that does not state it: as its user says, or its node pool."""
    gpus: int | None = None
    """GPUs (or CPU processes) of the whole job."""
    trainers: int | None = None
    """Ranks whose start must be in the logs, where all of the run's logs are given."""
    nodes: int | None = None
    """Nodes that the ranks must be spread over."""
    batch_size: int | None = None
    """Per GPU, as the user or the plan gives it."""
    batch_sizes: dict[Precision, int] = {}
    """Per GPU by precision, as the catalog has it."""
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
    """So must all that the log says were planned: of a training, whose length may be epochs."""
    window_by_catalog: bool = False
    """The window is the catalog's general one: our own log's, which was planned, comes first."""
    unit: str | None = None
    metric: str | None = None
    """Metric of the benchmark's evaluations. None: the target's, else the log's first."""
    target: Accuracy | None = None
    """Accuracy up to which Time2Train counts."""
    smoke: bool = False
    """A small run that checks the path: the model's size and AMP's effect do not matter."""
    by_user: bool = False
    """The values are what a user says of a log from anywhere, and not those of a run that was
    started with them: what the log does not show is remarked. Not for declared formats, which
    read none of it."""
    if_stated: bool = False
    """Applies only to logs that state the benchmark's model, or its name (our trainers' logs)."""
    accept: tuple[str, ...] = ()
    """Ids of reasons that are overruled."""

    def batch_sizes_of(self, precision: str | None) -> set[int]:
        """The catalog's batch at a precision; all that it has where the precision is not known."""
        if precision is None:
            return set(self.batch_sizes.values())
        size = self.batch_sizes.get("amp" if precision == "amp" else "fp32")
        return set() if size is None else {size}

    @property
    def knows_batch(self) -> bool:
        """Whether a batch is given, or the catalog has one."""
        return self.batch_size is not None or bool(self.batch_sizes)

    @property
    def planned(self) -> bool:
        """Whether there is a benchmark that the log may differ from."""
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
    return Expectation(
        format="k8sbench" if plan.trainer is not None else plan.log,
        impl=plan.impl,
        framework=framework_of(plan.log, plan.framework),
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
        unit=plan.unit if "/" in plan.unit else f"{plan.unit}/s",
        metric=None if training is None else training.metric,
        target=target,
        smoke=plan.preset == "smoke",
        accept=accept,
    )


def from_variant(
    spec: BenchmarkSpec, variant: Variant, *, warmup: int | None = None, **given: Any
) -> Expectation:
    """The expectation of a log from a catalog entry; ``given`` are fields that the user gives."""
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
        batch_sizes=variant.batch_size,
        warmup=variant.window.warmup if warmup is None else warmup,
        device="cuda",
        at_least=variant.window.iterations,
        window_by_catalog=warmup is None,
        unit=f"{spec.unit}/s",
        metric=None if variant.train is None else variant.train.metric,
        target=spec.target_accuracy,
        by_user=isinstance(variant.log, str),
        **given,
    )
