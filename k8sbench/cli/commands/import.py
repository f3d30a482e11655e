"""``k8sbench import``: logs that exist already become runs, in one table with all others.

Exit codes: 0 all valid, 5 any rejected, 2 any that cannot be read, recognised or counted; nothing
is recorded then.
"""

from __future__ import annotations

from typing import Any

import click

from k8sbench.app import importing
from k8sbench.app.importing import ImportedLogs
from k8sbench.app.measure import MeasureOptions
from k8sbench.cli import exit_codes, rows
from k8sbench.cli.given_logs import log_options
from k8sbench.cli.options import rows_option, store_option
from k8sbench.cli.terminal import output
from k8sbench.model.counts import counted
from k8sbench.model.errors import InputError


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
    k8sbench import logs/ --benchmark deeplabv3p --case 4x8 --precision fp32 --set march
    """
    done = importing.import_logs(logs, options, output.note, **recording)
    if done.rows is not None:
        rows.write(done.rows, output_format)
    return _told(done)


def _told(done: ImportedLogs) -> int:
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
