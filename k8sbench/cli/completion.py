"""What a shell completes: the names that an option or an argument takes.

Every command's parameters get this by their names (:func:`add_to`), so that one place says what is
completed. It runs while a person waits for a key: it reads file names and one SQLite file, imports
nothing heavy, asks no cluster, and where something is wrong it completes nothing.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from k8sbench.model.errors import BenchError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Names(click.types.StringParamType):
    """Text that stands for something with a name, by :mod:`k8sbench.app.names`; also a file's."""

    def __init__(self, *kinds: str, files: bool = False) -> None:
        self._kinds, self._files = kinds, files

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """List the names that begin as what was typed, without those that were typed before."""
        from click.shell_completion import CompletionItem

        from k8sbench.app import names

        store = ctx.params.get("where") or ctx.params.get("store")
        typed = ctx.params.get(str(param.name)) or ()
        before = () if isinstance(typed, str) else typed
        known: list[str] = []
        with contextlib.suppress(BenchError, OSError):  # a shell has no place for an error
            known = [name for kind in self._kinds for name in names.known(kind, store)]
        items = [
            CompletionItem(name)
            for name in known
            if name.startswith(incomplete) and name not in before
        ]
        if self._files and not items:
            return [CompletionItem(incomplete, type="file")]
        return items


BENCHMARKS, BASELINES = Names("benchmarks", files=True), Names("baselines")
DATA_SETS, FILES = Names("data-sets"), Names(files=True)
_OF: dict[str, Names] = {
    **dict.fromkeys(("run", "runs", "run_id"), Names("runs")),
    **dict.fromkeys(("set_name", "resume", "against", "record"), Names("sets")),
    **dict.fromkeys(("a", "b"), Names("baselines", "sets", "runs")),
    "what": Names("sets", "runs"),
    "target": Names("runs", files=True),
    "benchmark": BENCHMARKS,
    "node_pool": Names("pools"),
    "accept": Names("reasons"),
    **dict.fromkeys(("pools_file", "kubeconfig", "plot", "logs", "log", "file", "config"), FILES),
    **dict.fromkeys(("where", "data", "weights", "checkpoints"), FILES),
}
"""Name of a parameter → what it takes, in every command."""
_ELSEWHERE: dict[tuple[str, str], Names] = {
    ("benchmarks", "name"): BENCHMARKS,
    **dict.fromkeys((("baseline save", "name"), ("baseline remove", "name")), BASELINES),
    **dict.fromkeys(((name, "store") for name in ("submit", "nodes", "collector")), FILES),
    **{(f"data {word}", "name"): DATA_SETS for word in ("check", "prepare", "make-sample")},
    **{(f"data {word}", "place"): FILES for word in ("check", "prepare", "make-sample")},
    **dict.fromkeys((("data convert", "source"), ("data convert", "target")), FILES),
}
"""The same for parameters whose name means something else in other commands."""


def add_to(command: click.Command, name: str) -> None:
    """Have a shell complete what the parameters of a command, and of those below it, take."""
    for param in command.params:
        names = _ELSEWHERE.get((name, str(param.name))) or _OF.get(str(param.name))
        if names is not None and type(param.type) is click.types.StringParamType:
            param.type = names
    if isinstance(command, click.Group):
        for word, below in command.commands.items():
            add_to(below, f"{name} {word}")
