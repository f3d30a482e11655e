"""``k8sbench store``: what the store is, whether it is whole, and rebuilding its database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from k8sbench.app import stores
from k8sbench.cli.form import form_option
from k8sbench.cli.options import store_option
from k8sbench.cli.terminal import output
from k8sbench.model.counts import counted
from k8sbench.report.text_table import Column

if TYPE_CHECKING:
    from k8sbench.app.stores import StoreReport

_form = form_option("table", "json")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Show, check or rebuild the store."""


@command.command()
@_form
@store_option
def info(form: str, where: str | None) -> None:
    """Say where the store is and what is in it."""
    said = stores.info(where, output.note)
    if form == "json":
        output.write_json(said)
        return
    if not said.exists:
        output.write(f"Store:      {said.store} (not made yet)\n")
        return
    phases = ", ".join(f"{count} {phase}" for phase, count in said.phases.items())
    output.write(
        f"Store:      {said.store}{'' if said.writable else ' (can only be read)'}\n"
        f"Database:   {said.kind}, schema {said.database_schema}\n"
        f"Identity:   {said.identity}\n"
        f"Artifacts:  {said.artifacts}\n"
        f"Runs:       {counted(said.runs, 'run')} in {counted(said.sets, 'set')}"
        f"{': ' + phases if phases else ''}\n"
    )


@command.command()
@_form
@store_option
def check(form: str, where: str | None) -> int:
    """Hold the database and the runs' folders against each other.

    Changes nothing. Exit code 1 if something is not as it should be.
    """
    report = stores.check(where, output.note)
    _print(report, form)
    if report.findings:
        found = f"{counted(len(report.findings), 'finding')} in {report.store}."
        output.note(f"{found} k8sbench store rebuild updates the database from the folders.")
        return 1
    output.note(f"The store {report.store} is whole: {counted(report.runs, 'run')}.")
    return 0


@command.command()
@_form
@store_option
def rebuild(form: str, where: str | None) -> None:
    """Update the database from the runs' folders.

    Rows without a folder stay. A SQLite database that is gone or damaged is made anew, and the
    damaged one is kept beside it. What cannot be read is reported and passed over.
    """
    report, damaged = stores.rebuild(where)
    _print(report, form)
    runs = counted(report.runs, "run")
    output.note(f"The database of {report.store} was updated from the folders: {runs}.")
    if damaged is not None:
        output.note(f"The damaged one is kept as {damaged}.")


def _print(report: StoreReport, form: str) -> None:
    if form == "json":
        output.write_json(report)
    elif report.findings:
        output.write_table(
            (Column("FINDING"), Column("PATH", whole=True), Column("WHAT")),
            [(finding.id, finding.path, finding.message) for finding in report.findings],
        )
