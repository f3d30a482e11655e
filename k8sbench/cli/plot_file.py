"""``--plot``: its file is checked before anything is computed, and written at the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from k8sbench.cli.terminal import output
from k8sbench.model.errors import UsageError

FORMATS = ("svg", "png", "pdf")


def _checked(_: click.Context, __: click.Parameter, plot: str | None) -> str | None:
    if plot is not None and _format(plot) not in FORMATS:
        raise UsageError(
            f"--plot {plot!r} has no known ending.", f"End it in .{', .'.join(FORMATS)}."
        )
    return plot


def _format(plot: str) -> str:
    return Path(plot).suffix.removeprefix(".").lower()


plot_option = click.option(
    "--plot",
    metavar="FILE",
    callback=_checked,
    help="Also draw it: .svg, .png or .pdf; needs [report].",
)


def write(plot: str, draw: Callable[[str], bytes]) -> None:
    """Write what ``draw`` draws in the format that the file's name asks for, and say so."""
    data = draw(_format(plot))
    try:
        Path(plot).write_bytes(data)
    except OSError as error:
        raise UsageError(
            f"Cannot write {plot}: {error.strerror}.", "Give a file in a folder that exists."
        ) from error
    output.note(f"plot: {plot}")
