"""``k8sbench config``: the values of options, and where they are from."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from k8sbench.app import config
from k8sbench.cli import configuration, main
from k8sbench.cli.output_format import format_option
from k8sbench.cli.terminal import output
from k8sbench.model.errors import NotFound, did_you_mean
from k8sbench.model.measurement import SCHEMA
from k8sbench.report.text_table import Column

COLUMNS = (
    Column("KEY", whole=True),
    Column("VALUE"),
    Column("FROM", whole=True),
    Column("COMMANDS"),
)


_SECRETS = (
    # A password may hold any character: up to the last @ before a blank.
    (re.compile(r"(://[^:/?#@\s]*:)\S*@"), r"\1***@"),
    (re.compile(r"([?&][^=&\s]*(?:pass|token|secret)[^=&\s]*=)[^&\s]*", re.IGNORECASE), r"\1***"),
)
"""What of a URL is a secret, and what is shown in its place."""


class ShownSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One option in ``config show -o json``."""

    schema: int = SCHEMA
    """Version of the document."""
    key: str
    """What a configuration file calls it."""
    value: str | int | float | bool | list[str] | None
    """Its value; None where nothing gives one and the command decides."""
    source: str
    """``default``, ``environment NAME``, or the path of a configuration file."""
    commands: tuple[str, ...]
    """Those that have the option with this value from there."""


@click.group()
def command() -> None:
    """Show the value of each option, and where it comes from."""


@command.command()
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@format_option("table", "json")
def show(words: Sequence[str], output_format: str) -> None:
    """Print the value of every option, and where it comes from.

    The first of these counts: a flag, the environment, k8sbench.toml in the working folder or the
    nearest folder above, k8sbench/k8sbench.toml in the user's configuration folder, the default.
    With COMMAND it prints only the options of that command.
    """
    files = config.files()
    configuration.check(files, main.names, main.find)
    name, names = " ".join(words), [*main.names()]
    if words and name not in names:
        known = f"Commands: {', '.join(names)}."
        raise NotFound(f"There is no command {name!r}.", did_you_mean(name, names) + known)
    rows = _rows([name] if words else names, files)
    if output_format == "json":
        output.write_json(rows)
        return
    for file in files:
        output.note(f"read: {file.path}")
    columns = COLUMNS[: 3 if words else 4]
    cells = [(row.key, _text(row.value), row.source, ", ".join(row.commands)) for row in rows]
    output.write_table(columns, [row[: len(columns)] for row in cells])


def _rows(names: Sequence[str], files: Sequence[config.ConfigFile]) -> list[ShownSetting]:
    """Put together what commands have in common; options that a file gives come first."""
    rows: dict[tuple[bool, str, str, str | None], ShownSetting] = {}
    for name in names:
        command = main.find(name)
        assert command is not None
        given = configuration.values(name, command, files)
        for key, param in configuration.options(command).items():
            value, source = _default(param)
            if param.name in given:
                value, source = given[param.name], str(configuration.source(key, name, files))
            same = (source == "default", key, source, _text(value))
            shown = ShownSetting(key=key, value=_hidden(value), source=source, commands=())
            row = rows.get(same) or shown
            rows[same] = msgspec.structs.replace(row, commands=(*row.commands, name))
    return [row for _, row in sorted(rows.items(), key=lambda item: item[0][:3])]


def _default(param: click.Option) -> tuple[Any, str]:
    """Return the value of an option that is neither typed nor in a file, and its source."""
    variable = configuration.variable(param)
    if variable is not None:
        text = "never" if variable == "NO_COLOR" else os.environ[variable]
        return text, f"environment {variable}"
    value = param.get_default(click.Context(click.Command("any")), call=False)
    is_set = isinstance(value, str | int | float | bool | list | tuple)
    return (value if is_set else [] if param.multiple else None), "default"


def _hidden(value: Any) -> Any:
    """Give a value without the passwords in its URLs."""
    if isinstance(value, list | tuple):
        return [_hidden(item) for item in value]
    for pattern, instead in _SECRETS if isinstance(value, str) else ():
        value = pattern.sub(instead, value)
    return value


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or None
    return None if value is None else str(value)
