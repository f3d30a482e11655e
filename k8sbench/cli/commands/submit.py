"""``k8sbench submit``: plan → create → watch → collect → measure → store → print the row."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from k8sbench.app import submit
from k8sbench.app.cases import CaseOptions
from k8sbench.app.connections import ClusterAccess
from k8sbench.app.submit import Detached, DryRun, SubmitOptions
from k8sbench.cli import exit_codes, rows
from k8sbench.cli.commands import render
from k8sbench.cli.options import (
    access_options,
    plan_options,
    prometheus_option,
    rows_option,
    set_options,
)
from k8sbench.cli.signals import SignalStop
from k8sbench.cli.terminal import output, reporter
from k8sbench.cli.training_options import Grouped
from k8sbench.diagnose.preflight.facts import NOT_TRIED
from k8sbench.model.errors import Unreachable
from k8sbench.model.run import Run
from k8sbench.runs import records
from k8sbench.runs.following import FollowOptions


@click.command(cls=Grouped)
@plan_options
@access_options
@click.option(
    "--run-id", metavar="NAME", help="Name of the run; an existing run of this name is joined."
)
@set_options
@click.option("--detach", is_flag=True, help="Create the jobs and return; see collect.")
@click.option(
    "--dry-run",
    is_flag=False,
    flag_value="client",
    default=None,
    type=click.Choice(["client", "server"]),
    help="Plan and print the manifest; server: also have the cluster check it. Starts nothing.",
)
@click.option(
    "--require-gpu", is_flag=True, help="Exit with 6 instead of running without a GPU; for CI."
)
@click.option(
    "--yes",
    "-y",
    is_flag=True,
    help="Run the program of a file of your own on this machine without asking.",
)
@rows_option
@prometheus_option
def command(
    options: CaseOptions,
    access: ClusterAccess,
    form: str,
    keep: bool,
    wait: bool,
    **asked: Any,
) -> int:
    """Plan, run, measure and record a benchmark.

    Prints the plan before anything starts and the measured row at the end. Ctrl-C ends local
    processes; a job on a cluster continues. Exit code: 0 measured and valid, 2 bad input, 3 job
    failed, 4 timed out, 5 measured but rejected, 6 cluster not reachable, 130 interrupted.

    \b
    k8sbench submit resnet50 --replicas 2 --gpus 1 --preset smoke    a first try
    k8sbench submit deeplabv3p --replicas 4 --amp      4 nodes, all of their GPUs
    k8sbench submit tsm --all-cases --detach           then: collect --all --follow
    k8sbench submit all --all-cases --repeats 5        every benchmark; --resume SET after a kill
    """
    follow = FollowOptions(keep=keep, wait=wait)
    wanted = SubmitOptions(cases=options, access=access, follow=follow, **asked)
    stop = SignalStop()
    agree = _agrees if sys.stdin.isatty() else None
    quiet = wanted.detach or wanted.dry_run is not None
    with reporter.reporting(drawn=not quiet) as progress:
        printed = rows.Printed(form, progress)
        done = submit.submit(wanted, progress, stop, printed.early, agree)
    if isinstance(done, DryRun):
        return _print_dry_run(done, form)
    if isinstance(done, Detached):
        code = _print_detached(done.runs, form)
        if done.failure is not None:
            raise done.failure
        return code
    with stop:
        printed.at_the_end(done)
    return exit_codes.of_rows(done)


def _agrees(text: str) -> bool:
    output.note(text)
    return output.agreed("Run it here?")


def _print_dry_run(done: DryRun, form: str) -> int:
    """Print the manifests, and what the cluster says to them."""
    failed = False
    for line in done.checks or ():
        failed = failed or line.level == "failure"
        output.note(f"  {line.level} {line.id}: {line.message}")
        if line.action:
            output.note(f"    {line.action}")
    if done.checks is not None and not failed:
        tried = all(line.id != NOT_TRIED for line in done.checks)
        takes = "it" if tried else "the job; whether it takes the pods is not known"
        output.note(f"  The cluster takes {takes}. Nothing was created.")
    render.write(done.manifests, form)
    return Unreachable.exit_code if failed else 0


def _print_detached(runs: Sequence[Run], form: str) -> int:
    """Say which runs go on; one that was over before has its own exit code."""
    if form == "json":
        output.write_json([records.listed(run) for run in runs])
    else:
        output.write_names(run.run_id for run in runs)
    over = [run for run in runs if run.phase.final]
    for run in over:
        output.note(
            f"  Run {run.run_id} is {run.phase} already: nothing was created."
            " For a new run take another --run-id, or none."
        )
    if len(over) < len(runs):
        way = runs[0].run_id if len(runs) == 1 else "--all"
        output.note(f"  Detached. Collect what it measures with: k8sbench collect {way} --follow")
    return exit_codes.of_runs(over)
