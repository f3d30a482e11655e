"""``k8sbench config``, ``completion`` and ``schema``: settings, shells, forms of documents."""

from __future__ import annotations

import importlib.resources
import os
from typing import Any

import click

from k8sbench.app import catalog
from k8sbench.cli import configuration, main
from k8sbench.cli.terminal import output
from k8sbench.model.plain_text import without_passwords
from k8sbench.report.tables import Column

COLUMNS = (Column("KEY", whole=True), Column("VALUE"), Column("COMMAND"))


@click.group()
def command() -> None:
    """Show which options files and the environment set."""


@command.command()
def show() -> None:
    """Print the options that files and the environment set; all others have defaults.

    The first of these counts: a flag, the environment, k8sbench.toml in the working folder or the
    nearest folder above, k8sbench/k8sbench.toml in the user's configuration folder.
    """
    files = catalog.settings()
    configuration.check(files, main.names, main.find)
    values: dict[tuple[str, str], Any] = {}
    for content in reversed(files.values()):
        for name, value in content.items():
            of, table = (name, value) if isinstance(value, dict) else ("", {name: value})
            values |= {(key, of): set_to for key, set_to in table.items()}
    variables = sorted({*configuration.ENVIRONMENT.values()} & os.environ.keys())
    rows = [(name, _shown(os.environ[name]), "") for name in variables]
    rows += [(key, _shown(value), of) for (key, of), value in values.items()]
    output.write_table(COLUMNS, rows)
    output.note(f"read: {', '.join(files) or 'no file'}")


def _shown(value: Any) -> str:
    """Return a value as text, without the passwords in its URLs."""
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return without_passwords(str(value).lower() if isinstance(value, bool) else str(value))


SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion_command(shell: str) -> None:
    """Print the completion script of a shell.

    Commands, options and their values, and the names of benchmarks and files.
    docs/reference.md says where each shell reads it.

    \b
    eval "$(k8sbench completion bash)"           in ~/.bashrc
    eval "$(k8sbench completion zsh)"            in ~/.zshrc, after compinit
    k8sbench completion fish > ~/.config/fish/completions/k8sbench.fish
    """
    from click.shell_completion import get_completion_class

    from k8sbench.cli.main import COMPLETE, cli

    kind = get_completion_class(shell)
    assert kind is not None
    output.write(kind(cli, {}, "k8sbench", COMPLETE).source() + "\n")


SCHEMAS = ("documents", "results", "compare", "history", "benchmark", "pools")


@click.command()
@click.argument("name", type=click.Choice(SCHEMAS))
def schema_command(name: str) -> None:
    """Print a JSON Schema of documents, or of files that users write.

    documents: of list, status, measure, pools, data and baseline list, of the operator's HTTP API
    and of a run's folder.

    \b
    k8sbench schema benchmark > benchmark.schema.json
    """
    output.write(importlib.resources.files("k8sbench").joinpath(f"schema/{name}.json").read_text())
