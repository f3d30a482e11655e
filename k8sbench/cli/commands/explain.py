"""``k8sbench explain``: computation of a figure, matches of a log format."""

from __future__ import annotations

import click

from k8sbench.app import explain
from k8sbench.cli.options import accept_option, access_options, store_option
from k8sbench.cli.terminal import output
from k8sbench.model.errors import UsageError
from k8sbench.model.request import ClusterAccess
from k8sbench.report import explanation


@click.command()
@click.argument("target", metavar="RUN|GROUP|FILE.yaml")
@click.argument("log", metavar="[LOG]", required=False)
@accept_option
@access_options
@store_option
def command(
    target: str,
    log: str | None,
    accept: tuple[str, ...],
    where: str | None,
    access: ClusterAccess,
) -> None:
    """Show how a figure was computed, or what a log format matches.

    For a run: the lines that count, the window and what was left out, each estimator's formula with
    its numbers, and every reason with its evidence and what to do. For a group (results -o wide
    shows its id): its runs, median, interval and speedup. For a benchmark's file and a LOG: the
    lines that each expression matches.

    \b
    k8sbench explain resnet50-261120-081500-x7k2qd
    k8sbench explain mine.yaml train.log
    """
    if log is not None:
        made = explain.explain_format(target, log)
    elif target.endswith((".yaml", ".yml")):
        raise UsageError(
            f"{target} is a benchmark file: explain also needs a log.",
            f"Name one: k8sbench explain {target} LOG",
        )
    else:
        made = explain.explain(target, where, output.note, access=access, accept=accept)
    output.write(explanation.text(made, output.terminal_width() or explanation.WIDTH))
