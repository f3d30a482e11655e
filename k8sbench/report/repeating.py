"""Commands that repeat a row with every choice of its plan."""

from __future__ import annotations

import shlex

from k8sbench.model import speed_options
from k8sbench.model.plan import RunPlan


def command(plan: RunPlan, repeats: int = 1) -> str:
    """Write the command, for a cluster or machine of the same kind.

    Empty for imported logs, which did not run here.
    """
    if plan.backend == "imported":
        return ""
    is_cluster = plan.backend == "kubernetes"
    options: dict[str, object] = {
        "framework": plan.framework,
        "variant": plan.variant,
        "impl": plan.impl,
        "replicas": plan.replicas,
        "gpus": plan.processes_per_replica,
        "precision": plan.amp_dtype or plan.precision,
        "batch-size": plan.batch_size,
        "preset": plan.preset,
        "mode": plan.mode,
        "warmup": plan.window.warmup,
        **_length(plan),
        "data": None if plan.data == "image" else plan.data.removeprefix("path:"),
        "weights": plan.weights and plan.weights.removeprefix("path:"),
        "backend": plan.backend,
        "node-pool": plan.pool.name if is_cluster else None,
        "image": plan.image if is_cluster else None,
        "repeats": repeats if repeats > 1 else None,
    }
    words = ["k8sbench", "submit"]
    words.append(plan.benchmark if plan.spec_source == "built-in" else plan.spec_source)
    for name, value in options.items():
        words += [] if value is None else [f"--{name}", str(value)]
    for name in speed_options.available(plan.framework, plan.trainer or ""):
        if name in plan.options:
            words += ["--speed-option", f"{name}={str(plan.options[name]).lower()}"]
    asked = plan.training
    if asked and asked.target is not None and not asked.stop_at_target and plan.trainer:
        words.append("--to-the-end")
    if plan.pack:
        words.append("--pack")
    return shlex.join(words)


def resuming(plan: RunPlan, repeats: int = 1) -> str:
    """Write the command that resumes the case in its set.

    Empty for imported logs.
    """
    text = command(plan, repeats)
    return text and shlex.join([*shlex.split(text), "--resume", plan.set_name])


def _length(plan: RunPlan) -> dict[str, object]:
    """Return the options for the run's length.

    A published program trains as its command says.
    """
    asked = plan.training
    if asked is None:
        return {"iterations": plan.window.iterations}
    target = {"target": "none" if asked.target is None else f"{asked.target:g}"}
    if plan.impl != "k8sbench":
        return dict(target)
    return {asked.unit: asked.length, "evaluate-every": asked.evaluate_every, **target}
