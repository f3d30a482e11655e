"""What ``import`` and ``measure`` share: the logs, what is said of them, and what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k8sbench.app.measure import AUTO, PRECISIONS, MeasureOptions
from k8sbench.cli import exit_codes
from k8sbench.cli.options import accept_option, grouped
from k8sbench.cli.terminal import output
from k8sbench.model.counts import counted
from k8sbench.model.errors import InputError
from k8sbench.parse.families import NAMES

if TYPE_CHECKING:
    from k8sbench.app.importing import ImportedLogs

F = TypeVar("F", bound=Callable[..., Any])

_LOGS = (
    click.argument("logs", metavar="LOG...", nargs=-1, required=True),
    click.option("--benchmark", metavar="NAME|FILE", help="Benchmark to which the logs belong."),
    click.option(
        "--format",
        "family",
        type=click.Choice([AUTO, *NAMES]),
        help="Log family, without a benchmark and so without a plan to compare with. auto: "
        "recognised in each log.",
    ),
    click.option(
        "--gpus",
        metavar="[PATH=]N",
        multiple=True,
        help="GPUs of the whole job, for logs that do not state them; repeatable. PATH is a file, a"
        " folder or a pattern such as '*gpu8*'.",
    ),
    click.option(
        "--case",
        metavar="[PATH=]RxG",
        multiple=True,
        help="Nodes and GPUs per node, as 4x8, if nothing else states the nodes; repeatable.",
    ),
    click.option(
        "--batch-size",
        metavar="[PATH=]B",
        multiple=True,
        help="Samples per GPU and step; repeatable.",
    ),
    click.option(
        "--precision",
        metavar=f"[PATH=]{'|'.join(PRECISIONS)}",
        multiple=True,
        help="Precision that was requested; repeatable.",
    ),
    click.option("--gpu-model", metavar="NAME", help="GPU model, for logs that do not state it."),
    click.option("--framework", type=click.Choice(["pytorch", "paddle"]), help="Framework."),
    click.option("--variant", metavar="NAME", help="Variant of the benchmark."),
    click.option(
        "--warmup",
        metavar="ITERATIONS",
        type=click.IntRange(min=0),
        help="Iterations left out; default: the log's for our own trainers, else the benchmark's, "
        "else 0.",
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


def told(done: ImportedLogs) -> int:
    """Note what was recorded and what was not; returns the exit code."""
    kind = "error" if done.rows is None else "left out"
    following = [*(error.action for error in done.failures[1:]), None]
    for error, then in zip(done.failures, following, strict=False):
        output.note(f"{kind}: {error.message}")
        # What is to be done about several logs in a row is said once.
        if error.action and error.action != then:
            output.note(f"  {error.action}")
    if done.rows is None:
        output.note(f"Nothing was imported: {counted(len(done.failures), 'error')}.")
        return InputError.exit_code
    here = f"; {counted(len(done.there), 'run', ('was', 'were'))} there already"
    output.note(
        f"{counted(len(done.added), 'run')} imported into set {done.set_name}"
        f"{here if done.there else ''}."
    )
    return exit_codes.of_rows(done.rows)
