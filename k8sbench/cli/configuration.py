"""Options from configuration files: which value each option has, and where it is from.

A flag comes before the environment, that before the project's file, the user's file, and the
default. In a file an option stands under its own name, for every command that has it, or in a table
named as a command is typed, for that alone (``[submit]``, ``["store prune"]``).
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
import msgspec

from k8sbench.model import sources
from k8sbench.model.errors import BenchError, InputError, did_you_mean

if TYPE_CHECKING:
    from k8sbench.app.config import ConfigFile

ENVIRONMENT = {
    "where": "K8SBENCH_STORE",
    "store": "K8SBENCH_STORE",
    "pools_file": "K8SBENCH_POOLS",
    "kubeconfig": "KUBECONFIG",
    "color": "NO_COLOR",
}
"""Option → the variable that counts where the option is not given, and that others read."""
STANDS_FOR = {"NO_COLOR": "never"}
"""Variable → the option's value where the variable is set, whatever is in it."""
PATHS = (
    *("where", "store", "pools_file", "kubeconfig", "plot", "config"),
    *("data", "weights", "checkpoints"),
)
"""Options that name a file: a relative one in a file starts at the folder of that file."""
EXCLUDING = (
    *(("amp", "precision"), ("case", "replicas"), ("case", "gpus"), ("case", "all_cases")),
    *(("all_cases", "replicas"), ("all_cases", "gpus"), ("set_name", "resume")),
    ("epochs", "iterations"),
)
"""Options of which the one that comes first takes the other's place."""
ASKED_EACH_TIME = ("yes",)
"""Options that answer a question; a file does not answer for a person."""


class Commands(Protocol):
    """Finds commands by what is typed for them."""

    def names(self) -> Iterable[str]:
        """Give every command as it is typed: ``submit``, ``store prune``."""

    def find(self, name: str) -> click.Command | None:
        """Return one of them; None where there is none of that name, or others below it."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The value of one option, and where it is from."""

    key: str
    """As in a configuration file."""
    param: str
    value: Any
    source: str
    """``default``, ``environment NAME``, or ``FILE:LINE``."""
    is_given: bool = False
    """Whether a configuration file gives it."""


def options(command: click.Command) -> dict[str, click.Option]:
    """Map what a file calls an option → the option, of one command."""
    return {
        key(param): param
        for param in command.params
        if isinstance(param, click.Option) and not param.hidden and param.name != "help"
    }


def key(param: click.Option) -> str:
    """Return what a file calls an option: its long name without the dashes."""
    return max(param.opts, key=len).lstrip("-")


def check(files: Sequence[ConfigFile], commands: Commands) -> None:
    """Reject keys that no command has; raises :class:`InputError` with file, line, nearest key."""
    for file in files:
        for name, value in file.values.items():
            if isinstance(value, dict):
                command = commands.find(name)
                if command is None:
                    raise _unknown_table(file, name, [*commands.names()])
                known = options(command)
                for each in value:
                    _check_key(file, (name, each), known, f"k8sbench {name} has no option")
            else:
                _check_shared(file, name, commands)


def _check_shared(file: ConfigFile, name: str, commands: Commands) -> None:
    known: set[str] = set()
    for each in commands.names():
        command = commands.find(each)
        known |= options(command).keys() if command is not None else set()
        if name in known:  # the other commands need not be imported
            break
    _check_key(file, (name,), known, "no command has an option")


def _check_key(file: ConfigFile, keys: tuple[str, ...], known: Collection[str], what: str) -> None:
    if keys[-1] in ASKED_EACH_TIME:
        raise InputError(
            f"{keys[-1]} answers a question, which a file cannot.",
            f"Leave it out, and type --{keys[-1]}.",
            file=file.path,
            line=file.line_of(*keys),
        )
    if keys[-1] not in known:
        raise _unknown(file, keys, known, f"{what} {keys[-1]!r}")


def _unknown_table(file: ConfigFile, name: str, known: Collection[str]) -> InputError:
    below = ", ".join(f'["{each}"]' for each in known if each.startswith(f"{name} "))
    return InputError(
        f"Unknown key {name!r}: no command {name!r} has options.",
        f"Name one of the tables {below}."
        if below
        else did_you_mean(name, known) + "A table has the name of a command.",
        file=file.path,
        line=file.line_of(name),
    )


def _unknown(
    file: ConfigFile, keys: tuple[str, ...], known: Collection[str], what: str
) -> InputError:
    return InputError(
        f"Unknown key {keys[-1]!r}: {what}.",
        did_you_mean(keys[-1], sorted({*known} - {*ASKED_EACH_TIME}))
        + "Keys are the long names of options.",
        file=file.path,
        line=file.line_of(*keys),
    )


def settings(
    name: str, command: click.Command, files: Sequence[ConfigFile], given: Collection[str] = ()
) -> list[Setting]:
    """Find the value of every option of a command; ``given`` are those that flags give."""
    taken: set[str] = set(given)
    found: dict[str, Setting] = {}
    by_environment = {
        param.name: variable
        for param in options(command).values()
        for variable in _variables(param)
        if os.environ.get(variable)
    }
    taken |= {str(each) for each in by_environment}
    for file in files:
        own = file.values.get(name)
        layers: list[tuple[tuple[str, ...], dict[str, Any]]] = []
        if isinstance(own, dict):
            layers.append(((name,), own))
        layers.append(((), {k: v for k, v in file.values.items() if not isinstance(v, dict)}))
        for keys, values in layers:
            new = {}
            for option, param in options(command).items():
                if option in values and _is_free(str(param.name), taken):
                    place = (*keys, option)
                    new[str(param.name)] = _setting(name, param, values[option], file, place)
            found |= new
            taken |= new.keys()  # of one layer all count: they may exclude each other, as flags do
    return [
        found.get(str(param.name))
        or Setting(
            key=option,
            param=str(param.name),
            value=_default(param) if variable is None else _in_environment(variable),
            source="default" if variable is None else f"environment {variable}",
        )
        for option, param in options(command).items()
        for variable in (by_environment.get(param.name),)
    ]


def _in_environment(variable: str) -> str:
    return STANDS_FOR.get(variable, os.environ[variable])


def _default(param: click.Option) -> Any:
    """Return what an option is without anything; None where the command decides."""
    value = param.get_default(click.Context(click.Command("any")), call=False)
    is_set = isinstance(value, str | int | float | bool | list | tuple)
    return value if is_set else [] if param.multiple else None


def _variables(param: click.Option) -> Iterator[str]:
    if isinstance(param.envvar, str):
        yield param.envvar
    elif str(param.name) in ENVIRONMENT:
        yield ENVIRONMENT[str(param.name)]


def _is_free(name: str, taken: Collection[str]) -> bool:
    """Whether no layer that comes first has the option, or one that excludes it."""
    others = (other for pair in EXCLUDING for this, other in (pair, pair[::-1]) if this == name)
    return name not in taken and not any(other in taken for other in others)


def _setting(
    name: str, param: click.Option, value: Any, file: ConfigFile, keys: tuple[str, ...]
) -> Setting:
    """Check one value as the flag's would be."""
    line = file.line_of(*keys)
    try:
        _check_type(param, value)
        if param.name in PATHS and isinstance(value, str):
            value = _from_folder(value, file)
        words = [value] if param.multiple and not isinstance(value, list) else value
        # In a context of its own: what a flag does beside its value is not to be done here.
        param.process_value(click.Context(click.Command(name)), words)
    except (click.BadParameter, BenchError) as wrong:
        way = wrong.action if isinstance(wrong, BenchError) else f"See 'k8sbench {name} --help'."
        if len(keys) == 1:
            # Commands may have options of one name that take different values.
            way = f"{way} For one command alone write it in its table, such as [submit].".lstrip()
        raise InputError(f"{keys[-1]}: {wrong.message}", way, file=file.path, line=line) from wrong
    return Setting(
        key=keys[-1],
        param=str(param.name),
        value=words,
        source=f"{file.path}:{line}",
        is_given=True,
    )


def _check_type(param: click.Option, value: Any) -> None:
    if param.is_flag and not isinstance(value, bool):
        raise click.BadParameter("It takes true or false.")
    words = value if isinstance(value, list) else [value]
    if isinstance(value, list) and not param.multiple:
        raise click.BadParameter("It takes one value, not a list.")
    if not param.is_flag and not all(
        isinstance(word, str | int | float) and not isinstance(word, bool) for word in words
    ):
        raise click.BadParameter("It takes text or a number.")


def _from_folder(value: str, file: ConfigFile) -> str:
    is_url = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", value)
    if value == "cluster" or is_url or not sources.is_path(value):
        return value
    with contextlib.suppress(RuntimeError):  # no home for a ~
        value = str(Path(value).expanduser())
    return str(Path(file.path).parent / value)


def named_in(
    message: str,
    name: str,
    command: click.Command,
    args: Sequence[str],
    files: Sequence[ConfigFile],
) -> str:
    """Say where the options that an error names were set, if it was in a file; else nothing."""
    if isinstance(command, click.Group):
        below = command.commands.get(args[0]) if args else None
        return named_in(message, f"{name} {args[0]}", below, args[1:], files) if below else ""
    found = settings(name, command, files, _given(command, args))
    return " ".join(
        f"--{each.key} is set in {each.source}."
        for each in found
        if each.is_given and re.search(rf"--{re.escape(each.key)}(?![\w-])", message)
    )


def default_map(
    name: str, command: click.Command, args: Sequence[str], files: Sequence[ConfigFile]
) -> dict[str, Any]:
    """Make what click takes defaults from, for a command and those below it."""
    if isinstance(command, click.Group):
        below = command.commands.items()
        return {each: default_map(f"{name} {each}", one, (), files) for each, one in below}
    found = settings(name, command, files, _given(command, args))
    return {each.param: each.value for each in found if each.is_given}


def _given(command: click.Command, args: Sequence[str]) -> set[str]:
    """Name the options that flags give; what is wrong with them is said later."""
    context = click.Context(command, resilient_parsing=True)
    with contextlib.suppress(click.UsageError):
        values, _, _ = command.make_parser(context).parse_args(list(args))
        return set(values)
    return set()
