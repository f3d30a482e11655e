"""``k8sbench logs``: archived output of a run's replicas."""

from __future__ import annotations

import sys

import click

from k8sbench.app import logs
from k8sbench.cli.options import access_options, since_option, store_option
from k8sbench.cli.signals import SignalStop
from k8sbench.cli.terminal import output
from k8sbench.model import plain_text
from k8sbench.model.request import ClusterAccess


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--replica", metavar="NAME", help="Only this replica: master-0, worker-1, …")
@click.option(
    "--timestamps", is_flag=True, help="Begin each line with the time at which it was received."
)
@since_option("Only lines received since: 30m, 2026-11-20T08:15Z, …")
@click.option("-f", "--follow", "follows", is_flag=True, help="Continue until the run has ended.")
@access_options
@store_option
def command(
    run: str,
    replica: str | None,
    timestamps: bool,
    since: float | None,
    follows: bool,
    access: ClusterAccess,
    where: str | None,
) -> None:
    """Print the logs of a run.

    RUN is a run id or a unique beginning of one, in the store or, if it was submitted from another
    store, on the cluster. Lines of several replicas are printed in the order of time, each after
    its replica's name. If no process of this store follows a run on a cluster, its lines are read
    from the cluster; with -f they are also archived, and the run is measured at its end. If a
    collector in the namespace has finished the run, its lines are read from the collector; --store
    cluster asks only the collector.
    """
    printer = _Printer(since, timestamps)
    with output.piped():
        logs.logs(*(run, where, access, printer, SignalStop()), replica=replica, follows=follows)


class _Printer:
    """Prints lines as bytes, because logs may hold invalid text.

    A terminal gets text without control characters.
    """

    def __init__(self, since: float | None, timestamps: bool) -> None:
        self._since, self._timestamps = since, timestamps
        sys.stdout.flush()
        self._out, self._is_seen = sys.stdout.buffer, sys.stdout.isatty()

    def line(self, at: float, replica: str, text: bytes, *, several: bool) -> None:
        """Print a line, unless it came too early."""
        if self._since is not None and at < self._since:
            return
        # Of the lines of an imported log nobody saw when they came.
        if self._timestamps and at:
            self._out.write(logs.stamp(at) + b" ")
        text = f"[{replica}] ".encode() + text if several else text
        if self._is_seen:
            text = plain_text.clean(text.decode(errors="replace")).encode()
        self._out.write(text + b"\n")

    def flush(self) -> None:
        """Let whoever reads have it."""
        self._out.flush()

    def note(self, text: str) -> None:
        """Print a note."""
        output.note(text)
