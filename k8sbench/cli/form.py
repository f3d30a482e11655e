"""The option that chooses what a command prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def form_option(*forms: str, about: str = "Format.", **more: Any) -> Callable[[F], F]:
    """Give a command ``-o``, its argument ``form``; the first of the formats is the default."""
    kind = click.Choice(forms)
    return click.option("-o", "--output", "form", type=kind, default=forms[0], help=about, **more)
