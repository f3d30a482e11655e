"""Runs like the store's, with easy changes of fields that decide comparisons."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from k8sbench.model.errors import Finding
from k8sbench.model.fingerprint import Fingerprint
from k8sbench.model.measurement import (
    AccuracyResult,
    GpuFigure,
    GpuMetrics,
    GpuOfRun,
    Measurement,
    Throughput,
)
from k8sbench.model.phase import Phase, Transition
from k8sbench.model.plan import PlannedWindow, RunPlan
from k8sbench.model.pool import CPU_POOL, NodePool
from k8sbench.model.run import GPU_OUT_OF_MEMORY, Run
from tests.unit.model import plans

V100_16 = "Tesla V100-SXM2-16GB"
V100_32 = "Tesla V100-SXM2-32GB"
START = 1_795_000_000.0
"""A fixed moment: 2026-11-18."""
RESNET50 = Fingerprint(model="ResNet-50 v1.5", parameters=25_557_032, gmac=4.089, input="3×224×224")

_numbers = itertools.count(1)


def plan(**changes: Any) -> RunPlan:
    """A plan of resnet50 on V100s, fields replaced by ``changes``."""
    fields: dict[str, Any] = {
        "run_id": f"resnet50-{next(_numbers):05d}",
        "set_name": "set-a",
        "spec_digest": "d" * 64,
        "variant": "dle",
        "amp_dtype": None,
        "window": PlannedWindow(
            warmup=20, iterations=100, log_interval=1, min_steady_seconds=180.0, rule="ours"
        ),
        "log": "k8sbench",
        "unit": "samples",
        "command": ("python3", "-m", "k8sbench.trainers.resnet50"),
        "options": {},
        "image": "registry.example/pytorch:1",
        "image_reason": "test",
        "trainers_digest": "e" * 64,
        "pool": NodePool(name="v100-16gb", gpus_per_node=8, gpu_model=V100_16),
        "fingerprint": RESNET50,
    }
    return plans.plan(changes.pop("case", "1x8"), **(fields | changes))


def throughput(rate: float, unit: str = "samples/s", **others: float | None) -> Throughput:
    """All estimators a little apart, so that a mix-up shows."""
    figures: dict[str, Any] = {
        "time_weighted": rate,
        "time_weighted_steady": rate * 1.001,
        "median": rate * 1.002,
        "arithmetic": rate * 1.003,
        "timestamps": rate * 0.999,
    }
    return Throughput(**(figures | others), unit=unit)


def measurement(rate: float | None, planned: RunPlan, **changes: Any) -> Measurement:
    """Return a measurement of a plan; rejected if ``rate`` is None."""
    fields: dict[str, Any] = {
        "files": (f"{planned.run_id}.log",),
        "format": "k8sbench",
        "impl": planned.impl,
        "framework": planned.framework,
        "gpus": planned.world_size,
        "precision": planned.precision,
        "precision_effective": planned.precision,
        "amp_dtype": planned.amp_dtype,
        "batch_size_per_gpu": planned.batch_size,
        "warmup_iterations": planned.window.warmup,
        "iterations": planned.window.iterations,
        "records": planned.window.iterations,
        "throughput": None if rate is None else throughput(rate, f"{planned.unit}/s"),
        "final_loss": 6.9,
        "accuracy": None,
        "time_to_train_s": None,
        "train_wall_s": 60.0,
        "data": planned.data,
        "device": planned.device,
        "gpu_model": planned.pool.gpu_model,
        "parameters": planned.fingerprint.parameters if planned.fingerprint else None,
        "environment": {"driver": "535.54", "framework_version": "2.10.0"},
        "log_digest": f"digest of {planned.run_id}",
        "verdict": "valid" if rate is not None else "rejected",
        "reasons": (),
    }
    return Measurement(**(fields | changes))


def run(
    rate: float | None = None,
    *,
    phase: Phase = Phase.SUCCEEDED,
    at: float | None = None,
    seconds: float = 180.0,
    measured: Mapping[str, Any] | None = None,
    unmeasured: bool = False,
    image_digest: str | None = None,
    **plan_changes: Any,
) -> Run:
    """One run; ``rate`` None and ``measured`` None: nothing was measured."""
    planned = plan(**plan_changes)
    created = START + 600 * planned.repeat if at is None else at
    history = [
        Transition(phase=Phase.CREATED, at=created, cause="submitted"),
        Transition(phase=Phase.RUNNING, at=created + 10, cause="all replicas run"),
    ]
    if phase.final:
        history.append(Transition(phase=phase, at=created + 10 + seconds, cause=f"it is {phase}"))
    has = not unmeasured and (rate is not None or measured is not None)
    return Run(
        planned=planned,
        created_at=created,
        process=None,
        history=tuple(history),
        artifacts=f"runs/{planned.run_id}",
        measurement=measurement(rate, planned, **(measured or {})) if has else None,
        image_digest=image_digest,
    )


def out_of_memory(**plan_changes: Any) -> Run:
    """One run that ended for lack of GPU memory."""
    failed = run(phase=Phase.FAILED, **plan_changes)
    cause = (
        "w exited with code 1: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
    )
    last = msgspec.structs.replace(failed.history[-1], cause=cause, cause_id=GPU_OUT_OF_MEMORY)
    return msgspec.structs.replace(failed, history=(*failed.history[:-1], last))


def repeats(rates: Iterable[float], **fields: Any) -> list[Run]:
    """Runs of one case, numbered from 1."""
    return [run(rate, repeat=n, **fields) for n, rate in enumerate(rates, 1)]


def smoke(rate: float, **fields: Any) -> Run:
    """A run of the demo: CPU, local, small."""
    fields = {
        "preset": "smoke",
        "device": "cpu",
        "backend": "local",
        "replicas": 2,
        "gpus_per_replica": 0,
        "processes_per_replica": 1,
        "batch_size": 2,
        "image": None,
        "pool": CPU_POOL,
        **fields,
    }
    return run(rate, **fields)


def reject(name: str, message: str = "It is wrong.") -> Finding:
    """A reason that rejects."""
    return Finding(id=name, severity="reject", sentence=message)


def gpu_metrics(*gpus: GpuOfRun, **values: float) -> GpuMetrics:
    """GPU metrics of a run, by name."""
    return GpuMetrics(
        figures={
            name: GpuFigure(value=value, unit="", source="dcgm", coverage=1.0, samples=9)
            for name, value in values.items()
        },
        gpus=gpus,
    )


def accuracy(best: float) -> AccuracyResult:
    """A reached top-1 accuracy."""
    return AccuracyResult(metric="top-1", best=best, final=best, unit="%", evaluations=50)


def changed(value: Any, **fields: Any) -> Any:
    """The struct with fields replaced."""
    return msgspec.structs.replace(value, **fields)
