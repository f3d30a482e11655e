"""Choices of a plan: shape, preset, batch, window, AMP type, data, image.

Each function takes the :class:`PlanChoices` (request, benchmark, site) and returns a value, or
raises a :class:`~k8sbench.model.errors.UsageError` with an action. ``notes`` collects choices that
the user should know of.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping

import msgspec

from k8sbench import __version__
from k8sbench.catalog.image import (
    ImageTable,
    built_image_name,
    check_image_name,
    image_failure,
    version_number,
)
from k8sbench.catalog.spec import BenchmarkSpec, Variant
from k8sbench.model.errors import DoesNotFit, NotFound, UsageError, did_you_mean
from k8sbench.model.plain_text import counted
from k8sbench.model.plan import SMOKE_MARK, Backend, Device, PlannedWindow, TrainersBy
from k8sbench.model.pool import OTHER_VENDOR, NodePool, gpu_remark
from k8sbench.model.request import SubmitRequest
from k8sbench.model.spec_values import AmpDtype, Framework, Impl, Precision, Preset
from k8sbench.model.speed_options import (
    SWITCHES,
    Option,
    check_speed_options,
    expand_fast,
    parse_speed_options,
)

STEADY_SECONDS = 180.0
"""Minimum seconds of a throughput run on GPUs after the warm-up.

Exporters sample every 15–30 s.
"""
LEAST_RECORDS = 5
"""Minimum records in the window; a short window is logged more often."""
BF16_SINCE = (8, 0)
"""Minimum compute capability for bf16; unknown GPUs are not rejected."""
TIMEOUTS: dict[Preset, float] = {"smoke": 1800.0, "full": 86400.0}
"""Default limits of a run, s, so that no run waits without end."""
_CASE = re.compile(r"^([1-9][0-9]{0,5})x([1-9][0-9]{0,5})(-cpu)?(-packed)?$")


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """Place where the run would be executed."""

    backend: Backend
    pool: NodePool
    cores: int | None = None
    """CPU cores of this machine, for local runs."""
    memory_gib: float | None = None
    """Free memory of this machine, GiB, for local runs; None: unknown."""
    images: ImageTable | None = None
    """Images and the GPUs they support; None: unknown."""
    job_kind: str | None = None
    """Job kind for all frameworks; None: one per framework."""


class PlanChoices(msgspec.Struct, frozen=True, kw_only=True):
    """Settled part of a plan, input of all further choices."""

    spec: BenchmarkSpec
    framework: Framework
    variant: Variant
    impl: Impl
    device: Device
    request: SubmitRequest
    precision: Precision
    site: Site

    @property
    def label(self) -> str:
        """Benchmark and variant, for sentences."""
        return f"{self.spec.name} ({self.variant.name})"


def parse_case(text: str) -> tuple[int, int]:
    """Read ``4x8`` as (replicas, GPUs per replica)."""
    match = _CASE.match(text.strip())
    if not match:
        raise UsageError(f"{text!r} is not a case.", "Write replicas x GPUs per replica, as 4x8.")
    return int(match[1]), int(match[2])


def settle_case(spec: BenchmarkSpec, request: SubmitRequest, site: Site) -> PlanChoices:
    """Return the variant, program and place of a request."""
    assert request.framework != "all", "each framework is planned by itself"
    framework, variant = choose_variant(spec, request.framework, request.variant)
    impl = request.impl or variant.impl
    programs = {"k8sbench": variant.trainer, "upstream": variant.upstream, "user": variant.command}
    if not programs[impl]:
        raise UsageError(
            f"{spec.name} ({variant.name}) has no {impl} program.",
            f"It has: {', '.join(name for name, program in programs.items() if program)}.",
        )
    case = PlanChoices(
        spec=spec,
        framework=framework,
        variant=variant,
        impl=impl,
        device="cuda" if site.pool.gpus_per_node > 0 else "cpu",
        request=request,
        precision=request.effective_precision,
        site=site,
    )
    if site.backend == "local":
        _check_local(case)
    return case


def check_own_program(case: PlanChoices, option: str) -> None:
    """Raise unless the program is k8sbench's own, for options that need it."""
    if case.impl != "k8sbench":
        raise UsageError(
            f"{option} is for k8sbench's own trainers, and --impl {case.impl} runs another"
            " program.",
            "Leave it out; such a program's options stand in its command.",
        )


def choose_variant(
    spec: BenchmarkSpec, framework: Framework | None, name: str | None
) -> tuple[Framework, Variant]:
    """Return the variant for a framework and a name."""
    if framework is None and name is not None:
        # A name that only one framework has says which framework is meant.
        frameworks = [v.framework for v in spec.variants if v.name == name]
        if frameworks and spec.default_framework not in frameworks:
            framework = frameworks[0]
    framework = framework or spec.default_framework
    variants = spec.variants_of(framework)
    if not variants:
        raise UsageError(
            f"{spec.name} has no variant for {framework}.",
            f"It runs on: {', '.join(spec.frameworks)}.",
        )
    if name is None:
        chosen = spec.default_variant(framework)
        assert chosen is not None, "the catalog's rules demand a default per framework"
        return framework, chosen
    by_name = {variant.name: variant for variant in variants}
    if name not in by_name:
        raise NotFound(
            f"{spec.name} on {framework} has no variant {name!r}.",
            did_you_mean(name, by_name) + f"Variants: {', '.join(by_name)}.",
        )
    return framework, by_name[name]


def split_cases(spec: BenchmarkSpec, request: SubmitRequest) -> Iterator[tuple[SubmitRequest, int]]:
    """Yield a request and its number of runs per framework, shape and batch size."""
    frameworks = spec.frameworks if request.framework == "all" else (request.framework,)
    for framework in frameworks:
        single = msgspec.structs.replace(request, framework=framework, all_cases=False)
        _, variant = choose_variant(spec, framework, request.variant)
        repeats = request.repeats or (variant.repeats if request.all_cases else 1)
        shapes = [(request.replicas, request.gpus)]
        if request.all_cases:
            shapes = [*map(parse_case, variant.cases)]
        for (replicas, gpus), size in itertools.product(shapes, request.batch_sizes or (None,)):
            sizes = () if size is None else (size,)
            yield (
                msgspec.structs.replace(single, replicas=replicas, gpus=gpus, batch_sizes=sizes),
                repeats,
            )


def choose_shape(case: PlanChoices, size: Preset, notes: list[str]) -> tuple[int, int]:
    """Return replicas, and processes (GPUs, if any) per replica."""
    request, pool = case.request, case.site.pool
    local = case.site.backend == "local"
    gpus_per_node = pool.gpus_per_node
    replicas = request.replicas or 1
    if case.device == "cpu":
        processes = request.gpus or 1
        if local:
            _check_room(case, size, replicas, processes, notes)
        return replicas, processes
    if local and request.gpus is None and (gpus_per_node < replicas or gpus_per_node % replicas):
        raise DoesNotFit(
            f"{counted(gpus_per_node, 'GPU', ('does', 'do'))} not divide over {replicas} replicas.",
            "Give --gpus (per replica), or a number of replicas that divides them.",
        )
    processes = request.gpus or (gpus_per_node // replicas if local else gpus_per_node)
    if local and replicas * processes > gpus_per_node:
        raise DoesNotFit(
            f"{replicas} × {counted(processes, 'GPU')} are more than the {gpus_per_node} of this"
            " machine.",
            "Give fewer --replicas or --gpus.",
        )
    if processes > gpus_per_node:
        raise DoesNotFit(
            f"--gpus {processes} is more than a node of pool {pool.name} has ({gpus_per_node}).",
            "Give fewer --gpus per replica, or another --node-pool.",
        )
    if not local and gpus_per_node % processes:
        notes.append(
            f"{processes} GPUs do not divide a node's {gpus_per_node}: some stay idle, and the job"
            " of another user on them can disturb the figures"
        )
    return replicas, processes


def _check_room(
    case: PlanChoices, size: Preset, replicas: int, processes: int, notes: list[str]
) -> None:
    """Raise :class:`DoesNotFit` for more processes than this machine has room for.

    Processes of a smoke run may share cores, because nobody compares its speed. They need memory.
    """
    cores = case.site.cores or 1
    free = case.site.memory_gib
    count = replicas * processes
    smoke = case.variant.smoke if size == "smoke" else None
    gib_per_process = smoke.memory_gib if smoke is not None else None
    if gib_per_process is None:
        most = cores
        what = f"{replicas} × {processes} CPU processes are too many for {counted(cores, 'core')}."
        why = "Without a GPU each process needs a core"
    else:
        most = count if free is None else int(free / gib_per_process)
        what = (
            f"{replicas} × {processes} CPU processes need {count * gib_per_process:.1f} GiB of"
            f" memory, and {free or 0:.1f} GiB are free."
        )
        why = f"Each process needs {gib_per_process:g} GiB"
    if count > most:
        fitting = (
            f"this fits: k8sbench submit {case.request.benchmark} --backend local --replicas"
            f" {min(replicas, most)} --gpus {max(1, most // replicas)}"
        )
        raise DoesNotFit(what, f"{why}; {fitting if most else 'end other programs.'}")
    if count > cores:
        notes.append(f"{count} processes share {counted(cores, 'core')}")


def may_share_node(case: PlanChoices, replicas: int, processes: int) -> bool:
    """Return True if replicas may share a node.

    If requested, and if a node has room for another replica.
    """
    if case.request.pack and case.site.pool.host_network:
        raise UsageError(
            f"Replicas of pool {case.site.pool.name} cannot share a node: they use its network"
            " (host_network), and all ask for one port.",
            "Leave out --pack, or choose another --node-pool.",
        )
    room = case.device == "cpu" or processes < case.site.pool.gpus_per_node
    return case.request.pack and replicas > 1 and room


def choose_preset(case: PlanChoices, notes: list[str]) -> Preset:
    """Return the preset: full size, or smoke without a GPU."""
    requested = case.request.preset
    is_own_program = case.impl == "k8sbench"
    chosen: Preset = requested or ("smoke" if is_own_program and case.device == "cpu" else "full")
    if chosen == "smoke":
        check_own_program(case, "--preset smoke")
    if chosen == "smoke" and case.variant.smoke is None:
        raise UsageError(
            f"{case.label} has no smoke preset.", "Add smoke: to its YAML, or use --preset full."
        )
    if chosen == "smoke" and requested is None:
        notes.append(f"no GPU here: smoke preset, {SMOKE_MARK}")
    return chosen


def choose_amp_dtype(case: PlanChoices) -> AmpDtype | None:
    """Return the half type of AMP; None for FP32."""
    request, pool = case.request, case.site.pool
    if case.precision == "fp32":
        return None
    if case.device == "cpu":
        # fp16 autocast on CPU is slower than fp32 in PyTorch, and nothing in Paddle has effect.
        return request.amp_dtype or "bf16"
    chosen = request.amp_dtype or case.variant.amp_dtype
    images = case.site.images
    capability = images.capability(pool.gpu_model) if images and pool.gpu_model else None
    if chosen == "bf16" and capability is not None and version_number(capability) < BF16_SINCE:
        raise UsageError(
            f"The {pool.gpu_model} of pool {pool.name} (compute capability {capability}) has no"
            " bf16.",
            "Use --precision fp16.",
        )
    return chosen


def choose_batch_size(case: PlanChoices, size: Preset, notes: list[str]) -> int:
    """Return samples per GPU and step, with a note if the report differs."""
    request, variant = case.request, case.variant
    requested = request.batch_sizes[0] if request.batch_sizes else None
    if size == "smoke":
        assert variant.smoke is not None, "checked by preset()"
        return requested or variant.smoke.batch_size
    sizes = [each for each in variant.batch_size.values() if each is not None]
    if not sizes and requested is None:
        raise UsageError(f"The batch in the file of {case.label} is null.", "Give --batch-size.")
    if not sizes and requested is not None:
        return requested
    reported = variant.batch_size.get(case.precision)
    if reported is None:
        other = sizes[0]
        instead = f"; batch {other} as in its other precision" if requested is None else ""
        notes.append(f"the report has no {case.precision} run of {case.label}{instead}")
        return requested or other
    if requested is not None and requested != reported:
        notes.append(f"batch {requested} per GPU, where the report has {reported}")
    return requested or reported


def choose_window(
    case: PlanChoices, size: Preset, world_size: int, notes: list[str]
) -> PlannedWindow:
    """Return the measured iterations and the log interval.

    In a training ``--iterations`` is its length, not that of the window.
    """
    request, base = case.request, case.variant.window
    requested = request.iterations if request.mode == "throughput" else None
    smoke = case.variant.smoke if size == "smoke" else None
    if smoke is not None:
        interval, rule = smoke.log_interval, "smoke preset: a few small steps"
    else:
        interval = base.log_interval["one_gpu" if world_size == 1 else "many_gpus"]
        rule = base.rule
    if request.warmup is not None or requested is not None:
        rule = "as given on the command line"
    warmup = (smoke or base).warmup if request.warmup is None else request.warmup
    iterations = requested or (smoke or base).iterations
    batches = batches_per_update(choose_options(case, size)) if request.mode == "throughput" else 1
    whole = tuple(math.ceil(each / batches) * batches for each in (warmup, iterations))
    if whole != (warmup, iterations):
        notes.append(
            f"{whole[0]} + {whole[1]} iterations instead of {warmup} + {iterations}: the weights"
            f" change after each {batches} batches"
        )
        warmup, iterations = whole
    is_own_program = case.impl == "k8sbench"
    if is_own_program and iterations // interval < LEAST_RECORDS and interval > 1:
        finer = max(1, iterations // LEAST_RECORDS)
        each = "iteration" if finer == 1 else f"{finer} iterations"
        notes.append(f"a log line each {each} instead of {interval}: short window")
        interval = finer
    steady = is_own_program and size == "full" and case.device == "cuda"
    return PlannedWindow(
        warmup=warmup,
        iterations=iterations,
        log_interval=interval,
        min_steady_seconds=STEADY_SECONDS if steady else 0.0,
        rule=rule,
    )


def batches_per_update(options: Mapping[str, Option]) -> int:
    """Return the batches whose gradients are added up before the weights change."""
    batches = options.get("accumulate")
    return batches if isinstance(batches, int) and batches > 1 else 1


def choose_options(case: PlanChoices, size: Preset) -> dict[str, str | int | float | bool]:
    """Return our trainer's options: catalog, preset and request."""
    requested = parse_speed_options(case.request.speed_options)
    trainer = case.variant.trainer_module
    if case.impl != "k8sbench" or trainer is None:
        if requested:
            check_own_program(case, "--speed-option")
        return {}
    check_speed_options(requested, case.framework, trainer, case.label)
    requested = expand_fast(requested, trainer)
    options = {**case.variant.args, **_options_by_preset_and_mode(case, size), **requested}
    off = {name for name, value in requested.items() if value is False} & {*SWITCHES}
    return {name: value for name, value in options.items() if name not in off}


def _options_by_preset_and_mode(
    case: PlanChoices, size: Preset
) -> dict[str, str | int | float | bool]:
    """Return the catalog's options for a preset and a mode."""
    train, small = case.variant.train, case.variant.smoke
    trains = case.request.mode == "train"
    if size == "full" or small is None:
        return train.args if trains and train is not None else {}
    return {**small.args, **(small.train.args if trains and small.train is not None else {})}


def choose_image(
    case: PlanChoices, trainers_digest: str | None
) -> tuple[str | None, str, TrainersBy | None]:
    """Return the image, its origin, and how our trainers reach it."""
    request = case.request
    is_own_program = case.impl == "k8sbench"
    if case.site.backend == "local":
        return None, "local run: no image", "configmap" if is_own_program else None
    if request.image:
        return check_image_name(request.image), "--image", "configmap" if is_own_program else None
    if case.variant.image and case.impl == "user":
        return check_image_name(case.variant.image), f"image of {case.spec.name}", None
    program = case.variant.upstream if case.impl == "upstream" else None
    built = case.framework if is_own_program else program and program.image
    if request.image_registry and built:
        assert trainers_digest is not None, "known wherever plans are made"
        registry, digest = request.image_registry, trainers_digest
        name = built_image_name(registry, built, version=__version__, trainers_digest=digest)
        return check_image_name(name), "--image-registry", "image" if is_own_program else None
    if not is_own_program:
        raise UsageError(
            f"--impl {case.impl} of {case.spec.name} needs an image that holds the program.",
            f"Build k8sbench-{built} (docs/images.md) and give --image-registry, or --image."
            if built
            else "Give it with --image NAME:TAG.",
        )
    assert case.site.images is not None, "clusters have the table of images"
    reason = "public framework image, trainers by ConfigMap"
    return case.site.images.image(case.framework, "public").name, reason, "configmap"


def check_gpu_vendor(case: PlanChoices, chosen: str | None, notes: list[str]) -> None:
    """Refuse k8sbench's images on GPUs of other vendors; note shared GPUs and slices."""
    pool = case.site.pool
    remark = gpu_remark(pool.gpu_resource, pool.selector)
    if case.device != "cuda" or remark is None:
        return
    is_users = chosen in (case.request.image, case.variant.image)
    if remark == OTHER_VENDOR and not is_users and not case.request.force:
        raise DoesNotFit(
            f"Pool {pool.name} asks for {pool.gpu_resource}, and the image {chosen} is for CUDA.",
            "Give an image for these GPUs with --image, or choose another --node-pool.",
        )
    notes.append(f"pool {pool.name} asks for {pool.gpu_resource}: {remark}")


def check_kernels(case: PlanChoices, chosen: str | None, notes: list[str]) -> None:
    """Refuse an image without kernels for the GPUs; with --force add a note."""
    site = case.site
    if site.images is None or case.device != "cuda":
        return
    failure = image_failure(site.images, gpu_model=site.pool.gpu_model, image=chosen)
    if failure is None:
        return
    what, action = failure
    if not case.request.force:
        raise DoesNotFit(what, f"{action} If the table of images is out of date, give --force.")
    notes.append(f"{what} {action}")


def _check_local(case: PlanChoices) -> None:
    if case.impl == "upstream" or (case.impl == "k8sbench" and not case.variant.local):
        raise UsageError(
            f"The local backend does not run {case.label} with impl {case.impl}: it runs"
            " k8sbench's own trainers, where the catalog says local: true, and the command of a"
            " file of your own.",
            "Run it on a cluster, with --backend kubernetes; render shows its manifest.",
        )
