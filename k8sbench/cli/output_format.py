"""The option that chooses what a command prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

LONGEST = 50
"""Letters of the formats that ``--help`` has room for beside the option; more are its text."""
F = TypeVar("F", bound=Callable[..., Any])


def format_option(*offered: str, about: str = "Format.", **more: Any) -> Callable[[F], F]:
    """Give a command ``-o``, its argument ``output_format``; the first format is the default."""
    kind = click.Choice(offered)
    if len("|".join(offered)) > LONGEST:
        more = {"metavar": "FORMAT", **more}
        about = f"{about.rstrip('.')}: {', '.join(offered)}."
    return click.option(
        "-o", "--output", "output_format", type=kind, default=offered[0], help=about, **more
    )
