"""``k8sbench completion``: what a shell needs to complete k8sbench's words."""

from __future__ import annotations

import click

from k8sbench.cli.terminal import output

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
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
    output.write(kind(cli, {}, "k8sbench", COMPLETE).source() + "\n")
