"""The command that repeats a row: every choice of its plan that decides what is measured."""

from __future__ import annotations

import shlex

from k8sbench.model import speed_options
from k8sbench.model.plan import RunPlan


def repeating(plan: RunPlan, repeats: int = 1) -> str:
    """Write the command; it is for a cluster or a machine of the same kind.

    Imported logs are imported again: what they are of did not run here.
    """
    if plan.backend == "imported":
        return shlex.join(_importing(plan))
    words = ["k8sbench", "submit"]
    words.append(plan.benchmark if plan.spec_source == "built-in" else plan.spec_source)
    words += ["--framework", plan.framework, "--variant", plan.variant]
    if plan.impl != "k8sbench":
        words += ["--impl", plan.impl]
    words += ["--replicas", str(plan.replicas)]
    words += ["--gpus", str(plan.processes_per_replica)]
    words += ["--precision", plan.precision]
    if plan.amp_dtype is not None:
        words += ["--amp-dtype", plan.amp_dtype]
    words += ["--batch-size", str(plan.batch_size), "--preset", plan.preset]
    words += ["--warmup", str(plan.window.warmup)]
    words += _training(plan) or ["--iterations", str(plan.window.iterations)]
    if plan.data != "image":
        words += ["--data", plan.data.removeprefix("path:")]
    if plan.weights is not None:
        words += ["--weights", plan.weights.removeprefix("path:")]
    for name in speed_options.available(plan.framework, plan.trainer or ""):
        if name in plan.options:
            words += ["--speed-option", f"{name}={str(plan.options[name]).lower()}"]
    words += ["--backend", plan.backend]
    if plan.backend == "kubernetes":
        words += ["--node-pool", plan.pool.name]
        if plan.image is not None:
            words += ["--image", plan.image]
    if repeats > 1:
        words += ["--repeats", str(repeats)]
    return shlex.join(words)


def _importing(plan: RunPlan) -> list[str]:
    words = ["k8sbench", "import", "LOG..."]
    if plan.spec_source:
        is_own = plan.spec_source != "built-in"
        words += ["--benchmark", plan.spec_source if is_own else plan.benchmark]
        words += ["--framework", plan.framework, "--variant", plan.variant]
    else:
        words += ["--format", plan.benchmark]
    words += ["--case", f"{plan.replicas}x{plan.processes_per_replica}"]
    words += ["--batch-size", str(plan.batch_size), "--precision", _precision(plan)]
    words += ["--warmup", str(plan.window.warmup)]
    if plan.pool.gpu_model is not None:
        words += ["--gpu-model", plan.pool.gpu_model]
    return words


def _precision(plan: RunPlan) -> str:
    """AMP by its type, which a benchmark's default need not be."""
    return plan.amp_dtype if plan.precision == "amp" and plan.amp_dtype else plan.precision


def _training(plan: RunPlan) -> list[str]:
    """The options of a training; none of a throughput run, nor of a program of others' own."""
    asked = plan.training
    if asked is None:
        return ["--mode", plan.mode] if plan.mode != "throughput" else []
    target = "none" if asked.target is None else f"{asked.target:g}"
    if plan.impl != "k8sbench":
        return ["--mode", "train", "--target", target]
    words = ["--mode", "train", f"--{asked.unit}", str(asked.length)]
    words += ["--evaluate-every", str(asked.evaluate_every), "--target", target]
    is_open = asked.target is not None and not asked.stop_at_target
    return [*words, "--to-the-end"] if is_open else words
