"""``k8sbench watch``: follow a run that was submitted before, to its row."""

from __future__ import annotations

import click

from k8sbench.app import follow
from k8sbench.cli import exit_codes, rows
from k8sbench.cli.options import (
    access_options,
    keep_option,
    prometheus_option,
    rows_option,
    store_option,
    wait_option,
)
from k8sbench.cli.signals import SignalStop
from k8sbench.cli.terminal import reporter
from k8sbench.model.request import ClusterAccess


@click.command()
@click.argument("run", metavar="RUN")
@keep_option
@wait_option
@rows_option
@access_options
@store_option
@prometheus_option
def command(
    run: str,
    keep: bool,
    wait: bool,
    output_format: str,
    access: ClusterAccess,
    where: str | None,
    prometheus: str,
) -> int:
    """Follow a run to its end and print its row.

    RUN is a run id or a unique beginning of one. If another k8sbench follows the run, its record is
    watched. Ctrl-C does not change the run. Exit codes are those of submit.
    """
    with reporter.reporting() as progress:
        followed = follow.watch(
            *(run, where, access, progress, SignalStop()),
            keep=keep,
            wait=wait,
            prometheus=prometheus,
        )
    rows.write(followed, output_format)
    return exit_codes.of_rows(followed)
