"""``k8sbench logs``: what a run's replicas printed, as it was archived line by line."""

from __future__ import annotations

import sys
from typing import Any

import click

from k8sbench.app import logs
from k8sbench.app.logs import LogOptions
from k8sbench.cli.options import access_options, since_option, store_option
from k8sbench.cli.signals import SignalStop
from k8sbench.cli.terminal import output


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--replica", metavar="NAME", help="Only this replica: master-0, worker-1, …")
@click.option("--timestamps", is_flag=True, help="Begin each line with the time it came.")
@since_option("Only lines that came since: 30m, 2026-11-20T08:15Z, …")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended.")
@access_options
@store_option
def command(
    timestamps: bool,
    since: float | None,
    where: str | None,
    **asked: Any,
) -> None:
    """Print the logs that a run left.

    RUN is a run id or a unique beginning of one, in the store or, submitted from another store, on
    the cluster alone. Several replicas are printed in the order of time, each line after its
    replica's name. The lines of a run on a cluster that no process of this store follows come from
    there; with -f they are archived, too, and the run is closed at its end. Those of a run that a
    collector in the namespace has closed come from it; --store cluster asks only it.
    """
    options = LogOptions(store=where, **asked)
    with output.piped():
        logs.logs(options, _Printer(since, timestamps), SignalStop())


class _Printer:
    """Prints lines as bytes: a log may hold what is no text at all."""

    def __init__(self, since: float | None, timestamps: bool) -> None:
        self._since, self._timestamps = since, timestamps
        sys.stdout.flush()
        self._out = sys.stdout.buffer

    def line(self, at: float, replica: str, text: bytes, *, several: bool) -> None:
        """Print a line, unless it came too early."""
        if self._since is not None and at < self._since:
            return
        # Of the lines of an imported log nobody saw when they came.
        if self._timestamps and at:
            self._out.write(logs.stamp(at) + b" ")
        if several:
            self._out.write(f"[{replica}] ".encode())
        self._out.write(text + b"\n")

    def flush(self) -> None:
        """Let whoever reads have it."""
        self._out.flush()

    def note(self, text: str) -> None:
        """Say something that is no line."""
        output.note(text)
