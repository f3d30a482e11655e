"""What a shell completes: the names that an option or an argument takes.

Every command's parameters get this by their names (:func:`add_to`), so that one place says what is
completed. It runs while a person waits for a key: it reads file names and one SQLite file, imports
nothing heavy, asks no cluster, and where something is wrong it completes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from k8sbench.model.errors import BenchError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VARIABLE = "_K8SBENCH_COMPLETE"
"""In it a shell says what it asks for; the words are in variables of click's."""
Find = Callable[[str | None], Iterable[str]]
"""The value of ``--store`` → names."""


class Names(click.types.StringParamType):
    """Text that stands for something with a name; also a file's, where ``files`` is set."""

    def __init__(self, find: Find | None, *, files: bool = False) -> None:
        self._find, self._files = find, files

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """List the names that begin as what was typed, without those that were typed before."""
        from click.shell_completion import CompletionItem

        where = ctx.params.get("where") or ctx.params.get("store")
        typed = ctx.params.get(str(param.name)) or ()
        before = () if isinstance(typed, str) else typed
        found: list[str] = []
        with contextlib.suppress(BenchError, OSError):  # a shell has no place for an error
            found = [*self._find(where)] if self._find is not None else []
        items = [
            CompletionItem(name)
            for name in found
            if name.startswith(incomplete) and name not in before
        ]
        if self._files and (self._find is None or not items):
            return [CompletionItem(incomplete, type="file")]
        return items


def _runs(where: str | None) -> Iterable[str]:
    from k8sbench.app import names

    return names.runs(where)


def _sets(where: str | None) -> Iterable[str]:
    from k8sbench.app import names

    return names.sets(where)


def _baselines(where: str | None) -> Iterable[str]:
    from k8sbench.app import names

    return names.baselines(where)


def _benchmarks(_: str | None) -> Iterable[str]:
    from k8sbench.app import names

    return names.benchmarks()


def _pools(_: str | None) -> Iterable[str]:
    from k8sbench.app import names

    return names.pools()


def _data_sets(_: str | None) -> Iterable[str]:
    from k8sbench.model.data_set import DATA_SETS

    return [one.name for one in DATA_SETS]


def _reasons(_: str | None) -> Iterable[str]:
    from k8sbench.app import names

    return names.reasons()


def answer(program: click.Command, instruction: str) -> int:
    """Answer a shell that has set :data:`VARIABLE`; returns the exit code."""
    from click.shell_completion import shell_complete

    _register()
    return shell_complete(program, {}, "k8sbench", VARIABLE, instruction)


def script(program: click.Command, shell: str) -> str:
    """Return what a shell runs once, so that it asks from then on."""
    from click.shell_completion import get_completion_class

    _register()
    kind = get_completion_class(shell)
    assert kind is not None
    return kind(program, {}, "k8sbench", VARIABLE).source()


def _register() -> None:
    """Have click complete ``--option=VALUE`` in each shell, which it does for none by itself."""
    from click import shell_completion

    class Bash(shell_completion.BashComplete):
        def get_completion_args(self) -> tuple[list[str], str]:
            args, incomplete = super().get_completion_args()
            # bash takes the = for a word of its own, and replaces only what follows it.
            return [word for word in args if word != "="], incomplete

    class Zsh(shell_completion.ZshComplete):
        def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
            return _whole_words(super().get_completions(args, incomplete), incomplete)

    class Fish(shell_completion.FishComplete):
        def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
            return _whole_words(super().get_completions(args, incomplete), incomplete)

        def source(self) -> str:
            # A description may hold commas.
            return super().source().replace('string split ","', 'string split --max 1 ","')

    for kind in (Bash, Zsh, Fish):
        shell_completion.add_completion_class(kind)


def _whole_words(items: list[CompletionItem[str]], incomplete: str) -> list[CompletionItem[str]]:
    """Put ``--option=`` before values: zsh and fish replace the word as a whole."""
    option, equals, _ = incomplete.partition("=")
    if equals and option.startswith("--"):
        for item in items:
            if item.type == "plain":
                item.value = f"{option}={item.value}"
    return items


def _runs_and_sets(where: str | None) -> Iterable[str]:
    from k8sbench.app import names

    return (*names.sets(where), *names.runs(where))


RUNS, SETS, BENCHMARKS = Names(_runs), Names(_sets), Names(_benchmarks, files=True)
RUNS_AND_SETS = Names(_runs_and_sets)
SIDES = Names(lambda where: (*_baselines(where), *_runs_and_sets(where)))
FILES = Names(None, files=True)
DATA_SETS = Names(_data_sets)
_OF: dict[str, Names] = {
    **dict.fromkeys(("run", "runs", "run_id"), RUNS),
    **dict.fromkeys(("set_name", "resume", "against", "record"), SETS),
    **dict.fromkeys(("a", "b"), SIDES),
    "what": RUNS_AND_SETS,
    "target": Names(_runs, files=True),
    "benchmark": BENCHMARKS,
    "node_pool": Names(_pools),
    "accept": Names(_reasons),
    **dict.fromkeys(
        ("pools_file", "kubeconfig", "plot", "logs", "log", "file", "config", "where"), FILES
    ),
    **dict.fromkeys(("data", "weights", "checkpoints"), FILES),
}
"""Name of a parameter → what it takes, in every command."""
_ELSEWHERE: dict[tuple[str, str], Names] = {
    ("benchmarks", "name"): BENCHMARKS,
    **dict.fromkeys((("baseline save", "name"), ("baseline remove", "name")), Names(_baselines)),
    **dict.fromkeys((("submit", "store"), ("nodes", "store")), FILES),
    **{(f"data {word}", "name"): DATA_SETS for word in ("check", "prepare", "make-sample")},
    **{(f"data {word}", "place"): FILES for word in ("check", "prepare", "make-sample")},
    **dict.fromkeys((("data convert", "source"), ("data convert", "target")), FILES),
}
"""The same for parameters whose name means something else in other commands."""


def add_to(command: click.Command, name: str) -> None:
    """Have a shell complete what the parameters of a command, and of those below it, take."""
    for param in command.params:
        found = _ELSEWHERE.get((name, str(param.name))) or _OF.get(str(param.name))
        if found is not None and type(param.type) is click.types.StringParamType:
            param.type = found
    if isinstance(command, click.Group):
        for below, one in command.commands.items():
            add_to(one, f"{name} {below}")
