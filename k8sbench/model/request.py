"""Options of ``submit``, ``render``, ``nodes`` and ``collect`` as structs.

An option of the first three is a field of :class:`SubmitRequest` and its :class:`Flag` in the
tables below. The options of the commands, their help and the keys of ``k8sbench.toml`` are made of
these two (:mod:`k8sbench.cli.options`); planning reads the fields by their names.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Literal

import msgspec

from k8sbench.model.errors import UsageError
from k8sbench.model.kinds import JobKindWord
from k8sbench.model.masking import masked
from k8sbench.model.spec_values import AmpDtype, Framework, Impl, Mode, Precision, Preset
from k8sbench.model.speed_options import parse_speed_options

LONGEST = 1_000_000_000
"""Iterations."""


CLUSTER = "cluster"
"""Value of ``--store`` for the operator's store alone."""
LOCAL = "local"
"""Value of ``--store`` for the default folder alone, without the operator's store."""


class ClusterAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Requested cluster and namespace; None: the current ones."""

    namespace: str | None = None
    context: str | None = None
    """Context of the kubeconfig."""
    kubeconfig: str | None = None
    """Absolute path."""

    @property
    def is_given(self) -> bool:
        """True if any of them was given."""
        return self != ClusterAccess()


class FollowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of following and measuring runs on a cluster."""

    keep: bool = False
    """True to keep finished jobs and pods on the cluster."""
    wait: bool = False
    """True to wait even for problems that cannot recover by themselves."""
    accept: tuple[str, ...] = ()
    """Ids of reasons that do not reject."""
    prometheus: str = "auto"
    """URL, ``auto`` or ``none``."""


NO_OPTIONS = FollowOptions()
"""Each option has its default."""


class CollectOptions(FollowOptions, frozen=True, kw_only=True):
    """Runs to collect, and options of collecting."""

    runs: tuple[str, ...] = ()
    """Ids, or unique beginnings of them; none: all of the namespace that need collection."""
    take_over: bool = False
    """True to make this store the owner of the jobs of :attr:`runs`."""
    until_over: bool = False
    """True to wait for active jobs."""
    access: ClusterAccess = ClusterAccess()
    store: str | None = None
    """Folder or URL; None: the default place."""
    reserved: tuple[str, ...] = ()
    """Claims and Secrets that no Benchmark may name, each ``NAMESPACE/NAME``."""
    allow_own_pools: bool = False
    """True if Benchmarks may bring any pool; otherwise they narrow those of the operator."""
    observe: bool = False
    """True if an operator observes the labelled jobs of others."""


class CaseRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Fields that a submit and a Benchmark object share.

    None if the catalog, the pool or the command decides.
    """

    framework: Framework | Literal["all"] | None = None
    variant: str | None = None
    impl: Impl | None = None
    replicas: int | None = None
    gpus: int | None = None
    all_cases: bool = False
    pack: bool = False
    precision: Literal["fp32", "amp", "fp16", "bf16"] | None = None
    batch_sizes: tuple[int, ...] = ()
    """Samples per GPU and step; several: a case for each. Empty: the catalog's."""
    iterations: int | None = None
    warmup: int | None = None
    repeats: int | None = None
    preset: Preset | None = None
    data: str = "synthetic"
    speed_options: tuple[str, ...] = ()
    """Speed options as typed, for :func:`parse_speed_options`."""
    image: str | None = None
    image_registry: str | None = None
    node_pool: str | None = None
    queue: str | None = None
    force: bool = False
    job_kind: JobKindWord = "auto"

    mode: Mode = "throughput"
    weights: str | None = None
    epochs: int | None = None
    evaluate_every: int | None = None
    to_the_end: bool = False
    checkpoints: str | None = None
    max_restarts: int | None = None

    parallel: int | None = None
    """Most jobs of the set at a time, by the least that is given; None: one of this object."""
    wait: bool = False
    """True to wait even for jobs that cannot start unless somebody changes something."""
    keep: bool = False
    """True to leave jobs and pods on the cluster at their ends."""


class SubmitRequest(CaseRequest, frozen=True, kw_only=True):
    """Requested run, place and conditions; the flags below describe each field."""

    benchmark: str
    """Name in the catalog, ``all``, or path of a file."""
    object_file: str | None = None
    """File of Benchmark objects that say what is run; None: the options do."""
    access: ClusterAccess = ClusterAccess()
    command: str = "submit"
    """Command that resumes the set, for messages."""

    amp: bool = False
    pools_file: str | None = None
    timeout_s: float | None = None
    wait_timeout_s: float | None = None
    backend: Literal["auto", "kubernetes", "local"] = "auto"
    target: float | Literal["none"] | None = None

    run_id: str | None = None
    set_name: str | None = None
    resume: str | None = None
    no_operator: bool = False
    store: str | None = None
    prometheus: str = "auto"
    detach: bool = False
    dry_run: Literal["client"] | None = None
    yes: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError for options that no benchmark or cluster allows."""
        check_batch_sizes(",".join(map(str, self.batch_sizes)), self.batch_sizes)
        for name, flag in FLAGS.items():
            if (value := getattr(self, name)) is not None:
                check_bounds(option_names(name, flag)[-1], value, flag.bounds)
        for pair in EXCLUDING:
            is_agreeing = pair == ("amp", "precision") and self.precision != "fp32"
            if all(getattr(self, name) for name in pair) and not is_agreeing:
                typed = " and ".join(option_names(name, FLAGS[name])[-1] for name in pair)
                raise UsageError(f"{typed} exclude each other.", "Give one of them.")
        parse_speed_options(self.speed_options)

    @property
    def names_cluster(self) -> bool:
        """True if a cluster was named, which then must be usable."""
        return self.backend == "kubernetes" or self.access.is_given

    @property
    def joined_set(self) -> str:
        """Name of the set of the runs; drawn at submit if not given."""
        name = self.resume or self.set_name
        assert name is not None
        return name

    def options_of_clusters(self) -> Iterator[str]:
        """Yield the given options that local runs do not have."""
        for struct, flags in ((self.access, ACCESS_FLAGS), (self, FLAGS)):
            for name, flag in flags.items():
                if flag.cluster_only and getattr(struct, name) not in (None, False, "auto"):
                    yield option_names(name, flag)[0]
        if (self.parallel or 1) > 1:
            yield "--parallel"

    def resume_command(self) -> str:
        """Write the command that resumes the set, with the given options.

        Credentials are masked.
        """
        words = ["k8sbench", *shlex.split(self.command), self.benchmark]
        if self.object_file is not None:
            words[2:] = ["--filename", self.object_file]
        usual = SubmitRequest(benchmark=self.benchmark)
        for struct, defaults, flags in (
            (self.access, usual.access, ACCESS_FLAGS),
            (self, usual, FLAGS),
        ):
            for name, flag in flags.items():
                value = getattr(struct, name)
                option = option_names(name, flag)[-1]
                if name in _OF_ONE_CALL or value == getattr(defaults, name):
                    continue
                if self.object_file is not None and name in OF_OBJECT:
                    continue
                if name == "batch_sizes":
                    value = ",".join(map(str, value))
                for item in value if isinstance(value, tuple) else (value,):
                    text = f"{item:g}s" if name.endswith("timeout_s") else masked(str(item))
                    words += [option] if item is True else [option, text]
        return shlex.join([*words, "--resume", self.joined_set])

    @property
    def effective_precision(self) -> Precision:
        """Precision by ``amp`` and ``precision`` together."""
        return "amp" if self.amp or self.precision not in {None, "fp32"} else "fp32"

    @property
    def amp_dtype(self) -> AmpDtype | None:
        """Requested half type of AMP; None: the catalog's."""
        return self.precision if self.precision in {"fp16", "bf16"} else None


def check_bounds(option: str, value: int, bounds: tuple[int, int] | None) -> None:
    """Raise :class:`UsageError` for a number outside of its bounds."""
    if bounds is not None and not bounds[0] <= value <= bounds[1]:
        raise UsageError(f"{option} {value} is out of range.", f"Give {bounds[0]} to {bounds[1]}.")


MOST_BATCH_SIZES, LARGEST_BATCH = 32, 1_000_000


def parse_batch_sizes(text: str) -> tuple[int, ...]:
    """Read ``64,128,256``; raises :class:`UsageError`."""
    words = text.split(",")
    sizes = tuple(int(word) for word in words if word.strip().isdecimal())
    check_batch_sizes(text, sizes if len(sizes) == len(words) else (0,))
    return sizes


def check_batch_sizes(text: str, sizes: tuple[int, ...]) -> None:
    """Raise :class:`UsageError` for sizes that no sweep has; ``text`` is as typed."""
    are_counts = all(1 <= size <= LARGEST_BATCH for size in sizes)
    if not are_counts or len({*sizes}) < len(sizes) or len(sizes) > MOST_BATCH_SIZES:
        raise UsageError(
            f"--batch-size {text!r} is no list of batch sizes.",
            f"Write up to {MOST_BATCH_SIZES} different numbers from 1 to {LARGEST_BATCH}, such as"
            " 64,128,256.",
        )


class Flag(msgspec.Struct, frozen=True):
    """Command-line form and help of a field."""

    help: str
    metavar: str | None = None
    """Value's name in the help; None for switches and choices."""
    bounds: tuple[int, int] | None = None
    """Minimum and maximum of a number; None if not checked here."""
    names: tuple[str, ...] = ()
    """``--queue``, or ``-n`` and ``--namespace``; none: the field's own name."""
    cluster_only: bool = False
    """True if only cluster runs have the option."""
    excludes: tuple[str, ...] = ()
    """Fields that are not given together with this one."""
    bare: str | None = None
    """Value of the option without an argument; None: it needs one."""


def option_names(field: str, flag: Flag) -> tuple[str, ...]:
    """Return the option's names: ``--batch-size``."""
    return flag.names or (f"--{field.replace('_', '-')}",)


ACCESS_FLAGS = {
    "namespace": Flag(
        "Namespace; default: the context's.", "NAME", names=("-n", "--namespace"), cluster_only=True
    ),
    "context": Flag("Context of the kubeconfig.", "NAME", cluster_only=True),
    "kubeconfig": Flag("Kubeconfig; default: kubectl's.", "FILE", cluster_only=True),
}
"""Options of every command that uses a cluster."""
ACCEPT_FLAG = Flag("Overrule a rejection by its id; the row is marked.", "REASON")
"""Option of every command that judges."""
FILTER_FLAGS = {
    "benchmark": Flag("Only this benchmark.", "NAME"),
    "framework": Flag("Only this framework.", "NAME"),
    "precision": Flag("Only this precision."),
    "case": Flag("Only this case, as 4x8.", "NxG"),
}
"""Options that choose rows."""
CASE_FLAGS = {
    "framework": Flag("Framework; default: the benchmark's own default, printed in the plan."),
    "variant": Flag("Variant of the framework; see benchmarks.", "NAME"),
    "impl": Flag("Whose program runs: k8sbench's trainer (default) or the published one."),
    "gpus": Flag("GPUs per replica; default: all of a node's.", "G", (1, 999_999)),
    "amp": Flag("Automatic mixed precision: --precision amp.", excludes=("precision",)),
    "precision": Flag("Default fp32; fp16 and bf16: AMP with this half type."),
    "batch_sizes": Flag(
        "Samples per GPU and step; several are a case each.", "B[,B...]", names=("--batch-size",)
    ),
    "iterations": Flag("Measured iterations; with --mode train: its length.", "N", (1, LONGEST)),
    "warmup": Flag("Iterations before these that are not measured.", "N", (0, LONGEST)),
    "repeats": Flag(
        "Runs of each case; default 1, the catalog's count with --all-cases.", "R", (1, 1000)
    ),
    "preset": Flag("Full size (default with GPUs) or a few small steps (default without)."),
    "data": Flag(
        "Source of the samples: made once on the device (default), made by loader processes,"
        " or read from a folder of this machine or of a volume claim.",
        "synthetic|synthetic-host|PATH|pvc:NAME[/SUB]",
    ),
    "speed_options": Flag(
        "Option of k8sbench's trainer, such as channels-last, compile, cudnn-benchmark=false or"
        " workers=8, or fast for all that keep the results; may be repeated.",
        "NAME[=VALUE]",
        names=("--speed-option",),
    ),
    "image": Flag("Container image.", "NAME:TAG", cluster_only=True, excludes=("image_registry",)),
    "image_registry": Flag(
        "Registry and path of your own images (docs/images.md).", "HOST/PATH", cluster_only=True
    ),
    "node_pool": Flag("Node pool; default: that of the pools file.", "NAME", cluster_only=True),
    "pools_file": Flag("Pools file.", "FILE", names=("--pools",), cluster_only=True),
    "queue": Flag("Kueue queue; the job starts suspended.", "NAME", cluster_only=True),
    "force": Flag("Submit an image that is known to fail on the pool's GPUs.", cluster_only=True),
    "job_kind": Flag(
        "Jobs of the training operator v1, or of Kubeflow Trainer v2; default auto: what the"
        " cluster serves, v1 first.",
        cluster_only=True,
    ),
    "timeout_s": Flag(
        "End the run after TIME (90s, 15m, 2h); default 30m for smoke, 24h otherwise;"
        " with --mode train 2h and 14d.",
        "TIME",
        names=("--timeout",),
    ),
    "wait_timeout_s": Flag(
        "End a run that waits for its start longer than TIME, as in a queue; default 7d.",
        "TIME",
        names=("--wait-timeout",),
        cluster_only=True,
    ),
    "backend": Flag("Where to run; default auto: on the cluster if one is configured, else here."),
}
"""Options of each run, of ``submit``, ``render`` and ``nodes``."""
SHAPE_FLAGS = {
    "replicas": Flag("Nodes; default 1.", "N", (1, 1000)),
    "all_cases": Flag("Every case of the catalog that fits.", excludes=("replicas", "gpus")),
    "pack": Flag("Let replicas share a node, as a case of its own.", cluster_only=True),
}
"""Options of ``submit`` and ``render``; runs of ``nodes`` have one replica."""
TRAINING_FLAGS = {
    "mode": Flag("What to measure: a window of steps (default), or a training with evaluations."),
    "weights": Flag(
        "Published start weights, in both modes; default: from scratch.", "FILE|pvc:NAME/FILE"
    ),
    "epochs": Flag(
        "Length in epochs; default: the catalog's.", "N", (1, 1_000_000), excludes=("iterations",)
    ),
    "evaluate_every": Flag(
        "Interval, in the unit of the length; default: the catalog's.", "N", (1, LONGEST)
    ),
    "target": Flag("Percent at which the run ends; default: the benchmark's.", "X|none"),
    "to_the_end": Flag("Continue to train after the target is reached."),
    "checkpoints": Flag(
        "Folder below which each run keeps its checkpoints; default: none are kept.",
        "DIR|pvc:NAME[/SUB]",
    ),
    "max_restarts": Flag(
        "How often a failed job continues from its checkpoint; default 3, or 0 without"
        " --checkpoints.",
        "N",
        (0, 100),
    ),
}
"""A training to an accuracy: ``submit`` and ``render``."""
SET_FLAGS = {
    "set_name": Flag("Set to create or join; default: a new one.", "SET", names=("--set",)),
    "resume": Flag(
        "Continue a set: follow its unfinished runs and start the missing ones.",
        "SET",
        excludes=("set_name",),
    ),
    "parallel": Flag("Jobs of the set at a time; default: one job of this submit.", "N", (1, 1000)),
    "wait": Flag("Keep waiting for a job that cannot start without a change.", cluster_only=True),
    "keep": Flag("Leave jobs and pods on the cluster at the end.", cluster_only=True),
    "store": Flag("Store; default K8SBENCH_STORE.", "FOLDER"),
    "prometheus": Flag(
        "Prometheus with GPU metrics; default K8SBENCH_PROMETHEUS, else auto: found in the"
        " cluster.",
        "URL|auto|none",
    ),
}
"""Options of a set's execution, of ``submit`` and ``nodes``."""
SUBMIT_FLAGS = {
    "run_id": Flag("Name of the run; an existing run of this name is joined.", "NAME"),
    "detach": Flag("Create the jobs and return; see collect.", cluster_only=True),
    "no_operator": Flag(
        "Create and follow the jobs from here, even if an operator serves the namespace.",
        cluster_only=True,
    ),
    "dry_run": Flag("Plan and print the manifest. Starts nothing.", bare="client"),
    "yes": Flag(
        "Run the program of a file of your own on this machine without asking.",
        names=("-y", "--yes"),
    ),
}
"""``submit`` alone."""
FLAGS = CASE_FLAGS | SHAPE_FLAGS | TRAINING_FLAGS | SET_FLAGS | SUBMIT_FLAGS

OF_OBJECT = frozenset(
    {
        *CaseRequest.__struct_fields__,
        "amp",
        "run_id",
        "set_name",
        "target",
        "timeout_s",
        "wait_timeout_s",
    }
)
"""Fields that a file of Benchmark objects states, so that no option may."""
_OF_ONE_CALL = frozenset({"set_name", "resume", "run_id", "dry_run", "detach"})
"""Fields that the command which resumes a set does not repeat."""

EXCLUDING = [(name, other) for name, flag in FLAGS.items() for other in flag.excludes]
"""Pairs of fields that exclude each other."""
