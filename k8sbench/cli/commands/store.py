"""``k8sbench store``, ``config`` and ``schema``: what k8sbench keeps and reads."""

from __future__ import annotations

import importlib.resources
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import click

from k8sbench.app import settings, stores
from k8sbench.cli import configuration, main, rows
from k8sbench.cli.options import access_options, store_option
from k8sbench.cli.terminal import output
from k8sbench.model.errors import StoreError, UsageError
from k8sbench.model.masking import masked
from k8sbench.model.plain_text import counted
from k8sbench.model.request import ClusterAccess
from k8sbench.results.report.tables import Column


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Show or reindex the store; move and remove runs."""


@command.command()
@store_option
def info(where: str | None) -> None:
    """Show the store's place and number of runs."""
    with stores.open_readonly(where, output.note) as store:
        try:
            identity = "none: it is not made yet" if store.absent else store.identity
        except StoreError as error:  # of a disk that is full, or can only be read
            identity = f"none: {error.message}"
        state = "" if store.database.read_only is None else " (can only be read)"
        output.write(
            f"Store:      {store.where}{state}\n"
            f"Identity:   {identity}\n"
            f"Artifacts:  {store.root / 'runs'}\n"
            f"Runs:       {len(store.ids())}\n"
        )


@command.command()
@click.option(
    "--measure", is_flag=True, help="Then measure archived logs of runs without a profile."
)
@store_option
def reindex(where: str | None, measure: bool) -> int:
    """Rebuild the index from the run folders.

    Names runs that cannot be read; exit code 1 if there is any.

    With --measure it also adds the profile to measurements that lack one, from archived logs. It
    changes no figure and no verdict, but measures anew what another program measured. It can be
    interrupted, and goes on where it was.
    """
    shown, count, damaged = stores.reindex(where, output.note)
    if damaged:
        columns = (Column("DAMAGED"), Column("WHAT", whole=True))
        output.write_table(columns, list(damaged.items()))
        output.note("Bring back damaged files from a copy, or: k8sbench store remove RUN")
    runs = counted(count, "run")
    output.note(f"Index rebuilt from the run folders here; {shown} has {runs}.")
    failed = _measure_logs(where) if measure else False
    return int(bool(damaged) or failed)


def _measure_logs(where: str | None) -> bool:
    """Measure archived logs; return True if some could not be measured."""
    from k8sbench.app import archived_logs

    outcome = archived_logs.measure_logs(where, output.note)
    if outcome.failed:
        columns = (Column("NOT MEASURED"), Column("WHAT", whole=True))
        output.write_table(columns, list(outcome.failed.items()))
        output.note("They stay as they were recorded. Bring back damaged logs from a copy.")
    if outcome.without_logs:
        lack = counted(outcome.without_logs, "run", ("has", "have"))
        output.note(f"{lack} no logs: measurements without a profile, or by another program, stay.")
    output.note(
        f"{counted(outcome.profiles, 'run')} completed from archived logs;"
        f" {counted(outcome.replaced, 'run')} of another program measured anew."
    )
    return bool(outcome.failed)


@command.command()
@click.argument("runs", metavar="[RUN|SET]...", nargs=-1)
@click.argument("file", metavar="FILE.tar.gz|-")
@store_option
def export(runs: tuple[str, ...], file: str, where: str | None) -> None:
    """Write runs with all their files to a file, or to stdout with "-".

    By default it writes every run that has ended and whose files are in this store. The file
    appears only when it is complete.
    """
    if file == "-" and sys.stdout.isatty():
        raise UsageError("An export cannot be printed on a terminal.", "Name a file, or a pipe.")
    if file != "-" and not file.endswith((".tar.gz", ".tgz")):
        raise UsageError(f"{file!r} names no file for an export.", "End its name with .tar.gz.")
    with output.piped():
        target = sys.stdout.buffer if file == "-" else Path(file)
        count = stores.export(runs, target, where, output.note)
    output.note(f"{counted(count, 'run')} exported to {'stdout' if file == '-' else file}.")


@command.command("import")
@click.argument("file", metavar="FILE|-", type=click.File("rb"), required=False)
@click.option(
    "--from-operator",
    "collected",
    metavar="RUN|SET",
    multiple=True,
    help="Copy this run, or the runs of this set, from the namespace's operator; may be repeated.",
)
@access_options
@store_option
def import_(
    file: BinaryIO | None, collected: tuple[str, ...], where: str | None, access: ClusterAccess
) -> None:
    """Add all runs of an exported store or of an operator, or none.

    A run that is in the store already is not changed. If the store has another run of that name, or
    the same one with other content, nothing is imported.
    """
    if (file is None) == (not collected):
        raise UsageError("Name a FILE, or runs or sets with --from-operator.")
    if file is None:
        added, there = stores.import_collected(collected, where, access, output.note)
    else:
        added, there = stores.import_runs(file, file.name, where)
    output.note(
        f"{counted(len(added), 'run')} imported;"
        f" {counted(len(there), 'run', ('was', 'were'))} here already."
    )
    rows.note_own_store(where, access)


@command.command()
@click.argument("runs", metavar="RUN|SET...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
def remove(runs: tuple[str, ...], yes: bool, where: str | None) -> None:
    """Remove ended runs: their rows, logs and measurements.

    Runs that have not ended are refused. Jobs that a cluster still has stay there.
    """

    def confirm(runs: Sequence[str]) -> bool:
        if not yes and not sys.stdin.isatty():
            raise UsageError(
                f"{counted(len(runs), 'run')} would be removed permanently.", "Add --yes if so."
            )
        if not yes:
            output.error("\n".join(runs))
        return yes or output.agreed(f"Remove {counted(len(runs), 'run')} permanently?")

    done = stores.remove(runs, where, output.note, confirm)
    output.note(f"{counted(len(done), 'run')} removed.")


@command.command()
@click.option(
    stores.KEEP_OPTION, "keep", metavar="TIME", required=True, help="How long logs are kept: 90d."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@store_option
def prune(keep: str, dry_run: bool, where: str | None) -> None:
    """Remove the logs and GPU series of runs that ended long ago.

    Their rows and measurements stay. Prints the ids of these runs.
    """
    keep_s = stores.keep_seconds(keep)
    with stores.open_writable(where, create=False, note=output.note) as store:
        done, kept = stores.prune(store, keep_s, dry_run=dry_run)
    output.write_names(done)
    for run_id, why in kept.items():
        output.note(f"The logs of {run_id} are kept: {why}")
    files = sum(one.files for one in done.values())
    mega = sum(one.bytes for one in done.values()) / 1e6
    would = "would be removed" if dry_run else "removed"
    output.note(f"{counted(files, 'file')} of {counted(len(done), 'run')} {would}: {mega:,.1f} MB.")


# -- settings, forms of documents ------------------------------------------------------------------


SETTINGS = (Column("KEY", whole=True), Column("VALUE"), Column("COMMAND"))


@click.group()
def config_command() -> None:
    """Show which options files and the environment set."""


@config_command.command()
def show() -> None:
    """Print the options that files and the environment set.

    All others have defaults. The first of these counts: a flag, the environment, k8sbench.toml in
    the working folder or the nearest folder above, k8sbench/k8sbench.toml in the user's
    configuration folder.
    """
    files = settings.read()
    configuration.check(files, main.names, main.find)
    values: dict[tuple[str, str], Any] = {}
    for content in reversed(files.values()):
        for name, value in content.items():
            of, table = (name, value) if isinstance(value, dict) else ("", {name: value})
            values |= {(key, of): set_to for key, set_to in table.items()}
    variables = sorted({*configuration.ENVIRONMENT.values()} & os.environ.keys())
    rows = [(name, _shown(os.environ[name]), "") for name in variables]
    rows += [(key, _shown(value), of) for (key, of), value in values.items()]
    output.write_table(SETTINGS, rows)
    output.note(f"read: {', '.join(files) or 'no file'}")


def _shown(value: Any) -> str:
    """Return a value as masked text."""
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return masked(str(value).lower() if isinstance(value, bool) else str(value))


SCHEMAS = ("documents", "measurement", "results", "compare", "history", "benchmark", "pools")


@click.command()
@click.argument("name", type=click.Choice(SCHEMAS))
def schema_command(name: str) -> None:
    """Print a JSON Schema of documents, or of files that users write.

    documents: of list, status, measure, pools, data and baseline list, of the operator's HTTP API
    and of a run's folder. measurement: of a run's measurement.json, which other programs may write.

    \b
    k8sbench schema benchmark > benchmark.schema.json
    k8sbench schema measurement > measurement.schema.json
    """
    output.write(importlib.resources.files("k8sbench").joinpath(f"schema/{name}.json").read_text())
