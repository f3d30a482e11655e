"""``k8sbench observe``: measure a job that somebody else created."""

from __future__ import annotations

from typing import Any

import click

from k8sbench.app import observe
from k8sbench.app.observe import ObserveOptions
from k8sbench.catalog.measure_options import LOG_FLAGS, MeasureOptions
from k8sbench.cli import rows
from k8sbench.cli.options import (
    access_options,
    declared,
    grouped,
    prometheus_option,
    rows_option,
    store_option,
)
from k8sbench.cli.running import SignalStop, reporting

STATED = (
    *("benchmark", "family", "batch_size", "precision", "gpu_model", "framework", "warmup"),
    "accept",
)
"""Options of ``measure`` for what neither the log nor the job's objects state."""
_OPTIONS = declared(MeasureOptions, {name: LOG_FLAGS[name] for name in STATED})


@click.command()
@click.argument("job", metavar="KIND/NAME")
@click.option(
    "--set",
    "set_name",
    metavar="NAME",
    help="Set of the run; default: the job's label k8sbench.io/set, else its name.",
)
@lambda function: grouped(
    _OPTIONS, "measured", lambda values: MeasureOptions(**values), STATED, function
)
@access_options
@prometheus_option
@rows_option
@store_option
def command(job: str, output_format: str, where: str | None, **given: Any) -> int:
    """Measure a job that somebody else created; change nothing of it.

    Follow a trainjob, pytorchjob, paddlejob, jobset or job to its end, archive its logs, and print
    its row. A job that has ended is measured at once if its pods are still there. The right to read
    is enough. Ctrl-C does not change the job; observe it again. Exit codes are those of submit.

    \b
    k8sbench observe trainjob/llama -n team-a
    k8sbench observe job/resnet --batch-size 256 --precision amp
    """
    options = ObserveOptions(job=job, store=where, **given)
    with reporting() as reporter:
        observed = observe.observe(options, reporter, SignalStop())
    rows.write(observed, output_format)
    rows.note_own_store(where, options.access)
    return rows.code_of_rows(observed)
