"""Options from configuration files: what ``k8sbench.toml`` gives click as defaults.

A flag comes before the environment, that before the project's file, the user's file, and the
default. In a file an option stands under its long name, for every command that has it, or in a
table named as a command is typed, for that alone (``[submit]``, ``["store prune"]``).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from k8sbench.model import sources
from k8sbench.model.errors import InputError, did_you_mean
from k8sbench.model.request import EXCLUDING

if TYPE_CHECKING:
    from k8sbench.app.config import ConfigFile

ENVIRONMENT = {
    "where": "K8SBENCH_STORE",
    "store": "K8SBENCH_STORE",
    "pools_file": "K8SBENCH_POOLS",
    "kubeconfig": "KUBECONFIG",
}
"""Parameter → the variable that counts where the option is not given, and that others read."""


def options(command: click.Command) -> dict[str, click.Option]:
    """Map what a file calls an option, its long name without dashes → the option of a command.

    ``--yes`` is none: it answers a question, and a file does not answer for a person.
    """
    return {
        max(param.opts, key=len).lstrip("-"): param
        for param in command.params
        if isinstance(param, click.Option)
        and not param.hidden
        and param.name not in {"help", "yes"}
    }


def check(
    files: Sequence[ConfigFile],
    names: Callable[[], Iterable[str]],
    find: Callable[[str], click.Command | None],
) -> None:
    """Reject keys that no command has; raises :class:`InputError` with the nearest key.

    ``names`` are the commands as they are typed, and ``find`` gives one of them.
    """
    for file in files:
        for name, value in file.values.items():
            if isinstance(value, dict):
                command = find(name)
                if command is None:
                    raise _unknown_table(file, name, [*names()])
                for key in value:
                    _check_key(file, key, options(command), f"k8sbench {name} has no option")
                continue
            known: set[str] = set()
            for command in filter(None, map(find, names())):
                known |= options(command).keys()
                if name in known:  # the other commands need not be imported
                    break
            _check_key(file, name, known, "no command has an option")


def _check_key(file: ConfigFile, key: str, known: Collection[str], what: str) -> None:
    if key not in known:
        near = did_you_mean(key, sorted(known))
        action = f"{near}Keys are the long names of options."
        raise InputError(f"Unknown key {key!r}: {what} {key!r}.", action, file=file.path)


def _unknown_table(file: ConfigFile, name: str, known: Sequence[str]) -> InputError:
    action = did_you_mean(name, known) + "A table has the name of a command, as it is typed."
    message = f"Unknown key {name!r}: no command {name!r} has options."
    return InputError(message, action, file=file.path)


def values(name: str, command: click.Command, files: Sequence[ConfigFile]) -> dict[str, Any]:
    """Return what files give to the parameters of a command that the environment does not give.

    What comes first takes the place of what it excludes.
    """
    given: dict[str, Any] = {}
    for file in reversed(files):
        for table in (file.table(None), file.table(name)):
            new = {
                str(param.name): _value(key, param, table[key], file)
                for key, param in options(command).items()
                if key in table and not os.environ.get(ENVIRONMENT.get(str(param.name), ""))
            }
            excluded = {b for pair in EXCLUDING for a, b in (pair, pair[::-1]) if a in new}
            given = {param: given[param] for param in given.keys() - excluded} | new
    return given


def default_map(name: str, command: click.Command, files: Sequence[ConfigFile]) -> dict[str, Any]:
    """Make what click takes defaults from, for a command and those below it."""
    if isinstance(command, click.Group):
        below = command.commands.items()
        return {word: default_map(f"{name} {word}", leaf, files) for word, leaf in below}
    return values(name, command, files)


def _value(key: str, param: click.Option, value: Any, file: ConfigFile) -> Any:
    """Return a value as click takes it, which checks the rest when the command is run."""
    words = value if isinstance(value, list) else [value]
    is_plain = all(isinstance(word, str | int | float) for word in words)
    if not is_plain or any(isinstance(word, bool) != param.is_flag for word in words):
        expected = "true or false" if param.is_flag else "text or a number"
        raise InputError(f"{key}: It takes {expected}.", "Correct it.", file=file.path)
    if isinstance(value, list) and not param.multiple:
        raise InputError(f"{key}: It takes one value, not a list.", "Correct it.", file=file.path)
    if isinstance(param.type, click.Path) and key != "benchmark":  # most often that is a name
        return _from_folder(str(value), file)
    return words if param.multiple else value


def _from_folder(value: str, file: ConfigFile) -> str:
    """Have a relative path start at the folder of its file."""
    is_url = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", value)
    if value == "cluster" or is_url or not sources.is_path(value):
        return value
    with contextlib.suppress(RuntimeError):  # no home for a ~
        value = str(Path(value).expanduser())
    return str(Path(file.path).parent / value)
