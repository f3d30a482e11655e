"""The options that commands share: cases, the cluster, the store, the format of rows."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from k8sbench.app import metric_sources
from k8sbench.app.cases import CaseOptions, Selection
from k8sbench.app.connections import ClusterAccess
from k8sbench.app.targets import TargetOptions
from k8sbench.cli import training_options
from k8sbench.cli.form import form_option
from k8sbench.model import speed_options, times
from k8sbench.model.choices import Request
from k8sbench.model.errors import UsageError
from k8sbench.report import formats

F = TypeVar("F", bound=Callable[..., Any])
FC = TypeVar("FC", bound=Callable[..., Any] | click.Command)

S = TypeVar("S", bound=msgspec.Struct)

CASE_NAMES = {
    *("benchmark", "amp"),
    *Request.__struct_fields__,
    *Selection.__struct_fields__,
    *TargetOptions.__struct_fields__,
}
LONGEST_SECONDS = 366 * 86400.0


def _timeout(_: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Read ``--timeout``: a duration above 0, in seconds."""
    if value is None:
        return None
    option, seconds = param.opts[-1], times.seconds(value)
    if seconds is None:
        raise UsageError(f"{option} {value!r} is not a length of time.", f"Write {times.EXAMPLES}.")
    if not 0 < seconds <= LONGEST_SECONDS:
        raise UsageError(
            f"{option} {value!r} is not a usable length of time.", "Give more than 0s, up to 366d."
        )
    return seconds


_ACCESS: tuple[Callable[[Any], Any], ...] = (
    click.option("-n", "--namespace", metavar="NAME", help="Namespace; default: the context's."),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig."),
    click.option("--kubeconfig", metavar="FILE", help="Kubeconfig; default: kubectl's."),
)
_SHAPES: tuple[Callable[[Any], Any], ...] = (
    click.option("--replicas", type=int, metavar="N", help="Nodes; default 1."),
    click.option("--case", metavar="NxG", help="Replicas and GPUs per replica together, as 4x8."),
    click.option("--all-cases", is_flag=True, help="Every case of the catalog that fits."),
)
"""Those of submit and render alone."""
_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.argument("benchmark", metavar="BENCHMARK|FILE"),
    click.option(
        "--framework",
        type=click.Choice(["pytorch", "paddle", "all"]),
        help="Framework; default: the benchmark's own default, printed in the plan.",
    ),
    click.option("--variant", metavar="NAME", help="Variant of the framework; see benchmarks."),
    click.option(
        "--impl",
        type=click.Choice(["k8sbench", "upstream", "user"]),
        help="Whose program runs: k8sbench's trainer (default) or the published one.",
    ),
    *_SHAPES,
    click.option(
        "--gpus", type=int, metavar="G", help="GPUs per replica; default: all of a node's."
    ),
    click.option("--amp", is_flag=True, help="Automatic mixed precision: --precision amp."),
    click.option("--precision", type=click.Choice(["fp32", "amp"]), help="Default fp32."),
    click.option(
        "--amp-dtype", type=click.Choice(["fp16", "bf16"]), help="Half type of AMP; default fp16."
    ),
    click.option("--batch-size", type=int, metavar="B", help="Samples per GPU and step."),
    click.option(
        "--iterations",
        type=int,
        metavar="N",
        help="Measured iterations; with --mode train: its length.",
    ),
    click.option(
        "--warmup", type=int, metavar="N", help="Iterations before these that are not measured."
    ),
    click.option(
        "--repeats",
        type=int,
        metavar="R",
        help="Runs of each case; default 1, the catalog's count with --all-cases.",
    ),
    click.option(
        "--preset",
        type=click.Choice(["full", "smoke"]),
        help="Full size (default with GPUs) or a few small steps (default without).",
    ),
    click.option(
        "--data",
        default="synthetic",
        metavar="synthetic|synthetic-host|PATH|pvc:NAME[/SUB]",
        help="Source of the samples: made once on the device (default), made by loader processes,"
        " or read from a folder of this machine or of a volume claim.",
    ),
    click.option(
        "--speed-option",
        "speed_options",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="Option of k8sbench's trainer that changes only the speed, such as channels-last,"
        " compile, cudnn-benchmark=false or workers=8; may be repeated.",
    ),
    click.option("--image", metavar="NAME:TAG", help="Container image."),
    click.option(
        "--image-registry",
        metavar="HOST/PATH",
        help="Registry and path of your own images (docs/images.md).",
    ),
    click.option(
        "--image-pull-secret",
        "pull_secrets",
        multiple=True,
        metavar="NAME",
        help="Secret to pull the image with, instead of the pool's; may be repeated.",
    ),
    click.option("--node-pool", metavar="NAME", help="Node pool; default: that of the pools file."),
    click.option("--pools", "pools_file", metavar="FILE", help="Pools file."),
    click.option("--queue", metavar="NAME", help="Kueue queue; the job starts suspended."),
    click.option("--gang", is_flag=True, help="Start all replicas together or none."),
    click.option(
        "--timeout",
        "timeout_s",
        callback=_timeout,
        metavar="TIME",
        help="End the run after TIME (90s, 15m, 2h); default 30m for smoke, 24h otherwise;"
        " with --mode train 2h and 14d.",
    ),
    click.option("--seed", type=int, default=0, metavar="N", help="Random seed; default 0."),
    click.option(
        "--backend",
        type=click.Choice(["auto", "kubernetes", "local"]),
        default="auto",
        help="Where to run; default auto: on the cluster if one is configured, else here.",
    ),
)


def plan_options(function: F) -> F:
    """Add the options of cases to a command; it receives them as one :class:`CaseOptions`."""
    options = (*_OPTIONS, *training_options.OPTIONS)
    return _grouped(options, "options", _case_options, CASE_NAMES, function)


def node_plan_options(function: F) -> F:
    """Add the options of a case of one node, as :func:`plan_options`."""
    options = tuple(one for one in _OPTIONS if one not in _SHAPES)
    return _grouped(options, "options", _case_options, CASE_NAMES, function)


def set_options(function: F) -> F:
    """Add the options of how the runs of a set are carried out."""
    for option in reversed(_SET):
        function = option(function)
    return function


def access_options(function: F) -> F:
    """Add kubectl's options to a command; it receives them as ``access``."""
    return _grouped(_ACCESS, "access", _access, ClusterAccess.__struct_fields__, function)


def since_option(what: str) -> Callable[[FC], FC]:
    """Make ``--since``: a length of time back from now, or a date; becomes Unix seconds."""
    return click.option("--since", metavar="TIME", callback=_since, help=what)


def duration_option(option: str, name: str, what: str) -> Callable[[FC], FC]:
    """Make an option of a length of time above 0, in seconds."""
    return click.option(option, name, metavar="TIME", callback=_timeout, help=what)


store_option = click.option(
    "--store",
    "where",
    metavar="FOLDER|URL",
    help="Store; default K8SBENCH_STORE, else the user's data folder. results, compare, "
    "history, baseline list, list, status and logs also take cluster: the collector's store.",
)
accept_option = click.option(
    "--accept",
    multiple=True,
    metavar="REASON",
    help="Overrule a rejection by its id; the row is marked.",
)
wait_option = click.option(
    "--wait", is_flag=True, help="Keep waiting for a job that cannot start without a change."
)
keep_option = click.option(
    "--keep", is_flag=True, help="Leave jobs and pods on the cluster at the end."
)
_SET: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--set", "set_name", metavar="SET", help="Set to create or join; default: a new one."
    ),
    click.option(
        "--resume",
        metavar="SET",
        help="Continue a set: follow its unfinished runs and start the missing ones.",
    ),
    click.option(
        "--parallel",
        type=click.IntRange(1, 1000),
        default=1,
        metavar="N",
        help="Jobs at a time; default 1.",
    ),
    wait_option,
    keep_option,
    accept_option,
    click.option("--store", metavar="FOLDER|URL", help="Store; default K8SBENCH_STORE."),
)
prometheus_option = click.option(
    "--prometheus",
    envvar="K8SBENCH_PROMETHEUS",
    metavar="URL|auto|none",
    default=metric_sources.AUTO,
    callback=lambda _, __, value: metric_sources.checked(value),
    help="Prometheus with GPU metrics; default K8SBENCH_PROMETHEUS, else auto: found in the "
    "cluster.",
)
rows_option = form_option(
    *formats.offered("table", "wide", "markdown", "flat", "document", "names"),
    about="Format of the rows.",
)
"""How a command prints the rows of the runs that it has closed."""


def _grouped(
    options: tuple[Callable[[Any], Any], ...],
    name: str,
    build: Callable[[dict[str, Any]], Any],
    names: Collection[str],
    function: F,
) -> F:
    """Add options to a command, which receives what is built of their values as one argument.

    ``names`` are those of the options' values, which the command does not receive.
    """

    # wraps() also carries over the options that the command declared itself.
    @functools.wraps(function)
    def command(**values: Any) -> Any:
        own = {key: value for key, value in values.items() if key not in names}
        return function(**{name: build(values)}, **own)

    wrapped: Any = command
    for option in reversed(options):
        wrapped = option(wrapped)
    result: F = wrapped
    return result


def _access(values: dict[str, Any]) -> ClusterAccess:
    kubeconfig = values["kubeconfig"]
    path = None if kubeconfig is None else str(Path(kubeconfig).absolute())
    return _struct_of(values, ClusterAccess, kubeconfig=path)


def _since(_: click.Context, param: click.Parameter, value: str | None) -> float | None:  # noqa: ARG001
    return None if value is None else times.parse_since(value, now=time.time())


def _case_options(values: dict[str, Any]) -> CaseOptions:
    """Sort the values of the options; rejects those that contradict each other."""
    if values["amp"] and values["precision"] == "fp32":
        raise UsageError("--amp and --precision fp32 exclude each other.", "Give one of them.")
    request = _struct_of(
        values,
        Request,
        framework=None if values["framework"] == "all" else values["framework"],
        precision="amp" if values["amp"] else values["precision"] or "fp32",
        speed_options=speed_options.parse(values["speed_options"]),
        **{
            name: training_options.absolute(values[name])
            for name in ("data", "weights", "checkpoints")
            if name in values
        },
    )
    return CaseOptions(
        benchmark=values["benchmark"],
        request=request,
        selection=_struct_of(values, Selection),
        target=_struct_of(values, TargetOptions),
    )


def _struct_of(values: dict[str, Any], kind: type[S], **given: Any) -> S:
    """Build a struct of the given values, and of the options that have its fields' names."""
    named = {name: values[name] for name in kind.__struct_fields__ if name in values}
    return kind(**{**named, **given})
