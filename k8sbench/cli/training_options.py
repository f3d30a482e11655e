"""The options of submit and render for ``--mode train``, and the heading that help gives them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from k8sbench.model.errors import UsageError
from k8sbench.model.sources import is_path


class Grouped(click.Command):
    """A command whose help has the options of a training under a heading of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the other options, then those of a training."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], HEADING: []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                sections[HEADING if isinstance(param, _Option) else "Options"].append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class _Option(click.Option):
    """One that is for ``--mode train``."""


class _Target(click.ParamType[Any]):
    name = "target"

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,  # noqa: ARG002
        ctx: click.Context | None,  # noqa: ARG002
    ) -> float | str:
        """Read a percentage, or ``none``."""
        if value == "none":
            return "none"
        try:
            return float(value)
        except ValueError:
            raise UsageError(
                f"--target {value!r} is not a percentage.", "Write it as 78.5, or none."
            ) from None


HEADING = "Training to an accuracy"
_option = partial(click.option, cls=_Option)
OPTIONS: tuple[Callable[[Any], Any], ...] = (
    _option(
        "--mode",
        type=click.Choice(["throughput", "train"]),
        default="throughput",
        help="What to measure: a window of steps (default), or a training with evaluations.",
    ),
    _option(
        "--weights",
        metavar="FILE|pvc:NAME/FILE",
        help="Start weights, as .npz, in both modes; default: from scratch.",
    ),
    _option("--epochs", type=int, metavar="N", help="Length in epochs; default: the catalog's."),
    _option(
        "--evaluate-every",
        type=int,
        metavar="N",
        help="Interval, in the unit of the length; default: the catalog's.",
    ),
    _option(
        "--target",
        type=_Target(),
        metavar="X|none",
        help="Percent at which the run ends; default: the benchmark's.",
    ),
    _option("--to-the-end", is_flag=True, help="Continue to train after the target is reached."),
    _option(
        "--checkpoints",
        metavar="DIR|pvc:NAME[/SUB]",
        help="Folder below which each run keeps its checkpoints; default: none are kept.",
    ),
    _option(
        "--max-restarts",
        type=int,
        metavar="N",
        help="How often a failed job continues from its checkpoint; default 3, or 0 without "
        "--checkpoints.",
    ),
)


def absolute(place: str | None) -> str | None:
    """Make a path that is typed absolute; what names no path stays as it is."""
    if place is None or not is_path(place):
        return place
    return os.path.abspath(os.path.expanduser(place))  # noqa: PTH100, PTH111 - also ``..`` goes
