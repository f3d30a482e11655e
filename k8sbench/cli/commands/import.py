"""``k8sbench import``: logs that exist already become runs, in one table with all others.

Exit codes: 0 all valid, 5 any rejected, 2 any that cannot be read, recognised or counted; nothing
is recorded then.
"""

from __future__ import annotations

from typing import Any

import click

from k8sbench.app import importing
from k8sbench.app.importing import ImportOptions
from k8sbench.app.measure import AUTO, PRECISIONS, MeasureOptions
from k8sbench.cli import imported, rows
from k8sbench.cli.options import accept_option, rows_option, store_option
from k8sbench.cli.terminal import output
from k8sbench.parse.families import NAMES

MEASURE = ("benchmark", "family", "framework", "variant", "warmup", "one_run", "accept")


@click.command()
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("--benchmark", metavar="NAME|FILE", help="Benchmark to which the logs belong.")
@click.option(
    "--format",
    "family",
    type=click.Choice([AUTO, *NAMES]),
    help="Log family, without a benchmark; auto: recognised in each log.",
)
@click.option(
    "--gpus",
    metavar="[PATH=]N",
    multiple=True,
    help="GPUs of the whole job, for logs that do not state them; repeatable. PATH is a file, a"
    " folder or a pattern such as '*gpu8*'.",
)
@click.option(
    "--case",
    metavar="[PATH=]RxG",
    multiple=True,
    help="Nodes and GPUs per node, as 4x8, if nothing else states the nodes; repeatable.",
)
@click.option(
    "--batch-size",
    metavar="[PATH=]B",
    multiple=True,
    help="Samples per GPU and step; repeatable.",
)
@click.option(
    "--precision",
    metavar=f"[PATH=]{'|'.join(PRECISIONS)}",
    multiple=True,
    help="Precision that was requested; repeatable.",
)
@click.option("--gpu-model", metavar="NAME", help="GPU model, for logs that do not state it.")
@click.option("--framework", type=click.Choice(["pytorch", "paddle"]), help="Framework.")
@click.option("--variant", metavar="NAME", help="Variant of the benchmark.")
@click.option(
    "--warmup",
    metavar="ITERATIONS",
    type=click.IntRange(min=0),
    help="Iterations left out; default: the log's for our own trainers, else the benchmark's, "
    "else 0.",
)
@click.option("--one-run", is_flag=True, help="All logs belong to one run: its ranks or its parts.")
@click.option("--set", "set_name", metavar="NAME", help="Set of the runs; default: a new one.")
@click.option(
    "--skip-unreadable", is_flag=True, help="Leave out, and name, logs that cannot be measured."
)
@accept_option
@rows_option
@store_option
def command(logs: tuple[str, ...], output_format: str, where: str | None, **asked: Any) -> int:
    """Record existing logs as runs, and print their rows.

    LOG is a file, a folder (all logs below it), a .gz of a log, or - for standard input. Each log
    becomes a repeat of its case: GPUs, batch and precision are read from the log, by the
    expressions of the benchmark's file too, or given by options. All logs are recorded, or none; a
    copy of another log, or of one that is in the store already, is named. The command can be
    repeated: with --set the runs of the same logs are not changed.

    \b
    k8sbench import logs/ --benchmark mine.yaml --set march --gpu-model "Tesla V100-SXM2-16GB"
    k8sbench import n1/ n4/ --benchmark deeplabv3p --case n1=1x8 --case n4=4x8 --precision fp32
    """
    measure = MeasureOptions(**{name: asked.pop(name) for name in MEASURE})
    options = ImportOptions(measure=measure, store=where, **asked)
    done = importing.import_logs(logs, options, output.note)
    if done.rows is not None:
        rows.write(done.rows, output_format)
    return imported.told(done)
