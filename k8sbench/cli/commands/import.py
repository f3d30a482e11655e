"""``k8sbench import``: logs that exist already become runs, in one table with all others.

Exit codes: 0 all valid, 5 any rejected, 2 any that cannot be read, recognised or counted; nothing
is recorded then.
"""

from __future__ import annotations

from typing import Any

import click

from k8sbench.app import importing
from k8sbench.app.measure import MeasureOptions
from k8sbench.cli import rows
from k8sbench.cli.given_logs import log_options, told
from k8sbench.cli.options import rows_option, store_option
from k8sbench.cli.terminal import output


@click.command()
@log_options
@click.option("--set", "set_name", metavar="NAME", help="Set of the runs; default: a new one.")
@click.option(
    "--skip-unreadable", is_flag=True, help="Leave out, and name, logs that cannot be measured."
)
@rows_option
@store_option
def command(
    logs: tuple[str, ...], options: MeasureOptions, output_format: str, **recording: Any
) -> int:
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
    done = importing.import_logs(logs, options, output.note, **recording)
    if done.rows is not None:
        rows.write(done.rows, output_format)
    return told(done)
