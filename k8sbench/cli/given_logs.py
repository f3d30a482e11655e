"""What ``import`` and ``measure`` share: the logs, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from k8sbench.app.measure import AUTO, PRECISIONS, MeasureOptions
from k8sbench.cli.options import accept_option, grouped
from k8sbench.parse.families import NAMES

F = TypeVar("F", bound=Callable[..., Any])

_LOGS = (
    click.argument("logs", metavar="LOG...", nargs=-1, required=True),
    click.option("--benchmark", metavar="NAME|FILE", help="Benchmark to which the logs belong."),
    click.option(
        "--format",
        "family",
        type=click.Choice([AUTO, *NAMES]),
        metavar="FAMILY",
        help="Log family, without a benchmark and so without a plan to compare with: "
        f"{', '.join(NAMES)}, or {AUTO}: recognised in each log.",
    ),
    click.option(
        "--gpus",
        metavar="N",
        type=click.IntRange(1, 999_999),
        help="GPUs of the whole job, for logs that do not state them.",
    ),
    click.option(
        "--case",
        metavar="RxG",
        help="Nodes and GPUs per node, as 4x8, if nothing else states them.",
    ),
    click.option(
        "--batch-size",
        metavar="B",
        type=click.IntRange(1, 1_000_000),
        help="Samples per GPU and step.",
    ),
    click.option(
        "--precision", type=click.Choice([*PRECISIONS]), help="Precision that was requested."
    ),
    click.option("--gpu-model", metavar="NAME", help="GPU model, for logs that do not state it."),
    click.option("--framework", type=click.Choice(["pytorch", "paddle"]), help="Framework."),
    click.option("--variant", metavar="NAME", help="Variant of the benchmark."),
    click.option(
        "--warmup",
        metavar="ITERATIONS",
        type=click.IntRange(min=0),
        help="Iterations left out; default: the log's for our own trainers, else the benchmark's, "
        "else the format's.",
    ),
    click.option(
        "--one-run", is_flag=True, help="All logs belong to one run: its ranks or its parts."
    ),
    accept_option,
)


def log_options(function: F) -> F:
    """Add logs and what is said of them; the command receives the latter as ``options``."""
    names = MeasureOptions.__struct_fields__
    return grouped(_LOGS, "options", lambda values: MeasureOptions(**values), names, function)
