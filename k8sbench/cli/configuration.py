"""Options from configuration files (``k8sbench.toml``), and shell completion.

Precedence: flag, environment, the project's file, the user's file, default. A key is an option's
long name. At the top level it applies to every command with that option; in a table named like a
command (``[submit]``, ``["store prune"]``) to that command.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from k8sbench.catalog.training import is_local_path
from k8sbench.model.errors import InputError, did_you_mean
from k8sbench.model.request import CLUSTER, LOCAL

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from k8sbench.app.recorded_names import Kind

Files = dict[str, dict[str, Any]]
"""Path → content of the file, the project's first."""
ENVIRONMENT = {
    "where": "K8SBENCH_STORE",
    "store": "K8SBENCH_STORE",
    "pools_file": "K8SBENCH_POOLS",
    "kubeconfig": "KUBECONFIG",
}
"""Parameter → environment variable with precedence over configuration files."""


def options(command: click.Command) -> dict[str, click.Option]:
    """Map key in a file → option of a command.

    Keys are long names without dashes. ``--yes`` has none: a file must not answer for a person.
    """
    return {
        max(param.opts, key=len).lstrip("-"): param
        for param in command.params
        if isinstance(param, click.Option)
        and not param.hidden
        and param.name not in {"help", "yes"}
    }


def check(
    files: Files, names: Callable[[], Iterable[str]], find: Callable[[str], click.Command | None]
) -> None:
    """Reject keys that no command has; raises :class:`InputError` with the nearest key.

    ``names`` are the commands as they are typed, and ``find`` gives one of them.
    """

    def every_option() -> Iterator[str]:
        # Commands after the one that has the key need not be imported.
        for command in filter(None, map(find, names())):
            yield from options(command)

    for path, content in files.items():
        for name, value in content.items():
            if not isinstance(value, dict):
                if name not in every_option():
                    raise _unknown(path, name, "no command has such an option", every_option())
            elif (command := find(name)) is None:
                raise _unknown(path, name, "no command of that name has options", names())
            else:
                for key in value:
                    if key not in options(command):
                        why = f"k8sbench {name} has no such option"
                        raise _unknown(path, key, why, options(command))


def _unknown(path: str, key: str, why: str, known: Iterable[str]) -> InputError:
    action = "Keys are the long names of options, tables those of commands."
    message = f"Unknown key {key!r}: {why}."
    return InputError(message, did_you_mean(key, sorted(known)) + action, file=path)


def default_map(name: str, command: click.Command, files: Files) -> dict[str, Any]:
    """Build click's defaults for a command and its subcommands.

    Options that the environment sets are left out.
    """
    if isinstance(command, click.Group):
        below = command.commands.items()
        return {word: default_map(f"{name} {word}", leaf, files) for word, leaf in below}
    given: dict[str, Any] = {}
    for path, content in reversed(files.items()):
        table = content.get(name)
        # An option may have the name of a command: pools = "pools.yaml".
        of_all = {key: value for key, value in content.items() if not isinstance(value, dict)}
        values = of_all | (table if isinstance(table, dict) else {})
        for key, param in options(command).items():
            if key in values and not os.environ.get(ENVIRONMENT.get(str(param.name), "")):
                given[str(param.name)] = _value(key, param, values[key], path)
    return given


def _value(key: str, param: click.Option, value: Any, path: str) -> Any:
    """Convert a value for click, which validates the rest at run time."""
    words = value if isinstance(value, list) else [value]
    is_plain = all(isinstance(word, str | int | float) for word in words)
    is_flag = any(isinstance(word, bool) for word in words)
    is_list = isinstance(value, list) and not param.multiple
    if not is_plain or is_flag != param.is_flag or is_list:
        expected = "true or false" if param.is_flag else "a text or a number"
        raise InputError(f"{key}: It takes {expected}.", "Correct it.", file=path)
    if isinstance(param.type, click.Path) and key != "benchmark":  # most often that is a name
        return _from_folder(str(value), Path(path).parent)
    return words if param.multiple else value


def _from_folder(value: str, folder: Path) -> str:
    """Have a relative path start at the folder of its file."""
    is_url = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", value)
    if value in {CLUSTER, LOCAL} or is_url or not is_local_path(value):
        return value
    with contextlib.suppress(RuntimeError):  # no home for a ~
        value = str(Path(value).expanduser())
    return str(folder / value)


# -- completion: benchmarks, sets, runs and files; click completes the rest ------------------------

PATHS = re.compile(r"(?<!/)\b(FILE|DIR|FOLDER|LOG|PATH)\b")
"""Texts in the metavars of parameters that may be paths."""


KINDS: dict[str, Kind] = {"SET": "set", "RUN": "run"}
"""Words of metavars of parameters that take names in the store."""


class BenchmarkPath(click.Path):
    """The type of a benchmark: its name in the catalog, or a file."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin so, or ask for files where none does."""
        from click.shell_completion import CompletionItem

        from k8sbench.catalog import spec_files

        names = [name for name in spec_files.names() if name.startswith(incomplete)]
        return [*map(CompletionItem, names)] or super().shell_complete(ctx, param, incomplete)


class RecordedName(click.Path):
    """The type of sets and runs: their names in the store, or a file where one may be meant."""

    def __init__(
        self, kinds: Sequence[Kind], *, may_be_file: bool = False, has_ids: bool = False
    ) -> None:
        super().__init__(readable=False)
        self.has_ids = has_ids
        """True if it may be an id of a finding, or a word of the results."""
        self.kinds = kinds
        self.may_be_file = may_be_file

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin so, newest first."""
        from click.shell_completion import CompletionItem

        from k8sbench.app import recorded_names

        where = ctx.params.get("where") or ctx.params.get("store")
        names = recorded_names.beginning_with(incomplete, self.kinds, where)
        if self.has_ids:
            from k8sbench.app import finding_ids

            names = [*names, *finding_ids.completed(incomplete)]
        if not names and self.may_be_file:
            return super().shell_complete(ctx, param, incomplete)
        return [*map(CompletionItem, names)]


class ReasonId(click.types.StringParamType):
    """The type of an id of a reason."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the ids that begin so."""
        del ctx, param
        from click.shell_completion import CompletionItem

        from k8sbench.app import finding_ids

        return [CompletionItem(name) for name in finding_ids.REASONS if name.startswith(incomplete)]


def prepare(command: click.Command) -> None:
    """Set parameter types for completion, in a command and its subcommands."""
    for param in command.params:
        if type(param.type) is not click.types.StringParamType:
            continue
        if param.name == "accept":
            param.type = ReasonId()
            continue
        if param.name == "benchmark":
            param.type = BenchmarkPath(readable=False)
            continue
        is_path = PATHS.search(param.metavar or "") is not None
        words = re.findall(r"SET|RUN", param.metavar or "")
        if kinds := [KINDS[word] for word in KINDS if word in words]:
            has_ids = "|ID|" in (param.metavar or "")
            param.type = RecordedName(kinds, may_be_file=is_path, has_ids=has_ids)
        elif is_path:
            param.type = click.Path(readable=False)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            prepare(below)
