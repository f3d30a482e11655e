"""Shell completion of benchmarks and files; click completes the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

FILES = frozenset(
    {
        *("checkpoints", "config", "data", "file", "kubeconfig", "log", "logs"),
        *("place", "plot", "pools_file", "store", "target", "weights", "where"),
    }
)
"""Parameters that may be a path, in every command."""


class Benchmark(click.Path):
    """The type of a benchmark: its name in the catalog, or a file."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the names that begin so, or ask for files where none does."""
        from click.shell_completion import CompletionItem

        from k8sbench.app import catalog

        names = [name for name in catalog.names() if name.startswith(incomplete)]
        return [*map(CompletionItem, names)] or super().shell_complete(ctx, param, incomplete)


def prepare(command: click.Command) -> None:
    """Set parameter types for completion, in a command and its subcommands."""
    for param in command.params:
        if type(param.type) is not click.types.StringParamType:
            continue
        if param.name == "benchmark":
            param.type = Benchmark(readable=False)
        elif param.name in FILES:
            param.type = click.Path(readable=False)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            prepare(below)
