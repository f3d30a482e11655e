"""``k8sbench baseline``: runs that are kept under a name, for later ones to be compared with."""

from __future__ import annotations

import time

import click

from k8sbench.app import baselines
from k8sbench.app.sides import StoresRead
from k8sbench.cli.options import access_options, format_option, store_option
from k8sbench.cli.terminal import output
from k8sbench.model.counts import counted
from k8sbench.model.request import ClusterAccess
from k8sbench.report.text_table import Column


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Save, list and remove runs that later ones are compared with."""


@command.command()
@click.argument("name", metavar="NAME")
@click.argument("what", metavar="SET|GROUP|RUN...", nargs=-1, required=True)
@click.option("--replace", is_flag=True, help="Replace a baseline of that name.")
@store_option
def save(name: str, what: tuple[str, ...], replace: bool, where: str | None) -> None:
    """Keep runs under a name.

    It keeps a copy of the runs that count, with plan and measurement: the baseline does not change
    when the runs are removed or measured again.
    """
    made = baselines.save(name, what, where, output.note, replace=replace, at=time.time())
    cases = len({run.plan.case for run in made.runs})
    output.note(
        f"baseline {name}: {counted(len(made.runs), 'run')} of {counted(cases, 'case')}."
        f" Compare with: k8sbench compare baseline:{name} SET"
    )


@command.command("list")
@format_option("table", "json", "name")
@access_options
@store_option
def list_(output_format: str, access: ClusterAccess, where: str | None) -> None:
    """List the baselines; those of a collector in the namespace, too."""
    baselines_shown = baselines.listed(StoresRead(where=where, access=access), output.note)
    if output_format == "json":
        output.write_json(baselines_shown)
    elif output_format == "name":
        output.write_names(baseline.name for baseline in baselines_shown)
    elif not baselines_shown:
        output.note("There is no baseline; k8sbench baseline save NAME SET makes one.")
    else:
        columns = [Column("NAME", whole=True), Column("SAVED", whole=True), Column("BENCHMARKS")]
        columns += [Column("SETS"), Column("RUNS", right=True), Column("SOURCE")]
        output.write_table(
            columns,
            [
                (
                    baseline.name,
                    output.stamp(baseline.saved_at),
                    ", ".join(baseline.benchmarks),
                    ", ".join(baseline.sets),
                    str(baseline.runs),
                    baseline.source,
                )
                for baseline in baselines_shown
            ],
        )


@command.command()
@click.argument("name", metavar="NAME")
@store_option
def remove(name: str, where: str | None) -> None:
    """Remove a baseline; the runs that it was made of stay."""
    baselines.remove(name, where)
    output.note(f"baseline {name}: removed.")
