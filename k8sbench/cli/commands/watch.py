"""``k8sbench watch``: follow a run that was submitted before, to its row."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

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
from k8sbench.cli.terminal import output, reporter
from k8sbench.lifecycle.live import LiveMetrics
from k8sbench.model.request import ClusterAccess

WIDE = 10_000
"""Columns in a pipe, which gets everything."""


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--gpu", is_flag=True, help="Show the latest GPU metrics until the run has ended.")
@keep_option
@wait_option
@rows_option
@access_options
@store_option
@prometheus_option
def command(
    run: str,
    gpu: bool,
    keep: bool,
    wait: bool,
    output_format: str,
    access: ClusterAccess,
    where: str | None,
    prometheus: str,
) -> int:
    """Follow a run to its end and print its row.

    RUN is a run id or a unique beginning of one. If another k8sbench follows the run, its record is
    watched. With --gpu its logs are fetched when it has ended. Ctrl-C does not change the run. Exit
    codes are those of submit.
    """
    stop = SignalStop()
    if gpu:
        with _gpu_printer() as show:
            follow.look(run, where, access, output.note, stop, show, prometheus=prometheus)
    with reporter.reporting() as progress:
        followed = follow.watch(
            *(run, where, access, progress, stop), keep=keep, wait=wait, prometheus=prometheus
        )
    rows.write(followed, output_format)
    return exit_codes.of_rows(followed)


@contextlib.contextmanager
def _gpu_printer() -> Iterator[Callable[[LiveMetrics], None]]:
    """Yield a function that prints GPU metrics; a terminal redraws in place."""
    from rich.console import Console
    from rich.live import Live

    from k8sbench.cli.terminal import drawing

    if not sys.stdout.isatty() or os.environ.get("TERM", "") in output.PLAIN_TERMS:

        def show(metrics: LiveMetrics) -> None:
            wide = Console(width=WIDE, no_color=True, color_system=None)
            with wide.capture() as drawn:
                wide.print(drawing.gpus(metrics, WIDE))
            output.write("\n".join(line.rstrip() for line in drawn.get().split("\n")) + "\n")

        yield show
    else:
        console = Console(force_terminal=True, no_color=not output.wanted())
        with Live(console=console, auto_refresh=False) as live:
            yield lambda metrics: live.update(drawing.gpus(metrics, console.width), refresh=True)
