"""``k8sbench data``: the data sets of the catalog, in folders of this machine."""

from __future__ import annotations

import re
from typing import Any

import click

from k8sbench.app import catalog
from k8sbench.cli.options import format_option
from k8sbench.cli.signals import SignalStop
from k8sbench.cli.terminal import output
from k8sbench.model.data_set import DATA_SETS, data_set
from k8sbench.model.errors import UsageError
from k8sbench.model.plain_text import clean
from k8sbench.report.text_table import Column

COLUMNS = (
    Column("NAME", lambda data_set: data_set.name, whole=True),
    Column("TITLE", lambda data_set: data_set.title),
    Column("BENCHMARKS", lambda data_set: ", ".join(data_set.benchmarks)),
    Column("TRAINING", lambda data_set: f"{data_set.training:,}", right=True),
    Column("VALIDATION", lambda data_set: f"{data_set.validation:,}", right=True),
    Column("SOURCE", lambda data_set: data_set.source),
)
MISSING = "missing: "
"""First word of the program's lines about missing files."""
_place = click.option(
    "--data", "place", required=True, metavar="DIR", help="Where the data set is."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List, check and draw data sets."""


@command.command("list")
@format_option("table", "json", "name")
def list_(output_format: str) -> None:
    """List the data sets: what they hold, and where to get them."""
    document = catalog.DataSetList(data_sets=DATA_SETS)
    names = [data_set.name for data_set in DATA_SETS]
    output.write_items(output_format, COLUMNS, DATA_SETS, document, names)


@command.command("make-sample")
@click.argument("name", metavar="NAME")
@click.argument("place", metavar="DIR")
@click.option(
    "--pictures", type=click.IntRange(2, 10_000), metavar="N", help="Number of training pictures."
)
@click.option("--size", metavar="HxW", help="Size of a picture, as 64x128.")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Default 0.")
def make_sample(**given: Any) -> int:
    """Draw a small data set of the same form, for tests."""
    if given["size"] and not re.fullmatch("[1-9][0-9]*x[1-9][0-9]*", given["size"]):
        raise UsageError(
            f"--size {given['size']!r} is not a size.", "Write HEIGHTxWIDTH, as 64x128."
        )
    words = [f"--{key}={given[key]}" for key in ("pictures", "size", "seed") if given[key]]
    return _run("make-sample", words, **given)


@command.command()
@click.argument("name", metavar="NAME")
@_place
@click.option("--deep", is_flag=True, help="Decode every file.")
def check(**given: Any) -> int:
    """List the files that are missing in a folder.

    Exit code 0 if the set is complete, 2 if something is missing.
    """
    return _run("check", ["--deep"] if given["deep"] else [], **given)


def _run(action: Any, words: list[str], **given: Any) -> int:
    name, place = given["name"], given["place"]
    missing: list[str] = []

    def tell(line: str) -> None:
        """Print a line of the program; missing files go to stdout."""
        if line.startswith(MISSING):
            missing.append(clean(line.removeprefix(MISSING)))
            output.write(f"{missing[-1]}\n")
        else:
            output.note(clean(line))

    code = catalog.work_on_data(action, name, place, words, SignalStop(), tell)
    if code == 0:
        output.note(f"{name}: all is there, in {place}.")
    elif missing:
        source = data_set(name).source
        output.note(f"{name}: something is missing or broken in {place}. {source}")
    return code
