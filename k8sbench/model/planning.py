"""Planning: a benchmark and a request become one concrete plan.

Pure: run id, set, repeat, GPUs at hand and pool come in as arguments. The single choices are in
:mod:`k8sbench.model.choices`; here they become a plan and a command.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import msgspec

from k8sbench.model import choices, identity, sources, speed_options, training
from k8sbench.model.choices import PlanChoices, Site
from k8sbench.model.counts import counted
from k8sbench.model.errors import DoesNotFit, UsageError
from k8sbench.model.kinds import default_kind
from k8sbench.model.plan import SMOKE_MARK, RunPlan, is_bandwidth
from k8sbench.model.request import SubmitRequest
from k8sbench.model.spec import BenchmarkSpec

TRAINERS_MOUNT = "/opt/k8sbench"
"""Folder of our trainers in a container, by ConfigMap and by image."""
HERE = "127.0.0.1"
"""The host of every replica of a local run."""
DRAFT_ID = "k8sbench-run-id-drawn-later"
"""Run id of a draft plan.

Its command and environment contain it as it is, so that :func:`with_identity` can replace it.
"""


class LoadedSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark and where it was read from."""

    spec: BenchmarkSpec
    digest: str
    """SHA-256 of the file's text, hexadecimal."""
    source: str
    """``built-in``, or the user's path as given."""
    text: str = ""
    """Text of a user's file, copied into each run; empty for built-in ones."""


def make_plan(
    loaded: LoadedSpec,
    request: SubmitRequest,
    site: Site,
    *,
    trainers_digest: str | None,
    run_id: str = DRAFT_ID,
    set_name: str = "draft",
    repeat: int = 1,
) -> RunPlan:
    """Return the plan of one case as a draft, before there is a run.

    Raises :class:`UsageError` (or a subclass) with an action if the case cannot run as requested.
    ``trainers_digest`` is that of the local sources.
    """
    spec, notes = loaded.spec, list[str]()
    case = choices.settle(spec, request, site)
    variant, impl = case.variant, case.impl
    replicas, processes = choices.shape(case, notes)
    world_size = replicas * processes
    if is_bandwidth(spec.unit) and world_size == 1:
        raise DoesNotFit(
            "An all-reduce needs two GPUs or more.", "Ask for more with --replicas or --gpus."
        )
    if is_bandwidth(spec.unit) and case.precision == "amp":
        raise UsageError(f"{spec.name} has no AMP: it sums float32.", "Leave out --amp.")
    size = choices.preset(case, notes)
    amp_dtype = choices.amp_dtype(case)
    batch_size = choices.batch_size(case, size, notes)
    data = sources.data(case)
    weights, checkpoints = sources.weights(case), sources.checkpoints(case)
    planned = training.training(case, size, world_size, data, notes)
    window = training.fitted(choices.window(case, size, world_size, notes), planned)
    options = choices.options(case, size)
    image, image_reason, trainers_by = choices.image(case, trainers_digest)
    choices.kernels(case, image, notes)
    choices.gpu_resource(case, image, notes)
    workdir = None
    env = {name: value for name, value in variant.env.items() if isinstance(value, str)}
    secret_env = {
        name: value.secret_key_ref
        for name, value in variant.env.items()
        if not isinstance(value, str)
    }
    if secret_env and site.backend == "local":
        raise UsageError(
            f"{', '.join(secret_env)} comes from a Secret, and this machine has none.",
            "Run the benchmark on a cluster, or leave the variable out of its file.",
        )
    if impl == "k8sbench":
        files = sources.arguments(data, weights, checkpoints)
        files |= training.arguments(planned) | options
        module = variant.trainer_module
        assert module is not None, "checked by settle()"
        # Nothing of one run alone stands here (variables hold its id and the seed of a training):
        # repeats of a case have equal commands.
        settings: dict[str, speed_options.Option] = {
            "benchmark": spec.name,
            "variant": variant.name,
            "batch-size": batch_size,
            "warmup": window.warmup,
            "iterations": window.iterations,
            "log-interval": window.log_interval,
            "min-steady-seconds": window.min_steady_seconds,
            "amp-dtype": amp_dtype or "none",
            "device": case.device,
            "data": request.data,
            "preset": size,
            "seed": identity.SEED if "mode" in files else 0,
            **files,
        }
        start = default_kind(case.framework, site.job_kind).start(module, TRAINERS_MOUNT)
        command = (*start, *speed_options.arguments(settings))
    else:
        is_here, kind = site.backend == "local", default_kind(case.framework, site.job_kind)
        values = placeholders(
            case.precision,
            batch_size,
            (replicas, processes),
            (window.warmup, window.iterations, window.log_interval),
            # As the training operator names the replicas' services, rank 0 first.
            hosts=",".join(HERE if is_here else host for host in kind.hosts(run_id, replicas)),
            host=HERE if is_here else kind.own_host.format(job=run_id),
            data=sources.seen(data, sources.DATA_MOUNT),
        )
        words = _foreign_words(case, world_size)
        reads = any("{data}" in word for word in words)
        if impl == "upstream" and variant.upstream is not None:
            values = variant.upstream.values(values)
            env |= {name: filled(text, values) for name, text in variant.upstream.env.items()}
            workdir = variant.upstream.workdir
            reads = variant.upstream.data == "real"
        command = tuple(filled(word, values) for word in words)
        if reads and data == "synthetic":
            data = "image"
            notes.append(
                f"the {impl} program reads real data from {sources.DATA_MOUNT}: mount it with"
                " --data pvc:NAME/SUB, or use an image that holds it"
            )
    return RunPlan(
        run_id=run_id,
        set_name=set_name,
        repeat=repeat,
        benchmark=spec.name,
        spec_digest=loaded.digest,
        spec_source=loaded.source,
        variant=variant.name,
        impl=impl,
        framework=case.framework,
        precision=case.precision,
        amp_dtype=amp_dtype,
        device=case.device,
        replicas=replicas,
        gpus_per_replica=processes if case.device == "cuda" else 0,
        processes_per_replica=processes,
        batch_size=batch_size,
        preset=size,
        mode=request.mode,
        data=data,
        window=window,
        log="k8sbench" if impl == "k8sbench" else variant.log,
        unit=spec.unit,
        trainer=variant.trainer_module if impl == "k8sbench" else None,
        command=command,
        env=env,
        secret_env=secret_env,
        workdir=workdir,
        options=options,
        image=image,
        image_reason=image_reason,
        trainers_by=trainers_by,
        trainers_digest=trainers_digest if impl == "k8sbench" else None,
        pool=site.pool,
        backend=site.backend,
        timeout_s=request.timeout_s
        or (choices.TIMEOUTS if planned is None else training.TIMEOUTS)[size],
        fingerprint=variant.fingerprint,
        sync_bn=variant.sync_bn and world_size > 1 and case.device == "cuda",
        kind=site.job_kind,
        queue=request.queue,
        pack=choices.pack(case, replicas, processes),
        notes=tuple(notes),
        program_digest=None if impl == "k8sbench" else _program_digest(case),
        training=planned,
        weights=weights,
        checkpoints=checkpoints,
        seed=0 if planned and impl == "k8sbench" else None,
        max_restarts=training.max_restarts(case) if planned is not None else 0,
    )


def with_identity(draft: RunPlan, *, run_id: str, set_name: str, repeat: int) -> RunPlan:
    """Give a draft of :func:`make_plan` the identity of one run.

    Commands and variables of upstream's programs may hold the names of the run's hosts, which begin
    with its id.
    """
    assert draft.run_id == DRAFT_ID
    return msgspec.structs.replace(
        draft,
        run_id=run_id,
        set_name=set_name,
        repeat=repeat,
        command=tuple(word.replace(DRAFT_ID, run_id) for word in draft.command),
        env={name: text.replace(DRAFT_ID, run_id) for name, text in draft.env.items()},
    )


def _length(plan: RunPlan) -> str:
    if plan.training is not None:
        return f"train {training.in_words(plan.training)}"
    if plan.backend == "imported":  # nobody planned how many it measures
        return f"after {counted(plan.window.warmup, 'iteration')}"
    return f"{plan.window.warmup} + {plan.window.iterations} iterations"


def describe(plan: RunPlan) -> str:
    """Return the plan in one line, printed before objects are created."""
    device, devices = ("GPU", "GPU") if plan.device == "cuda" else ("process", "CPU process")
    shape = (
        f"{counted(plan.replicas, 'replica')} × {counted(plan.processes_per_replica, device)}"
        f" = {counted(plan.world_size, devices)}"
    )
    if plan.pack:
        shape += ", packed"
    parts = [
        plan.benchmark,
        plan.framework if plan.impl == "k8sbench" else f"{plan.framework} ({plan.impl})",
        plan.variant,
        plan.precision if plan.amp_dtype is None else f"amp ({plan.amp_dtype})",
        shape,
        f"vector of {plan.batch_size} MB"
        if is_bandwidth(plan.unit)
        else f"batch {plan.batch_size} × {plan.world_size} = {plan.global_batch}",
        _length(plan),
        f"pool {plan.pool.name}" if plan.backend == "kubernetes" else plan.backend,
    ]
    if plan.node is not None:
        parts.append(f"node {plan.node}")
    if plan.data not in ("synthetic", "image"):
        parts.append(f"data {plan.data}")
    if plan.weights is not None:
        parts.append(f"weights {plan.weights}")
    if plan.checkpoints is not None:
        parts.append(f"checkpoints {plan.checkpoints}")
    if plan.max_restarts:
        parts.append(f"up to {counted(plan.max_restarts, 'restart')}")
    parts += speed_options.words(plan.options)
    if plan.image:
        parts.append(f"image {plan.image}")
    if plan.preset == "smoke":
        parts.append(f"smoke: {SMOKE_MARK}")
    return " · ".join(parts)


def _foreign_words(case: PlanChoices, world_size: int) -> tuple[str, ...]:
    """Return the report's or the user's command with open placeholders."""
    upstream, request = case.variant.upstream, case.request
    if case.impl == "user":
        command, batches = case.variant.command, case.variant.batch_size
        if case.precision not in batches and not any("{precision}" in w for w in command):
            raise UsageError(
                f"The command of {case.label} always runs {' and '.join(batches)}, and"
                f" {case.precision} was requested.",
                f"Ask for --precision {next(iter(batches))}, or use {{precision}} in the command.",
            )
        return command
    assert upstream is not None, "checked by settle()"
    if case.precision not in upstream.command:
        raise UsageError(
            f"The report of {case.label} has no {case.precision} command.",
            f"It ran: {', '.join(upstream.command)}.",
        )
    return upstream.words(case.precision, world_size=world_size, mode=request.mode)


def _program_digest(case: PlanChoices) -> str:
    """Return the digest of a command's source text.

    It is the same for every number of GPUs.
    """
    variant, upstream = case.variant, case.variant.upstream
    parts: tuple[object, ...] = (variant.env, variant.command)
    if case.impl == "upstream" and upstream is not None:
        commands = (upstream.command, upstream.command_one_gpu, upstream.added)
        parts = (variant.env, *commands, upstream.numbers, upstream.env, upstream.workdir)
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


def placeholders(
    precision: str,
    batch_size: int,
    shape: tuple[int, int],
    window: tuple[int, int, int],
    *,
    hosts: str,
    host: str,
    data: str,
) -> dict[str, int | str]:
    """Return the values of :data:`.spec.PLACEHOLDERS` for one case.

    ``shape``: replicas, processes of each; ``window``: warm-up, measured iterations, log interval.
    """
    (replicas, processes), (warmup, iterations, log_interval) = shape, window
    return {
        "precision": precision,
        "batch_size": batch_size,
        "global_batch": batch_size * replicas * processes,
        "replicas": replicas,
        "gpus_per_replica": processes,
        "world_size": replicas * processes,
        "warmup": warmup,
        "iterations": iterations,
        "total_iterations": warmup + iterations,
        "stop_iteration": warmup + iterations + 1,
        "log_interval": log_interval,
        "gpu_ids": ",".join(str(index) for index in range(processes)),
        "hosts": hosts,
        "host": host,
        "data": data,
    }


def filled(word: str, values: Mapping[str, int | str]) -> str:
    """Return a word of a command with its placeholders filled."""
    return re.sub(r"\{(\w+)\}", lambda m: str(values[m[1]]), word)
