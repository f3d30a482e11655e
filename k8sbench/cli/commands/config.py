"""``k8sbench config``: the values of options, and where they are from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec

from k8sbench.app import config
from k8sbench.cli import configuration, main
from k8sbench.cli.configuration import Setting
from k8sbench.cli.form import form_option
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


class ShownSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One option in ``config show -o json``."""

    schema: int = SCHEMA
    """Version of the document."""
    key: str
    """What a configuration file calls it."""
    value: str | int | float | bool | list[str] | None
    """Its value; None where nothing gives one and the command decides."""
    source: str
    """``default``, ``environment NAME``, or ``FILE:LINE`` of a configuration file."""
    commands: tuple[str, ...]
    """Those that have the option with this value from there."""


@click.group()
def command() -> None:
    """Show the value of each option, and where it comes from."""


@command.command()
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@form_option("table", "json")
def show(words: Sequence[str], form: str) -> None:
    """Print the value of every option, and where it comes from.

    The first of these counts: a flag, the environment, k8sbench.toml in the working folder or the
    nearest folder above, k8sbench/k8sbench.toml in the user's configuration folder, the default.
    With COMMAND it prints only the options of that command.
    """
    files, commands = config.files(), main.EveryCommand()
    configuration.check(files, commands)
    name, names = " ".join(words), [*commands.names()]
    if words and name not in names:
        known = f"Commands: {', '.join(names)}."
        raise NotFound(f"There is no command {name!r}.", did_you_mean(name, names) + known)
    found = _shown(
        (each, setting)
        for each in ([name] if words else names)
        if (one := commands.find(each)) is not None
        for setting in configuration.settings(each, one, files)
    )
    if form == "json":
        output.write_json(found)
        return
    for file in files:
        output.note(f"read: {file.path}")
    rows = [(each.key, _text(each.value), each.source, _names(each, words)) for each in found]
    output.write_table(COLUMNS[: 3 if words else 4], [row[: 3 if words else 4] for row in rows])


def _shown(settings: Iterable[tuple[str, Setting]]) -> list[ShownSetting]:
    """Put together what commands have in common; options that a file gives come first."""
    commands: dict[tuple[str, str, str], list[str]] = {}
    values: dict[tuple[str, str, str], Any] = {}
    for name, setting in settings:
        same = setting.key, _text(setting.value) or "", setting.source
        values[same] = setting.value
        commands.setdefault(same, []).append(name)
    ordered = sorted(values, key=lambda same: (same[2] == "default", same[0], same[2]))
    return [
        ShownSetting(
            key=same[0], value=values[same], source=same[2], commands=tuple(commands[same])
        )
        for same in ordered
    ]


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or None
    return None if value is None else str(value)


def _names(setting: ShownSetting, words: Sequence[str]) -> str:
    return "" if words else ", ".join(setting.commands)
