"""Colour: whether output has it, and what states and verdicts look like.

``--color`` decides, which every command has; without it a terminal gets colour unless NO_COLOR is
set (no-color.org) or it is one that cannot show any. Nothing is said by colour alone.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

import click

from k8sbench.model.phase import Phase
from k8sbench.report.text_table import Paint

CHOICES = {"auto": None, "always": True, "never": False}
"""What ``--color`` takes → click's own word for it."""
PLAIN_TERMS = ("", "dumb", "unknown")
"""Values of TERM: terminals that take no control codes."""
_WORDS: dict[str, str] = {
    **dict.fromkeys(("valid", "ok", Phase.SUCCEEDED, Phase.RUNNING), "green"),
    # More follows: a smoke run, a warning, runs that were left out.
    **dict.fromkeys(
        ("valid;", "unsteady", "unsteady;", "warning", "running", "cancelled", Phase.CANCELLED),
        "yellow",
    ),
    **dict.fromkeys(
        ("rejected", "failed", "failure", "REGRESSION", Phase.FAILED, Phase.LOST), "red"
    ),
}


def add_option(command: click.Command) -> None:
    """Give a command and those below it ``--color``; does nothing where they have it."""
    if all(param.name != "color" for param in command.params):
        command.params.append(_option())
    if isinstance(command, click.Group):
        for below in command.commands.values():
            add_option(below)


def _option() -> click.Option:
    return click.Option(
        ["--color"],
        type=click.Choice(list(CHOICES)),
        default="auto",
        expose_value=False,
        callback=_choose,
        help="Colour of states and verdicts; default auto: on a terminal without NO_COLOR.",
    )


def _choose(ctx: click.Context, _: click.Parameter, value: str) -> None:
    if CHOICES[value] is not None:
        ctx.color = CHOICES[value]


def wanted(stream: TextIO | None = None) -> bool:
    """Say whether what goes to a stream (default stdout) is to be coloured."""
    context = click.get_current_context(silent=True)
    if context is not None and context.color is not None:
        return context.color
    stream = sys.stdout if stream is None else stream
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "") in PLAIN_TERMS:
        return False
    return stream.isatty()


def paint() -> Paint | None:
    """Return what colours the states of tables on stdout; None where they stay plain."""
    return painted if wanted() else None


def painted(state: str, text: str) -> str:
    """Colour a text as its state looks; the blanks around it stay as they are."""
    color = _WORDS.get(state)
    words = text.strip()
    if color is None or not words:
        return text
    return text.replace(words, click.style(words, fg=color), 1)
