"""Options that choose rows: the same of every command that prints them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import get_args

import click

from k8sbench.cli.options import F, grouped
from k8sbench.model.filters import GroupFilter
from k8sbench.model.spec import Framework, Precision

_OPTIONS = {
    "benchmark": click.option("--benchmark", metavar="NAME", help="Only this benchmark."),
    "framework": click.option(
        "--framework", type=click.Choice(get_args(Framework)), help="Only this framework."
    ),
    "precision": click.option(
        "--precision", type=click.Choice(get_args(Precision)), help="Only this precision."
    ),
    "case": click.option("--case", metavar="NxG", help="Only this case, as 4x8."),
}


def filter_options(*names: str) -> Callable[[F], F]:
    """Add options that choose rows; the command receives them as one ``chosen``.

    ``names`` are fields of :class:`GroupFilter`; none: all of them.
    """
    names = names or tuple(_OPTIONS)
    options = [_OPTIONS[name] for name in names]
    return functools.partial(
        grouped, options, "chosen", lambda values: GroupFilter(**values), names
    )
