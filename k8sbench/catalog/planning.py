"""Planning: a benchmark and a request become one concrete plan.

Pure: run id, set, repeat, GPUs at hand and pool come in as arguments. The single choices are in
:mod:`k8sbench.catalog.plan_choices`; here they become a plan and a command.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from k8sbench.catalog import plan_choices, training
from k8sbench.catalog.plan_choices import PlanChoices, Site
from k8sbench.catalog.spec import BenchmarkSpec, Variant
from k8sbench.model import identity
from k8sbench.model.errors import DoesNotFit, UsageError
from k8sbench.model.facts import Facts, facts_of, planned_of
from k8sbench.model.kinds import default_kind
from k8sbench.model.plain_text import counted
from k8sbench.model.plan import SMOKE_MARK, Device, RunPlan, is_bandwidth
from k8sbench.model.program import SecretKey
from k8sbench.model.request import SubmitRequest
from k8sbench.model.speed_options import Option, option_words, trainer_arguments

TRAINERS_MOUNT = "/opt/k8sbench"
"""Folder of our trainers in a container, by ConfigMap and by image."""
LOCAL_HOST = "127.0.0.1"
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
    ``trainers_digest`` is that of the local training.
    """
    notes = list[str]()
    case = plan_choices.settle_case(loaded.spec, request, site)
    size = plan_choices.choose_preset(case, notes)
    replicas, processes = plan_choices.choose_shape(case, size, notes)
    world_size = replicas * processes
    _check_all_reduce(case, world_size)
    amp_dtype = plan_choices.choose_amp_dtype(case)
    batch_size = plan_choices.choose_batch_size(case, size, notes)
    data = training.choose_data(case)
    weights = training.choose_weights(case)
    checkpoints = training.choose_checkpoints(case)
    planned = training.plan_training(case, size, world_size, data, notes)
    window = training.fit_window(plan_choices.choose_window(case, size, world_size, notes), planned)
    options = plan_choices.choose_options(case, size)
    if options.get("shard") and world_size == 1:
        notes.append("one process alone shares nothing, although the variant says shard")
    image, image_reason, trainers_by = plan_choices.choose_image(case, trainers_digest)
    plan_choices.check_kernels(case, image, notes)
    plan_choices.check_gpu_vendor(case, image, notes)
    env, secret_env = _environment(case)
    timeouts = plan_choices.TIMEOUTS if planned is None else training.TIMEOUTS
    draft = RunPlan(
        **derive_fields(loaded, case.variant, case.device, (replicas, processes)),
        run_id=run_id,
        set_name=set_name,
        repeat=repeat,
        benchmark=loaded.spec.name,
        unit=loaded.spec.unit,
        variant=case.variant.name,
        impl=case.impl,
        framework=case.framework,
        precision=case.precision,
        amp_dtype=amp_dtype,
        batch_size=batch_size,
        preset=size,
        mode=request.mode,
        data=data,
        window=window,
        log=case.variant.log,
        env=env,
        secret_env=secret_env,
        options=options,
        image=image,
        image_reason=image_reason,
        trainers_by=trainers_by,
        pool=site.pool,
        backend=site.backend,
        timeout_s=request.timeout_s or timeouts[size],
        wait_timeout_s=request.wait_timeout_s,
        kind=site.job_kind,
        queue=request.queue,
        pack=plan_choices.may_share_node(case, replicas, processes),
        notes=tuple(notes),
        training=planned,
        weights=weights,
        checkpoints=checkpoints,
        max_restarts=0 if planned is None else training.choose_max_restarts(case),
    )
    if case.impl == "k8sbench":
        return _complete_with_our_trainer(draft, case.variant, trainers_digest)
    if case.impl == "upstream":
        return _complete_with_upstream(draft, case)
    return _complete_with_user_command(draft, case)


def derive_fields(
    loaded: LoadedSpec | None, variant: Variant | None, device: Device, shape: tuple[int, int]
) -> dict[str, Any]:
    """Return the plan fields that follow from case and catalog.

    ``shape``: replicas, processes of each. Only an imported log may lack a catalog entry.
    """
    (replicas, processes), on_gpus = shape, device == "cuda"
    return {
        "spec_digest": loaded.digest if loaded else "",
        "spec_source": loaded.source if loaded else "",
        "device": device,
        "replicas": replicas,
        "gpus_per_replica": processes if on_gpus else 0,
        "processes_per_replica": processes,
        "fingerprint": variant.fingerprint if variant else None,
        "sync_bn": bool(variant and variant.sync_bn and on_gpus and replicas * processes > 1),
    }


def _check_all_reduce(case: PlanChoices, world_size: int) -> None:
    """Raise an error for an all-reduce of one GPU or with AMP."""
    if not is_bandwidth(case.spec.unit):
        return
    if world_size == 1:
        raise DoesNotFit(
            "An all-reduce needs two GPUs or more.", "Ask for more with --replicas or --gpus."
        )
    if case.precision == "amp":
        raise UsageError(f"{case.spec.name} has no AMP: it sums float32.", "Leave out --amp.")


def _environment(case: PlanChoices) -> tuple[dict[str, str], dict[str, SecretKey]]:
    """Return the variant's variables, and those from Secrets."""
    env = case.variant.env
    plain = {name: value for name, value in env.items() if isinstance(value, str)}
    secret = {n: value.secret_key_ref for n, value in env.items() if not isinstance(value, str)}
    if secret and case.site.backend == "local":
        raise UsageError(
            f"{', '.join(secret)} comes from a Secret, and this machine has none.",
            "Run the benchmark on a cluster, or leave the variable out of its file.",
        )
    return plain, secret


def _complete_with_our_trainer(draft: RunPlan, variant: Variant, digest: str | None) -> RunPlan:
    """Complete a plan whose program is one of k8sbench's trainers."""
    files = training.trainer_options(draft) | draft.options
    module, window = variant.trainer_module, draft.window
    assert module is not None, "checked by settle()"
    # Nothing of one run alone stands here (variables hold its id and the seed of a training):
    # repeats of a case have equal commands.
    settings: dict[str, Option] = {
        "benchmark": draft.benchmark,
        "variant": draft.variant,
        "batch-size": draft.batch_size,
        "warmup": window.warmup,
        "iterations": window.iterations,
        "log-interval": window.log_interval,
        "min-steady-seconds": window.min_steady_seconds,
        "amp-dtype": draft.amp_dtype or "none",
        "device": draft.device,
        "data": draft.data,
        "preset": draft.preset,
        "seed": identity.SEED if "mode" in files else 0,
        **files,
    }
    start = default_kind(draft.framework, draft.kind).start(module, TRAINERS_MOUNT)
    return msgspec.structs.replace(
        draft,
        command=(*start, *trainer_arguments(settings)),
        log="k8sbench",
        trainer=module,
        trainers_digest=digest,
        seed=None if draft.training is None else 0,
    )


def _complete_with_upstream(draft: RunPlan, case: PlanChoices) -> RunPlan:
    """Complete a plan whose program is the published one."""
    variant, upstream = case.variant, case.variant.upstream
    assert upstream is not None, "checked by settle()"
    if case.precision not in upstream.command:
        raise UsageError(
            f"The report of {case.label} has no {case.precision} command.",
            f"It ran: {', '.join(upstream.command)}.",
        )
    values = upstream.values(_values_of_draft(draft))
    words = upstream.words(case.precision, world_size=draft.world_size, mode=draft.mode)
    parts = (
        variant.env,
        upstream.command,
        upstream.command_one_gpu,
        upstream.added,
        upstream.numbers,
        upstream.env,
        upstream.workdir,
    )
    env = {name: fill_placeholders(text, values) for name, text in upstream.env.items()}
    draft = msgspec.structs.replace(draft, env=draft.env | env, workdir=upstream.workdir)
    return _with_command(draft, words, values, parts, reads_data=upstream.data == "real")


def _complete_with_user_command(draft: RunPlan, case: PlanChoices) -> RunPlan:
    """Complete a plan whose program is the command of a user's file."""
    words, batches = case.variant.command, case.variant.batch_size
    if case.precision not in batches and not any("{precision}" in word for word in words):
        raise UsageError(
            f"The command of {case.label} always runs {' and '.join(batches)}, and"
            f" {case.precision} was requested.",
            f"Ask for --precision {next(iter(batches))}, or use {{precision}} in the command.",
        )
    reads_data = any("{data}" in word for word in words)
    return _with_command(
        draft, words, _values_of_draft(draft), (case.variant.env, words), reads_data=reads_data
    )


def _with_command(
    draft: RunPlan,
    words: Sequence[str],
    values: Mapping[str, int | float | str],
    program: Sequence[object],
    *,
    reads_data: bool,
) -> RunPlan:
    """Fill the command of a plan.

    ``program`` is its source, equal for every number of GPUs; ``reads_data``: it reads real data.
    """
    digest = hashlib.sha256(msgspec.json.encode(program, order="deterministic")).hexdigest()
    data, notes = draft.data, draft.notes
    if reads_data and data == "synthetic":
        data = "image"
        mount = (
            f"the {draft.impl} program reads real data from {training.DATA_MOUNT}: mount it with"
            " --data pvc:NAME/SUB, or use an image that holds it"
        )
        notes += (mount,)
    command = tuple(fill_placeholders(word, values) for word in words)
    return msgspec.structs.replace(
        draft, command=command, data=data, notes=notes, program_digest=digest
    )


def _values_of_draft(draft: RunPlan) -> dict[str, int | float | str]:
    """Return the placeholder values for a plan's command."""
    is_local = draft.backend == "local"
    kind = default_kind(draft.framework, draft.kind)
    window = draft.window
    hosts = kind.hosts(draft.run_id, draft.replicas)
    return placeholder_values(
        draft.precision,
        draft.batch_size,
        (draft.replicas, draft.processes_per_replica),
        (window.warmup, window.iterations, window.log_interval),
        # As the training operator names the replicas' services, rank 0 first.
        hosts=",".join(LOCAL_HOST if is_local else host for host in hosts),
        host=LOCAL_HOST if is_local else kind.own_host.format(job=draft.run_id),
        data=training.path_in_command(draft.data, training.DATA_MOUNT),
        evaluate_every=0 if draft.training is None else draft.training.evaluate_every,
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


def _describe_length(plan: RunPlan) -> str:
    if plan.training is not None:
        return f"train {training.describe_training(plan.training)}"
    batches = plan_choices.batches_per_update(plan.options)
    changes = f", weights change each {batches}" if batches > 1 else ""
    return f"{plan.window.warmup} + {plan.window.iterations} iterations{changes}"


def describe_plan(plan: RunPlan) -> str:
    """Return the plan in one line, printed before objects are created."""
    return describe_case(facts_of(plan), planned_of(plan))


def describe_case(facts: Facts, planned: RunPlan | None) -> str:
    """Return a case in one line; ``planned`` is None if nobody planned it."""
    return " · ".join(filter(None, (*_of_facts(facts), *_of_plan(facts, planned))))


def _of_facts(facts: Facts) -> list[str | None]:
    """Return program, precision and size of a case; None where nothing states them."""
    framework = facts.framework
    if framework is not None and facts.impl != "k8sbench":
        framework = f"{framework} ({facts.impl})"
    return [
        facts.benchmark,
        framework,
        facts.variant,
        facts.precision if facts.amp_dtype is None else f"amp ({facts.amp_dtype})",
        _shape(facts),
        _batch(facts),
    ]


def _shape(facts: Facts) -> str:
    replicas = counted(facts.replicas, "replica")
    if facts.processes_per_replica is None or facts.world_size is None:
        return replicas
    device, devices = ("process", "CPU process") if facts.device == "cpu" else ("GPU", "GPU")
    processes = counted(facts.processes_per_replica, device)
    packed = ", packed" if facts.is_packed else ""
    return f"{replicas} × {processes} = {counted(facts.world_size, devices)}{packed}"


def _batch(facts: Facts) -> str | None:
    if facts.batch_size is None:
        return None
    if is_bandwidth(facts.unit):
        return f"vector of {facts.batch_size} MB"
    return f"batch {facts.batch_size} × {facts.world_size} = {facts.global_batch}"


def _of_plan(facts: Facts, planned: RunPlan | None) -> list[str | None]:
    """Return length, place and options of a case."""
    parts: list[str | None] = []
    if planned is None:  # nobody planned how many iterations it measures
        parts += [f"after {counted(facts.warmup, 'iteration')}", facts.backend]
    else:
        is_cluster = facts.backend == "kubernetes"
        parts += [
            _describe_length(planned),
            f"pool {facts.pool.name}" if is_cluster else facts.backend,
        ]
        parts.append(planned.node and f"node {planned.node}")
    parts.append(None if facts.data in ("synthetic", "image") else f"data {facts.data}")
    if planned is not None:
        parts.append(planned.weights and f"weights {planned.weights}")
        parts.append(planned.checkpoints and f"checkpoints {planned.checkpoints}")
        if planned.max_restarts:
            parts.append(f"up to {counted(planned.max_restarts, 'restart')}")
    parts += option_words(facts.options)
    parts.append(facts.image and f"image {facts.image}")
    parts.append(f"smoke: {SMOKE_MARK}" if facts.preset == "smoke" else None)
    return parts


def placeholder_values(
    precision: str,
    batch_size: int | float,
    shape: tuple[int, int],
    window: tuple[int, int, int],
    *,
    hosts: str,
    host: str,
    data: str,
    evaluate_every: int,
) -> dict[str, int | float | str]:
    """Return the values of :data:`.program.PLACEHOLDERS` for one case.

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
        "evaluate_every": evaluate_every,
        "gpu_ids": ",".join(str(index) for index in range(processes)),
        "hosts": hosts,
        "host": host,
        "data": data,
    }


def fill_placeholders(word: str, values: Mapping[str, int | float | str]) -> str:
    """Return a word of a command with its placeholders filled."""
    return re.sub(r"\{(\w+)\}", lambda m: str(values[m[1]]), word)
