"""``k8sbench config show``: which options files and the environment set."""

from __future__ import annotations

import os
from typing import Any

import click

from k8sbench.app import config
from k8sbench.cli import configuration, main
from k8sbench.cli.terminal import output
from k8sbench.model.plain_text import without_passwords
from k8sbench.report.text_table import Column

COLUMNS = (
    Column("KEY", whole=True),
    Column("VALUE"),
    Column("COMMAND"),
    Column("FROM", whole=True),
)


@click.group()
def command() -> None:
    """Show which options files and the environment set."""


@command.command()
def show() -> None:
    """Print the options that files and the environment set, and where; all others have defaults.

    The first of these counts: a flag, the environment, k8sbench.toml in the working folder or the
    nearest folder above, k8sbench/k8sbench.toml in the user's configuration folder.
    """
    files = config.files()
    configuration.check(files, main.names, main.find)
    variables = sorted({*configuration.ENVIRONMENT.values()} & os.environ.keys())
    rows = [("", _shown(os.environ[name]), "", f"environment {name}") for name in variables]
    for file in files:
        for name, value in file.values.items():
            table = value if isinstance(value, dict) else {name: value}
            of = name if isinstance(value, dict) else ""
            rows += [(key, _shown(set_to), of, str(file.path)) for key, set_to in table.items()]
    output.write_table(COLUMNS, rows)


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

    Commands, options and their values, and the names of files. docs/configuration.md says where
    each shell reads it.

    \b
    eval "$(k8sbench completion bash)"           in ~/.bashrc
    eval "$(k8sbench completion zsh)"            in ~/.zshrc, after compinit
    k8sbench completion fish > ~/.config/fish/completions/k8sbench.fish
    """
    from click.shell_completion import get_completion_class

    from k8sbench.cli.main import COMPLETE, cli

    kind = get_completion_class(shell)
    assert kind is not None
    if shell == "bash":
        # baseline:NAME and set:NAME are one word each.
        output.write("COMP_WORDBREAKS=${COMP_WORDBREAKS//:}\n")
    output.write(kind(cli, {}, "k8sbench", COMPLETE).source() + "\n")
