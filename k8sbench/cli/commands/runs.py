"""``k8sbench watch``, ``logs``, ``cancel`` and ``delete``: runs that were submitted before."""

from __future__ import annotations

import sys
from typing import Any

import click

from k8sbench.app import follow
from k8sbench.cli import exit_codes, rows
from k8sbench.cli.options import (
    access_options,
    keep_option,
    prometheus_option,
    rows_option,
    since_option,
    store_option,
    wait_option,
)
from k8sbench.cli.running import SignalStop, reporting
from k8sbench.cli.terminal import output
from k8sbench.model import plain_text
from k8sbench.model.request import FollowOptions


@click.command()
@click.argument("run", metavar="RUN")
@keep_option
@wait_option
@rows_option
@access_options
@store_option
@prometheus_option
def watch_command(
    run: str, keep: bool, wait: bool, prometheus: str, output_format: str, **where: Any
) -> int:
    """Follow a run to its end and print its row.

    RUN is a run id or a unique beginning of one. If another k8sbench follows the run, its record is
    watched. Ctrl-C does not change the run. Exit codes are those of submit.
    """
    options = FollowOptions(keep=keep, wait=wait, prometheus=prometheus)
    with reporting() as reporter:
        followed = follow.watch(run, reporter=reporter, stop=SignalStop(), options=options, **where)
    rows.write(followed, output_format)
    return exit_codes.of_rows(followed)


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
def logs_command(run: str, timestamps: bool, since: float | None, **given: Any) -> None:
    """Print the logs of a run.

    RUN is a run id or a unique beginning of one, in the store or, if it was submitted from another
    store, on the cluster. Lines of several replicas are printed in the order of time, each after
    its replica's name. If no process of this store follows a run on a cluster, its lines are read
    from the cluster; with -f they are also archived, and the run is measured at its end. If a
    operator in the namespace has finished the run, its lines are read from the operator; --store
    cluster asks only the operator.
    """
    printer = _Printer(since, timestamps)
    with output.piped():
        follow.logs(run, sink=printer, stop=SignalStop(), **given)


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
            self._out.write(follow.stamp(at) + b" ")
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


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@access_options
@store_option
def cancel_command(runs: tuple[str, ...], **where: Any) -> None:
    """Cancel runs that have not ended.

    The job is deleted from the cluster when its logs are archived; a local run's processes are
    ended by the k8sbench that started them. A run that has ended is not changed.
    """
    with reporting() as reporter:
        follow.end(runs, "cancel", reporter=reporter, stop=SignalStop(), **where)


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@access_options
@store_option
def delete_command(runs: tuple[str, ...], **where: Any) -> None:
    """Delete the objects of runs on the cluster.

    A run that has not ended is cancelled first. Only what k8sbench created is deleted. The records
    and logs in the store stay.
    """
    with reporting() as reporter:
        follow.end(runs, "delete", reporter=reporter, stop=SignalStop(), **where)
