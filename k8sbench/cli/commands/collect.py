"""``k8sbench collect``: fetch and measure detached and interrupted runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from k8sbench.app import collect
from k8sbench.cli import exit_codes, rows
from k8sbench.cli.options import (
    accept_option,
    access_options,
    keep_option,
    prometheus_option,
    rows_option,
    store_option,
    wait_option,
)
from k8sbench.cli.running import SignalStop, reporting
from k8sbench.cli.terminal import output
from k8sbench.model.errors import Interrupted, UsageError, few
from k8sbench.model.plain_text import counted
from k8sbench.model.request import CollectOptions
from k8sbench.model.run import Run
from k8sbench.report.formats import FOR_PEOPLE


@click.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option(
    "--all", "every", is_flag=True, help="Every run of the namespace that needs collection."
)
@click.option(
    "--take-over",
    is_flag=True,
    help="Make this store the owner of the jobs of RUN; asks first.",
)
@click.option("-y", "--yes", is_flag=True, help="Take over without asking.")
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Wait for runs that have not ended; with --all also for new ones, until Ctrl-C or "
    "SIGTERM.",
)
@keep_option
@wait_option
@accept_option
@rows_option
@access_options
@store_option
@prometheus_option
def command(
    runs: tuple[str, ...],
    every: bool,
    follow: bool,
    yes: bool,
    output_format: str,
    where: str | None,
    **asked: Any,
) -> int:
    """Archive, measure and print runs that have ended.

    It also carries out recorded requests to cancel or delete jobs. A job belongs to the store that
    submitted it; one without an owner becomes this store's when it is named. --take-over changes
    the owner. The operator collects its own. The command can be repeated. A run that
    cannot be collected is reported and skipped. Ctrl-C does not change the jobs. With --all
    --follow it also follows new jobs until it is stopped, and then prints the rows. Exit codes are
    those of submit.
    """
    if every == bool(runs):
        raise UsageError("Name runs, or all of them with --all.", "k8sbench list shows the runs.")
    if every and asked["take_over"]:
        raise UsageError("--take-over is for runs that are named.", "Name them instead of --all.")
    options = CollectOptions(runs=runs, until_over=follow, store=where, **asked)
    stop = SignalStop()
    with reporting() as reporter:
        if every and follow:
            result, made = collect.serve(options, reporter, stop)
        else:
            result, made = collect.collect(options, reporter, stop, partial(_agrees, yes=yes))
    _note(result.going_on, ("goes", "go"), "on; wait with --follow")
    _note(result.followed, ("is", "are"), "followed by another k8sbench process: left to it")
    if every and not (result.closed or result.going_on or result.followed or result.failed):
        output.note("Nothing needs collection here.")
    # Data is whole also where there is none.
    if result.closed or output_format not in FOR_PEOPLE:
        rows.write(made, output_format)
    if stop.cause is not None and result.going_on:
        raise Interrupted(
            f"{stop.cause}: {counted(len(result.going_on), 'run', ('goes', 'go'))} on.",
            "Come back with the same command.",
        )
    codes = (exit_codes.of_rows(made), exit_codes.of_failures(result.failed.values()))
    return exit_codes.worst(codes)


def _agrees(text: str, *, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError(text, "To take it over without a question, give --yes.")
    output.error(text)
    return output.agreed("Take it over?")


def _note(runs: Sequence[Run], verbs: tuple[str, str], what: str) -> None:
    """Note the state of runs by name."""
    if runs:
        verb = verbs[len(runs) > 1]
        output.note(f"  {few([run.run_id for run in runs])} {verb} {what}")
