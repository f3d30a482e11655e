"""``k8sbench report``: a folder with tables, charts, environment, commands and logs."""

from __future__ import annotations

from pathlib import Path

import click

from k8sbench.app import publish
from k8sbench.cli.options import accept_option, access_options, store_option
from k8sbench.cli.terminal import output
from k8sbench.model.counts import counted
from k8sbench.model.request import ClusterAccess
from k8sbench.report.words import Lang


@click.command()
@click.argument("sets", metavar="SET...", nargs=-1, required=True)
@click.option("-o", "--output", "folder", metavar="FOLDER", required=True, help="Where to.")
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default="en", help="Language of the README."
)
@click.option("--title", metavar="TEXT", help="Title; default: the benchmarks' names.")
@click.option("--published", is_flag=True, help="Compare the rows with the published figures.")
@accept_option
@store_option
@access_options
def command(
    access: ClusterAccess,
    sets: tuple[str, ...],
    folder: str,
    lang: Lang,
    title: str | None,
    published: bool,
    accept: tuple[str, ...],
    where: str | None,
) -> None:
    """Write a publishable report of sets.

    FOLDER gets a README with environment, commands, method, tables and charts, as the published
    reports have them, and beside it the data, the manifests and the logs of all runs. Written
    again, it replaces the report that is there, and changes nothing where nothing has changed.

    \b
    k8sbench report nightly -o report
    k8sbench report fp32 amp -o report --lang zh --published
    """
    made = publish.publish(
        sets,
        Path(folder),
        where,
        output.note,
        lang=lang,
        title=title,
        published=published,
        accept=accept,
        access=access,
    )
    valid = sum(result.group.state == "valid" for result in made.results)
    output.note(f"{folder}: {counted(len(made.results), 'row')}, {valid} valid.")
    output.note("Before you publish it: logs and manifests hold names of hosts, users and folders.")
