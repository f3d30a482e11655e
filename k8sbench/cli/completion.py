"""The names that a shell completes: of the catalog, and of what a store holds.

Choices are completed by click itself. A catalog or a store that cannot be read completes nothing:
the command says what is wrong with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from k8sbench.model.errors import BenchError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from k8sbench.model.spec import Variant

Words = Callable[[click.Context, str], Iterable[str]]
"""The line so far, and the beginning of a word → words; others than begin so are left out."""


class Name(click.types.StringParamType):
    """The type of a text of which a shell completes names."""

    def __init__(self, words: Words) -> None:
        self.words = words

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return what a word may become."""
        from click.shell_completion import CompletionItem

        try:
            found = [word for word in self.words(ctx, incomplete) if word.startswith(incomplete)]
        except BenchError:
            return []
        return [CompletionItem(word) for word in found]


class NameOrFile(click.Path):
    """The type of a text of which a shell completes names, or files where no name begins so."""

    def __init__(self, words: Words) -> None:
        super().__init__(readable=False)
        self._names = Name(words)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return what a word may become."""
        names = self._names.shell_complete(ctx, param, incomplete)
        return names or super().shell_complete(ctx, param, incomplete)


def _benchmarks(ctx: click.Context, _: str) -> Iterable[str]:
    from k8sbench.app import catalog

    return (*catalog.names(), *([catalog.EVERY] if ctx.info_name in {"submit", "render"} else ()))


def _variants() -> tuple[Variant, ...]:
    """Return the variants of the benchmark on the line, or of all where none is.

    click has no arguments of a line that ends with an option's name: the words are looked at.
    """
    from click.shell_completion import split_arg_string

    from k8sbench.app import catalog

    words, known = split_arg_string(os.environ.get("COMP_WORDS", "")), catalog.names()
    named = [word for word in words if word in known or word.endswith((".yaml", ".yml"))][:1]
    return tuple(v for name in named or known for v in catalog.benchmark(name).spec.variants)


def _speed_options(_: click.Context, __: str) -> Iterable[str]:
    from k8sbench.model import speed_options

    return speed_options.NAMES


def _in_store(*kinds: str) -> Words:
    """Complete names of these kinds (:func:`k8sbench.app.names.names`)."""

    def words(ctx: click.Context, incomplete: str) -> Iterable[str]:
        from k8sbench.app import names

        known = names.names(ctx.params.get("where"), with_groups=incomplete.startswith("g"))
        return [name for kind in kinds for name in known[kind]]

    return words


_SIDES = _in_store("sets", "prefixed_sets", "baselines", "groups", "runs")
WORDS: dict[str, Words] = {
    "benchmark": _benchmarks,
    "framework": lambda *_: dict.fromkeys(variant.framework for variant in _variants()),
    "variant": lambda *_: dict.fromkeys(variant.name for variant in _variants()),
    "case": lambda *_: dict.fromkeys(case for variant in _variants() for case in variant.cases),
    "speed_options": _speed_options,
    "run": _in_store("runs"),
    "runs": _in_store("sets", "runs"),
    **dict.fromkeys(("set_name", "resume"), _in_store("sets")),
    "target": _in_store("groups", "runs"),
    **dict.fromkeys(("a", "b", "what"), _SIDES),
}
"""Parameter, in every command → what it may be."""
FILES = frozenset(
    {
        *("benchmark", "checkpoints", "config", "data", "file", "kubeconfig", "log", "logs"),
        *("place", "plot", "pools_file", "store", "target", "weights", "where"),
    }
)
"""Parameters that may be a path, in every command."""


def prepare(command: click.Command) -> None:
    """Give the texts of a command, and of those below it, the type that completes them."""
    for param in command.params:
        name = param.name or ""
        if type(param.type) is not click.types.StringParamType:
            continue
        if name in FILES:
            param.type = NameOrFile(WORDS.get(name, lambda *_: ()))
        elif name in WORDS:
            param.type = Name(WORDS[name])
    if isinstance(command, click.Group):
        for below in command.commands.values():
            prepare(below)
